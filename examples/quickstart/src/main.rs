//! See untwin work: an embedded Postgres, one batch with a twin, first without untwin and then through it.
//! Knows the flags, the signals and the exit status; the story itself is in `story`.

mod batch;
mod connection;
mod embedded;
mod interrupt;
mod print;
mod story;
mod through;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use embedded::Embedded;
use through::Untwin;

/// Shows what untwin does, on a Postgres that this program brings along. Exit status 0: it was all observed.
#[derive(Parser)]
struct Args {
    /// Keep Postgres and untwin running afterwards, to try them with psql; Ctrl-C ends
    #[arg(long)]
    stay: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\nquickstart: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything was observed. What was started is stopped, and its data removed, whatever happens in between.
async fn run(args: &Args) -> Result<bool> {
    let postgres = interrupt::before(Embedded::start()).await?;
    let told = with_untwin(&postgres, args).await;
    let stopped = postgres.stop().await;
    let all_observed = told?;
    stopped?;
    Ok(all_observed)
}

async fn with_untwin(postgres: &Embedded, args: &Args) -> Result<bool> {
    let untwin = Untwin::start(postgres.addr()).await?;
    let told = interrupt::before(story::tell(postgres.addr(), &untwin)).await;
    if args.stay && told.is_ok() {
        story::invite(&untwin);
        interrupt::wait().await?;
    }
    told
}
