//! Client to server: looks at what a message says before it is forwarded.

use super::{Link, State};
use crate::catalog;
use crate::proxy::buffer::Buffer;
use crate::proxy::catalogs::{self, Errand};
use crate::proxy::load_guard::LoadGuard;
use crate::proxy::stream::send;
use crate::session::{Answer, Ask, CopyOutcome, Outcome, Want};
use crate::wire::frame::{self, HEADER, Header};
use crate::wire::tag::frontend;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Client to server.
pub struct Upward<'a, R, W> {
    pub link: &'a Link<'a>,
    pub reader: R,
    pub writer: W,
    pub buffer: Buffer,
    /// Position in the client's stream of the first byte in the buffer.
    pub base: u64,
    /// Bytes in the buffer that have been looked at.
    pub seen: usize,
    /// Of those, bytes that may be forwarded.
    pub safe: usize,
    /// Bytes of a message passing by that have not arrived yet.
    pub passing: usize,
    /// Likewise of CopyData that is inspected.
    pub copying: usize,
    pub outcome: Outcome,
    pub copied: CopyOutcome,
    /// The COPY is to be ended, for this reason, behind the message under way.
    pub failing: Option<String>,
}

/// Where a run over the buffer has come to.
enum Pause {
    /// More bytes are needed.
    More,
    /// The server is to be asked something before the message that comes next.
    Refresh,
    /// A message of this size has an outcome that is not nothing.
    Outcome(Header),
    /// COPY data has something to be recorded or held back, in this many bytes.
    Copied(usize),
    /// The message that comes next ends a COPY.
    CopyDone,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Upward<'a, R, W> {
    pub fn new(link: &'a Link<'a>, reader: R, writer: W, buffer: Buffer) -> Self {
        Self {
            link,
            reader,
            writer,
            buffer,
            base: 0,
            seen: 0,
            safe: 0,
            passing: 0,
            copying: 0,
            outcome: Outcome::default(),
            copied: CopyOutcome::default(),
            failing: None,
        }
    }

    /// Relays until the client closes its side.
    pub async fn run(&mut self) -> io::Result<()> {
        loop {
            self.drain().await?;
            self.forward().await?;
            let rests = self.buffer.filled().is_empty() && self.passing == 0 && self.copying == 0;
            self.link.rests_up.store(rests, Ordering::Relaxed);
            let count = self.buffer.read(&mut self.reader).await?;
            self.link.shared.counters.client_bytes_total.add(count as u64);
            self.link.rests_up.store(false, Ordering::Relaxed);
            self.link.used.store(true, Ordering::Relaxed);
            if count == 0 {
                // A message that was cut off goes along: the server decides what it thinks of it.
                self.safe = self.buffer.filled().len();
                self.forward().await?;
                return self.writer.shutdown().await;
            }
        }
    }

    /// Looks at every message that is complete in the buffer.
    async fn drain(&mut self) -> io::Result<()> {
        let mut refreshed = false;
        loop {
            let pause = self.scan(refreshed);
            refreshed = false;
            match pause {
                Pause::More => return Ok(()),
                Pause::Refresh => {
                    self.refresh().await?;
                    refreshed = true;
                }
                Pause::Outcome(header) => self.carry_out(header).await?,
                Pause::Copied(count) => self.copied(count).await?,
                Pause::CopyDone => self.copy_done().await?,
            }
        }
    }

    async fn forward(&mut self) -> io::Result<()> {
        if self.safe > 0 {
            let ready = self.buffer.filled().get(..self.safe).unwrap_or_default();
            send(&mut self.writer, ready).await?;
            self.consume();
        }
        Ok(())
    }

    fn consume(&mut self) {
        self.buffer.consume(self.safe);
        self.base += self.safe as u64;
        self.seen = self.seen.saturating_sub(self.safe);
        self.safe = 0;
    }

    /// Goes over the messages in the buffer, under one lock, until something has to be waited for. `refreshed`:
    /// the message that comes next has been prepared for.
    fn scan(&mut self, mut refreshed: bool) -> Pause {
        let link = self.link;
        if link.raw.load(Ordering::Relaxed) {
            self.seen = self.buffer.filled().len();
            self.safe = self.seen;
            return Pause::More;
        }
        let pause = link.guarded(|state| {
            loop {
                let unseen = self.buffer.filled().len().saturating_sub(self.seen);
                if self.passing > 0 {
                    let count = unseen.min(self.passing);
                    self.passing -= count;
                    self.pass(count, state.session.copies());
                    if self.passing > 0 {
                        return Pause::More;
                    }
                    continue;
                }
                if self.copying > 0 {
                    let count = unseen.min(self.copying);
                    if count == 0 {
                        return Pause::More;
                    }
                    self.copy_data(state, count);
                    if self.copied.is_nothing() && self.failing.is_none() {
                        self.advance_copy(count);
                        continue;
                    }
                    return Pause::Copied(count);
                }
                let header = match frame::header(self.buffer.filled().get(self.seen..).unwrap_or_default()) {
                    Ok(Some(header)) => header,
                    Ok(None) => return Pause::More,
                    Err(error) => {
                        tracing::warn!(%error, "a message that cannot be cut: the session goes on without inspection");
                        link.shared.counters.client_errors_total.increment("message length");
                        link.raw.store(true, Ordering::Relaxed);
                        self.seen += unseen;
                        self.safe = self.seen;
                        return Pause::More;
                    }
                };
                match state.session.wants(header.tag, header.body) {
                    Want::Pass => self.passing = header.frame(),
                    Want::TooLarge => {
                        state.session.too_large(header.tag);
                        self.passing = header.frame();
                    }
                    Want::CopyData => {
                        self.copying = header.body;
                        self.seen += HEADER;
                    }
                    Want::Whole if unseen < header.frame() => return Pause::More,
                    Want::Whole if header.tag == frontend::COPY_DONE && state.session.copies() => return Pause::CopyDone,
                    Want::Whole => {
                        if !refreshed
                            && is_statement(header.tag)
                            && link.is_stale(&state.session)
                            && !state.session.needs_no_catalog(header.tag, self.body(header))
                        {
                            return Pause::Refresh;
                        }
                        refreshed = false;
                        if is_statement(header.tag) {
                            state.session.compare_catalog(link.shelf.valid());
                        }
                        if header.tag == frontend::SYNC && self.safe < self.seen {
                            // The server may wait for it, and what it is held back behind goes along.
                            state.session.abandon_copy();
                        }
                        self.message(state, header);
                        if !self.outcome.is_nothing() {
                            return Pause::Outcome(header);
                        }
                        self.seen += header.frame();
                        self.safe = self.seen;
                    }
                }
            }
        });
        pause.unwrap_or_else(|| {
            self.seen = self.buffer.filled().len();
            self.safe = self.seen;
            Pause::More
        })
    }

    /// Bytes that are forwarded as they are. While rows of a COPY are held back, what follows waits with them.
    fn pass(&mut self, count: usize, copies: bool) {
        let held = copies && self.safe < self.seen;
        self.seen += count;
        if !held {
            self.safe = self.seen;
        }
    }

    /// The body of the message that comes next, all of which is there.
    fn body(&self, header: Header) -> &[u8] {
        let start = self.seen + HEADER;
        self.buffer.filled().get(start..start + header.body).unwrap_or_default()
    }

    fn message(&mut self, state: &mut State, header: Header) {
        let start = self.seen + HEADER;
        let body = self.buffer.filled().get(start..start + header.body).unwrap_or_default();
        self.outcome.clear();
        state.session.client_message(header.tag, body, &mut self.outcome);
    }

    /// Records what a message's outcome says, and only then changes the message.
    async fn carry_out(&mut self, header: Header) -> io::Result<()> {
        let start = self.seen + HEADER;
        if record(self.link, &mut self.outcome) {
            let body = self.buffer.filled_mut().get_mut(start..start + header.body).unwrap_or_default();
            self.outcome.edits.iter().for_each(|edit| edit.apply(body));
        }
        match self.outcome.replacement.take() {
            Some(replacement) => self.replace(header, &replacement).await,
            None => {
                self.seen += header.frame();
                self.safe = self.seen;
                Ok(())
            }
        }
    }

    /// Sends other bytes in place of the message that comes next.
    async fn replace(&mut self, header: Header, replacement: &[u8]) -> io::Result<()> {
        self.safe = self.seen;
        self.forward().await?;
        send(&mut self.writer, replacement).await?;
        self.seen += header.frame();
        self.safe = self.seen;
        self.consume();
        Ok(())
    }

    fn copy_data(&mut self, state: &mut State, count: usize) {
        let at = self.base + self.seen as u64;
        let payload = self.buffer.filled().get(self.seen..self.seen + count).unwrap_or_default();
        self.copied.clear();
        state.session.copy_data(payload, at, &mut self.copied);
    }

    /// Moves on behind COPY data that has been looked at: what may not change any more may go.
    fn advance_copy(&mut self, count: usize) {
        self.seen += count;
        self.copying -= count;
        let safe = usize::try_from(self.copied.safe.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.safe = safe.min(self.seen);
    }

    async fn copied(&mut self, count: usize) -> io::Result<()> {
        self.apply_copied();
        self.advance_copy(count);
        if let Some(reason) = self.copied.fail.take() {
            self.failing = Some(reason);
        }
        if self.copying == 0
            && let Some(reason) = self.failing.take()
        {
            // The rows sent so far are complete messages; the server undoes them.
            self.safe = self.seen;
            self.forward().await?;
            send(&mut self.writer, &copy_fail(&reason)).await?;
        }
        Ok(())
    }

    async fn copy_done(&mut self) -> io::Result<()> {
        self.copied.clear();
        let copied = &mut self.copied;
        self.link.guarded(|state| state.session.copy_done(copied));
        self.apply_copied();
        self.safe = self.seen;
        let Some(reason) = self.copied.fail.take() else { return Ok(()) };
        let done = Header { tag: frontend::COPY_DONE, body: 0 };
        let outcome = &mut self.outcome;
        self.link.guarded(|state| state.session.client_message(done.tag, &[], outcome));
        self.replace(done, &copy_fail(&reason)).await
    }

    fn apply_copied(&mut self) {
        let copied = &mut self.copied;
        if !copied.facts.is_empty() || copied.note.is_some() {
            let mut outcome = Outcome::default();
            std::mem::swap(&mut outcome.facts, &mut copied.facts);
            outcome.note = copied.note;
            if !record(self.link, &mut outcome) {
                copied.journal_failed(&outcome.facts);
            }
        }
        for (at, bytes) in &copied.patches {
            let start = at.checked_sub(self.base).and_then(|start| usize::try_from(start).ok());
            let Some(start) = start else { continue };
            if let Some(place) = self.buffer.filled_mut().get_mut(start..start + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// Sees to it that the session knows the rules, the catalog, and its own scope where that matters, before the
    /// next statement.
    async fn refresh(&mut self) -> io::Result<()> {
        let shared = self.link.shared;
        self.link.guarded(|state| {
            if state.session.rules_version() != shared.rules.version() {
                state.session.adopt(shared.surroundings());
            }
        });
        // Whoever waited for another session's load gets its result in the second round.
        for _ in 0..2 {
            match self.link.shelf.errand(self.link.shared.rules.get().catalog_ttl) {
                Errand::Wait => self.link.shelf.wait(catalogs::WAIT).await,
                errand => {
                    self.run_errand(errand).await?;
                    break;
                }
            }
        }
        if self.link.state().session.wants_scope()
            && let Answer::Told(_, text) = self.ask(Ask::Scope).await?
            && let Ok(told) = catalog::resolve::parse_scope(&text)
        {
            self.link.guarded(|state| state.session.learn_scope(told));
        }
        Ok(())
    }

    async fn run_errand(&mut self, errand: Errand) -> io::Result<()> {
        let catalog = match errand {
            Errand::Use(catalog) => Some(catalog),
            Errand::Wait | Errand::Without => None,
            Errand::Load(version) => {
                let guard = LoadGuard(Some(self.link.shelf));
                let answer = self.ask(Ask::Catalog).await?;
                guard.finish(answer, version, self.link.shared)
            }
        };
        self.link.guarded(|state| match catalog {
            Some(catalog) if state.session.catalog_version() == Some(catalog.version) => {
                state.session.confirm_catalog()
            }
            Some(catalog) => state.session.learn_catalog(catalog),
            None => state.session.forget_catalog(),
        });
        Ok(())
    }

    async fn ask(&mut self, ask: Ask) -> io::Result<Answer> {
        self.safe = self.seen;
        self.forward().await?;
        let bytes = self.link.state().session.ask(ask);
        send(&mut self.writer, &bytes).await?;
        loop {
            let answered = self.link.answered.notified();
            let answer = self.link.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
            match answer {
                Some(answer) => return Ok(answer),
                None => answered.await,
            }
        }
    }
}

/// Whether a message with this tag may begin to run a statement.
fn is_statement(tag: u8) -> bool {
    matches!(tag, frontend::QUERY | frontend::PARSE | frontend::BIND)
}

fn copy_fail(reason: &str) -> Vec<u8> {
    let mut fail = Vec::new();
    frame::write(&mut fail, frontend::COPY_FAIL, &[reason.as_bytes(), b"\0"]);
    fail
}

/// Writes what an outcome records; gives whether it may be applied.
fn record(link: &Link<'_>, outcome: &mut Outcome) -> bool {
    let mut state = link.state();
    let State { session, records } = &mut *state;
    if let Some(note) = outcome.note {
        records.note(note, link.shared);
    }
    if outcome.facts.is_empty() {
        return true;
    }
    match records.append(&outcome.facts, link.shared) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%error, "without a record there is no rewrite: keys are forwarded as they are");
            link.shared.counters.journal_errors_total.increment();
            session.journal_failed(outcome);
            false
        }
    }
}
