//! Binary forms, and the texts that do not depend on a case: what sessions prepare, and how rows are read back.

use super::draw::canonical;
use super::schema::{Is, Quirk, Schema, Table};
use crate::support::message;

/// An array of the type in binary format.
pub fn binary_array(kind: &str, elements: Vec<Option<Vec<u8>>>) -> Vec<u8> {
    let oid: u32 = match kind {
        "uuid" => 2950,
        "int" => 23,
        "bigint" => 20,
        _ => 25,
    };
    let nulls = u32::from(elements.iter().any(Option::is_none));
    let length = u32::try_from(elements.len()).expect("few elements");
    let head = [1, nulls, oid, length, 1].into_iter().flat_map(u32::to_be_bytes);
    head.chain(elements.into_iter().flat_map(field)).collect()
}

/// A value behind its length.
pub fn field(bytes: Option<Vec<u8>>) -> Vec<u8> {
    let length = bytes.as_ref().map_or(-1, |bytes| i32::try_from(bytes.len()).expect("short"));
    [length.to_be_bytes().to_vec(), bytes.unwrap_or_default()].concat()
}

/// What a session prepares before its first case, by message and by SQL; answered by two ReadyForQuery.
pub fn prepared(schema: &Schema) -> Vec<u8> {
    let insert = |name: &str, table: &Table| {
        let columns = canonical(table);
        let names: Vec<&str> = columns.iter().map(|&at| table.columns[at].name).collect();
        let parameters: Vec<String> = (1..=names.len()).map(|at| format!("${at}")).collect();
        format!("INSERT INTO {name} ({}) VALUES ({})", names.join(", "), parameters.join(", "))
    };
    let all = || schema.relations.iter().map(|relation| (relation, &schema.tables[relation.table]));
    let by_sql: Vec<String> = all()
        .map(|(relation, table)| format!("PREPARE x_{} AS {}", relation.name, insert(&relation.name, table)))
        .collect();
    let by_message = all().flat_map(|(relation, table)| {
        message::parse(&format!("n_{}", relation.name), insert(&relation.name, table), &[])
    });
    let by_message: Vec<u8> = by_message.collect();
    [message::query(by_sql.join("; ")), by_message, message::sync()].concat()
}

/// The query for the rows of a table with these contents; the columns that [`shown`] names.
pub fn stored(table: &Table, from: u32, to: u32) -> String {
    let only = if table.inherits.is_none() && !is_partitioned(table) { "ONLY " } else { "" };
    let columns: Vec<&str> = shown(table).into_iter().map(|at| table.columns[at].name).collect();
    format!(
        "SELECT {} FROM {only}{} WHERE v BETWEEN {from} AND {to} ORDER BY v",
        columns.join(", "),
        table.name
    )
}

fn is_partitioned(table: &Table) -> bool {
    matches!(table.quirk, Quirk::Hashed | Quirk::Listed)
}

/// The columns whose values can be told in advance.
pub fn shown(table: &Table) -> Vec<usize> {
    (0..table.columns.len()).filter(|&at| !matches!(table.columns[at].is, Is::Time | Is::Random)).collect()
}
