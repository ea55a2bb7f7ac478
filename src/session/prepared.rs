//! What is kept of a prepared statement and of a portal.

use super::Readings;
use super::called::may_deallocate;
use super::coverage::Coverage;
use super::mentions::Mentions;
use super::restore::Restore;
use super::rows_seen::{Own, Planned};
use super::said::{Parameters, Said};
use crate::catalog::Catalog;
use crate::catalog::model::TableId;
use crate::key;
use crate::sql::calls;
use crate::sql::insert::{Array, Cell, CellKind, Document, Insert, Output, RowScanner, Source};
use crate::sql::lex::Options;
use crate::sql::statement::{self, Statement};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A statement that was parsed: its facts, and its text where that is still needed.
#[derive(Debug)]
pub struct Prepared {
    pub statement: Statement,
    /// The whole text, kept if it holds data or a key.
    pub text: Box<[u8]>,
    pub options: Options,
    /// Declared parameter types.
    pub types: Vec<u32>,
    /// The cells of the only row of the only INSERT, if it is a VALUES.
    pub only_row: Option<Box<[Cell]>>,
    /// Parameters that feed several rows or something besides rows, sorted.
    pub shared: Vec<u16>,
    /// It is a block of code that may deallocate prepared statements.
    pub deallocates: bool,
    /// What the names of the tables it changes meant when it was prepared.
    pub meant: Meaning,
    /// How the server read the literals of the text.
    pub(super) read_at: Readings,
    /// Names in the text that may stand for something that does anything.
    pub mentions: Mentions,
    /// A plan for each INSERT, with the epoch in which they were made.
    plans: Mutex<Option<(Epoch, Plans)>>,
    /// Why it could not be read, if so.
    pub unread: Option<&'static str>,
    /// Literal keys of the text have been inserted once.
    executed: AtomicBool,
}

/// Session's epoch, version of its scope, and whether that is in doubt: plans hold while all stay.
pub type Epoch = (u64, u64, bool);

/// Tables by the order of a statement's targets (`None`: not known), and the session's epoch and creations then.
#[derive(Debug, Default)]
pub struct Meaning {
    pub tables: SmallVec<[Option<TableId>; 1]>,
    pub at: (u64, u64),
}

/// One plan an INSERT; none if the table has no key to protect, an error if the INSERT is not inspected.
pub type Plans = Arc<[Result<Option<Arc<Planned>>, &'static str>]>;

impl Prepared {
    /// Reads the facts of one statement in `text`. `mentions` are the names in it that may stand for something
    /// that does anything.
    #[must_use]
    pub fn new(
        text: &[u8],
        range: Range<usize>,
        options: Options,
        types: Vec<u32>,
        mentions: Mentions,
    ) -> Self {
        let mut statement = statement::classify(text, range.clone(), options);
        if let Statement::Explain { analyze, body } = &statement {
            // EXPLAIN ANALYZE runs what it explains.
            statement =
                if *analyze { statement::classify(text, body.clone(), options) } else { Statement::Harmless };
        }
        let mut prepared = Self {
            text: Box::default(),
            options,
            types,
            only_row: None,
            shared: Vec::new(),
            deallocates: statement == Statement::Opaque && may_deallocate(text),
            meant: Meaning::default(),
            read_at: Readings::default(),
            mentions,
            plans: Mutex::default(),
            unread: None,
            executed: AtomicBool::new(false),
            statement,
        };
        if let Some(inserts) = prepared.statement.inserts() {
            prepared.shared = shared_parameters(text, range, options, inserts);
            prepared.only_row = only_row(text, options, inserts);
            prepared.text = text.into();
        } else if may_hold_key(text) {
            prepared.text = text.into();
        }
        prepared
    }

    /// A statement that could not be read, for this reason: anything may happen in it.
    #[must_use]
    pub fn unread(text: &[u8], reason: &'static str) -> Self {
        Self {
            statement: Statement::Unknown,
            text: if may_hold_key(text) { text.into() } else { Box::default() },
            options: Options { standard_conforming_strings: true },
            types: Vec::new(),
            only_row: None,
            shared: Vec::new(),
            deallocates: false,
            meant: Meaning::default(),
            read_at: Readings::default(),
            mentions: Mentions::default(),
            plans: Mutex::default(),
            unread: Some(reason),
            executed: AtomicBool::new(false),
        }
    }

    /// The statement as it is run with these parameters.
    pub(super) fn said<'a>(&'a self, parameters: Parameters<'a>) -> Said<'a> {
        let (text, options) = (&*self.text, self.options);
        Said { statement: &self.statement, text, start: 0, end: text.len(), options, parameters }
    }

    /// The plans of this epoch, made by `make` if there are none yet.
    pub fn plans(&self, epoch: Epoch, make: impl FnOnce() -> Plans) -> Plans {
        let mut kept = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((made, plans)) if *made == epoch => Arc::clone(plans),
            _ => {
                let plans = make();
                *kept = Some((epoch, Arc::clone(&plans)));
                plans
            }
        }
    }

    /// Marks the statement as executed; gives whether it had been before.
    pub fn execute_again(&self) -> bool {
        self.executed.swap(true, Ordering::Relaxed)
    }

    /// Whether it was executed before.
    #[must_use]
    pub fn was_executed(&self) -> bool {
        self.executed.load(Ordering::Relaxed)
    }

    /// Whether the statement calls something that may do anything.
    #[must_use]
    pub fn calls_opaque(&self, catalog: &Catalog) -> bool {
        self.mentions.are_opaque(catalog)
    }
}

/// Whether a key stands in the text, or may be hidden there by escapes.
fn may_hold_key(text: &[u8]) -> bool {
    memchr::memchr(b'\\', text).is_some() || key::find_all(text).next().is_some()
}

fn only_row(text: &[u8], options: Options, inserts: &[Insert]) -> Option<Box<[Cell]>> {
    let [Insert { source: Source::Values { rows }, .. }] = inserts else { return None };
    let mut scanner = RowScanner::new(text, rows.clone(), options);
    let (mut cells, mut more) = (Vec::new(), Vec::new());
    scanner.next_row(&mut cells)?;
    scanner.next_row(&mut more).is_none().then(|| cells.into())
}

/// A parameter may be given another value only if it feeds one row and nothing else.
fn shared_parameters(text: &[u8], range: Range<usize>, options: Options, inserts: &[Insert]) -> Vec<u16> {
    /// The row a parameter feeds, and how often it stands there.
    struct Use {
        row: usize,
        count: usize,
        several: bool,
    }
    let mut uses: HashMap<u16, Use> = HashMap::new();
    let mut row = 0;
    let mut note = |number: u16, row: usize| {
        let seen = uses.entry(number).or_insert(Use { row, count: 0, several: false });
        seen.count += 1;
        seen.several |= seen.row != row;
    };
    for insert in inserts {
        match &insert.source {
            Source::Values { rows } | Source::DerivedValues { rows, .. } => {
                let mut scanner = RowScanner::new(text, rows.clone(), options);
                let mut cells = Vec::new();
                while scanner.next_row(&mut cells).is_some() {
                    row += 1;
                    for cell in &cells {
                        if let CellKind::Param(number) = cell.kind {
                            note(number, row);
                        }
                    }
                }
            }
            Source::Selects { rows } => {
                for cells in rows {
                    row += 1;
                    for cell in cells {
                        if let CellKind::Param(number) = cell.kind {
                            note(number, row);
                        }
                    }
                }
            }
            Source::Unnest { arrays, outputs } => {
                row += 1;
                for (index, array) in arrays.iter().enumerate() {
                    let used = outputs
                        .iter()
                        .any(|output| matches!(output, Output::Column { index: at, .. } if *at == index));
                    if let (Array::Param(number), true) = (array, used) {
                        note(*number, row);
                    }
                }
            }
            Source::Json { document: Document::Param(number), .. } => {
                row += 1;
                note(*number, row);
            }
            Source::DefaultValues | Source::Json { .. } | Source::Uninspected(_) => row += 1,
        }
    }
    let mut shared: Vec<u16> =
        uses.iter().filter(|(_, seen)| seen.several).map(|(&number, _)| number).collect();
    let mut total: HashMap<u16, usize> = HashMap::new();
    for (number, _) in calls::parameter_uses(text, range, options) {
        *total.entry(number).or_default() += 1;
    }
    shared.extend(
        uses.iter()
            .filter(|(number, seen)| total.get(*number) != Some(&seen.count))
            .map(|(&number, _)| number),
    );
    shared.sort_unstable();
    shared.dedup();
    shared
}

/// A bound statement. The unnamed portal is kept between uses, so that its memory is used again.
#[derive(Debug, Default)]
pub struct Portal {
    pub prepared: Option<Arc<Prepared>>,
    /// What its rows claim once it is executed.
    pub claims: Own,
    /// Keys to put back into the rows it returns.
    pub restores: Vec<Restore>,
    /// What became of its keys.
    pub coverage: Coverage,
    pub executed: bool,
}

/// Portals by name.
#[derive(Debug, Default)]
pub struct Portals {
    unnamed: Portal,
    named: HashMap<Box<[u8]>, Portal>,
}

/// More named portals than this are not followed; their statements are then unknown.
const MAX_PORTALS: usize = 10_000;

impl Portals {
    /// The portal that a Bind makes, emptied.
    pub fn bind(&mut self, name: &[u8]) -> &mut Portal {
        let portal = if name.is_empty() {
            &mut self.unnamed
        } else {
            if self.named.len() >= MAX_PORTALS {
                self.named.clear();
            }
            self.named.entry(name.into()).or_default()
        };
        portal.claims.clear();
        portal.restores.clear();
        portal.prepared = None;
        portal.coverage = Coverage::default();
        portal.executed = false;
        portal
    }

    /// The portal that an Execute runs.
    pub fn find(&mut self, name: &[u8]) -> Option<&mut Portal> {
        if name.is_empty() { Some(&mut self.unnamed) } else { self.named.get_mut(name) }
    }

    /// Why the rows of the portal that a Bind makes may not be rekeyed: what frees their keys may be executed
    /// before the portal is. The unnamed portal ends with the next Bind or Query, so only named ones can.
    #[must_use]
    pub fn obstacle(&self, name: &[u8], catalog: Option<&Catalog>) -> Option<&'static str> {
        let harmless = |portal: &Portal| {
            let prepared = portal.prepared.as_ref().zip(catalog);
            prepared.is_some_and(|(prepared, catalog)| {
                matches!(prepared.statement, Statement::Select) && !prepared.calls_opaque(catalog)
            })
        };
        if !name.is_empty() {
            Some("named portal")
        } else if self.named.values().all(harmless) {
            None
        } else {
            Some("another portal is open")
        }
    }

    pub fn close(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed.prepared = None;
            self.unnamed.claims.clear();
            self.unnamed.coverage = Coverage::default();
            // Should it be executed all the same, it is one that we have not seen.
            self.unnamed.executed = false;
        } else {
            self.named.remove(name);
        }
    }

    /// Portals end with their transaction.
    pub fn clear(&mut self) {
        self.close(b"");
        self.named.clear();
    }

    /// Keys that rows claim once they are executed.
    #[must_use]
    pub fn claimed_keys(&self) -> usize {
        let named = self.named.values().map(|portal| portal.claims.window.len());
        self.unnamed.claims.window.len() + named.sum::<usize>()
    }

    /// Forgets the keys that rows claim, but not to which rows references belong.
    pub fn forget_keys(&mut self) {
        self.unnamed.claims.window.clear();
        self.named.values_mut().for_each(|portal| portal.claims.window.clear());
    }

    pub fn forget_claims(&mut self) {
        self.unnamed.claims.clear();
        self.named.values_mut().for_each(|portal| portal.claims.clear());
    }
}
