//! Writes the journal: whole lines, in one file that several processes may share. Knows no session.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::output::Output;
use super::record::{Fate, Id, Note, Record};
use super::{Config, default_path, line};

/// Why the journal could not be written. The message names the file and the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings name no file and the user has no home directory.
    #[error("no place for the journal: this user has no home directory; name a file with --journal")]
    NoPlace,
    /// The file, or the lock beside it, cannot be opened or created.
    #[error("cannot open the journal {path}: {source}; name a file that can be written with --journal")]
    Open {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes were not taken. Nothing of them is left in the file.
    #[error("cannot write to the journal {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The journal, open for writing. Clones write to the same file.
///
/// Every call hands its lines to the kernel before it returns. It may wait for another process that is
/// writing, half a second at most, and for the disk; it waits for nothing else.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: Box<Path>,
    failing: AtomicBool,
    lost_fates: AtomicU64,
    /// Held for as long as it takes to append: a write to the page cache.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    output: Output,
    /// Fates that could not be written yet, the oldest first.
    owed: VecDeque<OwedFate>,
    /// What the last write failed of, while the journal is failing.
    failure: Option<String>,
}

type OwedFate = (Timestamp, Id, Fate);

/// The most fates kept for later while the journal cannot be written: about 5 MB.
const MOST_OWED: usize = 100_000;
/// How many fates are written at once, so that a failing try costs little.
const PAID_AT_ONCE: usize = 1_000;

impl Journal {
    /// Opens the file, creating it (for its owner alone) and its directories as needed.
    ///
    /// # Errors
    /// [`Error::NoPlace`] and [`Error::Open`].
    pub fn open(config: &Config) -> Result<Self, Error> {
        let path = config.path.clone().or_else(default_path).ok_or(Error::NoPlace)?;
        let output = Output::open(&path, config.rotate_bytes, config.keep)
            .map_err(|source| Error::Open { path: path.display().to_string(), source })?;
        Ok(Self(Arc::new(Inner {
            path: path.into(),
            failing: AtomicBool::new(false),
            lost_fates: AtomicU64::new(0),
            state: Mutex::new(State { output, owed: VecDeque::new(), failure: None }),
        })))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Records rewrites. When this returns `Ok`, every record is with the kernel, and the rewritten bytes
    /// may be forwarded; when it returns `Err`, none is, and they must not be.
    ///
    /// # Errors
    /// [`Error::Write`]: the journal is failing until a later write succeeds.
    pub fn append(&self, records: &[Record]) -> Result<(), Error> {
        let mut lines = Vec::with_capacity(records.len() * 512);
        for record in records {
            line::write_record(record, &mut lines);
        }
        self.write(&lines)
    }

    /// Records something that befell a session.
    ///
    /// # Errors
    /// [`Error::Write`], as [`Journal::append`].
    pub fn note(&self, note: &Note) -> Result<(), Error> {
        let mut lines = Vec::new();
        line::write_note(note, &mut lines);
        self.write(&lines)
    }

    /// Records what became of a transaction's records. What cannot be written now is kept and written with
    /// the next lines; past 100,000 fates the oldest are given up, and their records stay `pending`.
    pub fn settle(&self, ids: &[Id], fate: Fate) {
        let at = Timestamp::now();
        let mut state = self.0.lock();
        state.owed.extend(ids.iter().map(|&id| (at, id, fate)));
        self.0.pay(&mut state);
        let excess = state.owed.len().saturating_sub(MOST_OWED);
        state.owed.drain(..excess);
        self.0.lost_fates.fetch_add(excess as u64, Ordering::Relaxed);
    }

    /// What the last write failed of; `None`: the journal works.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if !self.0.failing.load(Ordering::Acquire) {
            return None;
        }
        self.0.lock().failure.clone()
    }

    /// How many fates were given up since the start.
    #[must_use]
    pub fn lost_fates(&self) -> u64 {
        self.0.lost_fates.load(Ordering::Relaxed)
    }

    fn write(&self, lines: &[u8]) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut state = self.0.lock();
        let written = self.0.try_write(&mut state, lines);
        if written.is_ok() {
            self.0.pay(&mut state);
        }
        written.map_err(|source| Error::Write { path: self.0.path.display().to_string(), source })
    }
}

impl Inner {
    /// A panic under the lock leaves the state usable: each of its fields is whole between any two steps.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_write(&self, state: &mut State, lines: &[u8]) -> io::Result<()> {
        // Who found the journal failing does not make every session wait for it in turn.
        let patient = state.failure.is_none();
        let result = state.output.append(lines, patient);
        state.failure = result.as_ref().err().map(ToString::to_string);
        self.failing.store(result.is_err(), Ordering::Release);
        result
    }

    /// Writes the fates that are owed; from the first failure on they stay owed.
    fn pay(&self, state: &mut State) {
        while let Some(lines) = state.next_owed() {
            if self.try_write(state, &lines).is_err() {
                return;
            }
            state.owed.drain(..state.owed.len().min(PAID_AT_ONCE));
        }
    }
}

impl State {
    /// The lines of the oldest fates that are owed.
    fn next_owed(&self) -> Option<Vec<u8>> {
        let mut lines = Vec::new();
        for &(at, id, fate) in self.owed.iter().take(PAID_AT_ONCE) {
            line::write_fate(at, id, fate, &mut lines);
        }
        (!lines.is_empty()).then_some(lines)
    }
}

impl Drop for Inner {
    /// The last try to write what is owed: nobody is left who could be told.
    fn drop(&mut self) {
        self.pay(&mut self.lock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::example as record;
    use crate::journal::filter::Filter;
    use crate::journal::reader::{Entry, Reader};

    fn config(path: &Path) -> Config {
        Config { path: Some(path.to_owned()), ..Config::default() }
    }

    fn fates(path: &Path) -> Vec<&'static str> {
        let fate = |entry: io::Result<Entry>| match entry.unwrap() {
            Entry::Record(record) => record.fate.name(),
            Entry::Note(_) => "note",
        };
        Reader::open(path, Filter::default()).unwrap().map(fate).collect()
    }

    #[test]
    fn what_is_appended_and_settled_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let journal = Journal::open(&config(&path)).unwrap();
        let records: Vec<_> = (0..3).map(record).collect();
        journal.append(&records).unwrap();
        journal.append(&[]).unwrap();
        journal.settle(&[records[0].id, records[2].id], Fate::Committed);
        journal.note(&Note { at: records[0].at, note: "limit".into(), session: "s".into() }).unwrap();
        assert_eq!(fates(&path), ["committed", "pending", "committed", "note"]);
        assert_eq!(journal.failure(), None);
    }

    #[test]
    fn threads_and_processes_write_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let config = Config { rotate_bytes: 20_000, keep: 1000, ..config(&path) };
        let journals = [Journal::open(&config).unwrap(), Journal::open(&config).unwrap()];
        std::thread::scope(|scope| {
            for writer in 0..4u128 {
                let journal = journals[writer as usize % 2].clone();
                scope.spawn(move || {
                    for n in 0..50 {
                        let records: Vec<_> = (0..3).map(|row| record(writer << 20 | n << 8 | row)).collect();
                        journal.append(&records).unwrap();
                        journal.settle(&records.iter().map(|r| r.id).collect::<Vec<_>>(), Fate::Committed);
                    }
                });
            }
        });
        let mut reader = Reader::open(&path, Filter::default()).unwrap();
        let mut ids = std::collections::HashSet::new();
        for entry in reader.by_ref() {
            let Entry::Record(record) = entry.unwrap() else { panic!("a note") };
            assert_eq!(record.fate, Fate::Committed);
            ids.insert(record.id);
        }
        assert_eq!(ids.len(), 600);
        assert_eq!(reader.skipped(), Default::default());
        assert!(std::fs::read_dir(directory.path()).unwrap().count() > 5);
    }

    #[test]
    fn a_failing_journal_says_so_and_recovers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let journal = Journal::open(&config(&path)).unwrap();
        let record = record(1);
        journal.append(std::slice::from_ref(&record)).unwrap();
        // A directory where the file was cannot be appended to.
        std::fs::rename(&path, directory.path().join("kept")).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(journal.append(std::slice::from_ref(&record)).is_err());
        assert!(journal.failure().is_some_and(|failure| failure.contains("directory")));
        journal.settle(&[record.id], Fate::Committed);
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(directory.path().join("kept"), &path).unwrap();
        journal.settle(&[], Fate::Committed);
        assert_eq!(journal.failure(), None);
        assert_eq!(fates(&path), ["committed"]);
    }

    #[test]
    fn fates_past_the_bound_are_given_up_and_counted() {
        let journal = Journal::open(&config(Path::new("/dev/full"))).unwrap();
        let error = journal.append(&[record(1)]).unwrap_err();
        assert!(error.to_string().starts_with("cannot write to the journal /dev/full: "), "{error}");
        let ids: Vec<_> = (0..MOST_OWED as u128 + 5).map(Id::from_u128).collect();
        journal.settle(&ids, Fate::Committed);
        assert_eq!(journal.lost_fates(), 5);
        assert!(journal.failure().is_some());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        let path = directory.path().join("file/j.jsonl");
        let error = Journal::open(&config(&path)).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("--journal"), "{error}");
    }
}
