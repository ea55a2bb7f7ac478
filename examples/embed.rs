//! A program that brings its own untwin: starts it in front of a database, and tells what it did when it ends.
//!
//! `cargo run --example embed -- postgres://127.0.0.1:5432`, then connect to the address that it prints; Ctrl-C ends it.

use std::error::Error;
use std::sync::Arc;

use untwin::config::Config;
use untwin::config::settings::Settings;
use untwin::journal::writer::Journal;
use untwin::live::counters::Counters;
use untwin::proxy::Proxy;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let upstream = std::env::args().nth(1).ok_or("the database: postgres://host:port")?;
    // The settings are those of untwin.toml; what is left out has its default.
    let settings = Settings {
        upstream: Some(upstream.parse()?),
        listen: Some("127.0.0.1:0".parse()?),
        journal: Some(std::env::temp_dir().join("embedded-untwin.jsonl")),
        ..Settings::default()
    };
    let config = Config::compose(settings.over(Settings::defaults()))?;

    let journal = Journal::open(&config.journal)?;
    println!("journal: {}", journal.path().display());
    let counters = Arc::new(Counters::default());
    let proxy = Proxy::bind(config.proxy(), journal, Arc::clone(&counters)).await?;
    for address in proxy.addresses() {
        println!("DATABASE_URL={}", address.client_url());
    }

    // Sessions end outside their transactions when the first future is ready, at once when the second is.
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    proxy.serve(stop, std::future::pending()).await;
    println!("{} keys were rewritten", counters.rekeyed_total.value());
    Ok(())
}
