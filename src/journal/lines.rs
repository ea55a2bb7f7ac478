//! Lines of a file that may still grow, in bounded memory. Knows no JSON.

use std::io::{self, BufRead};

/// The longest line kept, in bytes. What a longer line has beyond is dropped, which leaves it torn.
const LONGEST: usize = 1 << 20;

/// Takes lines off a source, and waits with an unfinished one until the source has grown.
#[derive(Debug)]
pub(super) struct Lines<R> {
    source: R,
    line: Vec<u8>,
    finished: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, line: Vec::new(), finished: false }
    }

    /// The next whole line, without its newline. `None`: there is none now; ask again later.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if std::mem::take(&mut self.finished) {
            self.line.clear();
        }
        loop {
            let available = match self.source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() {
                return Ok(None);
            }
            let newline = memchr::memchr(b'\n', available);
            let part = &available[..newline.unwrap_or(available.len())];
            let room = LONGEST - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let taken = part.len() + usize::from(newline.is_some());
            self.source.consume(taken);
            if newline.is_some() {
                self.finished = true;
                return Ok(Some(&self.line));
            }
        }
    }

    /// What stands after the last newline, when the source will not grow any more.
    pub(super) fn unfinished(&self) -> &[u8] {
        if self.finished { &[] } else { &self.line }
    }

    /// The source.
    pub(super) fn source(&self) -> &R {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    fn all(lines: &mut Lines<impl BufRead>) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(String::from_utf8_lossy(line).into_owned());
        }
        all
    }

    #[test]
    fn lines_come_whole_whatever_the_buffer() {
        for capacity in 1..8 {
            let mut lines = Lines::new(BufReader::with_capacity(capacity, Cursor::new("one\n\ntwo\nthr")));
            assert_eq!(all(&mut lines), ["one", "", "two"]);
            assert_eq!(lines.unfinished(), b"thr");
            assert_eq!(all(&mut lines), [""; 0]);
        }
    }

    #[test]
    fn an_unfinished_line_is_finished_by_growth() {
        let mut lines = Lines::new(Cursor::new(b"on".to_vec()));
        assert_eq!(all(&mut lines), [""; 0]);
        lines.source.get_mut().extend_from_slice(b"e\ntwo\n");
        assert_eq!(all(&mut lines), ["one", "two"]);
        assert_eq!(lines.unfinished(), b"");
    }

    #[test]
    fn an_endless_line_is_cut() {
        let text = [vec![b'x'; 3 * LONGEST], b"\nnext\n".to_vec()].concat();
        let mut lines = Lines::new(Cursor::new(text));
        assert_eq!(lines.next().unwrap().map(<[u8]>::len), Some(LONGEST));
        assert_eq!(all(&mut lines), ["next"]);
    }
}
