//! Who is in, and who may come in. Knows numbers and names, not what the connections do.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How many sessions may be open at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// Of all users.
    pub total: Option<NonZeroUsize>,
    /// Of each user.
    pub per_user: Option<NonZeroUsize>,
}

/// Why a session is one too many.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    #[error("sorry, too many clients already")]
    Total(NonZeroUsize),
    #[error("too many connections for role \"{0}\"")]
    User(String, NonZeroUsize),
}

impl Crowded {
    /// Which setting it is, and what can be done.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Total(limit) => format!("untwin's max_connections is {limit}. Close sessions or raise it."),
            Self::User(_, limit) => {
                format!("untwin's max_user_connections is {limit}. Close sessions of this user or raise it.")
            }
        }
    }
}

/// Every connection of a client, from accept to close, and every session.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    count: AtomicUsize,
    left: Notify,
    /// Locked for a moment when a session begins or ends.
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    total: usize,
    users: HashMap<Box<str>, usize>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Guest(Arc<Guests>);

/// A session that is counted: as one of all at once, as one of its user's when it is known to be that. Otherwise
/// whoever knows a user's name could lock that user out.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    guests: &'a Guests,
    limits: SessionLimits,
    user: Box<str>,
    is_proven: bool,
}

/// Connections beyond the sessions allowed, so that those who are refused can be told, and requests to cancel
/// come through.
const SPARE: usize = 64;

impl Guests {
    pub fn enter(self: &Arc<Self>) -> Guest {
        self.count.fetch_add(1, Ordering::SeqCst);
        Guest(Arc::clone(self))
    }

    /// Connections now.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// There are so many connections that a further one is not even listened to.
    pub fn are_too_many(&self, limits: SessionLimits) -> bool {
        limits.total.is_some_and(|total| self.count() > total.get().saturating_mul(2).saturating_add(SPARE))
    }

    /// Counts a session of somebody who says to be this user.
    ///
    /// # Errors
    /// [`Crowded::Total`], and then it is not counted.
    pub fn admit(&self, user: &str, limits: SessionLimits) -> Result<Admission<'_>, Crowded> {
        let mut sessions = self.sessions();
        if let Some(limit) = limits.total.filter(|limit| sessions.total >= limit.get()) {
            return Err(Crowded::Total(limit));
        }
        sessions.total += 1;
        Ok(Admission { guests: self, limits, user: user.into(), is_proven: false })
    }

    /// Waits until nobody is in.
    pub async fn all_gone(&self) {
        loop {
            let left = self.left.notified();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission<'_> {
    /// It is the user: counts it as one of this user's sessions, once.
    ///
    /// # Errors
    /// [`Crowded::User`], and then it is not counted.
    pub fn prove(&mut self) -> Result<(), Crowded> {
        if self.is_proven {
            return Ok(());
        }
        let mut sessions = self.guests.sessions();
        let own = sessions.users.get(&self.user).copied().unwrap_or_default();
        if let Some(limit) = self.limits.per_user.filter(|limit| own >= limit.get()) {
            return Err(Crowded::User(self.user.to_string(), limit));
        }
        *sessions.users.entry(self.user.clone()).or_default() += 1;
        self.is_proven = true;
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.left.notify_waiters();
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let mut sessions = self.guests.sessions();
        sessions.total = sessions.total.saturating_sub(1);
        let own = sessions.users.get_mut(&self.user).filter(|_| self.is_proven);
        if let Some(own) = own {
            *own -= 1;
            if *own == 0 {
                sessions.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_one_to_leave_is_noticed() {
        let guests = Arc::new(Guests::default());
        guests.all_gone().await;
        let (one, two) = (guests.enter(), guests.enter());
        let waiting = tokio::spawn({
            let guests = Arc::clone(&guests);
            async move { guests.all_gone().await }
        });
        drop(one);
        tokio::task::yield_now().await;
        assert!(guests.count() == 1 && !waiting.is_finished());
        drop(two);
        waiting.await.unwrap();
    }

    #[test]
    fn who_only_says_a_name_takes_no_place_of_its_user() {
        let limits = SessionLimits { total: None, per_user: NonZeroUsize::new(1) };
        let guests = Guests::default();
        let pretenders: Vec<_> = (0..3).map(|_| guests.admit("ann", limits).unwrap()).collect();
        let mut ann = guests.admit("ann", limits).unwrap();
        assert_eq!(ann.prove(), Ok(()));
        drop(pretenders);
        assert!(guests.admit("ann", limits).unwrap().prove().is_err(), "ann still has a session");
    }

    #[test]
    fn sessions_are_counted_for_all_and_for_each_user() {
        let limits = SessionLimits { total: NonZeroUsize::new(3), per_user: NonZeroUsize::new(2) };
        let guests = Guests::default();
        let proven = |user| {
            let mut admission = guests.admit(user, limits)?;
            admission.prove().map(|()| admission)
        };
        let ann = (proven("ann").unwrap(), proven("ann").unwrap());
        let crowded = |user| proven(user).map(drop).unwrap_err();
        assert_eq!(crowded("ann"), Crowded::User("ann".to_owned(), NonZeroUsize::new(2).unwrap()));
        let bob = proven("bob").unwrap();
        assert_eq!(crowded("eve"), Crowded::Total(NonZeroUsize::new(3).unwrap()));
        drop(ann);
        let mut eve = proven("eve").unwrap();
        assert_eq!((eve.prove(), guests.sessions().users.get("eve").copied()), (Ok(()), Some(1)));
        drop((bob, eve));
        assert_eq!(guests.sessions().total, 0);
        assert!(guests.sessions().users.is_empty());
        assert!(guests.admit("ann", SessionLimits::default()).is_ok());
    }
}
