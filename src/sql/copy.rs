//! COPY: which table, which columns, and how its data is written. Knows nothing of the data.

use super::cursor::Cursor;
use super::lex::Kind;
use super::name::Ident;
use super::statement::{CopyFormat, CopyIn, ForceColumns, Statement};
use super::values;

/// Why the data must not be inspected.
type Obstacle = &'static str;

/// After `COPY`. `None`: not understood.
pub(super) fn copy(cursor: &mut Cursor<'_>) -> Option<Statement> {
    if cursor.is_symbol(b'(') {
        return of_query(cursor);
    }
    let second = cursor.peek_second();
    let binary = cursor.is("binary") && !cursor.token_is(second, "from") && !cursor.token_is(second, "to");
    if binary {
        cursor.advance();
    }
    let table = cursor.name()?;
    let columns = if cursor.is_symbol(b'(') { Some(cursor.ident_list()?) } else { None };
    if cursor.accept("to") {
        return Some(Statement::CopyOther { into: None });
    }
    if !cursor.accept("from") {
        return None;
    }
    // STDOUT is taken for STDIN here.
    if !cursor.accept("stdin") && !cursor.accept("stdout") {
        return Some(Statement::CopyOther { into: Some(table) });
    }
    let mut options = Options { binary, ..Options::default() };
    let (format, obstacle) = match options.read(cursor) {
        Ok(()) => (options.format(), options.obstacle),
        Err(obstacle) => (options.format(), Some(obstacle)),
    };
    Some(Statement::CopyIn(CopyIn { table, columns, format, obstacle }))
}

/// `COPY (query) TO …`; the query may modify data, and then is not understood.
fn of_query(cursor: &mut Cursor<'_>) -> Option<Statement> {
    let mut query = cursor.within(cursor.clone().parentheses()?);
    let reads = query.is_any(&["select", "values", "table"]) || query.is_symbol(b'(');
    if !reads {
        return None;
    }
    while let Some(token) = query.advance() {
        // As in a parenthesis that begins with WITH.
        if query.token_is(Some(token), "with") {
            return None;
        }
    }
    Some(Statement::CopyOther { into: None })
}

/// What the options said, before the format is known.
#[derive(Default)]
struct Options {
    binary: bool,
    csv: bool,
    header: bool,
    delimiter: Option<u8>,
    quote: Option<u8>,
    escape: Option<u8>,
    null: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
    force_null: ForceColumns,
    force_not_null: ForceColumns,
    obstacle: Option<Obstacle>,
}

impl Options {
    fn format(&mut self) -> CopyFormat {
        if self.binary {
            return CopyFormat::Binary;
        }
        let (header, default) = (self.header, self.default.take());
        if !self.csv {
            let null = self.null.take().unwrap_or_else(|| br"\N".to_vec());
            return CopyFormat::Text { delimiter: self.delimiter.unwrap_or(b'\t'), null, header, default };
        }
        let quote = self.quote.unwrap_or(b'"');
        CopyFormat::Csv {
            delimiter: self.delimiter.unwrap_or(b','),
            quote,
            escape: self.escape.unwrap_or(quote),
            null: self.null.take().unwrap_or_default(),
            header,
            force_null: std::mem::take(&mut self.force_null),
            force_not_null: std::mem::take(&mut self.force_not_null),
            default,
        }
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Obstacle> {
        let using = cursor.accept("using");
        if cursor.accept("delimiters") {
            self.delimiter = Some(one_byte(cursor)?);
        } else if using {
            return Err("option");
        }
        cursor.accept("with");
        if cursor.accept_symbol(b'(') {
            self.list(cursor)?;
        } else {
            while !cursor.at_end() && !cursor.is("where") {
                self.old_option(cursor)?;
            }
        }
        if cursor.is("where") {
            return Err("WHERE");
        }
        if cursor.at_end() { Ok(()) } else { Err("option") }
    }

    /// `name [value], … )`
    fn list(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Obstacle> {
        loop {
            let name = cursor.ident().ok_or("option")?;
            self.option(&name, cursor)?;
            if cursor.accept_symbol(b')') {
                return Ok(());
            }
            if !cursor.accept_symbol(b',') {
                return Err("option");
            }
        }
    }

    fn option(&mut self, name: &str, cursor: &mut Cursor<'_>) -> Result<(), Obstacle> {
        match name {
            "format" => match word(cursor)?.as_str() {
                "text" => {}
                "csv" => self.csv = true,
                "binary" => self.binary = true,
                _ => return Err("FORMAT"),
            },
            "freeze" => _ = flag(cursor)?,
            "header" => self.header = flag(cursor)?,
            "delimiter" => self.delimiter = Some(one_byte(cursor)?),
            "quote" => self.quote = Some(one_byte(cursor)?),
            "escape" => self.escape = Some(one_byte(cursor)?),
            "null" => self.null = Some(bytes(cursor)?),
            "default" => self.default = Some(bytes(cursor)?),
            "encoding" => check_encoding(&word(cursor)?)?,
            "force_null" => self.force_null = force(cursor)?,
            "force_not_null" => self.force_not_null = force(cursor)?,
            "on_error" | "log_verbosity" | "reject_limit" => {
                word(cursor)?;
                self.obstacle = Some("ON_ERROR");
            }
            _ => return Err("option"),
        }
        Ok(())
    }

    /// The syntax before version 9.0.
    fn old_option(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Obstacle> {
        if cursor.accept("freeze") {
            return Ok(());
        }
        if cursor.accept("binary") {
            self.binary = true;
        } else if cursor.accept("csv") {
            self.csv = true;
        } else if cursor.accept("header") {
            self.header = true;
        } else if cursor.accept("delimiter") {
            self.delimiter = Some(one_byte(after_as(cursor))?);
        } else if cursor.accept("null") {
            self.null = Some(bytes(after_as(cursor))?);
        } else if cursor.accept("quote") {
            self.quote = Some(one_byte(after_as(cursor))?);
        } else if cursor.accept("escape") {
            self.escape = Some(one_byte(after_as(cursor))?);
        } else if cursor.accept("encoding") {
            check_encoding(&word(cursor)?)?;
        } else if cursor.accept_all(&["force", "null"]) {
            self.force_null = force_list(cursor)?;
        } else if cursor.accept_all(&["force", "not", "null"]) {
            self.force_not_null = force_list(cursor)?;
        } else {
            return Err("option");
        }
        Ok(())
    }
}

fn after_as<'c, 'a>(cursor: &'c mut Cursor<'a>) -> &'c mut Cursor<'a> {
    cursor.accept("as");
    cursor
}

fn bytes(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Obstacle> {
    let literal = cursor.string().ok_or("option")?;
    values::decode(cursor.text(), &literal).ok_or("option")
}

fn one_byte(cursor: &mut Cursor<'_>) -> Result<u8, Obstacle> {
    match bytes(cursor)?.as_slice() {
        [byte] => Ok(*byte),
        _ => Err("option"),
    }
}

/// A word, folded, or the value of a literal.
fn word(cursor: &mut Cursor<'_>) -> Result<String, Obstacle> {
    if let Some(literal) = cursor.string() {
        return values::decode_string(cursor.text(), &literal).ok_or("option");
    }
    let number = cursor.peek().filter(|token| token.kind == Kind::Number);
    if let Some(token) = number {
        cursor.advance();
        return Ok(String::from_utf8_lossy(cursor.bytes(token)).into_owned());
    }
    cursor.ident().ok_or("option")
}

/// A boolean, or `match` for a header that must name the columns.
fn flag(cursor: &mut Cursor<'_>) -> Result<bool, Obstacle> {
    if cursor.is_symbol(b',') || cursor.is_symbol(b')') {
        return Ok(true);
    }
    match word(cursor)?.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "match" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("option"),
    }
}

/// `*` or `(a, b)`
fn force(cursor: &mut Cursor<'_>) -> Result<ForceColumns, Obstacle> {
    if cursor.accept_symbol(b'*') {
        return Ok(ForceColumns::All);
    }
    cursor.ident_list().map(ForceColumns::Some).ok_or("option")
}

/// `*` or `a, b`
fn force_list(cursor: &mut Cursor<'_>) -> Result<ForceColumns, Obstacle> {
    if cursor.accept_symbol(b'*') {
        return Ok(ForceColumns::All);
    }
    let mut columns: Vec<Ident> = vec![cursor.ident().ok_or("option")?];
    while cursor.accept_symbol(b',') {
        columns.push(cursor.ident().ok_or("option")?);
    }
    Ok(ForceColumns::Some(columns))
}

/// In an ASCII-safe encoding no byte of a longer character is that of an ASCII character. The names are
/// compared as Postgres does: letters and digits only.
fn check_encoding(name: &str) -> Result<(), Obstacle> {
    const SAFE: [&str; 6] = ["utf8", "unicode", "sqlascii", "win", "alt", "muleinternal"];
    const FAMILIES: [&str; 7] = ["latin", "iso8859", "win125", "windows125", "koi8", "euc", "win866"];
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let safe = SAFE.contains(&name.as_str()) || FAMILIES.iter().any(|family| name.starts_with(family));
    if safe { Ok(()) } else { Err("ENCODING") }
}

#[cfg(test)]
mod tests;
