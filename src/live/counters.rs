//! Counters of the whole process, one list. Knows their names and values, not who counts or reads.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;

/// How a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only upwards.
    Counter,
    /// Up and down.
    Gauge,
}

/// One number that any thread may move.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `by`.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Takes one away; nothing below zero.
    pub fn decrement(&self) {
        self.subtract(1);
    }

    /// Takes `by` away; nothing below zero.
    pub fn subtract(&self, by: u64) {
        let less = |value: u64| Some(value.saturating_sub(by));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Makes it `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Numbers told apart by a reason. Reasons are constants of the program; past [`ByReason::MOST`] of them
/// the rest are counted as `other`.
#[derive(Debug, Default)]
pub struct ByReason(DashMap<&'static str, u64>);

impl ByReason {
    /// The most reasons told apart.
    pub const MOST: usize = 64;

    /// Adds one to the number of `reason`.
    pub fn increment(&self, reason: &'static str) {
        self.add(reason, 1);
    }

    /// Adds `by` to the number of `reason`; gives that number.
    pub fn add(&self, reason: &'static str, by: u64) -> u64 {
        if let Some(mut count) = self.0.get_mut(reason) {
            *count += by;
            return *count;
        }
        let known = if self.0.len() < Self::MOST { reason } else { "other" };
        let mut count = self.0.entry(known).or_default();
        *count += by;
        *count
    }

    /// Every reason with its number, by name.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, u64)> {
        let mut values: Vec<_> = self.0.iter().map(|entry| (*entry.key(), *entry.value())).collect();
        values.sort_unstable();
        values
    }
}

/// Every reason with its number, by name; `none` if nothing was counted.
impl fmt::Display for ByReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values();
        if values.is_empty() {
            return f.write_str("none");
        }
        let listed: Vec<String> = values.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
        f.write_str(&listed.join(", "))
    }
}

/// One number of a metric when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What tells it from the others of its metric: names and values.
    pub labels: Vec<(&'static str, &'static str)>,
    /// The number.
    pub value: u64,
}

/// A metric as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The name, without a prefix.
    pub name: &'static str,
    /// What is counted.
    pub about: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Its numbers.
    pub samples: Vec<Sample>,
}

/// What a counter can be read from.
trait Cell {
    /// Its numbers, with these labels and, where there are several, the label `by`.
    fn samples(&self, labels: &[(&'static str, &'static str)], by: &'static str) -> Vec<Sample>;
}

impl Cell for Number {
    fn samples(&self, labels: &[(&'static str, &'static str)], _: &'static str) -> Vec<Sample> {
        vec![Sample { labels: labels.to_vec(), value: self.value() }]
    }
}

impl Cell for ByReason {
    fn samples(&self, labels: &[(&'static str, &'static str)], by: &'static str) -> Vec<Sample> {
        let sample = |(reason, value)| Sample { labels: [labels, &[(by, reason)]].concat(), value };
        self.values().into_iter().map(sample).collect()
    }
}

/// `metric: kind, "what it is" { counters of the metric: cell [labels] by label; }`
macro_rules! counters {
    ($($metric:ident: $kind:ident, $help:literal {
        $($name:ident: $cell:ident [$($label:ident = $value:literal),*] $(by $by:ident)?;)+
    })+) => {
        /// Every counter. Shared by `Arc`, never global.
        #[derive(Debug, Default)]
        pub struct Counters { $($(
            #[doc = $help]
            $(#[doc = concat!("\n\nWith `", stringify!($label), " = ", $value, "`.")])*
            pub $name: $cell,
        )+)+ }

        impl Counters {
            /// All of them, in the order in which they are declared.
            #[must_use]
            pub fn readings(&self) -> Vec<Reading> {
                vec![$(Reading {
                    name: stringify!($metric),
                    about: $help,
                    kind: Kind::$kind,
                    samples: [$(self.$name.samples(
                        &[$((stringify!($label), $value)),*],
                        concat!($(stringify!($by))?),
                    )),+].concat(),
                }),+]
            }
        }
    };
}

counters! {
    inserts_total: Counter, "Executed statements that insert rows, or may: inspected, or forwarded for a reason." {
        inspected_statements_total: Number [result = "inspected", reason = ""];
        uninspected_total: ByReason [result = "forwarded"] by reason;
    }
    twins_total: Counter, "Rows with the key of an earlier row of their transaction, and references to such rows, by what was done." {
        rekeyed_total: Number [action = "rekeyed", reason = ""];
        followed_total: Number [action = "followed", reason = ""];
        observed_total: Number [action = "observed", reason = ""];
        forwarded_total: ByReason [action = "forwarded"] by reason;
        failed_total: ByReason [action = "failed"] by reason;
    }
    identical_twins_total: Counter, "Twins that equalled the first row in every column: most likely delivered twice." {
        identical_total: Number [];
    }
    rewritten_transactions_total: Counter, "Transactions in which a key was rewritten." {
        rewritten_transactions_total: Number [];
    }
    twin_fates_total: Counter, "Records of the journal whose transaction has ended, by how." {
        committed_total: Number [fate = "committed"];
        rolled_back_total: Number [fate = "rolled_back"];
        fate_unknown_total: Number [fate = "unknown"];
    }
    sessions_total: Counter, "Connections accepted from clients." {
        sessions_total: Number [];
    }
    sessions_open: Gauge, "Connections of clients open now." {
        sessions_open: Number [];
    }
    relayed_bytes_total: Counter, "Bytes received from logged-in clients, and from the database for them, to be handed on." {
        client_bytes_total: Number [from = "client"];
        server_bytes_total: Number [from = "database"];
    }
    sessions_refused_total: Counter, "Connections that ended before they were ready for queries." {
        sessions_refused_total: ByReason [] by reason;
    }
    client_errors_total: Counter, "Sessions that go on without inspection since what the client sent cannot be cut into messages." {
        client_errors_total: ByReason [] by reason;
    }
    upstream_errors_total: Counter, "Connections to the database that failed, by what they were for." {
        upstream_errors_total: ByReason [] by purpose;
    }
    cancels_total: Counter, "Requests to cancel: forwarded, or dropped since too many came at a time." {
        cancels_total: Number [result = "forwarded"];
        cancels_dropped_total: Number [result = "dropped"];
    }
    key_bytes: Gauge, "Memory held by the keys of all open transactions, in bytes." {
        key_bytes: Number [];
    }
    limits_reached_total: Counter, "Transactions relayed without rekeying from a limit on, by setting." {
        limits_reached_total: ByReason [] by setting;
    }
    journal_errors_total: Counter, "Writes to the journal that failed: the keys were forwarded as they were." {
        journal_errors_total: Number [];
    }
    catalog_loads_total: Counter, "Times that the tables of a database were learned." {
        catalog_loads_total: Number [];
    }
    catalog_errors_total: Counter, "Times that the tables of a database could not be learned." {
        catalog_errors_total: Number [];
    }
    catalog_loaded_timestamp_seconds: Gauge, "When the tables of a database were last learned, in seconds since 1970." {
        catalog_loaded_at: Number [];
    }
    draining: Gauge, "1 once nobody is let in any more, since the process ends." {
        draining: Number [];
    }
    panics_total: Counter, "Faults of untwin itself; the session of each goes on without inspection." {
        panics_total: Number [];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_shows_what_was_counted() {
        let counters = Counters::default();
        counters.sessions_open.add(2);
        counters.sessions_open.decrement();
        counters.forwarded_total.increment("guarded");
        counters.forwarded_total.add("literal again", 2);
        let samples = |name| counters.readings().into_iter().find(|r| r.name == name).map(|r| r.samples);
        assert_eq!(counters.forwarded_total.to_string(), "guarded: 1, literal again: 2");
        assert_eq!(counters.uninspected_total.to_string(), "none");
        let sample =
            |labels: &[(&'static str, &'static str)], value| Sample { labels: labels.to_vec(), value };
        assert_eq!(samples("sessions_open"), Some(vec![sample(&[], 1)]));
        let twins = vec![
            sample(&[("action", "rekeyed"), ("reason", "")], 0),
            sample(&[("action", "followed"), ("reason", "")], 0),
            sample(&[("action", "observed"), ("reason", "")], 0),
            sample(&[("action", "forwarded"), ("reason", "guarded")], 1),
            sample(&[("action", "forwarded"), ("reason", "literal again")], 2),
        ];
        assert_eq!(samples("twins_total"), Some(twins));
        assert_eq!(samples("upstream_errors_total"), Some(vec![]));
    }

    #[test]
    fn a_gauge_stops_at_zero() {
        let number = Number::default();
        number.decrement();
        assert_eq!(number.value(), 0);
    }

    #[test]
    fn reasons_past_the_bound_are_counted_together() {
        let reasons = ByReason::default();
        for n in 0..ByReason::MOST + 10 {
            reasons.increment(Box::leak(format!("reason {n}").into_boxed_str()));
        }
        assert_eq!(reasons.values().len(), ByReason::MOST + 1);
        assert!(reasons.values().contains(&("other", 10)));
    }
}
