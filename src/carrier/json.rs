//! A JSON array of objects: where each object's wanted members stand; knows no types and builds no tree.

use super::{Field, fits};
use memchr::memchr2;

/// How deep a value may be nested. Deeper documents are not inspected.
const MAX_DEPTH: u32 = 128;

/// Reads the objects of an array, as `json[b]_to_recordset`, `json[b]_populate_recordset` and
/// `json[b]_array_elements` do, and gives `row` the ordinal of each (from 1) with one field for each of
/// `members`, which differ from one another. Returns the number of rows.
///
/// A member that is absent or null is [`Field::Null`]; of two with the same name the last one counts; a
/// string without escapes is its inside, a number or boolean its token; a string with escapes and a
/// nested value are [`Field::Escaped`]. Positions are within `document`, which may be text or a jsonb
/// parameter in binary format (a version byte before the text; no text begins with that byte).
///
/// `None` for anything else, at the latest at its end: rows given before must be forgotten then.
/// Nested values are checked only for balance; if there is more wrong with them, Postgres says so.
#[must_use]
pub fn rows(
    document: &[u8],
    members: &[impl AsRef<[u8]>],
    fields: &mut Vec<Field>,
    mut row: impl FnMut(u64, &[Field]),
) -> Option<u64> {
    if !fits(document) {
        return None;
    }
    let mut cursor = Cursor { bytes: document, at: usize::from(document.first() == Some(&1)) };
    let mut object = Object { members, expected: 0, name: Vec::new() };
    let mut ordinal = 0;
    cursor.expect(b'[')?;
    if !cursor.eat(b']') {
        loop {
            fields.clear();
            fields.resize(members.len(), Field::Null);
            object.read(&mut cursor, fields)?;
            ordinal += 1;
            row(ordinal, fields);
            if !cursor.eat(b',') {
                break;
            }
        }
        cursor.expect(b']')?;
    }
    cursor.skip_space();
    (cursor.at == document.len()).then_some(ordinal)
}

/// Reads objects that have much the same members in much the same order.
struct Object<'m, M> {
    members: &'m [M],
    /// The member that probably comes next.
    expected: usize,
    /// A name whose escapes were undone; kept to be reused.
    name: Vec<u8>,
}

impl<M: AsRef<[u8]>> Object<'_, M> {
    fn read(&mut self, cursor: &mut Cursor<'_>, fields: &mut [Field]) -> Option<()> {
        cursor.expect(b'{')?;
        if cursor.eat(b'}') {
            return Some(());
        }
        self.expected = 0;
        loop {
            cursor.expect(b'"')?;
            let name = cursor.string()?;
            cursor.expect(b':')?;
            let value = cursor.value()?;
            if let Some(field) = self.wanted(name, cursor.bytes)?.and_then(|index| fields.get_mut(index)) {
                *field = value;
            }
            if !cursor.eat(b',') {
                return cursor.expect(b'}');
            }
        }
    }

    /// Which member the name means; the outer `None` if it is malformed.
    fn wanted(&mut self, name: Field, bytes: &[u8]) -> Option<Option<usize>> {
        let raw = name.of(bytes)?;
        let name = if matches!(name, Field::Escaped { .. }) {
            unescape(raw, &mut self.name)?;
            &self.name
        } else {
            raw
        };
        let is = |index: &usize| self.members.get(*index).is_some_and(|member| member.as_ref() == name);
        let found = (self.expected..self.members.len()).chain(0..self.expected).find(is);
        if let Some(index) = found {
            self.expected = index + 1;
        }
        Some(found)
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes this byte, white space before it aside, if it is there.
    fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    fn value(&mut self) -> Option<Field> {
        self.skip_space();
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.string()
            }
            b'{' | b'[' => self.nested(),
            _ => self.scalar(),
        }
    }

    /// A string whose inside begins here; the cursor comes to stand behind its closing quote.
    fn string(&mut self) -> Option<Field> {
        let (start, mut escapes) = (self.at, false);
        loop {
            self.at += memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.peek() == Some(b'"') {
                break;
            }
            escapes = true;
            self.at += 2;
        }
        let inside = start..self.at;
        self.at += 1;
        Some(if escapes { Field::escaped(inside) } else { Field::text(inside) })
    }

    fn scalar(&mut self) -> Option<Field> {
        let start = self.at;
        let rest = self.bytes.get(start..)?;
        let in_token = |&&byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let token = rest.get(..rest.iter().take_while(in_token).count())?;
        self.at += token.len();
        match token {
            b"null" => Some(Field::Null),
            b"true" | b"false" => Some(Field::text(start..self.at)),
            number if is_number(number) => Some(Field::text(start..self.at)),
            _ => None,
        }
    }

    /// An object or array, whole.
    fn nested(&mut self) -> Option<Field> {
        let start = self.at;
        // One bit for each open bracket, the innermost lowest: whether it is a square one.
        let (mut depth, mut square) = (0, 0u128);
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    if depth == MAX_DEPTH {
                        return None;
                    }
                    depth += 1;
                    square = square << 1 | u128::from(byte == b'[');
                }
                b'}' | b']' => {
                    if square & 1 != u128::from(byte == b']') {
                        return None;
                    }
                    depth -= 1;
                    square >>= 1;
                    if depth == 0 {
                        return Some(Field::escaped(start..self.at));
                    }
                }
                _ => {}
            }
        }
    }
}

/// JSON's grammar of numbers: no leading zeros, digits on both sides of a point.
fn is_number(token: &[u8]) -> bool {
    let unsigned = token.strip_prefix(b"-").unwrap_or(token);
    let (mantissa, exponent) = match memchr2(b'e', b'E', unsigned) {
        Some(at) => (unsigned.get(..at).unwrap_or_default(), unsigned.get(at + 1..)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match memchr::memchr(b'.', mantissa) {
        Some(at) => (mantissa.get(..at).unwrap_or_default(), mantissa.get(at + 1..)),
        None => (mantissa, None),
    };
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let exponent = exponent.map(|part| part.strip_prefix(b"+").or(part.strip_prefix(b"-")).unwrap_or(part));
    digits(whole)
        && (whole.len() == 1 || whole.first() != Some(&b'0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

/// Undoes the escapes of a string's inside into `out`; `None` for those JSON does not have.
fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(rest.get(..at)?);
        let (&letter, behind) = rest.get(at + 1..)?.split_first()?;
        rest = behind;
        out.push(match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, behind) = unicode(rest)?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
                continue;
            }
            _ => return None,
        });
    }
    out.extend_from_slice(rest);
    Some(())
}

/// The character of a `\u` escape whose digits begin here, two escapes for a surrogate pair.
fn unicode(digits: &[u8]) -> Option<(char, &[u8])> {
    let (high, rest) = four_digits(digits)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some((char::from_u32(high)?, rest));
    }
    let (low, rest) = four_digits(rest.strip_prefix(b"\\u")?)?;
    let low = low.checked_sub(0xdc00).filter(|&low| low < 0x400)?;
    Some((char::from_u32(0x10000 + ((high - 0xd800) << 10) + low)?, rest))
}

fn four_digits(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<4>()?;
    let mut value = 0;
    for &digit in digits {
        value = value << 4 | char::from(digit).to_digit(16)?;
    }
    Some((value, rest))
}
