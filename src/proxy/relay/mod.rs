//! Two pumps, one a direction, that share a session. Each socket half has exactly one writer, so replies
//! cannot be reordered; one direction that waits for its writer never stops the other.

mod downward;
mod upward;

pub(super) use downward::Downward;
pub(super) use upward::Upward;

use super::Shared;
use super::catalogs::Shelf;
use super::records::Records;
use super::shutdown::GRACE;
use crate::session::{Answer, Session};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use tokio::sync::Notify;

/// What both pumps of one connection share.
pub(super) struct Link<'a> {
    pub shared: &'a Shared,
    pub shelf: &'a Shelf,
    state: Mutex<State>,
    /// The server's answer to a question of our own.
    answer: Mutex<Option<Answer>>,
    answered: Notify,
    /// Everything received from the server has been handed to the client's socket.
    flushed: AtomicBool,
    /// No message is cut off in what the client has been sent.
    whole_down: AtomicBool,
    /// Nothing of the client's is in hand: all that was received has been sent on, and it was no part of a message.
    rests_up: AtomicBool,
    /// The client has sent something since it was let in.
    used: AtomicBool,
    /// Bytes pass unread: they cannot be cut into messages, or the session is broken.
    raw: AtomicBool,
}

/// Pure state, locked for calls that return at once and never across an await.
struct State {
    session: Box<Session>,
    records: Records,
}

impl<'a> Link<'a> {
    pub fn new(shared: &'a Shared, shelf: &'a Shelf, session: Box<Session>, records: Records) -> Self {
        Self {
            shared,
            shelf,
            state: Mutex::new(State { session, records }),
            answer: Mutex::new(None),
            answered: Notify::new(),
            flushed: AtomicBool::new(true),
            whole_down: AtomicBool::new(true),
            rests_up: AtomicBool::new(false),
            used: AtomicBool::new(false),
            raw: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on bytes pass unread.
    pub fn do_not_read(&self) {
        self.raw.store(true, Ordering::Relaxed);
    }

    /// Waits until the proxy is being shut down and this session has nothing open. Only to be polled by the
    /// task that runs both pumps: it looks whenever they have moved, and they do not move while it looks.
    pub async fn at_rest(&self) {
        self.shared.shutdown.draining.taken().await;
        let grace = tokio::time::sleep(GRACE);
        tokio::pin!(grace);
        poll_fn(|context| {
            let waited = grace.as_mut().poll(context).is_ready();
            let used = waited || self.used.load(Ordering::Relaxed);
            if used && self.rests() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Nothing is under way in either direction, no transaction is open, and the server owes no answer.
    fn rests(&self) -> bool {
        self.may_add_up()
            && self.may_add_down()
            && self.flushed.load(Ordering::Relaxed)
            && self.state().session.is_idle()
    }

    /// A message of our own may be sent to the client now.
    pub fn may_add_down(&self) -> bool {
        self.whole_down.load(Ordering::Relaxed) && !self.raw.load(Ordering::Relaxed)
    }

    /// A message of our own may be sent to the server now.
    pub fn may_add_up(&self) -> bool {
        self.rests_up.load(Ordering::Relaxed) && !self.raw.load(Ordering::Relaxed)
    }

    /// The connection is over: tells the journal the fate of what is open.
    pub fn close(&self) {
        let mut state = self.state();
        let State { session, records } = &mut *state;
        let settled: Vec<_> = session.lost().collect();
        records.settle(&settled, self.shared);
    }

    /// Whether the session should learn of new rules, of the catalog or of its scope before its next statement, and the
    /// server has nothing else to do for it now.
    fn is_stale(&self, session: &Session) -> bool {
        let usable = self.shelf.current();
        let knows = usable != 0 && session.catalog_version() == Some(usable);
        let current = knows && session.rules_version() == self.shared.rules.version();
        let known = current && !session.wants_scope() && !session.distrusts();
        !known && session.is_idle() && self.flushed.load(Ordering::Acquire)
    }

    /// Runs a call into the session. If it panics, the connection goes on unread: no client loses data
    /// through a fault of ours.
    fn guarded<R>(&self, call: impl FnOnce(&mut State) -> R) -> Option<R> {
        let mut state = self.state();
        let result = catch_unwind(AssertUnwindSafe(|| call(&mut state)));
        if result.is_err() {
            self.raw.store(true, Ordering::Relaxed);
            self.shared.counters.panics_total.increment();
            tracing::error!("a fault in untwin: the session goes on without inspection");
        }
        result.ok()
    }
}
