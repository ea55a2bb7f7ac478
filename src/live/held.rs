//! What one session holds of the process's memory for keys. Knows bytes, no key.

use super::counters::Counters;
use std::sync::Arc;

/// A session's part of [`Counters::key_bytes`], given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    counters: Arc<Counters>,
    bytes: u64,
}

impl Held {
    /// Nothing yet.
    #[must_use]
    pub fn new(counters: Arc<Counters>) -> Self {
        Self { counters, bytes: 0 }
    }

    /// Holds so many bytes from now on; gives whether that is a change.
    pub fn set(&mut self, bytes: u64) -> bool {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes >= before {
            self.counters.key_bytes.add(bytes - before);
        } else {
            self.counters.key_bytes.subtract(before - bytes);
        }
        bytes != before
    }

    /// What this session holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What all sessions hold together, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counters.key_bytes.value()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_follows_what_sessions_hold_and_give_back() {
        let counters = Arc::new(Counters::default());
        let (mut one, mut other) = (Held::new(Arc::clone(&counters)), Held::new(Arc::clone(&counters)));
        assert!(one.set(100) && other.set(20) && !other.set(20));
        assert_eq!((one.total(), one.bytes(), other.bytes()), (120, 100, 20));
        assert!(one.set(30));
        assert_eq!(other.total(), 50);
        drop(one);
        assert_eq!(counters.key_bytes.value(), 20);
        drop(other);
        assert_eq!(counters.key_bytes.value(), 0);
    }
}
