//! The settings that may change while sessions are open, shared by all of them. Decides nothing by them.

use super::Shared;
use crate::rekey::policy::{Limits, Policies};
use crate::session::Surroundings;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Settings that sessions follow from their next transaction on.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What is done with twins.
    pub policies: Arc<Policies>,
    /// How much is inspected and remembered.
    pub limits: Limits,
    /// How old a snapshot of the catalog may be before it is taken anew.
    pub catalog_ttl: Duration,
}

/// The rules as they are now. The lock guards one pointer and is never held across an await.
pub(crate) struct Current {
    rules: Mutex<Arc<Rules>>,
    version: AtomicU64,
}

impl Current {
    pub fn new(rules: Rules) -> Self {
        Self { rules: Mutex::new(Arc::new(rules)), version: AtomicU64::new(1) }
    }

    pub fn get(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rises with every change. Costs a load, no lock.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn replace(&self, rules: Rules) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        // Behind the change: whoever sees the new version gets the new rules.
        self.version.fetch_add(1, Ordering::Release);
    }
}

impl Shared {
    /// What a session needs to know, as of now.
    pub(super) fn surroundings(&self) -> Surroundings {
        // The version first: rules that are newer than it are only fetched once more.
        let rules_version = self.rules.version();
        let rules = self.rules.get();
        Surroundings {
            policies: Arc::clone(&rules.policies),
            limits: rules.limits,
            rules_version,
            counters: Arc::clone(&self.counters),
            seed: self.seed,
        }
    }
}

/// Changes a proxy that is serving: its rules, and the certificates and keys that it uses.
pub struct Reloader(pub(super) Arc<Shared>);

impl Reloader {
    /// Sessions follow these rules from their next transaction on, and take the catalog anew before it.
    pub fn reload(&self, rules: Rules) {
        self.0.rules.replace(rules);
        // Which keys are protected is part of a snapshot.
        self.0.catalogs.changed();
    }

    /// The rules are as they were: the catalog is taken anew all the same, but transactions go on with the one they have.
    pub fn refresh(&self) {
        self.0.catalogs.expire(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(bytes: u64) -> Rules {
        let limits = Limits { statement_bytes: bytes, transaction_key_bytes: 1, total_key_bytes: 1 };
        Rules { policies: Arc::default(), limits, catalog_ttl: Duration::from_secs(1) }
    }

    #[test]
    fn a_change_is_seen_by_its_version() {
        let current = Current::new(rules(1));
        let before = current.version();
        assert_eq!(current.get().limits.statement_bytes, 1);
        current.replace(rules(2));
        assert_ne!(current.version(), before);
        assert_eq!(current.get().limits.statement_bytes, 2);
    }
}
