//! Type names in casts, as far as they matter to a key. Knows no user-defined type.

use super::cursor::Cursor;
use super::insert::Cast;
use super::lex::Kind;
use smallvec::SmallVec;

/// A type in a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) base: Base,
    pub(super) array: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Uuid,
    /// `text`, `varchar` without a length, `citext`: keeps a string as it is.
    Text,
    /// A string type that may change the string: with a length, or `char`, `name`.
    Clipped,
    /// Another scalar type of Postgres' own.
    Scalar,
    /// A type that only the catalog knows: a domain, an enum, a composite type …
    Unknown,
}

/// The casts around an expression, innermost first.
pub(super) type Types = SmallVec<[Type; 4]>;

const TEXTS: [&str; 3] = ["text", "varchar", "citext"];
const CLIPPED: [&str; 4] = ["bpchar", "char", "character", "name"];
const SCALARS: [&str; 47] = [
    "bigint",
    "bit",
    "bool",
    "boolean",
    "box",
    "bytea",
    "cidr",
    "circle",
    "date",
    "datemultirange",
    "daterange",
    "dec",
    "decimal",
    "double",
    "float",
    "float4",
    "float8",
    "inet",
    "int",
    "int2",
    "int4",
    "int4range",
    "int8",
    "int8range",
    "integer",
    "interval",
    "json",
    "jsonb",
    "line",
    "lseg",
    "macaddr",
    "macaddr8",
    "money",
    "numeric",
    "numrange",
    "oid",
    "path",
    "point",
    "polygon",
    "real",
    "smallint",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "tsrange",
    "tstzrange",
];

/// Whether the name, written as a function, is a type with a length: `numeric(10, 2)`.
pub(super) fn is_type_name(name: &str) -> bool {
    SCALARS.contains(&name) || TEXTS.contains(&name) || CLIPPED.contains(&name)
}

/// Longer than every name in the lists above.
const LONGEST: usize = 16;

/// Reads a type's name with its length, its further words and its `[]`.
pub(super) fn type_name(cursor: &mut Cursor<'_>) -> Option<Type> {
    cursor.accept("national");
    let first = cursor.peek()?;
    let qualified = cursor.peek_second().is_some_and(|token| token.kind == Kind::Symbol(b'.'));
    if first.kind == Kind::Word && !qualified {
        cursor.advance();
        // On the stack: this is done for every cast of every row.
        let mut folded = [0; LONGEST];
        let word = cursor.bytes(first);
        let base = match folded.get_mut(..word.len()) {
            Some(folded) => {
                folded.copy_from_slice(word);
                folded.make_ascii_lowercase();
                of_keywords(std::str::from_utf8(folded).ok()?, cursor)?
            }
            None => with_length(Base::Unknown, cursor)?,
        };
        return Some(Type { base, array: brackets(cursor)? });
    }
    let name = cursor.name()?;
    let builtin = name.schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
    let known = builtin || name.name == "citext";
    let base = with_length(if known { base(&name.name) } else { Base::Unknown }, cursor)?;
    Some(Type { base, array: brackets(cursor)? })
}

fn base(name: &str) -> Base {
    match name {
        "uuid" => Base::Uuid,
        text if TEXTS.contains(&text) => Base::Text,
        text if CLIPPED.contains(&text) => Base::Clipped,
        scalar if SCALARS.contains(&scalar) => Base::Scalar,
        "tsquery" | "tsvector" | "varbit" | "xml" => Base::Scalar,
        _ => Base::Unknown,
    }
}

/// A name without quotes and schema can have further words.
fn of_keywords(name: &str, cursor: &mut Cursor<'_>) -> Option<Base> {
    let further = match name {
        "char" | "character" | "nchar" | "bit" => cursor.accept("varying"),
        "double" => cursor.accept("precision"),
        _ => false,
    };
    let text = further && name.contains("char");
    let base = with_length(if text { Base::Text } else { base(name) }, cursor)?;
    if matches!(name, "time" | "timestamp") {
        let _ =
            cursor.accept_all(&["with", "time", "zone"]) || cursor.accept_all(&["without", "time", "zone"]);
    }
    Some(base)
}

/// `(36)` after a type's name.
fn with_length(base: Base, cursor: &mut Cursor<'_>) -> Option<Base> {
    if !cursor.is_symbol(b'(') {
        return Some(base);
    }
    cursor.parentheses()?;
    Some(if base == Base::Text { Base::Clipped } else { base })
}

/// `[]`, `[3]`, `[][]`, `ARRAY`, `ARRAY[3]` after a type's name.
fn brackets(cursor: &mut Cursor<'_>) -> Option<bool> {
    let mut array = cursor.accept("array");
    while cursor.accept_symbol(b'[') {
        cursor.accept_kind(Kind::Number);
        if !cursor.accept_symbol(b']') {
            return None;
        }
        array = true;
    }
    Some(array)
}

/// The sum of casts to scalar types.
pub(super) fn cast(types: &[Type]) -> Cast {
    types.iter().fold(Cast::None, |cast, step| if step.array { Cast::Other } else { then(cast, step.base) })
}

/// The sum of casts to array types, element by element. Casts to another type altogether are `None`: they
/// keep the array as it is written.
pub(super) fn array_cast(types: &[Type]) -> Cast {
    match types {
        [] => Cast::None,
        types if types.iter().any(|step| !step.array) => Cast::Other,
        types if types.iter().all(|step| step.base == Base::Scalar) => Cast::None,
        types => types.iter().fold(Cast::None, |cast, step| then(cast, step.base)),
    }
}

/// A further cast around those before.
pub(super) fn then(cast: Cast, base: Base) -> Cast {
    match (cast, base) {
        (Cast::None | Cast::Uuid, Base::Uuid) => Cast::Uuid,
        (Cast::None | Cast::Text, Base::Text) => Cast::Text,
        (Cast::Text | Cast::TextThenUuid, Base::Uuid) => Cast::TextThenUuid,
        (Cast::Uuid | Cast::UuidThenText, Base::Text) => Cast::UuidThenText,
        _ => Cast::Other,
    }
}
