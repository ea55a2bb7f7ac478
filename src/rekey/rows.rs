//! The rows of an INSERT, whatever carries them: each value with the place where it stands. Decides nothing.

use super::plan::Plan;
use super::raw;
use super::value::Value;
use crate::carrier::{Field, array, json};
use crate::catalog::model::ColumnKind;
use crate::sql::insert::{Array, Cast, Cell, CellKind, Document, Insert, Output, RowScanner, Source};
use crate::sql::lex::Options;
use std::ops::Range;

/// One value of a row.
#[derive(Clone, Debug)]
pub struct Slot<'a> {
    pub value: Value<'a>,
    pub place: Place,
}

impl Slot<'_> {
    /// Whether the value is an expression, which might call a function.
    #[must_use]
    pub fn is_expression(&self) -> bool {
        self.place == Place::Fixed(EXPRESSION)
    }

    /// Whether nothing at all is known of the value.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.value == UNKNOWN.value && self.is_expression()
    }
}

/// Where a value could be overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the statement's text.
    Text(Range<usize>),
    /// In the body of the Bind.
    Bind(Range<usize>),
    /// Nowhere, for this reason.
    Fixed(&'static str),
}

/// What a statement is run with.
#[derive(Clone, Copy)]
pub struct Supply<'a> {
    pub text: &'a [u8],
    pub options: Options,
    /// The cells of the only row of a VALUES, if they are known already.
    pub only_row: Option<&'a [Cell]>,
    /// The server may have read the literals of the text by other settings than those of now, or at another time.
    pub read_before: bool,
    /// Why nothing can be written into the text, if so.
    pub text_fixed: Option<&'static str>,
    /// Absent for a simple Query.
    pub bound: Option<Bound<'a>>,
}

/// Parameters of a Bind.
#[derive(Clone, Copy)]
pub struct Bound<'a> {
    pub body: &'a [u8],
    /// `$1` first; positions within `body`.
    pub fields: &'a [Field],
    /// Declared types, `$1` first; may be shorter than `fields`.
    pub types: &'a [u32],
    /// Parameters that feed more than one row, or something besides rows.
    pub shared: &'a [u16],
}

/// The source cannot be read after all: what was handed out before must be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable(pub &'static str);

const EXPRESSION: &str = "expression";
const SHARED: &str = "shared parameter";

/// Hands out the rows of an INSERT in the order they are inserted, each with its ordinal from 1.
///
/// # Errors
/// [`Unreadable`] with the reason, for sources of a shape that is not followed and for malformed data.
pub fn for_each<'a>(
    insert: &'a Insert,
    plan: &Plan,
    supply: Supply<'a>,
    row: &mut dyn FnMut(u32, &[Slot<'a>]),
) -> Result<u32, Unreadable> {
    let mut reader = RowReader { plan, supply, slots: Vec::with_capacity(plan.inputs.len()), count: 0, row };
    match &insert.source {
        Source::DefaultValues => return Ok(1),
        Source::Values { .. } if supply.only_row.is_some() => {
            reader.cells(supply.only_row.unwrap_or_default(), None)
        }
        Source::Values { rows } => reader.values(rows.clone(), None),
        Source::DerivedValues { rows, outputs } => reader.values(rows.clone(), Some(outputs)),
        Source::Selects { rows } => rows.iter().for_each(|cells| reader.cells(cells, None)),
        Source::Unnest { arrays, outputs } => reader.unnest(arrays, outputs)?,
        Source::Json { document, members, outputs } if outputs.is_empty() && members.is_empty() => {
            // The members are named like the columns.
            let columns = plan.inputs.iter().filter_map(|&column| plan.table.columns.get(column));
            let members: Vec<String> = columns.map(|column| column.name.clone()).collect();
            let outputs: Vec<Output> =
                (0..members.len()).map(|index| Output::Column { index, cast: Cast::None }).collect();
            reader.json(document, &members, &outputs)?;
        }
        Source::Json { document, members, outputs } => reader.json(document, members, outputs)?,
        Source::Uninspected(reason) => return Err(Unreadable(reason)),
    }
    Ok(reader.count)
}

/// Values in a row, as far as the statement shows it: without a column list it may give fewer than the
/// table has columns.
#[must_use]
pub fn width(source: &Source, text: &[u8], options: Options) -> Option<usize> {
    match source {
        Source::Values { rows } => {
            let mut cells = Vec::new();
            RowScanner::new(text, rows.clone(), options).next_row(&mut cells)?;
            Some(cells.len())
        }
        Source::Selects { rows } => rows.first().map(Vec::len),
        Source::DerivedValues { outputs, .. } | Source::Unnest { outputs, .. } => Some(outputs.len()),
        Source::Json { outputs, .. } if !outputs.is_empty() => Some(outputs.len()),
        Source::Json { .. } | Source::DefaultValues | Source::Uninspected(_) => None,
    }
}

struct RowReader<'r, 'a> {
    plan: &'r Plan,
    supply: Supply<'a>,
    slots: Vec<Slot<'a>>,
    count: u32,
    row: &'r mut dyn FnMut(u32, &[Slot<'a>]),
}

impl<'a> RowReader<'_, 'a> {
    fn values(&mut self, rows: Range<usize>, outputs: Option<&[Output]>) {
        let mut scanner = RowScanner::new(self.supply.text, rows, self.supply.options);
        let mut cells = Vec::new();
        while scanner.next_row(&mut cells).is_some() {
            self.cells(&cells, outputs);
        }
    }

    fn cells(&mut self, cells: &[Cell], outputs: Option<&[Output]>) {
        self.slots.clear();
        for input in 0..self.plan.inputs.len() {
            let slot = match outputs {
                None => cells.get(input).map(|cell| self.cell(cell, cell.cast, input)),
                Some(outputs) => outputs.get(input).and_then(|output| self.output(output, cells, input)),
            };
            self.slots.push(slot.unwrap_or(UNKNOWN));
        }
        self.hand_out();
    }

    fn output(&self, output: &Output, cells: &[Cell], input: usize) -> Option<Slot<'a>> {
        match output {
            Output::Column { index, cast } => {
                let cell = cells.get(*index)?;
                Some(self.cell(cell, both(cell.cast, *cast), input))
            }
            Output::Constant(cell) => Some(self.constant(cell, input)),
            Output::Other => None,
        }
    }

    fn constant(&self, cell: &Cell, input: usize) -> Slot<'a> {
        Slot { place: Place::Fixed(SHARED), ..self.cell(cell, cell.cast, input) }
    }

    fn hand_out(&mut self) {
        self.count = self.count.saturating_add(1);
        (self.row)(self.count, &self.slots);
    }

    fn kind(&self, input: usize) -> ColumnKind {
        let column = self.plan.inputs.get(input).and_then(|&column| self.plan.table.columns.get(column));
        column.map_or(ColumnKind::Other, |column| column.kind.form())
    }

    /// A literal of the statement's own text, which the server has read when it parsed that.
    fn literal(&self, bytes: &'a [u8], cast: Cast, input: usize) -> Value<'a> {
        let column = self.plan.inputs.get(input).and_then(|&column| self.plan.table.columns.get(column));
        let is_settled =
            || column.is_some_and(|column| column.kind != ColumnKind::BySettings) && bytes.is_ascii();
        if self.supply.read_before && !is_settled() {
            return Value::Unknown(bytes);
        }
        Value::literal(bytes, cast, self.kind(input))
    }

    fn cell(&self, cell: &Cell, cast: Cast, input: usize) -> Slot<'a> {
        let text = self.supply.text;
        let Some(bytes) = text.get(cell.range.clone()) else { return UNKNOWN };
        let fixed = |value| Slot { value, place: Place::Fixed("not a plain literal") };
        match cell.kind {
            CellKind::String => {
                let value = match self.literal(bytes, cast, input) {
                    Value::Unknown(bytes) => {
                        Value::Unknown(raw::with_casts(text, &cell.range).unwrap_or(bytes))
                    }
                    known => known,
                };
                Slot { value, place: self.in_text(cell.range.clone()) }
            }
            CellKind::Param(number) => self.parameter(number, cast, input),
            CellKind::Null => fixed(Value::Null),
            CellKind::Default => fixed(Value::Default),
            // Printed anew on its way into a text column: 01 becomes 1, TRUE becomes true.
            CellKind::Number | CellKind::Bool
                if cast == Cast::None && self.kind(input) == ColumnKind::Other =>
            {
                fixed(Value::Text(bytes))
            }
            CellKind::Escaped => fixed(Value::Unknown(raw::with_prefix(text, &cell.range).unwrap_or(bytes))),
            CellKind::Number | CellKind::Bool => fixed(Value::Unknown(bytes)),
            CellKind::Other => {
                Slot { value: raw::expression(bytes, self.supply.bound), place: Place::Fixed(EXPRESSION) }
            }
        }
    }

    fn in_text(&self, range: Range<usize>) -> Place {
        self.supply.text_fixed.map_or(Place::Text(range), Place::Fixed)
    }

    fn parameter(&self, number: u16, cast: Cast, input: usize) -> Slot<'a> {
        let Some(bound) = self.supply.bound else { return UNKNOWN };
        let at = usize::from(number).wrapping_sub(1);
        let Some(&field) = bound.fields.get(at) else { return UNKNOWN };
        let declared = bound.types.get(at).copied().unwrap_or(0);
        let binary = matches!(field, Field::Binary { .. });
        let (Some(range), Some(bytes)) = (field.range(), field.of(bound.body)) else {
            return Slot { value: Value::Null, place: Place::Fixed("NULL") };
        };
        let place = if bound.shared.binary_search(&number).is_ok() {
            Place::Fixed(SHARED)
        } else {
            Place::Bind(range)
        };
        Slot { value: Value::parameter(bytes, binary, declared, cast, self.kind(input)), place }
    }

    fn unnest(&mut self, arrays: &'a [Array], outputs: &[Output]) -> Result<(), Unreadable> {
        let columns = arrays.iter().map(|array| self.elements(array)).collect::<Result<Vec<_>, _>>()?;
        let rows = columns.iter().map(Elements::len).max().unwrap_or(0);
        for at in 0..rows {
            self.slots.clear();
            for input in 0..self.plan.inputs.len() {
                let slot = match outputs.get(input) {
                    Some(Output::Column { index, cast }) => {
                        columns.get(*index).map(|column| self.element(column, at, *cast, input))
                    }
                    Some(Output::Constant(cell)) => Some(self.constant(cell, input)),
                    Some(Output::Other) | None => None,
                };
                self.slots.push(slot.unwrap_or(UNKNOWN));
            }
            self.hand_out();
        }
        Ok(())
    }

    fn elements(&self, array: &'a Array) -> Result<Elements<'a>, Unreadable> {
        match array {
            Array::Elements(cells) => Ok(Elements::Cells(cells)),
            Array::Literal(range) => {
                let bytes = self.supply.text.get(range.clone()).ok_or(Unreadable("array"))?;
                let mut fields = Vec::new();
                array::text_elements(bytes, &mut fields).ok_or(Unreadable("array"))?;
                Ok(Elements::Fields { bytes, fields, start: range.start, parameter: None, oid: 0 })
            }
            Array::Param(number) => self.array_parameter(*number),
            // Its length is not known; rows beyond the others have no key.
            Array::Other => Ok(Elements::Unknown),
        }
    }

    fn array_parameter(&self, number: u16) -> Result<Elements<'a>, Unreadable> {
        let bound = self.supply.bound.ok_or(Unreadable("parameter without Bind"))?;
        let field =
            bound.fields.get(usize::from(number).wrapping_sub(1)).ok_or(Unreadable("missing parameter"))?;
        let (Some(range), Some(bytes)) = (field.range(), field.of(bound.body)) else {
            return Ok(Elements::Cells(&[]));
        };
        let mut fields = Vec::new();
        let mut oid = 0;
        match field {
            Field::Binary { .. } => {
                oid = array::binary_elements(bytes, &mut fields).ok_or(Unreadable("array"))?
            }
            _ => array::text_elements(bytes, &mut fields).ok_or(Unreadable("array"))?,
        }
        Ok(Elements::Fields { bytes, fields, start: range.start, parameter: Some(number), oid })
    }

    fn element(&self, elements: &Elements<'a>, at: usize, cast: Cast, input: usize) -> Slot<'a> {
        match elements {
            Elements::Unknown => UNKNOWN,
            Elements::Cells(cells) => match cells.get(at) {
                Some(cell) => self.cell(cell, both(cell.cast, cast), input),
                None => NULL,
            },
            Elements::Fields { bytes, fields, start, parameter, oid } => {
                let Some(&field) = fields.get(at) else { return NULL };
                self.field(field, bytes, *start, *parameter, *oid, cast, input)
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one value with everything that says what it is and where it stands"
    )]
    fn field(
        &self,
        field: Field,
        bytes: &'a [u8],
        start: usize,
        parameter: Option<u16>,
        oid: u32,
        cast: Cast,
        input: usize,
    ) -> Slot<'a> {
        let (Some(range), Some(content)) = (field.range(), field.of(bytes)) else { return NULL };
        let range = start + range.start..start + range.end;
        let place = match (parameter, self.supply.bound) {
            (None, _) => self.in_text(range),
            (Some(number), Some(bound)) if bound.shared.binary_search(&number).is_ok() => {
                Place::Fixed(SHARED)
            }
            (Some(_), _) => Place::Bind(range),
        };
        let value = match field {
            Field::Escaped { .. } => Value::Unknown(content),
            Field::Binary { .. } => Value::parameter(content, true, oid, cast, self.kind(input)),
            _ if parameter.is_none() => self.literal(content, cast, input),
            _ => Value::literal(content, cast, self.kind(input)),
        };
        Slot { value, place }
    }

    fn json(
        &mut self,
        document: &Document,
        members: &[String],
        outputs: &[Output],
    ) -> Result<(), Unreadable> {
        let (bytes, start, parameter) = match document {
            Document::Literal(range) => (self.supply.text.get(range.clone()), range.start, None),
            Document::Param(number) => {
                let bound = self.supply.bound.ok_or(Unreadable("parameter without Bind"))?;
                let field = bound.fields.get(usize::from(*number).wrapping_sub(1));
                let range = field.and_then(|field| field.range());
                (
                    range.clone().and_then(|range| bound.body.get(range)),
                    range.map_or(0, |range| range.start),
                    Some(*number),
                )
            }
            Document::Other => (None, 0, None),
        };
        let bytes = bytes.ok_or(Unreadable("json document"))?;
        let mut fields = Vec::new();
        let read = json::rows(bytes, members, &mut fields, |_, fields| {
            self.slots.clear();
            for input in 0..self.plan.inputs.len() {
                let slot = match outputs.get(input) {
                    Some(Output::Column { index, cast }) => fields.get(*index).map(|&field| {
                        let slot = self.field(field, bytes, start, parameter, 0, *cast, input);
                        self.as_json(slot, field, bytes, input)
                    }),
                    Some(Output::Constant(cell)) => Some(self.constant(cell, input)),
                    Some(Output::Other) | None => None,
                };
                self.slots.push(slot.unwrap_or(UNKNOWN));
            }
            self.hand_out();
        });
        read.map(drop).ok_or(Unreadable("json document"))
    }

    /// A member as a value of its column: where that is JSON itself, a string is one with its quotes, and 1 is not "1".
    fn as_json(&self, slot: Slot<'a>, field: Field, document: &'a [u8], input: usize) -> Slot<'a> {
        let column = self.plan.inputs.get(input).and_then(|&column| self.plan.table.columns.get(column));
        let is_json = column.is_some_and(|column| matches!(&*column.type_name, "json" | "jsonb"));
        let quoted = field.range().and_then(|range| document.get(range.start.checked_sub(1)?..range.end));
        match quoted {
            Some(quoted) if is_json && quoted.starts_with(b"\"") => {
                Slot { value: Value::Unknown(quoted), ..slot }
            }
            _ => slot,
        }
    }
}

const UNKNOWN: Slot<'static> = Slot { value: Value::Unknown(b""), place: Place::Fixed(EXPRESSION) };
const NULL: Slot<'static> = Slot { value: Value::Null, place: Place::Fixed("NULL") };

/// The values that one array supplies.
enum Elements<'a> {
    Unknown,
    Cells(&'a [Cell]),
    Fields { bytes: &'a [u8], fields: Vec<Field>, start: usize, parameter: Option<u16>, oid: u32 },
}

impl Elements<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Cells(cells) => cells.len(),
            Self::Fields { fields, .. } => fields.len(),
        }
    }
}

/// A cast around a cast.
fn both(inner: Cast, outer: Cast) -> Cast {
    match (inner, outer) {
        (cast, Cast::None) | (Cast::None, cast) => cast,
        (Cast::Uuid, Cast::Uuid) => Cast::Uuid,
        (Cast::Text, Cast::Text) => Cast::Text,
        (Cast::Text | Cast::TextThenUuid, Cast::Uuid) => Cast::TextThenUuid,
        (Cast::Uuid | Cast::UuidThenText, Cast::Text) => Cast::UuidThenText,
        _ => Cast::Other,
    }
}
