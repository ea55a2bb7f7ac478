//! Which server the cancel key of each open session belongs to. Knows keys as bytes, and nothing of sockets.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;

/// Bytes of a process id and a secret: four, and 4 to 256 (protocol 3.2; always 4 before).
const LENGTHS: RangeInclusive<usize> = 8..=260;

/// Places by cancel key, at most [`Routes::MOST`] of them.
#[derive(Debug)]
pub struct Routes<T> {
    places: DashMap<Box<[u8]>, Entry<T>>,
    /// How many there are. Counting the map itself would lock all of it.
    count: AtomicUsize,
    next: AtomicU64,
}

#[derive(Debug)]
struct Entry<T> {
    /// Tells two sessions with one key apart: servers draw their keys without asking each other.
    ordinal: u64,
    place: T,
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self { places: DashMap::new(), count: AtomicUsize::new(0), next: AtomicU64::new(0) }
    }
}

impl<T: Clone> Routes<T> {
    /// The most keys remembered: with the longest ones, 70 MB.
    pub const MOST: usize = 1 << 18;

    /// Remembers where the session with this key (the body of its BackendKeyData) is, until what is returned
    /// is dropped. `None`, if there are too many or this is no key.
    pub fn remember(&self, key: &[u8], place: T) -> Option<Remembered<'_, T>> {
        if !LENGTHS.contains(&key.len()) {
            return None;
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= Self::MOST {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let ordinal = self.next.fetch_add(1, Ordering::Relaxed);
        self.places.insert(key.into(), Entry { ordinal, place });
        Some(Remembered { routes: self, key: key.into(), ordinal })
    }

    /// Where the session with this key is.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<T> {
        self.places.get(key).map(|entry| entry.place.clone())
    }
}

/// Keeps one key remembered.
#[derive(Debug)]
pub struct Remembered<'a, T> {
    routes: &'a Routes<T>,
    key: Box<[u8]>,
    ordinal: u64,
}

impl<T> Drop for Remembered<'_, T> {
    fn drop(&mut self) {
        self.routes.places.remove_if(&self.key, |_, entry| entry.ordinal == self.ordinal);
        self.routes.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_as_long_as_its_session_is_open() {
        let routes = Routes::default();
        let (short, long) = ([1; 8], [2; 260]);
        let kept = (routes.remember(&short, "a"), routes.remember(&long, "b"));
        assert_eq!((routes.find(&short), routes.find(&long)), (Some("a"), Some("b")));
        assert_eq!(routes.find(&[1; 9]), None);
        drop(kept);
        assert_eq!((routes.find(&short), routes.places.len()), (None, 0));
        assert_eq!(routes.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_no_key_is_not_remembered() {
        let routes = Routes::default();
        for length in [0, 7, 261, 300] {
            assert!(routes.remember(&vec![0; length], ()).is_none(), "{length}");
        }
        assert_eq!(routes.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn of_two_sessions_with_one_key_the_later_stays_known_when_the_earlier_ends() {
        let routes = Routes::default();
        let first = routes.remember(&[1; 8], "a");
        let second = routes.remember(&[1; 8], "b");
        drop(first);
        assert_eq!(routes.find(&[1; 8]), Some("b"));
        drop(second);
        assert_eq!(routes.find(&[1; 8]), None);
    }

    #[test]
    fn no_more_than_the_most_are_remembered() {
        let routes = Routes::default();
        routes.count.store(Routes::<()>::MOST, Ordering::Relaxed);
        assert!(routes.remember(&[1; 8], ()).is_none());
        assert_eq!(routes.count.load(Ordering::Relaxed), Routes::<()>::MOST);
    }
}
