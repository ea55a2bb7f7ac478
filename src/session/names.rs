//! Prepared statements by name, as the server will know them once it has answered. Knows no SQL.

use hashbrown::HashMap;
use std::collections::VecDeque;

/// Values by name, with every change kept until the server has confirmed it: a client that pipelines is
/// ahead of the server, and a message that the server skips after an error must leave no trace.
///
/// A change carries the ordinal of the message that made it.
#[derive(Debug)]
pub struct Names<T> {
    versions: HashMap<Box<[u8]>, Vec<Version<T>>>,
    unconfirmed: VecDeque<(u64, Box<[u8]>)>,
    /// The server has carried out everything up to this message.
    confirmed: u64,
}

#[derive(Debug)]
struct Version<T> {
    message: u64,
    /// `None`: the name was closed.
    value: Option<T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { versions: HashMap::new(), unconfirmed: VecDeque::new(), confirmed: 0 }
    }
}

impl<T> Names<T> {
    /// The value a message sent now would meet. `group` is the message that began the group it belongs to: if
    /// an earlier group fails, its change is skipped and the older value is met, so that none is certain.
    #[must_use]
    pub fn latest(&self, name: &[u8], group: u64) -> Option<&T> {
        let (last, older) = self.versions.get(name)?.split_last()?;
        let doubtful = (self.confirmed + 1..group).contains(&last.message) && !older.is_empty();
        last.value.as_ref().filter(|_| !doubtful)
    }

    /// The server has carried out everything up to this message.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    pub fn set(&mut self, name: &[u8], message: u64, value: Option<T>) {
        match self.versions.get_mut(name) {
            Some(versions) => versions.push(Version { message, value }),
            None if value.is_none() => return,
            None => {
                self.versions.insert(name.into(), vec![Version { message, value }]);
            }
        }
        self.unconfirmed.push_back((message, name.into()));
    }

    /// Every name is closed (`DEALLOCATE ALL`, `DISCARD ALL`).
    pub fn close_all(&mut self, message: u64) {
        for (name, versions) in &mut self.versions {
            versions.push(Version { message, value: None });
            self.unconfirmed.push_back((message, name.clone()));
        }
    }

    /// The server has carried out everything up to this message.
    pub fn confirm(&mut self, message: u64) {
        self.confirmed = self.confirmed.max(message);
        while let Some((_, name)) = self.unconfirmed.pop_front_if(|(changed, _)| *changed <= message) {
            let Some(versions) = self.versions.get_mut(&name) else { continue };
            let current = versions.iter().rposition(|version| version.message <= message).unwrap_or(0);
            versions.drain(..current);
            if versions.iter().all(|version| version.value.is_none()) {
                self.versions.remove(&name);
            }
        }
    }

    /// The server has carried out some part of this message: what it changed is not known.
    pub fn doubt(&mut self, message: u64) {
        self.unconfirmed.retain(|(changed, name)| {
            if *changed != message {
                return true;
            }
            if let Some(versions) = self.versions.get_mut(name) {
                versions.retain(|version| version.message > message);
                if versions.is_empty() {
                    self.versions.remove(name);
                }
            }
            false
        });
    }

    /// The server has skipped these messages.
    pub fn skip(&mut self, messages: std::ops::RangeInclusive<u64>) {
        self.unconfirmed.retain(|(changed, name)| {
            if !messages.contains(changed) {
                return true;
            }
            if let Some(versions) = self.versions.get_mut(name) {
                versions.retain(|version| !messages.contains(&version.message));
                if versions.is_empty() {
                    self.versions.remove(name);
                }
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_message_leaves_the_older_version() {
        let mut names = Names::default();
        names.set(b"s", 1, Some("old"));
        names.confirm(1);
        names.set(b"s", 2, None);
        names.set(b"s", 3, Some("skipped"));
        assert_eq!(names.latest(b"s", 3), Some(&"skipped"));
        assert_eq!(names.latest(b"s", 4), None, "the group may have failed");
        names.skip(2..=3);
        assert_eq!(names.latest(b"s", 0), Some(&"old"));
    }

    #[test]
    fn a_message_carried_out_in_part_leaves_nothing_certain() {
        let mut names = Names::default();
        names.set(b"s", 1, Some("old"));
        names.confirm(1);
        names.set(b"s", 2, None);
        names.set(b"s", 2, Some("new"));
        names.set(b"t", 3, Some("later"));
        names.doubt(2);
        assert_eq!((names.latest(b"s", 0), names.latest(b"t", 0)), (None, Some(&"later")));
    }

    #[test]
    fn a_later_version_outlives_an_earlier_skip() {
        let mut names = Names::default();
        names.set(b"", 1, Some("skipped"));
        names.set(b"", 3, Some("kept"));
        names.skip(1..=2);
        assert_eq!(names.latest(b"", 0), Some(&"kept"));
        names.confirm(3);
        assert_eq!(names.latest(b"", 0), Some(&"kept"));
    }

    #[test]
    fn closing_all_closes_what_is_there_and_nothing_later() {
        let mut names = Names::default();
        names.set(b"a", 1, Some(1));
        names.close_all(2);
        names.set(b"b", 3, Some(2));
        assert_eq!((names.latest(b"a", 0), names.latest(b"b", 0)), (None, Some(&2)));
        names.confirm(3);
        assert_eq!((names.versions.len(), names.unconfirmed.len()), (1, 0));
    }
}
