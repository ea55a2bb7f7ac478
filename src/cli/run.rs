//! `untwin run`: starts the log and the journal, serves, and reads the configuration again on SIGHUP.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::notify::Manager;
use super::{banner, descriptors, fail, logging};
use crate::admin::{Admin, Live};
use crate::config::reload::{changes_sessions, needs_restart};
use crate::config::settings::Settings;
use crate::config::{self, Config, Sources};
use crate::journal::writer::Journal;
use crate::live::counters::Counters;
use crate::live::health::{Health, Stage};
use crate::proxy::{Proxy, Reloader, Workers};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs untwin until it is told to stop.
pub(super) fn run(sources: Sources) -> ExitCode {
    let Read { settings, config } = match Read::from(&sources) {
        Ok(read) => read,
        Err(error) => return fail(error),
    };
    if let Err(error) = logging::start(&config.log) {
        return fail(error);
    }
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    descriptors::raise(config.session_limits.total);
    let journal = match Journal::open(&config.journal) {
        Ok(journal) => journal,
        Err(error) => return fail(error),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(error),
    };
    let served = runtime.block_on(serve(config, journal, Reload::new(sources, settings)));
    // Sessions that are still open end with the process.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

async fn serve(config: Config, journal: Journal, mut reload: Reload) -> std::io::Result<()> {
    let path = journal.path().to_owned();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let hangup = signal(SignalKind::hangup())?;
    let counters = Arc::new(Counters::default());
    let health = Arc::new(Health::starting(Instant::now()));
    if let Some(admin) = config.admin {
        let live = Live { counters: Arc::clone(&counters), health: Arc::clone(&health) };
        look_in(Admin::bind(admin)?, live)?;
    }
    let workers = Workers::start(config.workers.get())?;
    let proxy = Proxy::bind(config.proxy(), journal, Arc::clone(&counters)).await?.with_workers(workers);
    let reloader = proxy.reloader();
    // Who connects from now on waits for a moment at most.
    health.enter(Stage::Serving);
    let mut out = std::io::stdout().lock();
    // Nobody may be reading: a service's standard output is often closed.
    let _ = out.write_all(banner::banner(&proxy.addresses(), &config.upstream, &path).as_bytes());
    let _ = out.flush();
    drop(out);
    let manager = Manager::from_environment();
    manager.ready();
    // A little longer than the sessions get, for farewells.
    let limit = config.drain_delay + config.drain_timeout + Duration::from_secs(10);
    let drain = async {
        terminate.recv().await;
        manager.stopping(limit);
        leave(&health, config.drain_delay).await;
    };
    let stop = async {
        interrupt.recv().await;
        manager.stopping(limit);
        health.enter(Stage::Draining);
    };
    tokio::select! {
        () = proxy.serve(drain, stop) => {}
        () = manager.keep_alive() => {}
        () = beat(&health) => {}
        () = reload.whenever(hangup, &reloader) => {}
    }
    farewell(&counters);
    Ok(())
}

/// Answers those who look in, until the process ends.
fn look_in(admin: Admin, live: Live) -> std::io::Result<()> {
    let address = admin.address()?;
    admin.start(live)?;
    tracing::info!(%address, "metrics and health are told");
    Ok(())
}

/// Says that it is time to go elsewhere, and lets clients in for `delay` yet: it takes a while until those who
/// choose among several untwins have heard of it.
async fn leave(health: &Health, delay: Duration) {
    health.enter(Stage::Leaving);
    if !delay.is_zero() {
        tracing::info!(?delay, "about to end: clients are still let in");
        tokio::time::sleep(delay).await;
    }
    health.enter(Stage::Draining);
}

/// Shows that this loop turns. Never returns.
async fn beat(health: &Health) {
    loop {
        health.beat(Instant::now());
        tokio::time::sleep(Health::PULSE).await;
    }
}

/// Says what was done: how many statements were inspected, how many were not, and why.
fn farewell(counters: &Counters) {
    tracing::info!(
        inspected = counters.inspected_statements_total.value(),
        uninspected = %counters.uninspected_total,
        rekeyed = counters.rekeyed_total.value(),
        forwarded = %counters.forwarded_total,
        limits = %counters.limits_reached_total,
        key_bytes = counters.key_bytes.value(),
        "untwin ends"
    );
}

/// The configuration as its sources give it now.
struct Read {
    settings: Settings,
    config: Config,
}

impl Read {
    fn from(sources: &Sources) -> Result<Self, config::Error> {
        let settings = sources.clone().settings()?;
        Ok(Self { config: Config::compose(settings.clone())?, settings })
    }
}

/// Where the configuration comes from, and what of it is in force.
struct Reload {
    sources: Sources,
    /// As read at the start.
    running: Settings,
    /// As read last.
    last: Settings,
}

impl Reload {
    fn new(sources: Sources, running: Settings) -> Self {
        Self { sources, last: running.clone(), running }
    }

    /// Reads the configuration anew at every SIGHUP. Never returns.
    async fn whenever(&mut self, mut hangup: Signal, reloader: &Reloader) {
        while hangup.recv().await.is_some() {
            self.again(reloader);
            match reloader.reload_credentials() {
                Ok(()) => {
                    tracing::info!("certificates, keys and users were read again: new connections use them");
                }
                Err(error) => tracing::error!(%error, "certificates, keys and users stay as they were"),
            }
        }
        std::future::pending().await
    }

    /// Reads the configuration anew. If it is wrong, everything stays as it is.
    fn again(&mut self, reloader: &Reloader) {
        let read = match Read::from(&self.sources) {
            Ok(read) => read,
            Err(error) => return tracing::error!(%error, "the configuration stays as it was"),
        };
        for setting in needs_restart(&self.running, &read.settings) {
            tracing::warn!(setting, "this setting changes only when untwin is started again");
        }
        if changes_sessions(&self.last, &read.settings) {
            reloader.reload(read.config.rules());
            tracing::info!(
                "the configuration was read again: sessions follow it from their next transaction on"
            );
        } else {
            reloader.refresh();
            tracing::info!("the configuration was read again: nothing changes for sessions");
        }
        self.last = read.settings;
    }
}
