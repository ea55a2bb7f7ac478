//! Reads the journal: the files set aside, oldest first, then the current one. Knows files, not printing.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::files;
use super::filter::Filter;
use super::lines::Lines;
use super::merge::Merge;
pub use super::merge::{Entry, Skipped};

/// The entries of a journal as it is now.
#[derive(Debug)]
pub struct Reader {
    /// The files still to read, the next one last.
    files: Vec<File>,
    current: Option<Lines<BufReader<File>>>,
    merge: Merge,
}

impl Reader {
    /// Opens the journal's files. Records come in the order in which they were written, each with the
    /// latest fate known; at most 200,000 entries are held back until a fate is found.
    ///
    /// # Errors
    /// When a file or the directory cannot be read. A journal that does not exist is empty.
    pub fn open(path: &Path, filter: Filter) -> io::Result<Self> {
        Ok(Self { files: open_all(path)?, current: None, merge: Merge::new(filter) })
    }

    /// Whether the journal has no file at all.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.files.is_empty() && self.current.is_none()
    }

    /// Lines passed over so far.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        self.merge.skipped()
    }

    fn read(&mut self) -> io::Result<Option<Entry>> {
        loop {
            if let Some(entry) = self.merge.next_decided() {
                return Ok(Some(entry));
            }
            if self.current.is_none() {
                self.current = self.files.pop().map(|file| Lines::new(BufReader::new(file)));
            }
            let Some(lines) = &mut self.current else {
                return Ok(self.merge.next_at_end());
            };
            if let Some(line) = lines.next()? {
                self.merge.feed(line);
                continue;
            }
            // The next process to write ends a torn line; until then it may be a whole one.
            self.merge.feed(lines.unfinished());
            self.current = None;
        }
    }
}

impl Iterator for Reader {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Every file of the journal, open, the current one first and the oldest last.
///
/// Files may be set aside meanwhile. That moves them from a lower number to a higher one, and the search
/// goes the same way, so it meets each of them, some of them twice.
pub(super) fn open_all(path: &Path) -> io::Result<Vec<File>> {
    let mut files: Vec<(u64, u64, File)> = Vec::new();
    let mut open = |path: &Path| match File::open(path) {
        Ok(file) => {
            let there = file.metadata()?;
            if !files.iter().any(|&(dev, ino, _)| (dev, ino) == (there.dev(), there.ino())) {
                files.push((there.dev(), there.ino(), file));
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    open(path)?;
    let numbers = match files::numbers(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    for number in numbers {
        open(&files::set_aside(path, number))?;
    }
    Ok(files.into_iter().map(|(_, _, file)| file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Config;
    use crate::journal::example as record;
    use crate::journal::record::Fate;
    use crate::journal::writer::Journal;

    #[test]
    fn an_absent_journal_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let mut reader = Reader::open(&directory.path().join("none/j.jsonl"), Filter::default()).unwrap();
        assert!(reader.is_absent());
        assert!(reader.next().is_none());
    }

    #[test]
    fn files_are_read_oldest_first_and_fates_found_in_later_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let journal =
            Journal::open(&Config { path: Some(path.clone()), rotate_bytes: 700, keep: 20 }).unwrap();
        let records: Vec<_> = (0..12).map(record).collect();
        for record in &records {
            journal.append(std::slice::from_ref(record)).unwrap();
        }
        journal.settle(&records.iter().map(|record| record.id).collect::<Vec<_>>(), Fate::Committed);
        let read: Vec<_> = Reader::open(&path, Filter::default()).unwrap().map(Result::unwrap).collect();
        let expected: Vec<_> = records
            .into_iter()
            .map(|record| {
                Entry::Record(Box::new(crate::journal::record::Record { fate: Fate::Committed, ..record }))
            })
            .collect();
        assert_eq!(read, expected);
        assert!(std::fs::read_dir(directory.path()).unwrap().count() > 10);
    }

    #[test]
    fn a_last_line_without_newline_counts_if_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let mut line = Vec::new();
        crate::journal::line::write_record(&record(1), &mut line);
        for (text, entries, torn) in [(line.trim_ascii_end(), 1, 0), (&line[..line.len() - 5], 0, 1)] {
            std::fs::write(&path, text).unwrap();
            let mut reader = Reader::open(&path, Filter::default()).unwrap();
            assert_eq!(reader.by_ref().count(), entries);
            assert_eq!(reader.skipped(), Skipped { torn, foreign: 0 });
        }
    }
}
