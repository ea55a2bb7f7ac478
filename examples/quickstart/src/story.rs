//! Knows the order of the story and its words; what makes it true is `verdict`'s business.

use std::net::SocketAddr;

use anyhow::Result;

use crate::batch::{self, Outcome, Row};
use crate::embedded::{DATABASE, USER};
use crate::print;

pub async fn tell(postgres: SocketAddr) -> Result<bool> {
    let version = batch::prepare(postgres).await?;
    println!(
        "A Postgres {version} is running inside this program, on {postgres}, with one empty table:\n"
    );
    println!("{}", print::indent(batch::TABLE));
    println!(
        "The batch: three rows in one transaction. The first and the last carry the same id.\n"
    );
    println!("{}", print::indent(&batch::sql()));

    println!("1. Sent to Postgres directly\n");
    let direct = batch::send(postgres).await?;
    print_outcome(&direct);
    let stored_directly = batch::stored(postgres).await?;
    print_rows(&stored_directly);
    Ok(true)
}

fn print_outcome(outcome: &Outcome) {
    match outcome {
        Outcome::Committed => println!("{}", print::indent("COMMIT")),
        Outcome::Refused(error) => {
            println!("    ERROR {}: {}", error.code().code(), error.message());
            if let Some(detail) = error.detail() {
                println!("    DETAIL: {detail}");
            }
            println!();
        }
    }
}

fn print_rows(rows: &[Row]) {
    let cells: Vec<[String; 3]> = rows
        .iter()
        .map(|Row { id, v, src }| [id.clone(), v.clone(), src.clone()])
        .collect();
    println!("{}", print::table(["id", "v", "src"], &cells));
}

pub fn invite(untwin: SocketAddr) {
    println!("Both keep running. In another terminal, one connection at a time:\n");
    println!(
        "    psql 'host={} port={} user={USER} dbname={DATABASE}'\n",
        untwin.ip(),
        untwin.port()
    );
    println!("Ctrl-C ends them and removes their data.");
}
