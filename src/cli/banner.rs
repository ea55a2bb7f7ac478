//! The three lines that say where untwin listens. Pure.

use std::path::Path;

use crate::config::address::Address;
use crate::config::upstream::Upstream;

/// What `untwin run` prints once it listens: where, in front of what, the URL for clients of this machine,
/// and the journal. `listening` holds the addresses as bound, the first being the one to tell.
#[must_use]
pub fn banner(listening: &[Address], upstream: &Upstream, journal: &Path) -> String {
    let list =
        |addresses: &[Address]| addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(", ");
    let url = listening.first().map(Address::client_url).unwrap_or_default();
    format!(
        "untwin {} listens on {}, in front of {}\nDATABASE_URL={url}\njournal: {}\n",
        env!("CARGO_PKG_VERSION"),
        list(listening),
        list(&upstream.addresses),
        journal.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_lines_tell_where_untwin_is() {
        let listening = ["127.0.0.1:6432".parse().unwrap(), "/tmp:6432".parse().unwrap()];
        let upstream = "postgres://u:secret@127.0.0.1/d".parse().unwrap();
        let expected = concat!(
            "untwin ",
            env!("CARGO_PKG_VERSION"),
            " listens on 127.0.0.1:6432, /tmp:6432, in front of 127.0.0.1:5432\n",
            "DATABASE_URL=postgres://127.0.0.1:6432\njournal: /j.jsonl\n"
        );
        assert_eq!(banner(&listening, &upstream, Path::new("/j.jsonl")), expected);
    }
}
