//! The file under the writer: whole lines at its end, set aside in time, shared with other processes.
//! Knows bytes and files, not what the lines say.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::files;

/// How long to wait for another process that is writing.
const PATIENCE: Duration = Duration::from_millis(500);
/// The pause between two tries to get the lock.
const PAUSE: Duration = Duration::from_millis(1);

/// The file that lines are appended to.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    file: File,
    /// The file whose lock is held while appending, so that a line cut short can be taken back and two
    /// processes never set the same file aside. `None`: a pipe or a device, which knows neither.
    lock: Option<File>,
    rotate_bytes: u64,
    keep: usize,
}

impl Output {
    /// Opens the file, creating it and its directories as needed.
    pub(super) fn open(path: &Path, rotate_bytes: u64, keep: usize) -> io::Result<Self> {
        let directory = files::directory(path);
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let file = open_for_append(path)?;
        let lock = if file.metadata()?.is_file() { Some(open_lock(path)?) } else { None };
        Ok(Self { path: path.to_owned(), file, lock, rotate_bytes, keep })
    }

    /// Appends whole lines: all of them, or on an error none of them.
    ///
    /// A `patient` caller waits up to half a second for another process that is writing.
    pub(super) fn append(&mut self, lines: &[u8], patient: bool) -> io::Result<()> {
        if self.lock.is_none() {
            return self.file.write_all(lines);
        }
        let held = self.acquire(if patient { PATIENCE } else { Duration::ZERO })?;
        self.append_locked(lines)?;
        drop(held);
        Ok(())
    }

    fn acquire(&self, patience: Duration) -> io::Result<Held> {
        // A clone shares the open file and with it the lock.
        let lock = self.lock.as_ref().ok_or(io::ErrorKind::Unsupported)?.try_clone()?;
        let deadline = Instant::now() + patience;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Held(lock)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds its lock"));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn append_locked(&mut self, lines: &[u8]) -> io::Result<()> {
        self.reopen_if_moved()?;
        let mut length = self.file.metadata()?.len();
        if length > 0 && length.saturating_add(lines.len() as u64) > self.rotate_bytes {
            // A file that cannot be set aside grows on: a record matters more than a limit.
            if self.rotate().is_ok() {
                length = self.file.metadata()?.len();
            }
        }
        self.end_torn_line(length)?;
        self.write_or_take_back(lines, length)
    }

    /// Another process may have set the file aside, or somebody deleted it.
    fn reopen_if_moved(&mut self) -> io::Result<()> {
        let ours = self.file.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(there) if is_same(&ours, &there) => Ok(()),
            _ => self.reopen(),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(files::directory(&self.path))?;
        self.file = open_for_append(&self.path)?;
        // Whoever removed the file may have removed its lock too, and newcomers made another.
        self.lock = Some(open_lock(&self.path)?);
        Ok(())
    }

    /// Moves every file one number up, drops those past `keep`, and begins a new file. The lock is held.
    fn rotate(&mut self) -> io::Result<()> {
        for number in files::numbers(&self.path)?.into_iter().rev() {
            let file = files::set_aside(&self.path, number);
            if number as usize >= self.keep {
                std::fs::remove_file(file)?;
            } else {
                std::fs::rename(file, files::set_aside(&self.path, number + 1))?;
            }
        }
        if self.keep == 0 {
            std::fs::remove_file(&self.path)?;
        } else {
            std::fs::rename(&self.path, files::set_aside(&self.path, 1))?;
        }
        self.reopen()
    }

    /// A process that died while writing leaves part of a line; it must not swallow the next one.
    fn end_torn_line(&mut self, length: u64) -> io::Result<()> {
        let mut last = [b'\n'];
        if let Some(at) = length.checked_sub(1) {
            self.file.read_exact_at(&mut last, at)?;
        }
        if last != *b"\n" {
            self.file.write_all(b"\n")?;
        }
        Ok(())
    }

    /// One write, normally. What a full disk cut short is taken back, since its caller will not rewrite
    /// what the lines say was rewritten. The lock is held, so nobody has written after us.
    fn write_or_take_back(&mut self, lines: &[u8], length: u64) -> io::Result<()> {
        let written = self.file.write_all(lines);
        if written.is_err() {
            // Should even this fail, the next writer ends the torn line.
            let _ = self.file.set_len(length);
        }
        written
    }
}

/// The lock among processes, given back when dropped.
struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // The kernel gives it back at the latest when the file is closed.
        let _ = self.0.unlock();
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    let append = |read| OpenOptions::new().read(read).append(true).create(true).mode(0o600).open(path);
    // A pipe is opened for writing only: opened for both it would never report that its reader is gone.
    let is_file = std::fs::metadata(path).map_or(true, |there| there.is_file());
    append(is_file)
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(files::lock(path))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_set_aside_before_it_grows_past_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let mut output = Output::open(&path, 8, 2).unwrap();
        for line in ["1111111\n", "2\n", "33333\n", "4\n", "55555555555555\n", "6\n"] {
            output.append(line.as_bytes(), true).unwrap();
        }
        assert_eq!(names(directory.path()), ["j.1.jsonl", "j.2.jsonl", "j.jsonl", "j.jsonl.lock"]);
        let [now, one, two] =
            ["j.jsonl", "j.1.jsonl", "j.2.jsonl"].map(|name| text(&directory.path().join(name)));
        assert_eq!([now, one, two], ["6\n", "55555555555555\n", "4\n"]);
    }

    #[test]
    fn nothing_set_aside_is_kept_if_none_shall_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let mut output = Output::open(&path, 2, 0).unwrap();
        for line in ["1\n", "2\n", "3\n"] {
            output.append(line.as_bytes(), true).unwrap();
        }
        assert_eq!((names(directory.path()).len(), text(&path)), (2, "3\n".into()));
    }

    #[test]
    fn two_writers_do_not_set_the_same_file_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let mut one = Output::open(&path, 4, 9).unwrap();
        let mut two = Output::open(&path, 4, 9).unwrap();
        for line in ["1\n", "2\n", "3\n", "4\n", "5\n"] {
            one.append(line.as_bytes(), true).unwrap();
            two.append(line.to_uppercase().as_bytes(), true).unwrap();
        }
        let written: Vec<_> =
            [4, 3, 2, 1].iter().map(|&n| text(&files::set_aside(&path, n))).chain([text(&path)]).collect();
        assert_eq!(written, ["1\n1\n", "2\n2\n", "3\n3\n", "4\n4\n", "5\n5\n"]);
    }

    #[test]
    fn a_torn_line_does_not_swallow_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        std::fs::write(&path, "whole\nto").unwrap();
        let mut output = Output::open(&path, 1000, 1).unwrap();
        output.append(b"next\n", true).unwrap();
        // Another process dies while writing.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"torn again").unwrap();
        output.append(b"last\n", true).unwrap();
        assert_eq!(text(&path), "whole\nto\nnext\ntorn again\nlast\n");
    }

    #[test]
    fn a_file_that_is_gone_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/j.jsonl");
        let mut output = Output::open(&path, 1000, 1).unwrap();
        output.append(b"1\n", true).unwrap();
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        output.append(b"2\n", true).unwrap();
        assert_eq!(text(&path), "2\n");
    }

    #[test]
    fn who_is_not_patient_does_not_wait_for_a_held_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let mut output = Output::open(&path, 1000, 1).unwrap();
        let other = open_lock(&path).unwrap();
        other.lock().unwrap();
        for (patient, least, most) in [(false, 0, 250), (true, 500, 5000)] {
            let start = Instant::now();
            let error = output.append(b"1\n", patient).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!((least..most).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
        }
        other.unlock().unwrap();
        output.append(b"2\n", false).unwrap();
        assert_eq!(text(&path), "2\n");
    }

    #[test]
    fn only_the_owner_may_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/j.jsonl");
        let mut output = Output::open(&path, 2, 1).unwrap();
        output.append(b"1\n", true).unwrap();
        output.append(b"2\n", true).unwrap();
        for file in [path.clone(), files::set_aside(&path, 1), files::lock(&path)] {
            assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600, "{file:?}");
        }
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_full_device_is_an_error() {
        let mut output = Output::open(Path::new("/dev/full"), 1000, 1).unwrap();
        assert_eq!(output.append(b"1\n", true).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    /// Where the child below finds the journal.
    const FILE: &str = "OUTPUT_OF_THE_CHILD";

    /// The system cuts a write short at the limit of a file's size as it does on a full disk.
    #[test]
    fn lines_cut_short_are_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["journal::output::tests::child_with_a_full_disk", "--exact", "--ignored"])
            .env(FILE, &path)
            .output()
            .unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
        assert_eq!(text(&path), "before\nafter\n");
    }

    #[test]
    #[ignore = "runs as the child of lines_cut_short_are_taken_back"]
    fn child_with_a_full_disk() {
        let path = PathBuf::from(std::env::var_os(FILE).unwrap());
        let mut output = Output::open(&path, u64::MAX, 1).unwrap();
        output.append(b"before\n", true).unwrap();
        let lines = "a line\n".repeat(10_000);
        assert!(output.append(lines.as_bytes(), true).is_err());
        output.append(b"after\n", true).unwrap();
    }
}
