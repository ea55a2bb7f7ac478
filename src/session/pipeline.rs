//! Which replies are still due, in order. Knows when a reply belongs to which message, and nothing of SQL.

use super::restore::Restore;
use std::collections::VecDeque;

/// A message the server has yet to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub request: Request,
    /// Ordinal of the message in its session.
    pub message: u64,
    /// Facts (twins) recorded when the message had been handled: see `fates`.
    pub facts: u64,
    /// What few messages have.
    pub more: Option<Box<More>>,
}

/// What the completion of a message means, if it means anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Keys to put back into the rows that it returns, in order.
    pub restores: Vec<Restore>,
    /// What its completion means for the transaction, one entry a statement (a Query may hold many).
    pub effects: Effects,
}

impl More {
    /// `None` if there is nothing to keep.
    #[must_use]
    pub fn new(effects: Effects, mut restores: Vec<Restore>) -> Option<Box<Self>> {
        let nothing = restores.is_empty() && effects.iter().all(|(effect, _)| *effect == Effect::None);
        restores.sort_unstable();
        (!nothing).then(|| Box::new(Self { restores, effects }))
    }
}

impl Due {
    /// What the completion of a statement means, if it means anything, and the facts recorded up to then.
    fn effect(&self, statement: usize) -> Option<(Effect, u64)> {
        self.more.as_ref()?.effects.get(statement).cloned()
    }
}

/// What kind of message, as far as its replies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    Sync,
    Query,
    FunctionCall,
    /// CopyDone or CopyFail: has no reply of its own.
    CopyEnd,
    /// A Parse or Close that the client did not send: its reply is swallowed.
    Substituted,
    /// A Sync that ends an exchange of the proxy's own; everything up to its ReadyForQuery is swallowed.
    Own,
}

/// What the completion of a statement means for facts recorded before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    /// COMMIT, if its tag does not say ROLLBACK.
    Commit,
    Rollback,
    /// A savepoint of this name.
    Savepoint(String),
    /// The newest savepoint of the name is gone, and all after it.
    Release(String),
    /// The facts since the newest savepoint of the name are undone.
    RollbackTo(String),
    PrepareTransaction,
}

/// Effects of the statements of one message, each with the facts recorded up to then. Nearly always none or one.
pub type Effects = smallvec::SmallVec<[(Effect, u64); 1]>;

/// The queue of messages not yet answered.
#[derive(Debug, Default)]
pub struct Pipeline {
    due: VecDeque<Due>,
    /// Statements of the Query at the front that are complete.
    completed: usize,
    /// The server reads a COPY: Sync and Flush have no effect until the client ends it.
    copying: bool,
    /// An error came, and the client has not sent the Sync that ends the skipping.
    skipping: bool,
}

impl Pipeline {
    /// Whether every message has been answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.skipping && self.due.iter().all(|due| due.request == Request::CopyEnd)
    }

    /// Messages sent now are skipped by the server, up to the next Sync.
    #[must_use]
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Whether a Sync or Query before the last message is unanswered: the client runs ahead of more than
    /// its current group.
    #[must_use]
    pub fn earlier_group_is_due(&self) -> bool {
        self.due
            .iter()
            .any(|due| matches!(due.request, Request::Sync | Request::Query | Request::FunctionCall))
    }

    /// A message was sent.
    pub fn push(&mut self, due: Due) {
        match due.request {
            Request::Sync if self.copying => return,
            Request::Sync => self.skipping = false,
            // The server ignores it where no COPY is under way.
            Request::CopyEnd if self.is_empty() => return,
            Request::CopyEnd => self.copying = false,
            _ if self.skipping => return,
            _ => {}
        }
        self.due.push_back(due);
    }

    /// Facts were recorded that belong to an earlier message: the data of its COPY came in.
    pub fn recorded(&mut self, message: u64, facts: u64) {
        if let Some(due) = self.due.iter_mut().rfind(|due| due.message == message) {
            due.facts = facts;
        }
    }

    /// The last message is sent as it came after all: the two that were to go before it are not.
    pub fn keep_original(&mut self) {
        let last = self.due.pop_back();
        while self.due.pop_back_if(|due| due.request == Request::Substituted).is_some() {}
        self.due.extend(last);
    }

    /// Two messages more are sent before the last: a Close and a Parse whose replies are swallowed.
    pub fn substitute_last(&mut self) {
        let Some(last) = self.due.pop_back() else { return };
        let substituted = Due { request: Request::Substituted, more: None, ..last };
        self.due.extend([substituted.clone(), substituted, last]);
    }

    /// The server waits for COPY data: Syncs sent before the end of the data are never answered.
    pub fn copy_in(&mut self) {
        let ended = self.due.iter().position(|due| due.request == Request::CopyEnd);
        let end = ended.unwrap_or(self.due.len());
        let mut at = 0;
        self.due.retain(|due| {
            let keep = at >= end || due.request != Request::Sync;
            at += 1;
            keep
        });
        self.copying = ended.is_none();
    }

    /// A reply that answers one message of the extended protocol. Gives the message.
    pub fn answered(&mut self) -> Option<Due> {
        self.drop_copy_ends();
        match self.due.front()?.request {
            Request::Query | Request::FunctionCall | Request::Sync => None,
            _ => self.due.pop_front(),
        }
    }

    /// A statement is complete: of the Query at the front, or the Execute there. Gives its effect and the
    /// facts recorded up to then.
    pub fn completed(&mut self) -> Option<(Effect, u64)> {
        self.drop_copy_ends();
        let front = self.due.front()?;
        if front.request == Request::Query {
            let effect = front.effect(self.completed);
            self.completed += 1;
            return Some(effect.unwrap_or((Effect::None, front.facts)));
        }
        let due = self.answered()?;
        Some((due.effect(0).map_or(Effect::None, |(effect, _)| effect), due.facts))
    }

    /// An error: gives the range of messages that the server skips because of it, if there are any.
    pub fn failed(&mut self) -> Option<std::ops::RangeInclusive<u64>> {
        self.copying = false;
        self.drop_copy_ends();
        let front = self.due.front()?;
        let first = front.message;
        if matches!(front.request, Request::Query | Request::FunctionCall) {
            return Some(first..=first);
        }
        if front.request == Request::Sync {
            return None;
        }
        let end = self.due.iter().position(|due| matches!(due.request, Request::Sync | Request::Own));
        self.skipping = end.is_none();
        let skipped = end.unwrap_or(self.due.len());
        let last = self.due.drain(..skipped).next_back().map_or(first, |due| due.message);
        Some(first..=last)
    }

    /// ReadyForQuery: gives the Sync, Query or FunctionCall that it answers.
    pub fn ready(&mut self) -> Option<Due> {
        self.completed = 0;
        while let Some(due) = self.due.pop_front() {
            if matches!(due.request, Request::Sync | Request::Query | Request::FunctionCall | Request::Own) {
                self.drop_copy_ends();
                return Some(due);
            }
        }
        // It answers a Sync that was taken for one within a COPY: nothing is skipped any more.
        self.skipping = false;
        None
    }

    /// What the next reply answers.
    #[must_use]
    pub fn front(&self) -> Option<Request> {
        self.due.front().map(|due| due.request)
    }

    /// Keys to put back into rows that the server returns now, in order.
    #[must_use]
    pub fn restores(&self) -> &[Restore] {
        self.due
            .front()
            .and_then(|due| due.more.as_ref())
            .map(|more| more.restores.as_slice())
            .unwrap_or_default()
    }

    /// What the next reply answers is a Describe.
    #[must_use]
    pub fn front_is_describe(&self) -> bool {
        self.front() == Some(Request::Describe)
    }

    /// Whether a COMMIT, or PREPARE TRANSACTION, is among the unanswered.
    #[must_use]
    pub fn commit_is_due(&self) -> bool {
        let commits =
            |(effect, _): &(Effect, u64)| matches!(effect, Effect::Commit | Effect::PrepareTransaction);
        self.due.iter().filter_map(|due| due.more.as_ref()).any(|more| more.effects.iter().any(commits))
    }

    fn drop_copy_ends(&mut self) {
        while self.due.pop_front_if(|due| due.request == Request::CopyEnd).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(requests: &[Request]) -> Pipeline {
        let mut pipeline = Pipeline::default();
        for (message, &request) in requests.iter().enumerate() {
            pipeline.push(Due { request, message: message as u64, facts: 0, more: None });
        }
        pipeline
    }

    #[test]
    fn an_error_skips_to_the_next_sync() {
        let mut pipeline =
            pipeline(&[Request::Parse, Request::Bind, Request::Execute, Request::Sync, Request::Query]);
        pipeline.answered();
        assert_eq!(pipeline.failed(), Some(1..=2));
        assert_eq!(pipeline.ready().map(|due| due.message), Some(3));
        assert_eq!(pipeline.ready().map(|due| due.message), Some(4));
        assert!(pipeline.is_empty());
    }

    #[test]
    fn an_error_before_the_sync_is_sent_skips_what_follows() {
        let mut pipeline = pipeline(&[Request::Parse]);
        assert_eq!(pipeline.failed(), Some(0..=0));
        assert!(pipeline.is_skipping() && !pipeline.is_empty());
        pipeline.push(Due { request: Request::Bind, message: 1, facts: 0, more: None });
        pipeline.push(Due { request: Request::Sync, message: 2, facts: 0, more: None });
        assert_eq!(pipeline.ready().map(|due| due.message), Some(2));
        assert!(pipeline.is_empty());
    }

    #[test]
    fn a_sync_sent_during_a_copy_is_never_answered() {
        let mut pipeline = pipeline(&[Request::Parse, Request::Bind, Request::Execute, Request::Sync]);
        pipeline.answered();
        pipeline.answered();
        pipeline.copy_in();
        pipeline.push(Due { request: Request::Sync, message: 4, facts: 0, more: None });
        pipeline.push(Due { request: Request::CopyEnd, message: 5, facts: 0, more: None });
        pipeline.push(Due { request: Request::Sync, message: 6, facts: 0, more: None });
        pipeline.completed();
        assert_eq!(pipeline.ready().map(|due| due.message), Some(6));
        assert!(pipeline.is_empty());
    }

    #[test]
    fn a_copy_whose_data_came_early_keeps_the_sync_after_it() {
        let mut pipeline = pipeline(&[Request::Bind, Request::Execute, Request::CopyEnd, Request::Sync]);
        pipeline.answered();
        pipeline.copy_in();
        pipeline.completed();
        assert_eq!(pipeline.ready().map(|due| due.message), Some(3));
    }

    #[test]
    fn every_statement_of_a_query_has_its_effect() {
        let mut pipeline = Pipeline::default();
        let effects = Effects::from_iter([(Effect::None, 1), (Effect::Commit, 3)]);
        pipeline.push(Due {
            request: Request::Query,
            message: 0,
            facts: 3,
            more: More::new(effects, Vec::new()),
        });
        assert_eq!(pipeline.completed(), Some((Effect::None, 1)));
        assert_eq!(pipeline.completed(), Some((Effect::Commit, 3)));
        assert!(!pipeline.is_empty());
    }
}
