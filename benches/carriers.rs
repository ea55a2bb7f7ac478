//! How fast each carrier is read: rows and bytes a second, with the key of every row parsed.

use criterion::{
    BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use std::hint::black_box;
use untwin::carrier::bind::Bind;
use untwin::carrier::copy::{CARRY_LIMIT, CopyReader, Row};
use untwin::carrier::{Field, array, json};
use untwin::catalog::model::ColumnKind;
use untwin::rekey::value::Value;
use untwin::sql::statement::{CopyFormat, ForceColumns};

const ROWS: u64 = 1000;
const COLUMNS: [&str; 3] = ["id", "n", "note"];

fn key(row: u64) -> u128 {
    (u128::from(row) * 0x9e37_79b9_7f4a_7c15_f39c_0c32_1d7b_a5e1) & !(0xf << 76) | 4 << 76
}

fn key_of(kind: ColumnKind, field: Field, bytes: &[u8]) -> Option<u128> {
    Value::field(field.of(bytes)?, matches!(field, Field::Binary { .. }), kind).uuid(kind)
}

fn spelled(row: u64) -> String {
    uuid::Uuid::from_u128(key(row)).to_string()
}

fn rows(print: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    (0..ROWS).flat_map(print).collect()
}

fn binary_value(value: &[u8]) -> Vec<u8> {
    [&(value.len() as i32).to_be_bytes()[..], value].concat()
}

fn binary_tuple(row: u64) -> Vec<u8> {
    let values = [&key(row).to_be_bytes()[..], &(row as i32).to_be_bytes(), b"a short note"];
    [&3i16.to_be_bytes()[..], &values.map(binary_value).concat()].concat()
}

/// Reads a COPY stream in payloads of `size` bytes, or one row a payload.
fn copy(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, format: &CopyFormat, payloads: &[&[u8]]) {
    group.throughput(Throughput::Elements(ROWS));
    group.bench_function(name, |bench| {
        bench.iter(|| {
            let mut reader = CopyReader::new(format, &COLUMNS, CARRY_LIMIT);
            let (mut at, mut keys) = (0, 0u128);
            let mut sink = |row: Row<'_>| {
                keys ^= key_of(ColumnKind::Uuid, row.fields[0], row.bytes).expect("a key");
            };
            for payload in payloads {
                reader.feed(payload, at, &mut sink);
                at += payload.len() as u64 + 5;
            }
            reader.finish(&mut sink);
            black_box(keys)
        });
    });
}

fn copies(criterion: &mut Criterion) {
    let text = CopyFormat::Text { delimiter: b'\t', null: b"\\N".to_vec(), header: false, default: None };
    let csv = CopyFormat::Csv {
        delimiter: b',',
        quote: b'"',
        escape: b'"',
        null: Vec::new(),
        header: false,
        force_null: ForceColumns::None,
        force_not_null: ForceColumns::None,
        default: None,
    };
    let plain =
        |separator| rows(|row| format!("{0}{1}{row}{1}a short note\n", spelled(row), separator).into());
    let (tabs, commas) = (plain('\t'), plain(','));
    let nulls = rows(|row| format!("{}\t\\N\ta short note\n", spelled(row)).into());
    let quoted = rows(|row| format!("\"{}\",\"{row}\",\"a short note\"\n", spelled(row)).into());
    let header: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let binary = [header, &rows(binary_tuple)].concat();
    let mut group = criterion.benchmark_group("copy");
    for (name, format, data) in [
        ("text", &text, &tabs),
        ("text with nulls", &text, &nulls),
        ("csv", &csv, &commas),
        ("csv, all quoted", &csv, &quoted),
        ("binary", &CopyFormat::Binary, &binary),
    ] {
        copy(&mut group, &format!("{name}, 8 kB payloads"), format, &data.chunks(8192).collect::<Vec<_>>());
    }
    let lines: Vec<&[u8]> = tabs.split_inclusive(|&byte| byte == b'\n').collect();
    copy(&mut group, "text, one row a payload", &text, &lines);
    group.finish();
}

/// Reads `data`, which holds [`ROWS`] rows, counted as rows and as bytes.
fn whole(criterion: &mut Criterion, name: &str, bytes: usize, mut read: impl FnMut() -> u128) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(ROWS));
    group.bench_function("rows", |bench| bench.iter(|| black_box(read())));
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("bytes", |bench| bench.iter(|| black_box(read())));
    group.finish();
}

fn keys(fields: &[Field], bytes: &[u8]) -> u128 {
    let keys = fields.iter().map(|&field| key_of(ColumnKind::Uuid, field, bytes).expect("a key"));
    keys.fold(0, |all, key| all ^ key)
}

fn arrays(criterion: &mut Criterion) {
    let spelled: Vec<String> = (0..ROWS).map(spelled).collect();
    let text = format!("{{{}}}", spelled.join(","));
    let mut binary: Vec<u8> =
        [1, 0, 2950, ROWS as i32, 1].iter().flat_map(|word| word.to_be_bytes()).collect();
    binary.extend(rows(|row| binary_value(&key(row).to_be_bytes())));
    let mut fields = Vec::new();
    whole(criterion, "uuid[] text", text.len(), || {
        array::text_elements(text.as_bytes(), &mut fields).expect("an array");
        keys(&fields, text.as_bytes())
    });
    whole(criterion, "uuid[] binary", binary.len(), || {
        array::binary_elements(&binary, &mut fields).expect("an array");
        keys(&fields, &binary)
    });
}

fn documents(criterion: &mut Criterion) {
    let object = |row| format!("{{\"id\":\"{}\",\"n\":{row},\"note\":\"a short note\"}}", spelled(row));
    let document = format!("[{}]", (0..ROWS).map(object).collect::<Vec<_>>().join(","));
    let mut fields = Vec::new();
    whole(criterion, "json", document.len(), || {
        let mut all = 0;
        let read = json::rows(document.as_bytes(), &COLUMNS, &mut fields, |_, fields| {
            all ^= key_of(ColumnKind::Uuid, fields[0], document.as_bytes()).expect("a key");
        });
        read.map(|_| all).expect("a document")
    });
}

fn binds(criterion: &mut Criterion) {
    let body = |format: u16, values: [&[u8]; 3]| {
        let head = [&b"\0statement\0\0\x01"[..], &format.to_be_bytes(), &3u16.to_be_bytes()].concat();
        [head, values.map(binary_value).concat(), vec![0, 0]].concat()
    };
    let text: Vec<Vec<u8>> = (0..ROWS)
        .map(|row| body(0, [spelled(row).as_bytes(), row.to_string().as_bytes(), b"a short note"]))
        .collect();
    let binary: Vec<Vec<u8>> = (0..ROWS)
        .map(|row| body(1, [&key(row).to_be_bytes(), &(row as i32).to_be_bytes(), b"a short note"]))
        .collect();
    let mut fields = Vec::new();
    for (name, bodies) in [("bind text", &text), ("bind binary", &binary)] {
        whole(criterion, name, bodies.iter().map(Vec::len).sum(), || {
            let mut all = 0;
            for body in bodies {
                let bind = Bind::parse(body).expect("names");
                bind.parameters(&mut fields).expect("parameters");
                all ^= keys(&fields[..1], body);
            }
            all
        });
    }
}

criterion_group!(benches, copies, arrays, documents, binds);
criterion_main!(benches);
