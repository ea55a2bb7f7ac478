//! File descriptors: each session takes two, and the system grants few unless it is asked for more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::num::NonZeroUsize;

/// For the journal, listeners, the runtime, and clients that are turned away.
const SPARE: u64 = 64;

/// Asks for as many as the system allows; warns where `max_connections` promises more than that.
pub(super) fn raise(max_connections: Option<NonZeroUsize>) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let granted = setrlimit(Resource::Nofile, wanted).map_or(limit.current, |()| wanted.current);
    if let Some(sessions) = sessions(granted)
        && max_connections.is_some_and(|most| most.get() as u64 > sessions)
    {
        tracing::warn!(
            sessions,
            "max_connections is more than the system's limit of open files allows: raise LimitNOFILE or ulimit -n"
        );
    }
}

/// How many sessions so many descriptors are enough for; `None`: any number.
fn sessions(descriptors: Option<u64>) -> Option<u64> {
    descriptors.map(|descriptors| descriptors.saturating_sub(SPARE) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_two_descriptors() {
        assert_eq!([1024, 65_600, 10].map(|limit| sessions(Some(limit))), [Some(480), Some(32_768), Some(0)]);
        assert_eq!(sessions(None), None);
    }

    #[test]
    fn all_that_the_system_allows_is_taken() {
        raise(NonZeroUsize::new(1));
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
