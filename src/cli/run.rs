//! `untwin run`: starts the log and the journal, then serves.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::notify::Manager;
use super::{banner, fail, logging};
use crate::config::Config;
use crate::journal::writer::Journal;
use crate::live::counters::Counters;
use crate::proxy::Proxy;
use tokio::signal::unix::{SignalKind, signal};

/// Runs untwin until it is told to stop.
pub(super) fn run(config: Config) -> ExitCode {
    if let Err(error) = logging::start(&config.log) {
        return fail(error);
    }
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let journal = match Journal::open(&config.journal) {
        Ok(journal) => journal,
        Err(error) => return fail(error),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(config.workers.get()).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(error),
    };
    let served = runtime.block_on(serve(config, journal));
    // Sessions that are still open end with the process.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

async fn serve(config: Config, journal: Journal) -> std::io::Result<()> {
    let path = journal.path().to_owned();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let proxy = Proxy::bind(config.proxy(), journal, Arc::new(Counters::default())).await?;
    let mut out = std::io::stdout().lock();
    // Nobody may be reading: a service's standard output is often closed.
    let _ = out.write_all(banner::banner(&proxy.addresses(), &config.upstream, &path).as_bytes());
    let _ = out.flush();
    drop(out);
    let manager = Manager::from_environment();
    manager.ready();
    // A little longer than the sessions get, for farewells.
    let limit = config.drain_timeout + Duration::from_secs(10);
    let drain = async {
        terminate.recv().await;
        manager.stopping(limit);
    };
    let stop = async {
        interrupt.recv().await;
        manager.stopping(limit);
    };
    tokio::select! {
        () = proxy.serve(drain, stop) => {}
        () = manager.keep_alive() => {}
    }
    Ok(())
}
