//! Knows what must have been observed for the story to be true; it compares, and never touches a socket.

use std::collections::HashSet;

use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::batch::{self, Outcome, Row};

/// Everything that was seen, in the order of the story.
pub struct Observed {
    pub direct: Outcome,
    pub stored_directly: Vec<Row>,
    pub through: Outcome,
    pub stored_through: Vec<Row>,
    pub journal: Vec<Rewrite>,
}

/// A record of the journal, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    pub table: String,
    pub column: String,
    /// The key as it was sent, and the one that went to the server instead.
    pub old: String,
    pub new: String,
    pub row: u64,
    pub first_row: u64,
    pub fate: String,
}

/// What was not as it should be, one line each; empty: the story is true.
pub fn differences(seen: &Observed) -> Vec<String> {
    let mut differences = Vec::new();
    let mut must = |holds: bool, difference: String| {
        if !holds {
            differences.push(difference);
        }
    };

    let refused =
        matches!(&seen.direct, Outcome::Refused(error) if *error.code() == SqlState::UNIQUE_VIOLATION);
    must(refused, format!("sent directly, the batch should fail with 23505: {}", seen.direct));
    let left = &seen.stored_directly;
    must(left.is_empty(), format!("after the failure the table should be empty: {left:?}"));

    let committed = matches!(seen.through, Outcome::Committed);
    must(committed, format!("sent through untwin, the batch should commit: {}", seen.through));
    let stored = &seen.stored_through;
    must(all_stored(stored), format!("all rows should be stored, each with a key of its own: {stored:?}"));

    let journal = &seen.journal;
    must(
        journal_agrees(journal, stored),
        format!("the journal should hold the one rewrite that the table shows: {journal:?}"),
    );
    differences
}

/// The rows that were sent, in order; each with the key it came with, but for the last, which has a fresh v4 key.
fn all_stored(stored: &[Row]) -> bool {
    let sent = batch::rows();
    let [.., twin] = &sent;
    let keys: HashSet<&str> = stored.iter().map(|row| row.id.as_str()).collect();
    let as_sent = |(stored, sent): (&Row, &Row)| {
        let key_is_right = if sent == twin { is_v4(&stored.id) } else { stored.id == sent.id };
        key_is_right && stored.v == sent.v && stored.src == sent.src
    };
    stored.len() == sent.len() && keys.len() == sent.len() && stored.iter().zip(&sent).all(as_sent)
}

fn journal_agrees(journal: &[Rewrite], stored: &[Row]) -> bool {
    let ([rewrite], Some(twin)) = (journal, stored.last()) else {
        return false;
    };
    let expected = Rewrite {
        table: "public.ev".into(),
        column: "id".into(),
        old: batch::SHARED_KEY.into(),
        new: twin.id.clone(),
        row: 3,
        first_row: 1,
        fate: "committed".into(),
    };
    *rewrite == expected
}

fn is_v4(id: &str) -> bool {
    Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: &str = "5e0c1c9a-98c1-4a4f-8f3c-0d6a3b1f2e4d";

    fn stored(keys: [&str; 3]) -> Vec<Row> {
        let mut rows = batch::rows().to_vec();
        for (row, key) in rows.iter_mut().zip(keys) {
            row.id = key.to_owned();
        }
        rows
    }

    fn rewrite() -> Rewrite {
        Rewrite {
            table: "public.ev".into(),
            column: "id".into(),
            old: batch::SHARED_KEY.into(),
            new: FRESH.into(),
            row: 3,
            first_row: 1,
            fate: "committed".into(),
        }
    }

    #[test]
    fn three_rows_need_three_keys_and_the_first_two_keep_theirs() {
        let (k, l) = (batch::SHARED_KEY, batch::OTHER_KEY);
        assert!(all_stored(&stored([k, l, FRESH])));
        for wrong in [
            [k, l, k],
            [k, l, l],
            [FRESH, l, k],
            [k, FRESH, FRESH],
            [k, l, "00000000-0000-0000-0000-000000000000"],
        ] {
            assert!(!all_stored(&stored(wrong)), "{wrong:?}");
        }
        assert!(!all_stored(&stored([k, l, FRESH])[..2]));
        let mut other_content = stored([k, l, FRESH]);
        other_content[2].v = "x".into();
        assert!(!all_stored(&other_content));
    }

    #[test]
    fn the_journal_must_name_the_key_that_is_in_the_table() {
        let stored = stored([batch::SHARED_KEY, batch::OTHER_KEY, FRESH]);
        assert!(journal_agrees(&[rewrite()], &stored));
        let other_key = Rewrite { new: batch::OTHER_KEY.into(), ..rewrite() };
        let pending = Rewrite { fate: "pending".into(), ..rewrite() };
        for wrong in [vec![], vec![rewrite(), rewrite()], vec![other_key], vec![pending]] {
            assert!(!journal_agrees(&wrong, &stored), "{wrong:?}");
        }
    }

    #[test]
    fn a_server_that_refuses_nothing_is_a_difference() {
        let seen = Observed {
            direct: Outcome::Committed,
            stored_directly: vec![],
            through: Outcome::Committed,
            stored_through: stored([batch::SHARED_KEY, batch::OTHER_KEY, FRESH]),
            journal: vec![rewrite()],
        };
        let [difference] = &differences(&seen)[..] else { panic!("one difference") };
        assert!(difference.contains("23505"), "{difference}");
    }
}
