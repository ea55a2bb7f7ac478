//! Line ends and the end-of-copy marker of COPY in text and CSV, as Postgres' `CopyReadLineText` judges them; knows no fields.

/// The data holds a line end of another style than its first line.
pub(super) const MIXED_LINE_ENDS: &str = "mixed line ends";
/// A row has more or fewer fields than the COPY has columns.
pub(super) const WRONG_FIELD_COUNT: &str = "wrong number of fields";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Lf,
    Cr,
    CrLf,
}

/// The style of line end the first line set.
#[derive(Debug, Default)]
pub(super) struct LineEnds {
    style: Option<Style>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// The next line begins here.
    Next(usize),
    /// Cannot be told without the byte that follows.
    More,
    /// Postgres raises an error.
    Mixed,
}

/// What `\.` is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// The end of the data.
    End,
    /// Cannot be told without the bytes that follow.
    More,
    /// Something else follows on the line.
    NotAlone,
    /// A line end of another style follows; Postgres raises an error.
    Mixed,
}

impl LineEnds {
    /// Judges the line feed or carriage return at `at`; `last`: no byte follows `bytes`.
    #[inline]
    pub(super) fn judge(&mut self, bytes: &[u8], at: usize, last: bool) -> LineEnd {
        let line_feed = bytes.get(at) == Some(&b'\n');
        match self.style {
            None | Some(Style::Lf) if line_feed => {
                self.style = Some(Style::Lf);
                LineEnd::Next(at + 1)
            }
            Some(Style::Cr) if !line_feed => LineEnd::Next(at + 1),
            None | Some(Style::CrLf) if !line_feed => self.judge_carriage_return(bytes, at, last),
            _ => LineEnd::Mixed,
        }
    }

    fn judge_carriage_return(&mut self, bytes: &[u8], at: usize, last: bool) -> LineEnd {
        match bytes.get(at + 1) {
            Some(b'\n') => {
                self.style = Some(Style::CrLf);
                LineEnd::Next(at + 2)
            }
            None if !last => LineEnd::More,
            _ if self.style.is_some() => LineEnd::Mixed,
            _ => {
                self.style = Some(Style::Cr);
                LineEnd::Next(at + 1)
            }
        }
    }

    /// Judges `\.` by the bytes behind it; `last`: no byte follows them.
    pub(super) fn marker(&self, behind: &[u8], last: bool) -> Marker {
        let line_end = match (self.style, behind) {
            (Some(Style::CrLf), [b'\r', rest @ ..]) => rest,
            (Some(Style::CrLf), [_, ..]) => return Marker::NotAlone,
            (_, rest) => rest,
        };
        match (line_end.first(), self.style) {
            (None, _) if !last => Marker::More,
            (Some(b'\n'), None | Some(Style::Lf | Style::CrLf)) => Marker::End,
            (Some(b'\r'), None | Some(Style::Cr)) => Marker::End,
            (Some(b'\n' | b'\r'), _) => Marker::Mixed,
            _ => Marker::NotAlone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_sets_the_style() {
        for (first, second, next) in [
            (&b"\n"[..], &b"\n"[..], LineEnd::Next(1)),
            (b"\n", b"\r", LineEnd::Mixed),
            (b"\n", b"\r\n", LineEnd::Mixed),
            (b"\rx", b"\rx", LineEnd::Next(1)),
            (b"\rx", b"\n", LineEnd::Mixed),
            (b"\rx", b"\r\n", LineEnd::Next(1)),
            (b"\r\n", b"\r\n", LineEnd::Next(2)),
            (b"\r\n", b"\rx", LineEnd::Mixed),
            (b"\r\n", b"\n", LineEnd::Mixed),
            (b"\r\n", b"\r", LineEnd::More),
        ] {
            let mut lines = LineEnds::default();
            lines.judge(first, 0, false);
            assert_eq!(lines.judge(second, 0, false), next, "{first:?} {second:?}");
        }
    }

    #[test]
    fn a_carriage_return_at_the_very_end_is_a_line_end_unless_lines_end_in_two_bytes() {
        assert_eq!(LineEnds::default().judge(b"\r", 0, true), LineEnd::Next(1));
        assert_eq!(LineEnds { style: Some(Style::CrLf) }.judge(b"\r", 0, true), LineEnd::Mixed);
    }

    #[test]
    fn the_marker_must_be_alone_on_its_line() {
        for (style, behind, last, marker) in [
            (None, &b"\n"[..], false, Marker::End),
            (None, b"\r", false, Marker::End),
            (None, b"", false, Marker::More),
            (None, b"", true, Marker::NotAlone),
            (None, b"x", false, Marker::NotAlone),
            (Some(Style::Lf), b"\r", false, Marker::Mixed),
            (Some(Style::Cr), b"\n", false, Marker::Mixed),
            (Some(Style::CrLf), b"\r\n", false, Marker::End),
            (Some(Style::CrLf), b"\r", false, Marker::More),
            (Some(Style::CrLf), b"\r\r", false, Marker::Mixed),
            (Some(Style::CrLf), b"\rx", false, Marker::NotAlone),
            (Some(Style::CrLf), b"\n", false, Marker::NotAlone),
        ] {
            assert_eq!(LineEnds { style }.marker(behind, last), marker, "{style:?} {behind:?} {last}");
        }
    }
}
