//! Knows the order of the story and its words; what makes it true is `verdict`'s business.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Result;

use crate::batch::{self, Row};
use crate::embedded::{DATABASE, USER};
use crate::print;
use crate::through::Untwin;
use crate::verdict::{self, Observed, Rewrite};

/// Does it all and says what happens; whether it was as it must be.
pub async fn tell(postgres: SocketAddr, untwin: &Untwin) -> Result<bool> {
    let start = Instant::now();
    let version = batch::prepare(postgres).await?;
    println!("A Postgres {version} runs inside this program, on {postgres}.");
    println!("untwin stands in front of it, on {}. The database has one empty table:\n", untwin.addr());
    println!("{}", print::indent(batch::TABLE));
    println!("The batch is one transaction with three rows. The first and the third have the same id:\n");
    println!("{}", print::indent(&batch::sql()));

    println!("1. The batch, sent to Postgres directly:\n");
    let direct = batch::send(postgres).await?;
    println!("{}", print::indent(&direct.to_string()));
    let stored_directly = batch::stored(postgres).await?;
    print_rows(&stored_directly);

    println!("2. The same batch, sent to untwin:\n");
    let through = batch::send(untwin.addr()).await?;
    println!("{}", print::indent(&through.to_string()));
    let stored_through = batch::stored(postgres).await?;
    print_rows(&stored_through);

    println!("3. What untwin wrote down:\n");
    let journal = untwin.journal().await?;
    print_journal(&journal);

    let seen = Observed { direct, stored_directly, through, stored_through, journal };
    let differences = verdict::differences(&seen);
    conclude(&differences, start);
    Ok(differences.is_empty())
}

/// How to try it, for as long as everything keeps running.
pub fn invite(untwin: &Untwin) {
    let addr = untwin.addr();
    println!("\nBoth keep running. In another terminal, one connection at a time:\n");
    println!("    psql 'host={} port={} user={USER} dbname={DATABASE}'\n", addr.ip(), addr.port());
    println!("untwin's journal, one JSON object a line: {}", untwin.journal_path().display());
    println!("Ctrl-C ends both and removes their data.");
}

fn print_rows(rows: &[Row]) {
    if rows.is_empty() {
        println!("    The table is empty: the rollback took all three rows.\n");
        return;
    }
    let cells: Vec<[String; 3]> =
        rows.iter().map(|Row { id, v, src }| [id.clone(), v.clone(), src.clone()]).collect();
    println!("{}", print::table(["id", "v", "src"], &cells));
}

fn print_journal(journal: &[Rewrite]) {
    let cells = |rewrite: &Rewrite| {
        [
            format!("{}.{}", rewrite.table, rewrite.column),
            format!("{}, twin of {}", rewrite.row, rewrite.first_row),
            rewrite.old.clone(),
            rewrite.new.clone(),
            rewrite.fate.clone(),
        ]
    };
    let cells: Vec<[String; 5]> = journal.iter().map(cells).collect();
    println!("{}", print::table(["key", "row", "sent", "stored", "fate"], &cells));
}

fn conclude(differences: &[String], start: Instant) {
    if differences.is_empty() {
        let seconds = start.elapsed().as_secs_f32();
        println!("All of this happened just now, in {seconds:.1} s.");
        return;
    }
    println!("This is not what should have happened:\n");
    for difference in differences {
        println!("  - {difference}");
    }
    println!("\nRun it with --stay to look at the database yourself.");
}
