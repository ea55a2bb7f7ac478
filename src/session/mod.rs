//! One conversation between a client and its server, as a state machine over whole messages. Knows no
//! socket and no clock; randomness and the catalog come in from outside.
//!
//! The client's side runs ahead of the server's (drivers pipeline), so the state is a model made from the
//! order of messages; whenever nothing is outstanding, ReadyForQuery overrides it.

mod ask;
mod called;
mod copy;
mod coverage;
mod execute;
mod extended;
mod fates;
mod inspect;
mod limits;
mod literals;
mod meaning;
mod mentions;
mod names;
mod outcome;
mod pipeline;
mod prepared;
mod refusal;
mod replies;
mod restore;
mod rows_seen;
mod said;
mod scope;
mod shared;
mod simple;
mod tracked;
mod transaction;

pub use ask::{Answer, Ask};
pub use copy::CopyOutcome;
pub use fates::Fate;
pub use limits::{Limit, Note};
pub use outcome::{Edit, Fact, Outcome};
pub use replies::Disposition;

use crate::carrier::Field;
use crate::catalog::Catalog;
use crate::live::counters::Counters;
use crate::live::held::Held;
use crate::rekey::fresh::Entropy;
use crate::rekey::judge::{Scratch, Twin};
use crate::rekey::policy::{Limits, Mode, Policies, SessionPolicy};
use crate::rekey::references::References;
use crate::rekey::window::Window;
use crate::sql::lex::Options;
use crate::wire::startup::Parameters;
use crate::wire::tag::frontend;
use copy::CopyOpen;
use coverage::{Coverage, TOO_LARGE};
use fates::Fates;
use literals::Literals;
use names::Names;
use pipeline::{Due, Effects, More, Pipeline, Request};
use prepared::{Portals, Prepared};
use refusal::Unrecorded;
use restore::Restore;
use scope::SessionScope;
use std::sync::Arc;
use tracked::Tracked;
use transaction::Transaction;

/// What a session needs from the process it runs in.
#[derive(Clone)]
pub struct Surroundings {
    pub policies: Arc<Policies>,
    pub limits: Limits,
    /// Tells these policies and limits from those before and after them.
    pub rules_version: u64,
    pub counters: Arc<Counters>,
    /// Secret of the process, for hashes of tuples and rows.
    pub seed: u64,
}

/// How a message is to be handed to [`Session::client_message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Complete, before any byte of it is forwarded.
    Whole,
    /// Not at all: its bytes are forwarded as they come.
    Pass,
    /// As COPY data, piece by piece: [`Session::copy_data`].
    CopyData,
    /// Too large to be held: [`Session::too_large`], then as it comes.
    TooLarge,
}

/// The state of one session.
pub struct Session {
    around: Surroundings,
    user: String,
    database: String,
    application: String,
    policy: Arc<SessionPolicy>,
    catalog: Option<Arc<Catalog>>,
    schema: Schema,
    /// Another session has changed the schema since the snapshot was taken.
    outdated: bool,
    /// Rises whenever plans made before no longer hold.
    epoch: u64,
    /// Changes whenever a value of the same spelling may have come to mean another one.
    readings: Readings,
    scope: SessionScope,
    mode: Tracked<Option<Mode>>,
    /// A change of the mode may not have happened: nothing is changed until the server has been asked.
    doubtful_mode: bool,
    /// For the journal, at the next message.
    note: Option<Note>,
    warned_of_mode: bool,
    literals: Literals,
    transaction: Transaction,
    /// The block is known to have failed: only its end, or going back to a savepoint, does anything.
    failed_block: bool,
    window: Window,
    references: References,
    /// The keys of this transaction went past a limit.
    over_limit: bool,
    /// What is known of the statement that is being run.
    coverage: Coverage,
    /// Why statements and portals are not known that the server may know.
    unread: &'static str,
    /// Transactions that have ended.
    transactions: u64,
    held: Held,
    fates: Fates,
    pipeline: Pipeline,
    statements: Names<Arc<Prepared>>,
    portals: Portals,
    copy: Option<copy::CopyIn>,
    copy_open: CopyOpen,
    /// Reused for the parameters of a Bind.
    fields: Vec<Field>,
    own_exchange: ask::OwnExchange,
    /// Messages handed in so far.
    message: u64,
    /// The message that began the current group (up to Sync, or a Query).
    group: u64,
    /// The last message that changed the savepoints, and the scope.
    moved: Moved,
    entropy: Box<dyn Entropy + Send>,
    scratch: Scratch,
    twins: Vec<Twin>,
    settled: Vec<(u64, Fate)>,
}

/// How far the snapshot of the catalog can be trusted, after the session's own statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Schema {
    /// A table that the snapshot describes may have changed.
    distrusted: bool,
    /// The snapshot should be taken anew.
    reload: bool,
    /// Others have been told.
    told: bool,
}

/// By which settings, and when, the server reads the text of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Readings {
    /// Rises with every change of a setting that bears on values.
    settings: u64,
    /// Rises with every transaction.
    times: u64,
}

/// What messages changed that a failure may have kept from happening: the last of them each.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    savepoints: u64,
    /// 0 once the group of the change has been carried out; so is `mode`.
    scope: u64,
    mode: u64,
}

impl Moved {
    /// The server has carried out the groups up to this message.
    fn settle(&mut self, message: u64) {
        for moved in [&mut self.scope, &mut self.mode] {
            if *moved <= message {
                *moved = 0;
            }
        }
    }
}

impl Schema {
    fn distrust(&mut self) {
        *self = Self { distrusted: true, reload: true, told: false };
    }
}

impl Session {
    /// A session that has just logged in, outside a transaction, with nothing outstanding.
    #[must_use]
    pub fn new(parameters: &Parameters, around: Surroundings, entropy: Box<dyn Entropy + Send>) -> Self {
        let policy =
            around.policies.for_session(&parameters.user, &parameters.database, &parameters.application);
        let asked = parameters.mode.as_deref().and_then(|mode| mode.parse().ok());
        let mut transaction = Transaction::default();
        transaction.ready(false);
        let mut session = Self {
            policy: Arc::new(policy),
            user: parameters.user.clone(),
            database: parameters.database.clone(),
            application: parameters.application.clone(),
            held: Held::new(Arc::clone(&around.counters)),
            around,
            catalog: None,
            schema: Schema::default(),
            outdated: false,
            epoch: 0,
            readings: Readings::default(),
            scope: SessionScope::default(),
            mode: Tracked::new(asked),
            doubtful_mode: false,
            note: None,
            warned_of_mode: false,
            literals: Literals::default(),
            transaction,
            failed_block: false,
            window: Window::default(),
            references: References::default(),
            over_limit: false,
            coverage: Coverage::default(),
            unread: "unknown portal",
            transactions: 0,
            fates: Fates::default(),
            pipeline: Pipeline::default(),
            statements: Names::default(),
            portals: Portals::default(),
            copy: None,
            copy_open: CopyOpen::No,
            fields: Vec::new(),
            own_exchange: ask::OwnExchange::default(),
            message: 0,
            group: 0,
            moved: Moved::default(),
            entropy,
            scratch: Scratch::default(),
            twins: Vec::new(),
            settled: Vec::new(),
        };
        if parameters.mode.is_some() && asked.is_none() {
            session.warn_of_mode();
        }
        session
    }

    /// Version of the rules that the session follows.
    #[must_use]
    pub fn rules_version(&self) -> u64 {
        self.around.rules_version
    }

    /// Follows other rules from now on. Only to be called while [`Self::is_idle`].
    pub fn adopt(&mut self, around: Surroundings) {
        self.around = around;
        self.choose_policy();
    }

    /// Resolves the rules for this session.
    fn choose_policy(&mut self) {
        let policy = self.around.policies.for_session(&self.user, &self.database, &self.application);
        self.policy = Arc::new(policy);
        self.epoch += 1;
    }

    /// How a message with this tag and body length (in bytes) is to be handed in.
    #[must_use]
    pub fn wants(&self, tag: u8, body: usize) -> Want {
        match tag {
            frontend::COPY_DATA if self.copy.is_some() => Want::CopyData,
            frontend::QUERY | frontend::PARSE | frontend::BIND => {
                if body as u64 > self.around.limits.statement_bytes { Want::TooLarge } else { Want::Whole }
            }
            frontend::EXECUTE
            | frontend::CLOSE
            | frontend::DESCRIBE
            | frontend::SYNC
            | frontend::COPY_DONE
            | frontend::COPY_FAIL
            | frontend::FUNCTION_CALL => {
                if body > MAX_SMALL_BODY {
                    Want::TooLarge
                } else {
                    Want::Whole
                }
            }
            _ => Want::Pass,
        }
    }

    /// A whole message from the client, before it is forwarded. What is to be done goes into `outcome`.
    pub fn client_message(&mut self, tag: u8, body: &[u8], outcome: &mut Outcome) {
        self.message += 1;
        if self.pipeline.is_skipping() && !matches!(tag, frontend::SYNC) {
            return;
        }
        if !matches!(tag, frontend::SYNC | frontend::COPY_DONE | frontend::COPY_FAIL) {
            self.give_up_copy();
        }
        match tag {
            frontend::QUERY => self.query(body, outcome),
            frontend::PARSE => self.parse(body),
            frontend::BIND => self.bind(body, outcome),
            frontend::EXECUTE => self.execute_portal(body),
            frontend::CLOSE => self.close(body),
            frontend::DESCRIBE => self.due(Request::Describe, Effects::new()),
            frontend::SYNC => self.sync(),
            frontend::COPY_DONE | frontend::COPY_FAIL => self.end_copy(),
            frontend::FUNCTION_CALL => {
                self.count_forwarded("fast-path call");
                self.call_function(body, outcome);
            }
            _ => {}
        }
        outcome.note = outcome.note.or(self.account()).or_else(|| self.note.take());
    }

    /// The session asked for a mode that does not exist.
    fn warn_of_mode(&mut self) {
        if !std::mem::replace(&mut self.warned_of_mode, true) {
            self.note = Some(Note::UnknownMode);
        }
    }

    /// A message of a wanted tag that is too large to be held passes by: anything may have happened in it.
    pub fn too_large(&mut self, tag: u8) {
        self.message += 1;
        if self.pipeline.is_skipping() {
            return;
        }
        self.give_up_copy();
        match tag {
            frontend::QUERY | frontend::FUNCTION_CALL => {
                self.count_forwarded(TOO_LARGE);
                self.statement_boundary();
                self.opaque();
                self.due(Request::Query, Effects::new());
                self.end_group();
            }
            frontend::PARSE => self.parse_unread(TOO_LARGE),
            frontend::BIND => self.bind_unread(TOO_LARGE),
            frontend::EXECUTE => {
                self.count_forwarded(TOO_LARGE);
                self.statement_boundary();
                self.opaque();
                self.due(Request::Execute, Effects::new());
            }
            frontend::CLOSE => self.due(Request::Close, Effects::new()),
            frontend::DESCRIBE => self.due(Request::Describe, Effects::new()),
            frontend::COPY_DONE | frontend::COPY_FAIL => self.end_copy(),
            frontend::SYNC => self.sync(),
            _ => {}
        }
    }

    /// The journal could not take the facts of the last outcome. Without a record there is no rewrite, so the message
    /// goes as it came, and the keys it spoke of are forgotten; unless it would store a row under the wrong parent.
    pub fn journal_failed(&mut self, outcome: &mut Outcome) {
        outcome.edits.clear();
        if outcome.replacement.take().is_some() {
            self.pipeline.keep_original();
        }
        if let Some(Unrecorded { bytes, substitutes }) = outcome.unrecorded.take() {
            if substitutes {
                self.pipeline.substitute_last();
            }
            outcome.replacement = Some(bytes);
        }
        self.window.clear();
        self.portals.forget_claims();
        self.over_limit = true;
    }

    /// Fates that have become known, since the last time this was asked.
    pub fn settled(&mut self) -> std::vec::Drain<'_, (u64, Fate)> {
        self.settled.drain(..)
    }

    /// The connection is gone: tells the fate of everything still open.
    pub fn lost(&mut self) -> std::vec::Drain<'_, (u64, Fate)> {
        // An implicit transaction commits without a COMMIT of its own.
        let implicit = self.transaction.block() != transaction::Block::Explicit && !self.pipeline.is_empty();
        self.fates.lost(implicit || self.pipeline.commit_is_due(), &mut self.settled);
        self.settled()
    }

    fn due(&mut self, request: Request, effects: Effects) {
        self.due_with(request, effects, Vec::new());
    }

    fn due_with(&mut self, request: Request, effects: Effects, restores: Vec<Restore>) {
        let due = Due {
            request,
            message: self.message,
            facts: self.fates.recorded(),
            more: More::new(effects, restores),
        };
        self.pipeline.push(due);
    }

    fn sync(&mut self) {
        self.due(Request::Sync, Effects::new());
        match self.copy_open {
            CopyOpen::No => self.end_group(),
            CopyOpen::ByExecute => self.copy_open = CopyOpen::BySync,
            CopyOpen::ByQuery | CopyOpen::BySync => {}
        }
    }

    /// Sync, or the end of a Query: an implicit transaction ends with it.
    fn end_group(&mut self) {
        self.group = self.message + 1;
        if self.transaction.end_group() {
            self.forget_transaction(true);
        }
        if self.transaction.block() == transaction::Block::Idle {
            // The next one has another time.
            self.readings.times += 1;
        }
    }

    /// The transaction is over: its keys are no longer live, its local settings no longer hold.
    fn forget_transaction(&mut self, committed: bool) {
        self.transactions += 1;
        self.window.clear();
        self.readings.times += 1;
        self.references.clear();
        self.over_limit = false;
        self.portals.clear();
        self.failed_block = false;
        self.literals.end_transaction();
        // The end of the transaction may not happen, either.
        if self.scope.is_changed() {
            self.moved.scope = self.message;
        }
        if self.mode.is_changed() {
            self.moved.mode = self.message;
        }
        if committed {
            self.mode.commit();
            self.scope.commit();
        } else {
            self.mode.roll_back();
            self.scope.roll_back();
        }
    }

    /// The login is over: the settings that the server has reported hold.
    pub fn logged_in(&mut self) {
        self.literals.settle(false);
    }

    fn options(&self) -> Options {
        Options { standard_conforming_strings: self.literals.standard_strings() }
    }

    fn mode(&self, configured: Mode) -> Mode {
        if self.doubtful_mode {
            return Mode::Observe;
        }
        self.mode.current().map_or(configured, |asked| configured.or_more_careful(asked))
    }
}

/// Messages other than statements and their data are short; Postgres refuses longer ones.
const MAX_SMALL_BODY: usize = 10_000;
