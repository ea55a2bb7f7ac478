//! Reads the journal as it grows, over the files being set aside. Knows no clock: it is asked again.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::filter::Filter;
use super::lines::Lines;
use super::merge::{Entry, Merge, Skipped};
use super::reader::open_all;

/// The entries of a journal, those to come included.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// The file being read; `None`: none exists yet.
    current: Option<Lines<BufReader<File>>>,
    /// The files written after `current`, the next one last.
    later: Vec<File>,
    merge: Merge,
}

impl Follower {
    /// Opens the journal's files; there may be none yet.
    ///
    /// # Errors
    /// When a file or the directory cannot be read.
    pub fn open(path: &Path, filter: Filter) -> io::Result<Self> {
        let mut later = open_all(path)?;
        let current = later.pop().map(|file| Lines::new(BufReader::new(file)));
        Ok(Self { path: path.to_owned(), current, later, merge: Merge::new(filter) })
    }

    /// Whether the journal has no file yet.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.current.is_none()
    }

    /// Lines passed over so far.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        self.merge.skipped()
    }

    /// The next entry; `None`: there is none now, ask again. A record that is still pending comes a second
    /// time when its fate is known.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn poll(&mut self) -> io::Result<Option<Entry>> {
        loop {
            if let Some(entry) = self.merge.next_decided() {
                return Ok(Some(entry));
            }
            if !self.advance()? {
                return Ok(self.merge.next_so_far());
            }
        }
    }

    /// Reads a line or goes on to the next file; `false`: there is neither now.
    fn advance(&mut self) -> io::Result<bool> {
        if self.read_line()? {
            return Ok(true);
        }
        if !self.is_set_aside()? {
            self.restart_if_cut()?;
            return Ok(false);
        }
        // Something may have been written just before the file was set aside.
        Ok(self.read_line()? || self.go_on()?)
    }

    fn read_line(&mut self) -> io::Result<bool> {
        let Some(lines) = &mut self.current else {
            return Ok(false);
        };
        let line = lines.next()?;
        if let Some(line) = line {
            self.merge.feed(line);
        }
        Ok(line.is_some())
    }

    /// Whether another file than the current one is being written.
    fn is_set_aside(&self) -> io::Result<bool> {
        let Some(lines) = &self.current else {
            return Ok(true);
        };
        match std::fs::metadata(&self.path) {
            Ok(there) => Ok(!is_same(&there, &lines.source().get_ref().metadata()?)),
            // Between being set aside and begun anew.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lines that a full disk cut short are taken back, after which the file is shorter than what was read.
    fn restart_if_cut(&mut self) -> io::Result<()> {
        let Some(lines) = &self.current else {
            return Ok(());
        };
        let mut file = lines.source().get_ref();
        let length = file.metadata()?.len();
        // At the end of the file nothing is left in the buffer.
        if length < file.stream_position()? {
            file.seek(SeekFrom::Start(length))?;
            self.current = Some(Lines::new(BufReader::new(file.try_clone()?)));
        }
        Ok(())
    }

    /// Goes on to the file written after the current one; `false`: there is none yet.
    fn go_on(&mut self) -> io::Result<bool> {
        if self.later.is_empty() {
            self.later = self.files_after_current()?;
        }
        let Some(next) = self.later.pop() else {
            return Ok(false);
        };
        if let Some(lines) = self.current.replace(Lines::new(BufReader::new(next))) {
            self.merge.feed(lines.unfinished());
        }
        Ok(true)
    }

    /// The files written after the current one; all of them, if it exists no more.
    fn files_after_current(&self) -> io::Result<Vec<File>> {
        let mut files = open_all(&self.path)?;
        let Some(lines) = &self.current else {
            return Ok(files);
        };
        let ours = lines.source().get_ref().metadata()?;
        for (at, file) in files.iter().enumerate() {
            if is_same(&ours, &file.metadata()?) {
                files.truncate(at);
                break;
            }
        }
        Ok(files)
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Config;
    use crate::journal::example as record;
    use crate::journal::record::Fate;
    use crate::journal::writer::Journal;
    use std::io::Write;

    fn told(follower: &mut Follower) -> Vec<(u128, Fate)> {
        std::iter::from_fn(|| follower.poll().unwrap())
            .map(|entry| match entry {
                Entry::Record(record) => (record.id.value() & 0xffff, record.fate),
                Entry::Note(note) => panic!("{note:?}"),
            })
            .collect()
    }

    #[test]
    fn a_journal_that_begins_later_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("later/j.jsonl");
        let mut follower = Follower::open(&path, Filter::default()).unwrap();
        assert_eq!(told(&mut follower), []);
        let journal = Journal::open(&Config { path: Some(path), ..Config::default() }).unwrap();
        journal.append(&[record(1)]).unwrap();
        assert_eq!(told(&mut follower), [(1, Fate::Pending)]);
        journal.settle(&[record(1).id], Fate::RolledBack);
        assert_eq!(told(&mut follower), [(1, Fate::RolledBack)]);
    }

    #[test]
    fn no_record_is_missed_however_often_files_are_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let journal =
            Journal::open(&Config { path: Some(path.clone()), rotate_bytes: 1500, keep: 100 }).unwrap();
        let mut follower = Follower::open(&path, Filter::default()).unwrap();
        let (mut seen, mut written) = (Vec::new(), Vec::new());
        for n in 0..200u128 {
            journal.append(&[record(n)]).unwrap();
            journal.settle(&[record(n).id], Fate::Committed);
            written.push((n, Fate::Committed));
            // Polled at changing distances, so that files change never, once and often between two polls.
            if n % (1 + n / 20) == 0 {
                seen.extend(told(&mut follower));
            }
        }
        seen.extend(told(&mut follower));
        assert_eq!(seen, written);
        assert_eq!(follower.skipped(), Skipped::default());
    }

    #[test]
    fn lines_taken_back_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let journal = Journal::open(&Config { path: Some(path.clone()), ..Config::default() }).unwrap();
        journal.append(&[record(1)]).unwrap();
        let mut follower = Follower::open(&path, Filter::default()).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.write_all(b"{\"at\":\"20").unwrap();
        assert_eq!(told(&mut follower).len(), 1);
        file.set_len(length).unwrap();
        assert_eq!(told(&mut follower), []);
        journal.append(&[record(2)]).unwrap();
        assert_eq!(told(&mut follower), [(2, Fate::Pending)]);
        assert_eq!(follower.skipped(), Skipped::default());
    }
}
