//! What a statement calls besides what it says it does, and what that may have done.

use super::Session;
use super::coverage::{Coverage, VOLATILE_FUNCTION};
use super::mentions::{Mentions, Reading};
use crate::sql::calls;
use crate::sql::lex::Options;
use std::ops::Range;

impl Session {
    /// The names in a text that may stand for something that does anything: what is called, and where views,
    /// operators and the like call user-defined volatile functions, every name.
    pub(super) fn mentioned(&self, text: &[u8], range: Range<usize>, options: Options) -> Mentions {
        let reading = self.catalog.as_ref().map_or(Reading::Calls, |catalog| Reading::wanted(catalog));
        let names = match reading {
            Reading::Everything => calls::names(text, range, options).collect(),
            // The text need not be read in tokens if there is nothing to find.
            Reading::Nothing if !may_set_config(text.get(range.clone()).unwrap_or_default()) => Vec::new(),
            Reading::Calls | Reading::Nothing => calls::calls(text, range, options).collect(),
        };
        Mentions { names, reading }
    }

    /// Names that are mentioned: what user-defined volatile functions may have done, and `set_config`.
    pub(super) fn called(&mut self, mentions: &Mentions, ordinal: u32) {
        let Some(catalog) = &self.catalog else { return };
        let is_deallocating = mentions.names.iter().any(|name| catalog.is_deallocating_function(name));
        if mentions.are_opaque(catalog) {
            self.coverage.add(Coverage::Forwarded(VOLATILE_FUNCTION));
            self.read_anew();
            self.transaction.changed_data();
            self.scope.forget(ordinal);
            self.literals.forget(ordinal);
        }
        if is_deallocating {
            self.statements.close_all(self.message);
        }
        if mentions.names.iter().any(|name| name.name == "set_config") {
            self.read_anew();
            self.scope.change_role(ordinal);
            self.literals.forget(ordinal);
        }
    }
}

/// Whether `set_config` may be called in a text, in whatever spelling.
fn may_set_config(text: &[u8]) -> bool {
    const NAME: &[u8] = b"set_config";
    const UNDERSCORE: usize = 3;
    let at_underscore = |at: usize| {
        let start = at.checked_sub(UNDERSCORE)?;
        text.get(start..start + NAME.len()).map(|found| found.eq_ignore_ascii_case(NAME))
    };
    memchr::memchr_iter(b'_', text).any(|at| at_underscore(at) == Some(true))
        // An identifier with escapes may hide anything.
        || memchr::memmem::find(text, b"&\"").is_some()
}

/// Whether a block of code may deallocate prepared statements.
pub(super) fn may_deallocate(text: &[u8]) -> bool {
    let text = text.to_ascii_lowercase();
    let words: [&[u8]; 2] = [b"deallocate", b"discard"];
    words.iter().any(|word| memchr::memmem::find(&text, word).is_some())
}
