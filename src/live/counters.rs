//! Counters of the whole process, one line each. Knows their names and values, not who counts or reads.

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

    /// Adds `by` to the number of `reason`.
    pub fn add(&self, reason: &'static str, by: u64) {
        if let Some(mut count) = self.0.get_mut(reason) {
            *count += by;
            return;
        }
        let known = if self.0.len() < Self::MOST { reason } else { "other" };
        *self.0.entry(known).or_default() += by;
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

/// The value of a counter when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// One number.
    Plain(u64),
    /// One number a reason.
    ByReason(Vec<(&'static str, u64)>),
}

impl From<&Number> for Value {
    fn from(number: &Number) -> Self {
        Self::Plain(number.value())
    }
}

impl From<&ByReason> for Value {
    fn from(numbers: &ByReason) -> Self {
        Self::ByReason(numbers.values())
    }
}

/// A counter as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The name, without a prefix.
    pub name: &'static str,
    /// What is counted.
    pub about: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Its value.
    pub value: Value,
}

macro_rules! counters {
    ($($name:ident: $cell:ident, $kind:ident, $about:literal;)+) => {
        /// Every counter. Shared by `Arc`, never global.
        #[derive(Debug, Default)]
        pub struct Counters { $(#[doc = $about] pub $name: $cell,)+ }

        impl Counters {
            /// All of them, in the order in which they are declared.
            #[must_use]
            pub fn readings(&self) -> Vec<Reading> {
                vec![$(Reading {
                    name: stringify!($name),
                    about: $about,
                    kind: Kind::$kind,
                    value: Value::from(&self.$name),
                },)+]
            }
        }
    };
}

counters! {
    sessions_total: Number, Counter, "Sessions accepted from clients.";
    sessions_open: Number, Gauge, "Sessions open now.";
    draining: Number, Gauge, "1 once the process is to end: it takes no more sessions.";
    sessions_refused_total: ByReason, Counter, "Sessions that ended before they were ready for queries.";
    inspected_statements_total: Number, Counter, "Executed statements whose keys were read.";
    uninspected_total: ByReason, Counter, "Statements that may insert keys and were forwarded unread.";
    keys_claimed_total: Number, Counter, "Keys compared with the keys of their transaction.";
    rekeyed_total: Number, Counter, "Twins given a fresh key.";
    followed_total: Number, Counter, "References given the fresh key of the row they belong to.";
    identical_total: Number, Counter, "Twins that equalled the first row in every column.";
    observed_total: Number, Counter, "Twins that rewrite mode would have given a fresh key.";
    forwarded_total: ByReason, Counter, "Twins forwarded as they were.";
    failed_total: ByReason, Counter, "Statements made to fail because their meaning was ambiguous.";
    committed_total: Number, Counter, "Rekeyed rows whose transaction committed.";
    rolled_back_total: Number, Counter, "Rekeyed rows whose transaction was rolled back.";
    fate_unknown_total: Number, Counter, "Rekeyed rows whose transaction's end was not seen.";
    limits_reached_total: ByReason, Counter, "Transactions relayed without rekeying from a limit on.";
    key_bytes: Number, Gauge, "Memory held by the keys of all open transactions, in bytes.";
    journal_errors_total: Number, Counter, "Writes to the journal that failed.";
    catalog_loads_total: Number, Counter, "Catalogs loaded.";
    catalog_errors_total: Number, Counter, "Catalogs that could not be loaded.";
    cancels_total: Number, Counter, "Requests to cancel that were forwarded.";
    cancels_dropped_total: Number, Counter, "Requests to cancel that were dropped, since too many came at a time.";
    upstream_errors_total: ByReason, Counter, "Connections to the database that failed.";
    client_errors_total: ByReason, Counter, "Sessions ended by what the client did.";
    panics_total: Number, Counter, "Faults of untwin itself, each of which ended one session.";
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
        let value = |name| counters.readings().into_iter().find(|r| r.name == name).map(|r| r.value);
        assert_eq!(counters.forwarded_total.to_string(), "guarded: 1, literal again: 2");
        assert_eq!(counters.uninspected_total.to_string(), "none");
        assert_eq!(value("sessions_open"), Some(Value::Plain(1)));
        let reasons = vec![("guarded", 1), ("literal again", 2)];
        assert_eq!(value("forwarded_total"), Some(Value::ByReason(reasons)));
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
