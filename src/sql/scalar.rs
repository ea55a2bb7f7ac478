//! Which of Postgres' own functions give exactly one value for one row. Knows no user's function.

use super::cursor::Cursor;
use super::lex::Kind;
use super::types::is_type_name;

/// Functions, and keywords that a parenthesis may follow, that give one value a call: no sets, no
/// aggregates, no windows, and no effect but on sequences. Sorted.
const SCALARS: [&str; 128] = [
    "abs",
    "age",
    "all",
    "and",
    "any",
    "array",
    "array_append",
    "array_length",
    "array_remove",
    "array_to_json",
    "array_to_string",
    "as",
    "between",
    "btrim",
    "cardinality",
    "case",
    "cast",
    "cbrt",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "clock_timestamp",
    "coalesce",
    "collate",
    "concat",
    "concat_ws",
    "convert_from",
    "convert_to",
    "current_setting",
    "current_time",
    "current_timestamp",
    "currval",
    "date_part",
    "date_trunc",
    "decode",
    "distinct",
    "div",
    "else",
    "encode",
    "exists",
    "exp",
    "extract",
    "floor",
    "format",
    "from",
    "gen_random_uuid",
    "greatest",
    "hashtext",
    "ilike",
    "in",
    "initcap",
    "is",
    "isfinite",
    "json_array_length",
    "json_build_array",
    "json_build_object",
    "json_extract_path_text",
    "json_object",
    "json_strip_nulls",
    "json_typeof",
    "jsonb_array_length",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_extract_path_text",
    "jsonb_object",
    "jsonb_pretty",
    "jsonb_set",
    "jsonb_strip_nulls",
    "jsonb_typeof",
    "lastval",
    "least",
    "left",
    "length",
    "like",
    "ln",
    "localtimestamp",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "make_interval",
    "make_timestamp",
    "make_timestamptz",
    "md5",
    "mod",
    "nextval",
    "not",
    "now",
    "nullif",
    "octet_length",
    "or",
    "overlay",
    "position",
    "power",
    "quote_literal",
    "random",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "row",
    "rpad",
    "rtrim",
    "sha256",
    "sign",
    "split_part",
    "sqrt",
    "statement_timestamp",
    "string_to_array",
    "strpos",
    "substr",
    "substring",
    "then",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_number",
    "to_timestamp",
    "transaction_timestamp",
    "translate",
    "trim",
    "trunc",
    "upper",
];

/// Extensions' and later versions' generators of UUIDs. Sorted.
const GENERATORS: [&str; 7] = [
    "uuid_generate_v1",
    "uuid_generate_v1mc",
    "uuid_generate_v4",
    "uuid_generate_v7",
    "uuidv4",
    "uuidv7",
    "when",
];

/// Functions of Postgres and its common extensions that return sets. Sorted.
const SETS: [&str; 39] = [
    "aclexplode",
    "avals",
    "crosstab",
    "dblink",
    "each",
    "generate_series",
    "generate_subscripts",
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "json_object_keys",
    "json_populate_recordset",
    "json_to_recordset",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_object_keys",
    "jsonb_path_query",
    "jsonb_path_query_tz",
    "jsonb_populate_recordset",
    "jsonb_to_recordset",
    "normal_rand",
    "regexp_matches",
    "regexp_split_to_table",
    "skeys",
    "st_dump",
    "st_dumppoints",
    "st_dumprings",
    "string_to_table",
    "svals",
    "ts_debug",
    "ts_parse",
    "ts_stat",
    "ts_token_type",
    "txid_snapshot_xip",
    "unnest",
    "xpath_table",
];

/// Whether everything that looks like a call in the cursor's part surely gives one value for one row.
pub(super) fn is_scalar(part: &Cursor<'_>) -> bool {
    !calls(part).any(|name| {
        let known = SCALARS.binary_search(&name.as_str()).is_ok()
            || GENERATORS.binary_search(&name.as_str()).is_ok()
            || is_type_name(&name);
        !known
    }) && !has_keyword(part, "over")
        && !has_keyword(part, "filter")
}

/// Whether a call in the cursor's part is of a function known to return a set.
pub(super) fn may_return_set(part: &Cursor<'_>) -> bool {
    calls(part).any(|name| SETS.binary_search(&name.as_str()).is_ok() || name.starts_with("pg_"))
}

/// The last part of every name before a parenthesis. A name that is not of `pg_catalog` or unqualified
/// comes with its schema, so that it is equal to no known one.
fn calls<'a>(part: &Cursor<'a>) -> impl Iterator<Item = String> + use<'a> {
    let mut cursor = part.clone();
    std::iter::from_fn(move || {
        loop {
            let token = cursor.peek()?;
            if !matches!(token.kind, Kind::Word | Kind::Quoted { .. }) {
                cursor.advance();
                continue;
            }
            let name = cursor.name();
            if cursor.is_symbol(b'(') {
                return Some(match name {
                    Some(name) if name.is_builtin(&name.name) => name.name,
                    Some(name) => format!("{}.{}", name.schema.unwrap_or_default(), name.name),
                    None => String::new(),
                });
            }
            // A name that cannot be read leaves the cursor where it is.
            if cursor.position() == token.start {
                cursor.advance();
            }
        }
    })
}

fn has_keyword(part: &Cursor<'_>, keyword: &str) -> bool {
    let mut cursor = part.clone();
    while !cursor.at_end() {
        if cursor.accept(keyword) {
            return true;
        }
        cursor.advance();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::lex::Options;

    fn part(text: &str) -> Cursor<'_> {
        Cursor::new(text.as_bytes(), 0..text.len(), Options::default())
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(SCALARS.is_sorted() && GENERATORS.is_sorted() && SETS.is_sorted());
    }

    #[test]
    fn known_functions_give_one_value() {
        for text in [
            "now()",
            "pg_catalog.now()",
            "$1 || lower(a)",
            "NULLIF(a, '')::numeric(10,2)",
            "case when (a) then (b) end",
            "a in (1, 2)",
        ] {
            assert!(is_scalar(&part(text)), "{text}");
        }
        for text in [
            "unnest(a)",
            "mine(a)",
            "public.now()",
            "sum(a)",
            "row_number() over (order by a)",
            "\"Now\"()",
            "a.b.c.d()",
        ] {
            assert!(!is_scalar(&part(text)), "{text}");
        }
    }

    #[test]
    fn functions_that_return_sets_are_known() {
        for text in [
            "generate_series(1, 3)",
            "1 + pg_catalog.UNNEST($1)",
            "pg_ls_dir('x')",
            "lower((jsonb_each($1)).key)",
        ] {
            assert!(may_return_set(&part(text)), "{text}");
        }
        for text in ["now()", "st_point(1, 2)", "mine($1)", "unnest", "'unnest(1)'"] {
            assert!(!may_return_set(&part(text)), "{text}");
        }
    }
}
