//! Knows how to run untwin, as a library, in front of a server, and how to read what it wrote down.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};
use untwin::config::Config;
use untwin::config::settings::Settings;
use untwin::journal::filter::Filter;
use untwin::journal::reader::{Entry, Reader};
use untwin::journal::record::{Fate, Record};
use untwin::journal::writer::Journal;
use untwin::proxy::Proxy;
use uuid::Uuid;

use crate::embedded::temporary_directory;
use crate::verdict::Rewrite;

/// How long after a COMMIT the journal may still call the transaction pending.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// untwin on a free loopback port, with its journal in a temporary directory. Dropped, it takes its clients'
/// connections with it, so that the server behind it has none left.
pub struct Untwin {
    addr: SocketAddr,
    journal: PathBuf,
    _sessions: Sessions,
    _directory: TempDir,
}

impl Untwin {
    /// Listens, in front of the server at `postgres`, with untwin's own defaults.
    pub async fn start(postgres: SocketAddr) -> Result<Self> {
        let directory = temporary_directory()?;
        let path = directory.path().join("journal.jsonl");
        let config = config(postgres, &path)?;
        let journal = Journal::open(&config.journal)?;
        let sessions = Sessions::new()?;
        let binding = Proxy::bind(config.proxy(), journal, Arc::default());
        let proxy = sessions.handle.spawn(binding).await??;
        let addresses = proxy.addresses();
        let addr = addresses.first().context("untwin listens nowhere")?;
        let addr = addr.to_string().parse()?;
        sessions.handle.spawn(proxy.serve(std::future::pending(), std::future::pending()));
        Ok(Self { addr, journal: path, _sessions: sessions, _directory: directory })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The file of its journal.
    pub fn journal_path(&self) -> &Path {
        &self.journal
    }

    /// The rewrites in the journal, once what became of each is known.
    pub async fn journal(&self) -> Result<Vec<Rewrite>> {
        let deadline = Instant::now() + SETTLED_WITHIN;
        loop {
            let records = records(&self.journal)?;
            let settled = records.iter().all(|record| record.fate != Fate::Pending);
            if settled || Instant::now() > deadline {
                return Ok(records.iter().map(Rewrite::from).collect());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A runtime of untwin's own: sessions outlive [`Proxy::serve`] as tasks of the runtime, and end with it.
struct Sessions {
    handle: Handle,
    /// `None` only while being dropped.
    runtime: Option<Runtime>,
}

impl Sessions {
    fn new() -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // Dropping a runtime waits for its tasks, which an async caller may not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn config(postgres: SocketAddr, journal: &Path) -> Result<Config> {
    let settings = Settings {
        upstream: Some(format!("postgres://{postgres}").parse()?),
        listen: Some("127.0.0.1:0".parse()?),
        journal: Some(journal.to_owned()),
        ..Settings::default()
    };
    Ok(Config::compose(settings.over(Settings::defaults()))?)
}

fn records(journal: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in Reader::open(journal, Filter::default())? {
        if let Entry::Record(record) = entry? {
            records.push(*record);
        }
    }
    Ok(records)
}

impl From<&Record> for Rewrite {
    fn from(record: &Record) -> Self {
        let spell = |key| Uuid::from_u128(key).to_string();
        Self {
            table: record.table.to_string(),
            column: record.column.to_string(),
            old: spell(record.old),
            new: record.new.map_or_else(String::new, spell),
            row: record.place.row,
            first_row: record.first.map_or(0, |first| first.row),
            fate: record.fate.name().to_owned(),
        }
    }
}
