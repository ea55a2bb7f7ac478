//! What the catalog and the settings say together of every UUID key. Pure: connects to nothing, prints nothing.

use std::collections::BTreeSet;

use crate::catalog::Catalog;
use crate::catalog::model::{ColumnKind, FreeingTrigger, RelationKind, Table, TableId, Unprotected};
use crate::catalog::reasons::Finding;
use crate::rekey::likeness;
use crate::rekey::policy::{Meaning, Policies, Policy, Protect, TableRule};
use crate::rekey::protection;
use crate::rekey::table_name::TableName;

/// What there is to say of a database.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    /// What holds for every table without a rule of its own.
    pub settings: Vec<Setting>,
    /// What that means, and what would change it.
    pub meanings: Vec<Meaning>,
    /// Users and applications that other settings hold for, in words.
    pub exceptions: Vec<String>,
    /// Those that have a UUID key, or whose triggers bear on the keys of others.
    pub tables: Vec<TableReport>,
    /// What in the configuration does not fit the database.
    pub problems: Vec<String>,
}

/// What there is to say of one table.
#[derive(Debug, PartialEq)]
pub(super) struct TableReport {
    /// As `regclass` prints it.
    pub table: String,
    pub keys: Vec<Key>,
    pub settings: Vec<Setting>,
    /// Columns that may differ between two deliveries of one fact, by name, type or configuration.
    pub volatile: Vec<String>,
    /// A foreign key references the table: mode `strict` leaves its twins alone.
    pub referenced: bool,
    /// After which statements keys are forgotten, and why, in words.
    pub forgets: Vec<String>,
    /// The lines of configuration that protect the keys that are not, as far as any do.
    pub opt_in: Option<String>,
}

/// A setting as it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub name: &'static str,
    pub value: &'static str,
    pub default: &'static str,
}

/// One unique index with a UUID column.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Empty for a foreign table.
    pub constraint: String,
    /// The column that is, or would be, rekeyed.
    pub column: String,
    /// Other UUID columns of the tuple, which `rekey` could name.
    pub others: Vec<String>,
    pub verdict: Verdict,
}

/// What becomes of twins of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Protected,
    /// Because the configuration asks for it, in spite of this.
    OptedIn(Unprotected),
    /// The configuration says so.
    SwitchedOff,
    Unprotected {
        reason: Unprotected,
        can_opt_in: bool,
    },
}

/// Looks at every key. `database` is the name by which the configuration may know the database.
pub(super) fn report(catalog: &Catalog, policies: &Policies, database: &str) -> Report {
    let session = policies.for_session("", database, "");
    let ruled = |table: &Table| policies.tables().any(|(name, _)| is(table, name));
    let tables = catalog
        .tables()
        .filter_map(|table| of_table(catalog, table, session.table(&table.display), ruled(table)));
    Report {
        settings: settings(session.rest()),
        meanings: session.rest().meanings().into(),
        exceptions: policies
            .exceptions()
            .filter_map(|(whose, rule)| exception(&whose, &rule.settings()))
            .collect(),
        tables: tables.collect(),
        problems: policies.tables().flat_map(|(name, rule)| problems(catalog, name, rule)).collect(),
    }
}

fn of_table(catalog: &Catalog, table: &Table, policy: &Policy, is_ruled: bool) -> Option<TableReport> {
    let keys: Vec<Key> = table.findings().map(|finding| key(&finding, policy)).collect();
    // What the system's own views do is nobody's to change.
    let is_system = matches!(table.schema.as_str(), "pg_catalog" | "information_schema");
    let forgets = if is_system { Vec::new() } else { forgets(catalog, table) };
    if keys.is_empty() && forgets.is_empty() {
        return None;
    }
    let is_open = |key: &Key| matches!(key.verdict, Verdict::Unprotected { can_opt_in: true, .. });
    let opt_in =
        keys.iter().any(is_open).then(|| match table.findings().find_map(|finding| finding.opt_in()) {
            Some(lines) if !is_ruled => lines,
            // A second section of the same name would be refused.
            _ => "protect = true\n".to_owned(),
        });
    Some(TableReport {
        table: table.display.clone(),
        volatile: if keys.is_empty() { Vec::new() } else { volatile(table, policy) },
        referenced: table.referenced && !keys.is_empty(),
        keys,
        settings: settings(policy),
        forgets,
        opt_in,
    })
}

/// The volatile columns that are no part of a key.
fn volatile(table: &Table, policy: &Policy) -> Vec<String> {
    let is_key = |at: usize| table.knowable_keys().any(|key| key.columns.contains(&at));
    let columns = table.columns.iter().enumerate();
    let volatile = columns.filter(|&(at, column)| !is_key(at) && likeness::is_volatile(column, policy));
    volatile.map(|(_, column)| column.name.clone()).collect()
}

fn key(finding: &Finding<'_>, policy: &Policy) -> Key {
    let named = finding.key.map(|key| protection::rekeyed(finding.table, key, policy));
    let column =
        named.and_then(|at| finding.table.columns.get(at)).map_or(finding.column, |column| &column.name);
    let verdict = match (finding.reason, policy.protect) {
        (Some(reason), Protect::Always) if finding.can_opt_in() => Verdict::OptedIn(reason),
        (Some(reason), _) => Verdict::Unprotected { reason, can_opt_in: finding.can_opt_in() },
        (None, Protect::Never) => Verdict::SwitchedOff,
        (None, _) => Verdict::Protected,
    };
    let tuple = finding.key.map(|key| key.columns.as_slice()).unwrap_or_default();
    let columns = tuple.iter().filter(|&&at| Some(at) != named);
    let columns = columns.filter_map(|&at| finding.table.columns.get(at));
    let uuids = columns.filter(|column| column.kind == ColumnKind::Uuid);
    let others = uuids.map(|column| column.name.clone()).collect();
    Key { constraint: finding.constraint.to_owned(), column: column.to_owned(), others, verdict }
}

fn settings(policy: &Policy) -> Vec<Setting> {
    let defaults = Policy::default().settings();
    let both = policy.settings().into_iter().zip(defaults);
    both.map(|((name, value), (_, default))| Setting { name, value, default }).collect()
}

fn exception(whose: &str, settings: &[(&str, &str)]) -> Option<String> {
    let listed: Vec<String> = settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    (!listed.is_empty()).then(|| format!("{whose}: {}", listed.join(", ")))
}

/// After which statements on a table the keys of the transaction are forgotten.
fn forgets(catalog: &Catalog, table: &Table) -> Vec<String> {
    // An INSERT into a view is one into the tables that it stands on.
    let inserted: &[TableId] = if table.kind == RelationKind::View {
        &table.update_reaches
    } else {
        std::slice::from_ref(&table.id)
    };
    type Runs = fn(&FreeingTrigger) -> bool;
    let events: [(&str, bool, &[TableId], Runs); 3] = [
        ("INSERT", table.insert_frees, inserted, |trigger| trigger.on_insert),
        ("UPDATE", table.update_frees, &table.update_reaches, |trigger| trigger.on_update),
        // Children may be deleted, or updated to refer to nothing.
        ("DELETE", table.delete_frees, &table.delete_reaches, |trigger| {
            trigger.on_delete || trigger.on_update
        }),
    ];
    let told = |(event, frees, reached, runs): (&str, bool, &[TableId], Runs)| {
        frees.then(|| format!("keys are forgotten after each {event}: {}", cause(catalog, reached, runs)))
    };
    events.into_iter().filter_map(told).collect()
}

fn cause(catalog: &Catalog, reached: &[TableId], runs: fn(&FreeingTrigger) -> bool) -> String {
    let named = |wanted: fn(&FreeingTrigger) -> bool| {
        let tables = reached.iter().filter_map(|&id| catalog.table(id));
        let triggers = tables.flat_map(|table| &table.freeing_triggers).filter(|trigger| wanted(trigger));
        triggers.map(|trigger| trigger.function.as_str()).collect::<BTreeSet<_>>()
    };
    let mut functions = named(runs);
    if functions.is_empty() {
        // An UPDATE may move a row to another partition by DELETE and INSERT.
        functions = named(|_| true);
    }
    let what = match functions.len() {
        0 => return "a rule, or a function in a default or a check, could free keys".to_owned(),
        1 => "trigger function",
        _ => "trigger functions",
    };
    format!("{what} {} could free keys", Vec::from_iter(functions).join(", "))
}

fn is(table: &Table, name: &TableName) -> bool {
    table.name == name.name && name.schema.as_ref().is_none_or(|schema| *schema == table.schema)
}

/// What is wrong with the rule of one table.
fn problems(catalog: &Catalog, name: &TableName, rule: &TableRule) -> Vec<String> {
    let Some(table) = catalog.tables().find(|table| is(table, name)) else {
        return vec![format!("[[table]] {name}: the database has no such table")];
    };
    let has_column = |wanted: &str| table.columns.iter().any(|column| column.name == wanted);
    let mut found = Vec::new();
    if let Some(column) = rule.rekey.as_deref().filter(|column| !can_be_rekeyed(table, column)) {
        let what = if has_column(column) {
            "is no UUID column of a unique key"
        } else {
            "is no column of a unique key"
        };
        found.push(format!("[[table]] {name}: rekey = \"{column}\" {what} of this table"));
    }
    // The columns of a table without a UUID key are not known, and do not matter.
    let volatile =
        rule.volatile_columns.iter().filter(|column| !table.columns.is_empty() && !has_column(column));
    found.extend(
        volatile.map(|column| {
            format!("[[table]] {name}: the table has no column \"{column}\" (volatile_columns)")
        }),
    );
    found
}

fn can_be_rekeyed(table: &Table, name: &str) -> bool {
    let mut columns = table.knowable_keys().flat_map(|key| &key.columns);
    columns.any(|&at| {
        table.columns.get(at).is_some_and(|column| column.name == name && column.kind.can_hold_key())
    })
}

#[cfg(test)]
mod tests;
