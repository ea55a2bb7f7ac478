//! The snapshots of the catalog, one a database, shared by its sessions. Knows when one is old; how it is
//! loaded is the sessions' business.

use super::rules::Current;
use crate::catalog::{Catalog, load};
use crate::rekey::protection;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_128;

/// Snapshots by database name.
#[derive(Default)]
pub(crate) struct Catalogs(Mutex<HashMap<String, Arc<Shelf>>>);

impl Catalogs {
    pub fn shelf(&self, database: &str) -> Arc<Shelf> {
        let mut shelves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shelves.entry(database.to_owned()).or_default())
    }

    /// No snapshot is to be used any more.
    pub fn changed(&self) {
        let shelves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.values().for_each(|shelf| shelf.changed());
    }

    /// Marks snapshots that are older than `ttl`. To be called now and then.
    pub fn expire(&self, ttl: Duration) {
        let shelves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.values().for_each(|shelf| shelf.expire(ttl));
    }
}

/// The snapshot of one database. The lock guards a few words and is never held across an await.
#[derive(Default)]
pub(crate) struct Shelf {
    state: Mutex<State>,
    done: Notify,
    /// The version of the snapshot while it is neither old nor wrong, else 0.
    usable: AtomicU64,
    /// The version of the snapshot while it is not wrong, else 0.
    valid: AtomicU64,
}

#[derive(Default)]
struct State {
    catalog: Option<Arc<Catalog>>,
    taken: Option<Instant>,
    /// A schema change has been committed since: the snapshot must not be used.
    wrong: bool,
    loading: bool,
    failed: Option<Instant>,
    version: u64,
    /// The last snapshot, wrong or not, with a hash of the text it was read from and the version of the rules.
    last: Option<((u128, u64), Arc<Catalog>)>,
}

/// What a session is to do about its catalog.
pub(crate) enum Errand {
    /// Use this one.
    Use(Arc<Catalog>),
    /// Load it, as this version, and say so by [`Shelf::loaded`] or [`Shelf::failed`].
    Load(u64),
    /// Somebody else is loading it.
    Wait,
    /// Loading failed a moment ago: do without.
    Without,
}

/// How long a session waits for a load that another one does.
pub(crate) const WAIT: Duration = Duration::from_secs(2);
/// After a load that failed, the next attempt waits this long.
const RETRY: Duration = Duration::from_secs(5);

impl Shelf {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do now. The first to ask for an old snapshot loads it; while it does, others go on with a
    /// snapshot that is merely old.
    pub fn errand(&self, ttl: Duration) -> Errand {
        let mut state = self.state();
        let fresh = !state.wrong && state.taken.is_some_and(|taken| taken.elapsed() < ttl);
        match &state.catalog {
            Some(catalog) if fresh => return Errand::Use(Arc::clone(catalog)),
            // What is merely old is better than nothing.
            Some(catalog) if !state.wrong && (state.loading || state.recently_failed()) => {
                return Errand::Use(Arc::clone(catalog));
            }
            _ => {}
        }
        if state.loading {
            return Errand::Wait;
        }
        if state.recently_failed() {
            return Errand::Without;
        }
        state.loading = true;
        if state.wrong {
            state.catalog = None;
        }
        // A change committed while this load runs is not in it.
        state.wrong = false;
        state.version += 1;
        Errand::Load(state.version)
    }

    /// The version of the snapshot to use, or 0: see [`Self::errand`]. Costs a load, no lock.
    pub fn current(&self) -> u64 {
        self.usable.load(Ordering::Acquire)
    }

    /// The version of the snapshot that may be used by who cannot ask for a newer one, or 0: nothing is known
    /// to have changed since it was taken.
    pub fn valid(&self) -> u64 {
        self.valid.load(Ordering::Acquire)
    }

    /// Reads what the server told. The same text is the same snapshot, under its old version: a session within
    /// a transaction may go on with it.
    ///
    /// # Errors
    /// The text cannot be read.
    pub fn read(&self, text: &str, version: u64, rules: &Current) -> Result<Arc<Catalog>, load::Error> {
        let source = (xxh3_128(text.as_bytes()), rules.version());
        let same = self.state().last.clone().filter(|(last, _)| *last == source);
        let catalog = match same {
            Some((_, catalog)) => catalog,
            None => Arc::new(protection::configured(load::parse(text, version)?, &rules.get().policies)),
        };
        self.state().last = Some((source, Arc::clone(&catalog)));
        Ok(catalog)
    }

    pub fn loaded(&self, catalog: Arc<Catalog>) {
        let mut state = self.state();
        let version = if state.wrong { 0 } else { catalog.version };
        state.catalog = Some(catalog);
        state.taken = Some(Instant::now());
        state.loading = false;
        state.failed = None;
        self.usable.store(version, Ordering::Release);
        self.valid.store(version, Ordering::Release);
        drop(state);
        self.done.notify_waiters();
    }

    /// The load did not succeed: the last good snapshot stays, unless it is known to be wrong.
    pub fn failed(&self) {
        let mut state = self.state();
        state.loading = false;
        state.failed = Some(Instant::now());
        drop(state);
        self.done.notify_waiters();
    }

    /// The loader went away without a result: the next one tries.
    pub fn abandoned(&self) {
        self.state().loading = false;
        self.done.notify_waiters();
    }

    /// A schema change was committed.
    pub fn changed(&self) {
        let mut state = self.state();
        state.wrong = true;
        self.usable.store(0, Ordering::Release);
        self.valid.store(0, Ordering::Release);
    }

    /// The snapshot is old if it was taken longer than `ttl` ago.
    fn expire(&self, ttl: Duration) {
        let state = self.state();
        if state.taken.is_some_and(|taken| taken.elapsed() >= ttl) {
            self.usable.store(0, Ordering::Release);
        }
    }

    /// Waits until a load under way is over, at most `limit`.
    pub async fn wait(&self, limit: Duration) {
        let done = self.done.notified();
        if self.state().loading {
            let _ = tokio::time::timeout(limit, done).await;
        }
    }
}

impl State {
    fn recently_failed(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < RETRY)
    }
}
