//! Puts records and their later fates together, in the order of the records. Pure; knows no file.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::filter::Filter;
use super::line::{self, Line, Unusable};
use super::record::{Fate, Id, Note, Record};

/// One thing the journal tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A twin, with the latest fate known.
    Record(Box<Record>),
    /// Something that befell a session.
    Note(Note),
}

impl Entry {
    /// Appends the entry to `out` as a line of the journal, with its newline; a record with its latest fate.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Record(record) => line::write_record(record, out),
            Self::Note(note) => line::write_note(note, out),
        }
    }
}

/// What was read and could not be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Parts of lines, left by a crash or a full disk.
    pub torn: u64,
    /// JSON that untwin did not write.
    pub foreign: u64,
}

/// The most entries that wait for a fate: about 60 MB. With more, the oldest record is told as `pending`.
const MOST_WAITING: usize = 200_000;

/// Merges lines as they come.
#[derive(Debug)]
pub(super) struct Merge {
    filter: Filter,
    /// In the journal's order. A record stays until its fate is known.
    queue: VecDeque<Entry>,
    /// The pending records of the queue, by the number of entries that went before.
    waiting: HashMap<Id, u64>,
    /// How many entries have left the queue.
    left: u64,
    /// Records told as pending whose fate is told again when it comes. For followers only.
    told: HashMap<Id, Box<Record>>,
    skipped: Skipped,
}

impl Merge {
    pub(super) fn new(filter: Filter) -> Self {
        Self {
            filter,
            queue: VecDeque::new(),
            waiting: HashMap::new(),
            left: 0,
            told: HashMap::new(),
            skipped: Skipped::default(),
        }
    }

    pub(super) fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Takes a line without its newline.
    pub(super) fn feed(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match line::read(line) {
            Ok(Line::Record(record)) => self.record(record),
            Ok(Line::Fate(id, fate)) => self.settle(id, fate),
            Ok(Line::Note(note)) if self.filter.takes_note(&note) => self.queue.push_back(Entry::Note(note)),
            Ok(Line::Note(_)) => {}
            Err(Unusable::Torn) => self.skipped.torn += 1,
            Err(Unusable::Foreign) => self.skipped.foreign += 1,
        }
    }

    fn record(&mut self, mut record: Box<Record>) {
        if !self.filter.takes(&record) {
            return;
        }
        if let Some(Entry::Record(last)) = self.queue.back() {
            share(&mut record, last);
        }
        if record.fate == Fate::Pending {
            self.waiting.insert(record.id, self.left + self.queue.len() as u64);
        }
        self.queue.push_back(Entry::Record(record));
    }

    fn settle(&mut self, id: Id, fate: Fate) {
        if let Some(mut record) = self.told.remove(&id) {
            record.fate = fate;
            self.queue.push_back(Entry::Record(record));
            return;
        }
        let Some(at) = self.waiting.remove(&id) else {
            return;
        };
        let entry = at.checked_sub(self.left).and_then(|at| self.queue.get_mut(usize::try_from(at).ok()?));
        if let Some(Entry::Record(record)) = entry {
            record.fate = fate;
        }
    }

    /// The next entry, unless the fate of its record may still come.
    pub(super) fn next_decided(&mut self) -> Option<Entry> {
        while self.first_is_decided() {
            let entry = self.take_first();
            if entry.is_some() {
                return entry;
            }
        }
        None
    }

    /// The next entry, decided or not: there is no more to read.
    pub(super) fn next_at_end(&mut self) -> Option<Entry> {
        while !self.queue.is_empty() {
            let entry = self.take_first();
            if entry.is_some() {
                return entry;
            }
        }
        None
    }

    /// The next entry, decided or not. A record that is pending comes again when its fate is known.
    pub(super) fn next_so_far(&mut self) -> Option<Entry> {
        while let Some(first) = self.queue.front() {
            if let Entry::Record(record) = first
                && record.fate == Fate::Pending
                && self.told.len() < MOST_WAITING
            {
                self.told.insert(record.id, record.clone());
            }
            let entry = self.take_first();
            if entry.is_some() {
                return entry;
            }
        }
        None
    }

    fn first_is_decided(&self) -> bool {
        match self.queue.front() {
            None => false,
            Some(Entry::Record(record)) if record.fate == Fate::Pending => self.queue.len() > MOST_WAITING,
            Some(_) => true,
        }
    }

    /// Takes the first entry off the queue; `None` also if the filter does not take its fate.
    fn take_first(&mut self) -> Option<Entry> {
        let entry = self.queue.pop_front()?;
        self.left += 1;
        if let Entry::Record(record) = &entry {
            self.waiting.remove(&record.id);
            if !self.filter.takes_fate(record.fate) {
                return None;
            }
        }
        Some(entry)
    }
}

/// Lets a record share the strings that are those of the record before.
fn share(record: &mut Record, last: &Record) {
    let strings = [
        (&mut record.table, &last.table),
        (&mut record.constraint, &last.constraint),
        (&mut record.column, &last.column),
    ];
    for (string, last) in strings {
        if string == last {
            *string = Arc::clone(last);
        }
    }
    if record.origin == last.origin {
        record.origin = Arc::clone(&last.origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::example as record;
    use crate::journal::line::{write_fate, write_note, write_record};

    enum Given {
        Record(u128),
        Fate(u128, Fate),
        Note,
    }
    use Given::{Fate as F, Note as N, Record as R};

    fn feed(merge: &mut Merge, given: &[Given]) {
        for given in given {
            let mut out = Vec::new();
            match *given {
                R(n) => write_record(&record(n), &mut out),
                F(n, fate) => write_fate(record(n).at, record(n).id, fate, &mut out),
                N => write_note(
                    &Note { at: record(0).at, note: "limit".into(), session: "s".into() },
                    &mut out,
                ),
            }
            merge.feed(out.trim_ascii_end());
        }
    }

    /// `n fate` for a record, `note` for a note.
    fn told(mut next: impl FnMut() -> Option<Entry>) -> Vec<String> {
        let spell = |entry| match entry {
            Entry::Record(record) => format!("{} {}", record.id.value() & 0xff, record.fate.name()),
            Entry::Note(_) => "note".to_owned(),
        };
        std::iter::from_fn(|| next().map(spell)).collect()
    }

    #[test]
    fn entries_wait_for_the_fate_of_those_before() {
        let mut merge = Merge::new(Filter::default());
        feed(&mut merge, &[R(1), R(2), N, F(2, Fate::Committed)]);
        assert_eq!(told(|| merge.next_decided()), [""; 0]);
        feed(&mut merge, &[F(1, Fate::RolledBack), R(3)]);
        assert_eq!(told(|| merge.next_decided()), ["1 rolled_back", "2 committed", "note"]);
        feed(&mut merge, &[R(4), F(4, Fate::Unknown)]);
        assert_eq!(told(|| merge.next_at_end()), ["3 pending", "4 unknown"]);
    }

    #[test]
    fn a_follower_hears_of_a_pending_record_twice() {
        let mut merge = Merge::new(Filter::default());
        feed(&mut merge, &[R(1), R(2), F(2, Fate::Committed)]);
        assert_eq!(told(|| merge.next_so_far()), ["1 pending", "2 committed"]);
        feed(&mut merge, &[F(2, Fate::Committed), F(1, Fate::RolledBack), R(3)]);
        assert_eq!(told(|| merge.next_so_far()), ["1 rolled_back", "3 pending"]);
    }

    #[test]
    fn the_final_fate_is_the_one_filtered_by() {
        let filter = Filter { fate: Some(Fate::Committed), ..Filter::default() };
        let given =
            [R(1), R(2), N, R(3), F(3, Fate::Committed), F(1, Fate::Committed), F(9, Fate::Committed)];
        let mut merge = Merge::new(filter.clone());
        feed(&mut merge, &given);
        assert_eq!(told(|| merge.next_at_end()), ["1 committed", "3 committed"]);
        let mut merge = Merge::new(filter);
        feed(&mut merge, &[R(1)]);
        assert_eq!(told(|| merge.next_so_far()), [""; 0]);
        feed(&mut merge, &[F(1, Fate::Committed)]);
        assert_eq!(told(|| merge.next_so_far()), ["1 committed"]);
    }

    #[test]
    fn a_record_without_fate_does_not_hold_up_the_rest_for_ever() {
        let mut merge = Merge::new(Filter::default());
        feed(&mut merge, &[R(1)]);
        for _ in 0..MOST_WAITING {
            feed(&mut merge, &[N]);
        }
        let first = merge.next_decided();
        assert!(matches!(first, Some(Entry::Record(record)) if record.fate == Fate::Pending));
        assert_eq!(told(|| merge.next_decided()).len(), MOST_WAITING);
    }

    #[test]
    fn lines_that_are_not_ours_are_counted() {
        let mut merge = Merge::new(Filter::default());
        for line in ["{\"at\":\"20", "{}", "", "  ", "[]", "x"] {
            merge.feed(line.as_bytes());
        }
        assert_eq!(merge.skipped(), Skipped { torn: 2, foreign: 2 });
    }

    #[test]
    fn records_of_one_session_share_their_strings() {
        let mut merge = Merge::new(Filter::default());
        feed(&mut merge, &[R(1), R(2)]);
        let records: Vec<_> = std::iter::from_fn(|| merge.next_at_end()).collect();
        let [Entry::Record(one), Entry::Record(two)] = &records[..] else { panic!("{records:?}") };
        assert!(Arc::ptr_eq(&one.origin, &two.origin) && Arc::ptr_eq(&one.table, &two.table));
    }
}
