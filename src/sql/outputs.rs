//! Which column of a followed relation goes where: the select list and ORDER BY over a FROM item.

use super::cell::{self, wrapped};
use super::cursor::Cursor;
use super::insert::{CellKind, Insert, Output, Source};
use super::lex::{Kind, Style, Token};
use super::name::Ident;
use super::relation::{Column, Feed, Reason, Relation};
use super::select::{self, Item};
use super::{scalar, types};

/// The source of `SELECT items FROM relation …`; the cursor stands after the relation.
pub(super) fn source(
    cursor: &mut Cursor<'_>,
    relation: Relation,
    items: &[Item],
    insert: &Insert,
) -> Result<Source, Reason> {
    let mut mapping = Mapping::new(relation);
    for item in items {
        let before = mapping.outputs.len();
        mapping.item(&cursor.within(item.range.clone()), insert)?;
        mapping.labels.resize(mapping.outputs.len(), None);
        if let (Some(label), true) = (mapping.labels.get_mut(before), item.label.is_some()) {
            label.clone_from(&item.label);
        }
    }
    if cursor.accept_all(&["order", "by"]) {
        mapping.order_by(cursor)?;
    }
    if !cursor.at_end() {
        return Err(select::reason(cursor));
    }
    mapping.finish()
}

struct Mapping {
    relation: Relation,
    /// Members named so far, where the relation's columns are not declared.
    members: Vec<String>,
    outputs: Vec<Output>,
    labels: Vec<Option<Ident>>,
    /// Columns that expressions read.
    reads: Vec<usize>,
}

/// How a column is spoken of.
struct Reference {
    qualifier: Option<Ident>,
    name: Ident,
}

/// Words that look like a column and are a value.
const VALUES: [&str; 12] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "system_user",
    "user",
];

impl Mapping {
    fn new(relation: Relation) -> Self {
        Self { relation, members: Vec::new(), outputs: Vec::new(), labels: Vec::new(), reads: Vec::new() }
    }

    /// One item of the select list, which is the cursor's part.
    fn item(&mut self, part: &Cursor<'_>, insert: &Insert) -> Result<(), Reason> {
        if self.is_star(part) {
            return self.star(insert);
        }
        let output = if let Some(output) = constant(part) {
            output
        } else if let Some(output) = self.column(part) {
            output
        } else {
            self.expression(part)?;
            Output::Other
        };
        self.outputs.push(output);
        Ok(())
    }

    /// `*` or `alias.*`
    fn is_star(&self, part: &Cursor<'_>) -> bool {
        let mut part = part.clone();
        if !part.accept_symbol(b'*') {
            let alias = part.ident();
            if alias.is_none() || alias != self.relation.alias {
                return false;
            }
            if !part.accept_symbol(b'.') || !part.accept_symbol(b'*') {
                return false;
            }
        }
        part.at_end()
    }

    fn star(&mut self, insert: &Insert) -> Result<(), Reason> {
        let columns = &self.relation.columns;
        match &self.relation.feed {
            // Without a list of columns the members go to the columns they are named after.
            Feed::Populate { .. } if insert.columns.is_none() && self.outputs.is_empty() => Ok(()),
            Feed::Populate { .. } => Err("* of a table's columns"),
            Feed::Elements { .. } => Err("document as a whole"),
            // If an array were of a composite type, the INSERT would have more expressions than columns.
            Feed::Unnest { .. }
                if self.relation.named_until < columns.len()
                    && insert.columns.as_ref().is_none_or(|targets| targets.len() != columns.len()) =>
            {
                Err("array of an unknown type")
            }
            _ => {
                self.outputs.extend(columns.iter().map(output_of));
                Ok(())
            }
        }
    }

    /// A column of the relation, with casts around it.
    fn column(&mut self, part: &Cursor<'_>) -> Option<Output> {
        let mut part = part.clone();
        let elements = matches!(self.relation.feed, Feed::Elements { .. });
        let read = |part: &mut Cursor<'_>| {
            let column = reference(part)?;
            let member = if elements { Some(member(part, &[b"->>"])?) } else { None };
            Some((column, member))
        };
        let ((reference, member), casts) = wrapped(&mut part, 0, &mut { read })?;
        if !part.at_end() {
            return None;
        }
        let (index, declared) = match member {
            Some(member) => self.is_element(&reference).then(|| (self.intern(member), types::cast(&[])))?,
            None => {
                let column = self.resolve(&reference)?;
                match column {
                    Some(column) => (column.index?, column.cast),
                    None => (self.intern(reference.name), types::cast(&[])),
                }
            }
        };
        let cast = casts.iter().fold(declared, |cast, step| {
            if step.array { types::then(cast, types::Base::Unknown) } else { types::then(cast, step.base) }
        });
        Some(Output::Column { index, cast })
    }

    /// The column of that name. `Some(None)`: a member of the row type of `json_populate_recordset`.
    fn resolve(&self, reference: &Reference) -> Option<Option<&Column>> {
        if reference.qualifier.is_some() && reference.qualifier != self.relation.alias {
            return None;
        }
        if let Feed::Populate { .. } = self.relation.feed {
            return (!VALUES.contains(&reference.name.as_str())).then_some(None);
        }
        let mut same = self.relation.columns.iter().enumerate();
        let (at, column) = same.find(|(_, column)| column.name.as_ref() == Some(&reference.name))?;
        // An ambiguous name is an error of the server's.
        let ambiguous = same.any(|(_, column)| column.name.as_ref() == Some(&reference.name));
        (!ambiguous && at <= self.relation.named_until).then_some(Some(column))
    }

    /// Whether the name is that of the element of `json_array_elements`.
    fn is_element(&self, reference: &Reference) -> bool {
        let alias = self.relation.alias.as_ref();
        let column = self.relation.columns.first().and_then(|column| column.name.as_ref());
        match &reference.qualifier {
            Some(qualifier) => Some(qualifier) == alias && Some(&reference.name) == column,
            None => Some(&reference.name) == column || Some(&reference.name) == alias,
        }
    }

    fn intern(&mut self, member: String) -> usize {
        self.members.iter().position(|known| *known == member).unwrap_or_else(|| {
            self.members.push(member);
            self.members.len() - 1
        })
    }

    /// Any other expression: one value for one row, and the columns it reads.
    fn expression(&mut self, part: &Cursor<'_>) -> Result<(), Reason> {
        if !scalar::is_scalar(part) {
            return Err("function in the select list");
        }
        let mut part = part.clone();
        while let Some(token) = part.peek() {
            // `(r).*` and `r.*` are any number of values.
            let second = part.peek_second().map(|token| token.kind);
            if token.kind == Kind::Symbol(b'.') && second == Some(Kind::Symbol(b'*')) {
                return Err("row as a whole");
            }
            let ident = matches!(token.kind, Kind::Word | Kind::Quoted { .. });
            let Some(reference) = (if ident { reference(&mut part) } else { None }) else {
                part.advance();
                continue;
            };
            self.read(&reference, &mut part)?;
        }
        Ok(())
    }

    /// A name in an expression.
    fn read(&mut self, reference: &Reference, part: &mut Cursor<'_>) -> Result<(), Reason> {
        if let Feed::Elements { .. } = self.relation.feed {
            if self.is_element(reference) {
                let member = member(part, &[b"->>", b"->"]).ok_or("document as a whole")?;
                let index = self.intern(member);
                self.reads.push(index);
            }
            return Ok(());
        }
        let index = match self.resolve(reference) {
            Some(Some(column)) => column.index,
            Some(None) => Some(self.intern(reference.name.clone())),
            // The alias on its own is the whole row.
            None if Some(&reference.name) == self.relation.alias.as_ref() => {
                return Err("row as a whole");
            }
            None => None,
        };
        self.reads.extend(index);
        Ok(())
    }

    /// `ORDER BY` columns of the relation or of the select list: what the rows are sorted by is not followed.
    fn order_by(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Reason> {
        loop {
            let sorted = self.sort_key(cursor).ok_or("ORDER BY an expression")?;
            for at in sorted {
                if let Some(output) = self.outputs.get_mut(at) {
                    *output = Output::Other;
                }
            }
            let _ = cursor.accept("asc") || cursor.accept("desc");
            let _ = cursor.accept_all(&["nulls", "first"]) || cursor.accept_all(&["nulls", "last"]);
            if !cursor.accept_symbol(b',') {
                return Ok(());
            }
        }
    }

    /// Positions of the outputs that a sort key is.
    fn sort_key(&self, cursor: &mut Cursor<'_>) -> Option<Vec<usize>> {
        let token = cursor.peek()?;
        if token.kind == Kind::Number {
            cursor.advance();
            let ordinal: usize = std::str::from_utf8(cursor.bytes(token)).ok()?.parse().ok()?;
            return Some(vec![ordinal.checked_sub(1)?]);
        }
        let reference = reference(cursor)?;
        let label =
            |label: &Option<Ident>| reference.qualifier.is_none() && label.as_ref() == Some(&reference.name);
        if let Some(at) = self.labels.iter().position(label) {
            return Some(vec![at]);
        }
        let index = self.resolve(&reference)??.index;
        let sorted =
            |output: &Output| matches!(output, Output::Column { index: at, .. } if Some(*at) == index);
        Some(self.outputs.iter().enumerate().filter(|(_, output)| sorted(output)).map(|(at, _)| at).collect())
    }

    fn finish(self) -> Result<Source, Reason> {
        let read =
            |output: &Output| matches!(output, Output::Column { index, .. } if self.reads.contains(index));
        if self.outputs.iter().any(read) {
            return Err("column used twice");
        }
        let outputs = self.outputs;
        Ok(match self.relation.feed {
            Feed::Values { rows } => Source::DerivedValues { rows, outputs },
            Feed::Unnest { arrays } => Source::Unnest { arrays, outputs },
            Feed::Recordset { document, members } => Source::Json { document, members, outputs },
            Feed::Populate { document } | Feed::Elements { document } => {
                Source::Json { document, members: self.members, outputs }
            }
        })
    }
}

fn output_of(column: &Column) -> Output {
    column.index.map_or(Output::Other, |index| Output::Column { index, cast: column.cast })
}

/// A plain value, the same for every row.
fn constant(part: &Cursor<'_>) -> Option<Output> {
    let mut part = part.clone();
    let cell = cell::value(&mut part).filter(|_| part.at_end())?;
    (cell.kind != CellKind::Default).then_some(Output::Constant(cell))
}

/// `name` or `alias.name`
fn reference(cursor: &mut Cursor<'_>) -> Option<Reference> {
    let first = cursor.ident()?;
    let second = cursor.peek_second().map(|token| token.kind);
    if !cursor.is_symbol(b'.') || second == Some(Kind::Symbol(b'*')) {
        return Some(Reference { qualifier: None, name: first });
    }
    cursor.advance();
    Some(Reference { qualifier: Some(first), name: cursor.ident()? })
}

/// `->> 'name'`, with one of these operators.
fn member(cursor: &mut Cursor<'_>, operators: &[&[u8]]) -> Option<String> {
    let operator = cursor.peek()?;
    let Some(Token { kind: Kind::String(literal), .. }) = cursor.peek_second() else {
        return None;
    };
    if !operators.contains(&cursor.bytes(operator)) || literal.escaped || literal.style != Style::Plain {
        return None;
    }
    let name = cursor.text().get(literal.start..literal.end)?;
    let name = std::str::from_utf8(name).ok()?.to_owned();
    cursor.advance();
    cursor.advance();
    Some(name)
}
