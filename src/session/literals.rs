//! How the text of statements is to be read: as the server last reported, and as SET moves it in between.

use super::tracked::Tracked;

/// Settings that decide how literals are read. `None`: not known until the server has said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `standard_conforming_strings`.
    pub standard_strings: Option<bool>,
    /// In the client's encoding, a byte below 0x80 is always that ASCII character.
    pub ascii_safe: Option<bool>,
}

/// What is not known of either setting.
const UNKNOWN: Rules = Rules { standard_strings: None, ascii_safe: None };

/// The rules at the place in the stream that the client has come to.
#[derive(Debug)]
pub struct Literals {
    reported: Rules,
    rules: Tracked<Rules>,
    /// SET that were sent since the server last had nothing to do.
    moved: bool,
}

impl Default for Literals {
    fn default() -> Self {
        let reported = Rules { standard_strings: Some(true), ascii_safe: Some(true) };
        Self { reported, rules: Tracked::new(reported), moved: false }
    }
}

/// Client-only encodings in which a byte of a longer character may look like ASCII (Postgres manual,
/// Character Set Support).
const UNSAFE_ENCODINGS: &[&str] = &[
    "sjis",
    "shiftjis2004",
    "big5",
    "gbk",
    "gb18030",
    "uhc",
    "johab",
    "mskanji",
    "win932",
    "win936",
    "win949",
    "win950",
    "windows932",
    "windows936",
    "windows949",
    "windows950",
];

impl Literals {
    /// Why literals cannot be inspected now.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        match *self.rules.current() {
            Rules { standard_strings: Some(true), ascii_safe: Some(true) } => None,
            Rules { standard_strings: Some(false), .. } => Some("standard_conforming_strings is off"),
            Rules { ascii_safe: Some(false), .. } => Some("client encoding is not ASCII-safe"),
            _ => Some("literal rules are changing"),
        }
    }

    /// Whether text of this content can be cut into tokens reliably.
    #[must_use]
    pub fn can_lex(&self, text: &[u8]) -> bool {
        let rules = self.rules.current();
        (rules.ascii_safe == Some(true) || text.is_ascii())
            && (rules.standard_strings.is_some() || memchr::memchr(b'\\', text).is_none())
    }

    #[must_use]
    pub fn standard_strings(&self) -> bool {
        self.rules.current().standard_strings.unwrap_or(true)
    }

    #[must_use]
    pub fn is_ascii_safe(&self) -> bool {
        self.rules.current().ascii_safe == Some(true)
    }

    /// A SET of one of the settings, or its RESET (`None`). Gives whether the setting is one of them.
    pub fn set(&mut self, statement: u32, local: bool, name: &str, value: Option<&str>) -> bool {
        let mut rules = *self.rules.current();
        match name {
            "standard_conforming_strings" => rules.standard_strings = value.and_then(boolean),
            "client_encoding" => rules.ascii_safe = value.map(is_safe_encoding),
            _ => return false,
        }
        self.moved = true;
        self.rules.set(statement, local, Some(rules));
        true
    }

    /// Anything may have been set.
    pub fn forget(&mut self, statement: u32) {
        self.moved = true;
        self.rules.set(statement, false, Some(UNKNOWN));
    }

    /// Some of the transaction's changes may have been undone.
    pub fn forget_changes(&mut self, statement: u32) {
        if self.rules.is_changed() {
            self.forget(statement);
        }
    }

    pub fn roll_back_to(&mut self, mark: u32) {
        self.rules.roll_back_to(mark);
    }

    /// The transaction ended: how, only the server knows. What it has changed is unknown.
    pub fn end_transaction(&mut self) {
        let before = *self.rules.committed();
        self.rules.commit();
        let after = *self.rules.current();
        self.rules.learn(Rules {
            standard_strings: after
                .standard_strings
                .filter(|_| after.standard_strings == before.standard_strings),
            ascii_safe: after.ascii_safe.filter(|_| after.ascii_safe == before.ascii_safe),
        });
    }

    /// `ParameterStatus`.
    pub fn report(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"standard_conforming_strings" => self.reported.standard_strings = Some(value == b"on"),
            b"client_encoding" => {
                self.reported.ascii_safe = Some(is_safe_encoding(&String::from_utf8_lossy(value)))
            }
            _ => {}
        }
    }

    /// The server has nothing to do and has reported every change: its word holds.
    pub fn settle(&mut self, in_block: bool) {
        // Within a block, the changes of the transaction are needed for its end.
        if !in_block || self.moved && *self.rules.current() != self.reported {
            self.rules.learn(self.reported);
            if in_block {
                self.rules.set(0, false, Some(self.reported));
            }
        }
        self.moved = false;
    }
}

fn boolean(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn is_safe_encoding(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|sign| sign.to_ascii_lowercase()).collect();
    !UNSAFE_ENCODINGS.contains(&plain.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_counts_from_its_place_in_the_stream() {
        let mut literals = Literals::default();
        assert_eq!(literals.obstacle(), None);
        assert!(literals.set(1, false, "client_encoding", Some("SJIS")));
        assert_eq!(literals.obstacle(), Some("client encoding is not ASCII-safe"));
        literals.set(2, false, "client_encoding", Some("LATIN1"));
        assert_eq!(literals.obstacle(), None);
        literals.set(3, false, "standard_conforming_strings", Some("off"));
        assert!(literals.obstacle().is_some());
        assert!(!literals.set(3, false, "datestyle", Some("ISO")));
    }

    #[test]
    fn the_end_of_a_transaction_that_moved_them_is_for_the_server_to_tell() {
        let mut literals = Literals::default();
        literals.set(1, false, "standard_conforming_strings", Some("off"));
        literals.end_transaction();
        assert_eq!(literals.obstacle(), Some("literal rules are changing"));
        assert!(literals.can_lex(b"'a'") && !literals.can_lex(b"'\\'"));
        literals.settle(false);
        assert_eq!(literals.obstacle(), None);
    }

    #[test]
    fn what_is_local_ends_with_its_transaction_either_way() {
        let mut literals = Literals::default();
        literals.set(1, true, "standard_conforming_strings", Some("off"));
        assert!(literals.obstacle().is_some());
        literals.end_transaction();
        assert_eq!(literals.obstacle(), None);
    }

    #[test]
    fn what_the_server_reports_holds() {
        let mut literals = Literals::default();
        literals.report(b"client_encoding", b"GBK");
        literals.settle(false);
        assert!(!literals.is_ascii_safe());
        literals.forget(1);
        literals.settle(true);
        assert_eq!(literals.obstacle(), Some("client encoding is not ASCII-safe"));
    }
}
