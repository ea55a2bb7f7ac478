//! All that a statement says, and whether a key in it stands in the rows that it inserts, or elsewhere. Knows no
//! table.

use crate::carrier::Field;
use crate::rekey::references::{References, Shared};
use crate::sql::calls;
use crate::sql::insert::{Array, Cell, CellKind, Document, Insert, RowScanner, Source};
use crate::sql::lex::Options;
use crate::sql::statement::Statement;
use hashbrown::HashMap;
use std::ops::Range;

/// A statement, with its text and its parameters.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub statement: &'a Statement,
    /// What positions in the statement refer to.
    pub text: &'a [u8],
    /// The statement's part of it.
    pub start: usize,
    pub end: usize,
    pub options: Options,
    pub parameters: Parameters<'a>,
}

/// What the statement is run with.
#[derive(Clone, Copy)]
pub(super) enum Parameters<'a> {
    None,
    /// Positions within the bytes, `$1` first; all of them stand in `part` of these.
    Fields {
        bytes: &'a [u8],
        fields: &'a [Field],
        part: &'a [u8],
    },
    /// Somewhere in these bytes.
    Unread(&'a [u8]),
}

impl<'a> Said<'a> {
    /// The statement's own text.
    pub fn own_text(&self) -> &'a [u8] {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    /// Everything that may name a key.
    pub fn sources(&self) -> [&'a [u8]; 2] {
        let parameters = match self.parameters {
            Parameters::None => &[],
            Parameters::Fields { part, .. } => part,
            Parameters::Unread(bytes) => bytes,
        };
        [self.own_text(), parameters]
    }

    /// The first shared key that it names, of those that are asked for.
    pub fn named<'r>(
        &self,
        references: &'r References,
        which: impl Fn(&Shared) -> bool + Copy,
    ) -> Option<&'r Shared> {
        self.sources().into_iter().find_map(|bytes| references.named_where(bytes, which))
    }

    /// Whether its text names a shared key.
    pub fn names_in_text(&self, references: &References) -> bool {
        references.named_in(self.own_text()).is_some()
    }

    /// Whether parameters do that cannot be read one by one.
    pub fn names_in_unread(&self, references: &References) -> bool {
        matches!(self.parameters, Parameters::Unread(bytes) if references.named_in(bytes).is_some())
    }

    /// `DECLARE … CURSOR`.
    pub fn is_cursor(&self) -> bool {
        let mut words =
            self.own_text().split(|byte| !byte.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        words.any(|word| word.eq_ignore_ascii_case(b"cursor"))
    }

    /// Whether it names a shared key anywhere but in rows of its INSERTs, which are looked at one by one.
    pub fn names_outside_rows(&self, references: &References) -> bool {
        let inserts = self.statement.inserts().unwrap_or_default();
        let mut rows: Vec<Range<usize>> = inserts.iter().flat_map(|insert| data(&insert.source)).collect();
        rows.sort_unstable_by_key(|range| range.start);
        let mut at = self.start;
        let mut outside = |until: usize, next: usize| {
            let gap = self.text.get(at..until.max(at)).unwrap_or_default();
            at = next.max(at);
            references.named_in(gap).is_some()
        };
        rows.iter().any(|range| outside(range.start, range.end))
            || outside(self.end, self.end)
            || self.parameter_outside_rows(references, inserts)
    }

    fn parameter_outside_rows(&self, references: &References, inserts: &[Insert]) -> bool {
        let (bytes, fields) = match self.parameters {
            Parameters::None => return false,
            Parameters::Unread(bytes) => return references.named_in(bytes).is_some(),
            Parameters::Fields { bytes, fields, .. } => (bytes, fields),
        };
        let mut uses: HashMap<u16, i64> = HashMap::new();
        for (number, _) in calls::parameter_uses(self.text, self.start..self.end, self.options) {
            *uses.entry(number).or_default() += 1;
        }
        for insert in inserts {
            self.each_parameter(&insert.source, &mut |number| *uses.entry(number).or_default() -= 1);
        }
        (1..).zip(fields).any(|(number, field)| {
            let used = uses.get(&number).is_some_and(|&uses| uses != 0);
            used && field.of(bytes).is_some_and(|value| references.named_in(value).is_some())
        })
    }

    fn each_parameter(&self, source: &Source, note: &mut dyn FnMut(u16)) {
        let mut cells = |cells: &[Cell]| {
            cells.iter().for_each(|cell| {
                if let CellKind::Param(number) = cell.kind {
                    note(number);
                }
            });
        };
        match source {
            Source::Values { rows } | Source::DerivedValues { rows, .. } => {
                let mut scanner = RowScanner::new(self.text, rows.clone(), self.options);
                let mut row = Vec::new();
                while scanner.next_row(&mut row).is_some() {
                    cells(&row);
                }
            }
            Source::Selects { rows } => rows.iter().for_each(|row| cells(row)),
            Source::Unnest { arrays, .. } => arrays.iter().for_each(|array| match array {
                Array::Param(number) => note(*number),
                Array::Elements(elements) => elements.iter().for_each(|cell| {
                    if let CellKind::Param(number) = cell.kind {
                        note(number);
                    }
                }),
                Array::Literal(_) | Array::Other => {}
            }),
            Source::Json { document: Document::Param(number), .. } => note(*number),
            Source::Json { .. } | Source::DefaultValues | Source::Uninspected(_) => {}
        }
    }
}

/// Where the data of rows stands in the text.
fn data(source: &Source) -> Vec<Range<usize>> {
    let all = |cells: &[Cell]| cells.iter().map(|cell| cell.range.clone()).collect();
    match source {
        Source::Values { rows } | Source::DerivedValues { rows, .. } => vec![rows.clone()],
        Source::Selects { rows } => {
            rows.iter().flat_map(|cells| cells.iter().map(|cell| cell.range.clone())).collect()
        }
        Source::Unnest { arrays, .. } => arrays
            .iter()
            .flat_map(|array| match array {
                Array::Literal(range) => vec![range.clone()],
                Array::Elements(cells) => all(cells),
                Array::Param(_) | Array::Other => Vec::new(),
            })
            .collect(),
        Source::Json { document: Document::Literal(range), .. } => vec![range.clone()],
        Source::Json { .. } | Source::DefaultValues | Source::Uninspected(_) => Vec::new(),
    }
}
