//! What the settings say of one table in one session. Pure values; knows no file and no flag.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use super::choice::{Ambiguous, IdenticalRows, Meaning, Mode, NameBased, Returning};
use super::table_name::TableName;

/// Whether a table's UUID keys are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protect {
    /// Where the catalog shows that a rewrite is harmless.
    WhereHarmless,
    /// Also where the catalog cannot show it: the operator says so.
    Always,
    /// Not at all.
    Never,
}

/// The settings that a user, a database, an application or a table may override.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// See [`Mode`].
    pub mode: Option<Mode>,
    /// See [`IdenticalRows`].
    pub identical_rows: Option<IdenticalRows>,
    /// See [`NameBased`].
    pub name_based: Option<NameBased>,
    /// See [`Ambiguous`].
    pub ambiguous: Option<Ambiguous>,
    /// See [`Returning`].
    pub returning: Option<Returning>,
}

impl Overrides {
    /// Those that are given, by name.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, &'static str)> {
        let given = [
            ("mode", self.mode.map(Mode::name)),
            ("identical_rows", self.identical_rows.map(IdenticalRows::name)),
            ("name_based", self.name_based.map(NameBased::name)),
            ("ambiguous", self.ambiguous.map(Ambiguous::name)),
            ("returning", self.returning.map(Returning::name)),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// What the settings say of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRule {
    /// The settings that any scope has.
    pub overrides: Overrides,
    /// `Some(true)`: [`Protect::Always`]; `Some(false)`: [`Protect::Never`].
    pub protect: Option<bool>,
    /// The column to rekey, as the catalog has its name.
    pub rekey: Option<Arc<str>>,
    /// Columns that may differ between two deliveries of one fact, beside [`VOLATILE_COLUMNS`].
    pub volatile_columns: Arc<[Box<str>]>,
}

/// The resolved settings for one table in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Before the session's own, more careful wish: see [`Mode::or_more_careful`].
    pub mode: Mode,
    /// See [`IdenticalRows`].
    pub identical_rows: IdenticalRows,
    /// See [`NameBased`].
    pub name_based: NameBased,
    /// See [`Ambiguous`].
    pub ambiguous: Ambiguous,
    /// See [`Returning`].
    pub returning: Returning,
    /// See [`Protect`].
    pub protect: Protect,
    /// The column to rekey, as the catalog has its name; `None`: the last UUID column of the key that is no
    /// foreign key.
    pub rekey: Option<Arc<str>>,
    pub(super) volatile_columns: Arc<[Box<str>]>,
}

/// Names of columns that differ between two deliveries of one fact, in lower case.
pub const VOLATILE_COLUMNS: &[&str] = &[
    "attempt",
    "attempt_count",
    "attempts",
    "consumed_at",
    "created_at",
    "delivered_at",
    "delivery_count",
    "enqueued_at",
    "ingested_at",
    "inserted_at",
    "kafka_offset",
    "kafka_partition",
    "kafka_timestamp",
    "loaded_at",
    "message_offset",
    "modified_at",
    "offset",
    "partition",
    "partition_id",
    "processed_at",
    "published_at",
    "queued_at",
    "received_at",
    "retries",
    "retry",
    "retry_count",
    "span_id",
    "stored_at",
    "trace_id",
    "traceparent",
    "tracestate",
    "updated_at",
    "written_at",
];

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Rewrite,
            identical_rows: IdenticalRows::Rekey,
            name_based: NameBased::Forward,
            ambiguous: Ambiguous::Fail,
            returning: Returning::Stored,
            protect: Protect::WhereHarmless,
            rekey: None,
            volatile_columns: Arc::default(),
        }
    }
}

impl Policy {
    /// Whether the column, named as the catalog has it, may differ between two deliveries of one fact.
    #[must_use]
    pub fn is_volatile(&self, column: &str) -> bool {
        let lower = column.to_ascii_lowercase();
        VOLATILE_COLUMNS.binary_search(&lower.as_str()).is_ok()
            || self.volatile_columns.iter().any(|name| **name == *column)
    }

    /// The settings that any scope has, by name.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, &'static str)> {
        let overrides = Overrides {
            mode: Some(self.mode),
            identical_rows: Some(self.identical_rows),
            name_based: Some(self.name_based),
            ambiguous: Some(self.ambiguous),
            returning: Some(self.returning),
        };
        overrides.settings()
    }

    /// What each of these settings means, and what its other values would change.
    #[must_use]
    pub fn meanings(&self) -> [Meaning; 5] {
        [
            self.mode.explained("mode"),
            self.identical_rows.explained("identical_rows"),
            self.name_based.explained("name_based"),
            self.ambiguous.explained("ambiguous"),
            self.returning.explained("returning"),
        ]
    }

    fn with(mut self, overrides: Overrides) -> Self {
        self.mode = overrides.mode.unwrap_or(self.mode);
        self.identical_rows = overrides.identical_rows.unwrap_or(self.identical_rows);
        self.name_based = overrides.name_based.unwrap_or(self.name_based);
        self.ambiguous = overrides.ambiguous.unwrap_or(self.ambiguous);
        self.returning = overrides.returning.unwrap_or(self.returning);
        self
    }

    fn with_table(self, rule: &TableRule) -> Self {
        let mut policy = self.with(rule.overrides);
        policy.protect = match rule.protect {
            None => Protect::WhereHarmless,
            Some(true) => Protect::Always,
            Some(false) => Protect::Never,
        };
        policy.rekey.clone_from(&rule.rekey);
        policy.volatile_columns = Arc::clone(&rule.volatile_columns);
        policy
    }
}

/// Which sessions a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Application {
    /// The application name is this one.
    Named(String),
    /// The application name starts with this.
    StartingWith(String),
}

impl Application {
    /// Reads a name; a trailing `*` stands for any ending.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        match pattern.strip_suffix('*') {
            Some(start) => Self::StartingWith(start.to_owned()),
            None => Self::Named(pattern.to_owned()),
        }
    }

    fn matches(&self, application: &str) -> bool {
        match self {
            Self::Named(name) => name == application,
            Self::StartingWith(start) => application.starts_with(start.as_str()),
        }
    }

    /// Orders rules from the general to the specific.
    fn specificity(&self) -> usize {
        match self {
            Self::Named(_) => usize::MAX,
            Self::StartingWith(start) => start.len(),
        }
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::StartingWith(start) => write!(f, "{start}*"),
        }
    }
}

/// Every rule of the configuration. The more specific wins: everywhere < database < user < application <
/// table; of several patterns an application matches, the longest.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    everywhere: Overrides,
    databases: HashMap<String, Overrides>,
    users: HashMap<String, Overrides>,
    /// From the general to the specific.
    applications: Vec<(Application, Overrides)>,
    tables: Vec<(TableName, TableRule)>,
}

impl Policies {
    /// The rules that hold everywhere, and nothing more specific yet.
    #[must_use]
    pub fn everywhere(overrides: Overrides) -> Self {
        Self { everywhere: overrides, ..Self::default() }
    }

    /// Adds the rule of a database.
    pub fn add_database(&mut self, name: String, overrides: Overrides) {
        self.databases.insert(name, overrides);
    }

    /// Adds the rule of a user (the role that logs in).
    pub fn add_user(&mut self, name: String, overrides: Overrides) {
        self.users.insert(name, overrides);
    }

    /// Adds the rule of an application name or pattern.
    pub fn add_application(&mut self, pattern: &str, overrides: Overrides) {
        self.applications.push((Application::new(pattern), overrides));
        self.applications.sort_by_key(|(application, _)| application.specificity());
    }

    /// Adds the rule of a table.
    pub fn add_table(&mut self, name: TableName, rule: TableRule) {
        self.tables.push((name, rule));
    }

    /// The tables that have a rule, each with it.
    pub fn tables(&self) -> impl Iterator<Item = (&TableName, &TableRule)> {
        self.tables.iter().map(|(name, rule)| (name, rule))
    }

    /// The rules of users and applications, in words and in the order in which they are heard.
    pub fn exceptions(&self) -> impl Iterator<Item = (String, Overrides)> {
        let mut users: Vec<_> = self.users.iter().collect();
        users.sort_unstable_by_key(|(name, _)| *name);
        let users = users.into_iter().map(|(name, overrides)| (format!("user {name}"), *overrides));
        users.chain(
            self.applications
                .iter()
                .map(|(application, overrides)| (format!("application {application}"), *overrides)),
        )
    }

    /// Resolves the rules for a session. To be asked again when the application name changes.
    #[must_use]
    pub fn for_session(&self, user: &str, database: &str, application: &str) -> SessionPolicy {
        let mut rest = Policy::default().with(self.everywhere);
        let named = [self.databases.get(database), self.users.get(user)];
        let matching = self.applications.iter().filter(|(rule, _)| rule.matches(application));
        for overrides in named.into_iter().flatten().chain(matching.map(|(_, overrides)| overrides)) {
            rest = rest.with(*overrides);
        }
        let mut tables = HashMap::new();
        for (name, rule) in &self.tables {
            let policy = rest.clone().with_table(rule);
            tables.extend(name.spellings().into_iter().map(|display| (display, policy.clone())));
        }
        SessionPolicy { rest, tables }
    }
}

/// The rules of one session, resolved for every table: one lookup a statement.
#[derive(Clone, Debug)]
pub struct SessionPolicy {
    rest: Policy,
    /// By every spelling the display name may have.
    tables: HashMap<String, Policy>,
}

impl SessionPolicy {
    /// The settings for a table, named as `regclass` prints it with an empty search_path.
    #[must_use]
    pub fn table(&self, display: &str) -> &Policy {
        self.tables.get(display).unwrap_or(&self.rest)
    }

    /// The settings for every table that has no rule of its own.
    #[must_use]
    pub fn rest(&self) -> &Policy {
        &self.rest
    }
}

/// How much untwin inspects and remembers, in bytes. Past a limit it relays without rekeying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest statement text that is inspected.
    pub statement_bytes: u64,
    /// The memory of the keys of one transaction.
    pub transaction_key_bytes: u64,
    /// The memory of the keys of all transactions together.
    pub total_key_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(mode: Mode) -> Overrides {
        Overrides { mode: Some(mode), ..Overrides::default() }
    }

    #[test]
    fn volatile_column_names_are_sorted_for_the_search() {
        assert!(VOLATILE_COLUMNS.is_sorted());
    }

    #[test]
    fn the_more_specific_rule_wins() {
        let (bold, strict, observe) = (mode(Mode::Rewrite), mode(Mode::Strict), mode(Mode::Observe));
        let mut policies = Policies::everywhere(observe);
        policies.add_database("shop".into(), strict);
        policies.add_user("ann".into(), bold);
        policies.add_application("etl-*", strict);
        policies.add_application("etl-nightly", bold);
        policies.add_application("etl-night*", observe);
        let rule = TableRule { overrides: observe, ..TableRule::default() };
        policies.add_table("public.ev".parse().unwrap(), rule);
        for (user, database, application, table, expected) in [
            ("bob", "other", "psql", "public.x", Mode::Observe),
            ("bob", "shop", "psql", "public.x", Mode::Strict),
            ("ann", "shop", "psql", "public.x", Mode::Rewrite),
            ("ann", "shop", "etl-1", "public.x", Mode::Strict),
            ("ann", "shop", "etl-nightly", "public.x", Mode::Rewrite),
            ("ann", "shop", "etl-nightly-2", "public.x", Mode::Observe),
            ("ann", "shop", "etl-nightly", "public.ev", Mode::Observe),
        ] {
            let session = policies.for_session(user, database, application);
            assert_eq!(session.table(table).mode, expected, "{user} {database} {application} {table}");
        }
    }

    #[test]
    fn a_rule_leaves_what_it_does_not_mention() {
        let mut policies =
            Policies::everywhere(Overrides { ambiguous: Some(Ambiguous::Keep), ..mode(Mode::Strict) });
        policies
            .add_user("ann".into(), Overrides { returning: Some(Returning::Sent), ..Overrides::default() });
        let session = policies.for_session("ann", "d", "a");
        let expected = Policy {
            mode: Mode::Strict,
            ambiguous: Ambiguous::Keep,
            returning: Returning::Sent,
            ..Policy::default()
        };
        assert_eq!(*session.table("public.ev"), expected);
    }

    #[test]
    fn a_table_rule_carries_its_own_settings() {
        let mut policies = Policies::default();
        let rule = TableRule {
            protect: Some(true),
            rekey: Some("id".into()),
            volatile_columns: Arc::new(["seen".into()]),
            ..TableRule::default()
        };
        policies.add_table("public.ev".parse().unwrap(), rule);
        let session = policies.for_session("u", "d", "a");
        let ev = session.table("public.ev");
        assert_eq!((ev.protect, ev.rekey.as_deref()), (Protect::Always, Some("id")));
        assert!(ev.is_volatile("seen") && ev.is_volatile("Received_At") && !ev.is_volatile("Seen"));
        assert_eq!(session.table("public.\"ev\""), ev);
        assert!(!session.rest().is_volatile("seen"));
        assert_eq!(session.rest().protect, Protect::WhereHarmless);
    }
}
