//! What one random case consists of: statements, how each travels, and keys by number. Plain values.

use super::random::Random;

/// Keys of a case, by number: few, so that twins are many.
pub const KEYS: u32 = 6;
/// The key of a row that was there before.
pub const OLD: u32 = 0;
/// The key that another session inserts meanwhile.
pub const THEIRS: u32 = 5;
/// Contents that belong to a case: from `number * CONTENTS` on. A multiple of what schemas divide contents by.
pub const CONTENTS: u32 = 60;

/// The savepoint name a driver keeps for itself.
pub const HOUSEKEEPING: &str = "PGJDBC_AUTOSAVE";
/// The names of savepoints.
pub const SAVEPOINTS: [&str; 3] = ["s1", "s2", HOUSEKEEPING];

/// A value of a row as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The key with this number.
    Key(u32),
    /// What no column of keys takes; text columns do.
    NoKey,
    Number(u32),
    /// A short text.
    Text(&'static str),
    Null,
    Default,
}

/// How a literal or a text spells a key that is a `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    Plain,
    Upper,
    Braces,
    Simple,
}

/// How the rows of an INSERT travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// VALUES with literals.
    Literals,
    /// VALUES with literals that are cast.
    Casts,
    /// VALUES with text parameters.
    Texts,
    /// VALUES with binary parameters.
    Binaries,
    /// A statement that the session prepared long ago: Bind and Execute alone.
    Named,
    /// SQL EXECUTE of one that was prepared long ago by SQL.
    Execute,
    /// FROM (VALUES …).
    Derived,
    /// SELECT … UNION ALL SELECT … of parameters.
    Selects,
    /// FROM unnest of array literals.
    ArrayLiterals,
    /// FROM unnest of text parameters.
    ArrayTexts,
    /// FROM unnest of binary parameters.
    ArrayBinaries,
    /// FROM json_to_recordset of a literal.
    JsonLiteral,
    /// FROM jsonb_to_recordset of a parameter.
    JsonText,
    /// WITH … AS (INSERT … RETURNING) SELECT count(*).
    Cte,
    /// FROM (VALUES …) WHERE true: the contract forwards it.
    Filtered,
    /// COPY in text format.
    CopyText,
    /// COPY in CSV format.
    CopyCsv,
    /// COPY in binary format.
    CopyBinary,
}

/// All of them.
pub const CARRIERS: [Carrier; 18] = [
    Carrier::Literals,
    Carrier::Casts,
    Carrier::Texts,
    Carrier::Binaries,
    Carrier::Named,
    Carrier::Execute,
    Carrier::Derived,
    Carrier::Selects,
    Carrier::ArrayLiterals,
    Carrier::ArrayTexts,
    Carrier::ArrayBinaries,
    Carrier::JsonLiteral,
    Carrier::JsonText,
    Carrier::Cte,
    Carrier::Filtered,
    Carrier::CopyText,
    Carrier::CopyCsv,
    Carrier::CopyBinary,
];

impl Carrier {
    /// Whether the rows come by COPY.
    pub fn is_copy(self) -> bool {
        matches!(self, Self::CopyText | Self::CopyCsv | Self::CopyBinary)
    }

    /// Whether values that are no keys travel in binary format.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Binaries | Self::ArrayBinaries | Self::CopyBinary)
    }

    /// Whether it has parameters, so that it needs the extended protocol.
    pub fn has_parameters(self) -> bool {
        matches!(
            self,
            Self::Texts
                | Self::Binaries
                | Self::Named
                | Self::Selects
                | Self::ArrayTexts
                | Self::ArrayBinaries
                | Self::JsonText
        )
    }

    /// Whether a cell can say DEFAULT.
    pub fn can_default(self) -> bool {
        matches!(self, Self::Literals | Self::Casts | Self::Texts | Self::Binaries | Self::Cte)
    }
}

/// What an INSERT says of conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    Fail,
    /// DO NOTHING.
    Nothing,
    /// (arbiter) DO UPDATE SET note = 'u'.
    Update,
}

/// What an INSERT says of identity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    Unsaid,
    System,
    User,
}

/// An INSERT or COPY.
#[derive(Clone, Debug)]
pub struct Insert {
    /// Position in the schema's relations.
    pub relation: usize,
    /// Positions in the table's columns, in the order of the column list.
    pub columns: Vec<usize>,
    /// Whether the column list is said; otherwise the columns are the table's first.
    pub says_columns: bool,
    pub rows: Vec<Vec<Cell>>,
    pub on_conflict: OnConflict,
    pub overriding: Overriding,
    /// RETURNING key and content.
    pub returning: bool,
    pub carrier: Carrier,
    pub spelling: Spelling,
}

/// Which rows a statement means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with this content.
    Content(u32),
    /// Those with this key.
    Key(u32),
}

/// A statement of a case.
#[derive(Clone, Debug)]
pub enum Statement {
    Begin,
    Commit,
    Rollback,
    Savepoint(&'static str),
    RollbackTo(&'static str),
    Release(&'static str),
    /// A query that fails.
    DivideByZero,
    /// A query that does not.
    SelectOne,
    /// How many rows have the key.
    Count {
        relation: usize,
        key: u32,
    },
    Insert(Insert),
    Delete {
        relation: usize,
        which: Which,
    },
    /// A new note for rows.
    Note {
        relation: usize,
        which: Which,
    },
    /// Another key for the row with this content.
    Move {
        relation: usize,
        content: u32,
        key: u32,
    },
    /// DO with a DELETE of the row with this content.
    Do {
        relation: usize,
        content: u32,
    },
    /// A table of the session's own, made and filled.
    CreateTable,
    /// A row for that table.
    FillTable {
        key: u32,
        content: u32,
    },
    DropTable,
}

/// Statements up to one ReadyForQuery.
#[derive(Clone, Debug)]
pub struct Group {
    /// Parse, Bind, Execute of each, then Sync; otherwise one Query.
    pub extended: bool,
    /// Text parameters for keys in statements that are no INSERTs; otherwise literals.
    pub parameters: bool,
    pub statements: Vec<Statement>,
}

/// A step of a case.
#[derive(Clone, Debug)]
pub enum Step {
    Group(Group),
    /// Another session inserts a row of its own and commits.
    Meanwhile(Insert),
}

/// Steps, and whether all of them are written at once.
#[derive(Clone, Debug)]
pub struct Case {
    /// Names the case in its world; its contents begin at `number * CONTENTS`.
    pub number: u32,
    pub steps: Vec<Step>,
    /// A client writes everything before it reads.
    pub at_once: bool,
    /// Decides the keys,
    pub seed: u64,
    /// and tells them from those of another case with the same seed.
    pub salt: u32,
}

impl Case {
    /// Whether the session does what might change the schema.
    pub fn blinds(&self) -> bool {
        let of = |group: &Group| {
            group.statements.iter().any(|statement| match statement {
                Statement::Do { .. } | Statement::CreateTable | Statement::DropTable => true,
                Statement::Insert(insert) => group.extended && insert.carrier == Carrier::Execute,
                _ => false,
            })
        };
        self.steps.iter().any(|step| matches!(step, Step::Group(group) if of(group)))
    }

    /// The same with other contents and other keys, so that it can be run where this one was.
    pub fn again(&self, number: u32) -> Case {
        let mut again = self.clone();
        let renumbered = |content: &mut u32| *content = *content - self.number * CONTENTS + number * CONTENTS;
        let inserts = |insert: &mut Insert| {
            let contents = insert.rows.iter_mut().flatten().filter_map(|cell| match cell {
                Cell::Number(content) if *content / CONTENTS == self.number => Some(content),
                _ => None,
            });
            contents.for_each(renumbered);
        };
        for step in &mut again.steps {
            match step {
                Step::Meanwhile(insert) => inserts(insert),
                Step::Group(group) => group.statements.iter_mut().for_each(|statement| match statement {
                    Statement::Insert(insert) => inserts(insert),
                    Statement::Delete { which: Which::Content(content), .. }
                    | Statement::Note { which: Which::Content(content), .. }
                    | Statement::Move { content, .. }
                    | Statement::Do { content, .. }
                    | Statement::FillTable { content, .. } => renumbered(content),
                    _ => {}
                }),
            }
        }
        (again.number, again.salt) = (number, number);
        again
    }
}

/// The keys of one case as 128-bit numbers.
#[derive(Clone, Copy, Debug)]
pub struct Keys(pub [u128; KEYS as usize]);

impl Keys {
    /// Of a case: mostly version 4, some 7, 1 and 8, rarely one that is named and may not be changed.
    pub fn of(case: &Case) -> Keys {
        let mut random = Random::new(case.seed);
        let mut draw = |at: usize| {
            let bits = u128::from(random.next()) << 64 | u128::from(random.next());
            let version = match at {
                1 => random.pick(&[4, 4, 4, 5, 1]),
                2 => random.pick(&[4, 7, 8]),
                _ => random.pick(&[4, 4, 7]),
            };
            bits & !(0xf << 76) & !(0b11 << 62) | version << 76 | 0b10 << 62
        };
        Keys(std::array::from_fn(|at| draw(at) ^ u128::from(case.salt)))
    }

    /// The key with this number.
    pub fn value(&self, number: u32) -> u128 {
        self.0[number as usize]
    }

    /// Whether equal keys are meant to be equal.
    pub fn is_named(&self, number: u32) -> bool {
        (self.value(number) >> 76) & 0xf == 5
    }
}

/// A key in its ordinary spelling.
pub fn spell(value: u128) -> String {
    uuid::Uuid::from_u128(value).to_string()
}
