//! The rows of `load.sql` as they come, in its JSON. It knows their shape, not what follows from them.

use super::load::Error;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// The whole answer. A set without rows comes as `null`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Document {
    #[serde(deserialize_with = "rows")]
    pub keywords: Vec<String>,
    /// oid, name
    #[serde(deserialize_with = "rows")]
    pub schemas: Vec<(u32, String)>,
    /// oid, schema's oid, name, relkind
    #[serde(deserialize_with = "rows")]
    pub relations: Vec<(u32, u32, String, char)>,
    /// child, parent, whether the child is a partition
    #[serde(deserialize_with = "rows")]
    pub inherits: Vec<(u32, u32, bool)>,
    /// oid, typmod, printed name, kind: `u`uid, `t`ext, `c`har, c`i`text, and others whose text tells the value:
    /// `o` always, `s` under the same settings, `n` never
    #[serde(deserialize_with = "rows")]
    pub types: Vec<(u32, i32, String, char)>,
    /// table, its columns
    #[serde(deserialize_with = "rows")]
    pub columns: Vec<(u32, Vec<Column>)>,
    /// table and column number, or type and 0; kind: `n`ull, `s`table, `v`olatile
    #[serde(deserialize_with = "rows")]
    pub defaults: Vec<(u32, i16, char)>,
    #[serde(deserialize_with = "rows")]
    pub indexes: Vec<Index>,
    #[serde(deserialize_with = "rows")]
    pub foreign_keys: Vec<ForeignKey>,
    /// table, tgtype, function
    #[serde(deserialize_with = "rows")]
    pub triggers: Vec<(u32, i16, u32)>,
    #[serde(deserialize_with = "rows")]
    pub trigger_functions: Vec<TriggerFunction>,
    /// table, ev_type
    #[serde(deserialize_with = "rows")]
    pub rules: Vec<(u32, char)>,
    /// view (or table with a rule), a relation that it reads or writes
    #[serde(deserialize_with = "rows")]
    pub stands_on: Vec<(u32, u32)>,
    /// view, its only table, pairs of view column number and table column number
    #[serde(deserialize_with = "rows")]
    pub view_columns: Vec<(u32, u32, Vec<Origin>)>,
    /// functions that statements can call, but for those that are known to change nothing
    #[serde(deserialize_with = "rows")]
    pub callables: Vec<Callable>,
    /// functions that may give names another meaning
    #[serde(deserialize_with = "rows")]
    pub moving: Vec<u32>,
    #[serde(deserialize_with = "rows")]
    pub row_functions: Vec<u32>,
    /// kind and oid of what is called, kind and oid of what calls it
    #[serde(deserialize_with = "rows")]
    pub calls: Vec<(char, u32, char, u32)>,
    /// kind, oid, schema of a function, name
    #[serde(deserialize_with = "rows")]
    pub call_names: Vec<(char, u32, Option<String>, String)>,
}

/// A function that statements can call. Comes as an array.
#[derive(Debug, Deserialize)]
pub(super) struct Callable {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub language: String,
    pub volatile: bool,
    /// Unless it is condemned already.
    pub body: Option<String>,
    /// It may deallocate prepared statements.
    pub deallocates: bool,
}

/// A view's column number and its table's.
pub(super) type Origin = (i16, i16);

/// oid, schema's oid, name, language (empty for Postgres' own), body unless it is condemned already
#[derive(Debug, Deserialize)]
pub(super) struct TriggerFunction(pub u32, pub u32, pub String, pub String, pub Option<String>);

/// attnum, name, type's oid, typmod, generated, identity
#[derive(Debug, Deserialize)]
pub(super) struct Column(pub i16, pub String, pub u32, pub i32, pub bool, pub bool);

/// Where the column with this number stands among the columns of a table, which are in the order of
/// their numbers.
pub(super) fn position(columns: &[Column], number: i16) -> Option<usize> {
    columns.binary_search_by_key(&number, |column| column.0).ok()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    pub oid: u32,
    pub table: u32,
    /// The partitioned index that this one is attached to.
    pub parent: Option<u32>,
    pub name: String,
    /// Column numbers in index order; 0 is an expression.
    pub columns: Vec<i16>,
    /// Some column's equality is not that of bytes.
    pub odd: bool,
    pub valid: bool,
    pub immediate: bool,
    pub partial: bool,
    pub expression: bool,
    pub nulls_not_distinct: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForeignKey {
    pub name: String,
    pub child: u32,
    pub parent: u32,
    pub columns: Vec<i16>,
    pub parent_columns: Vec<i16>,
    /// confdeltype
    pub delete: char,
    /// confupdtype
    pub update: char,
    pub deferrable: bool,
}

/// Reads the text of the answer: JSON, or its UTF-8 in hexadecimal if a name is not ASCII.
///
/// # Errors
/// [`Error::Encoding`] and [`Error::Json`].
pub(super) fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Error> {
    Ok(serde_json::from_str(&plain(text)?)?)
}

fn plain(text: &str) -> Result<Cow<'_, str>, Error> {
    if text.starts_with('{') {
        return Ok(Cow::Borrowed(text));
    }
    let digits = text.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = digits
        .map(|pair| match pair {
            [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
            _ => None,
        })
        .collect();
    // A database in SQL_ASCII may hold names in any encoding; such a name matches no statement's.
    let bytes = bytes.ok_or(Error::Encoding)?;
    Ok(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

fn nibble(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

fn rows<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}
