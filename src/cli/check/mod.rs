//! `untwin check`: reads the database's catalog with a connection of its own, and hands on.

mod find;
mod print;

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::Failure;
use super::args::{CheckArgs, Format};
use crate::catalog::{self, Catalog};

pub(super) fn check(arguments: &CheckArgs, out: &mut impl Write) -> Result<(), Failure> {
    let config = arguments.sources().config()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let loading = load(config.upstream.client.clone(), config.connect_timeout);
    let (database, catalog) =
        runtime.block_on(loading).map_err(|error| Failure::Told(advice(&error, &config.upstream.client)))?;
    let report = find::report(&catalog, &config.policies, &database);
    match arguments.format {
        Format::Table => print::text(&report, out)?,
        Format::Json => print::json(&report, out)?,
    }
    out.flush()?;
    if report.problems.is_empty() { Ok(()) } else { Err(Failure::Told(print::problems(&report))) }
}

/// Why the catalog could not be read.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("{}", with_cause(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Answer(#[from] catalog::load::Error),
    #[error("the database gave no answer")]
    Nothing,
}

fn with_cause(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The name of the database and its catalog.
async fn load(mut login: tokio_postgres::Config, patience: Duration) -> Result<(String, Catalog), LoadError> {
    login.application_name("untwin check");
    if login.get_connect_timeout().is_none() {
        login.connect_timeout(patience);
    }
    let (client, connection) = login.connect(NoTls).await?;
    // Ends with the client.
    tokio::spawn(connection);
    let value = async |statement: &str| {
        let messages = client.simple_query(statement).await?;
        let mut rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.next().ok_or(LoadError::Nothing)
    };
    let database = value("SELECT pg_catalog.current_database()").await?;
    let answer = value(catalog::load::STATEMENT).await?;
    Ok((database, catalog::load::parse(&answer, 1)?))
}

/// What went wrong, and what the URL lacks that may be why.
fn advice(error: &LoadError, login: &tokio_postgres::Config) -> String {
    let parts = [
        ("user", login.get_user().is_none()),
        ("password", login.get_password().is_none()),
        ("database", login.get_dbname().is_none()),
    ];
    let missing: Vec<_> = parts.iter().filter(|(_, missing)| *missing).map(|(part, _)| *part).collect();
    let told = format!("cannot read the catalog of the database: {error}");
    match missing[..] {
        [] => told,
        _ => format!(
            "{told}\nThe URL names no {}: write --upstream postgres://user:password@host:port/database",
            missing.join(" and no ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_the_url_lacks() {
        for (url, lacks) in [
            ("postgres://h", "The URL names no user and no password and no database: "),
            ("postgres://u:p@h", "The URL names no database: "),
        ] {
            let told = advice(&LoadError::Nothing, &url.parse().unwrap());
            assert!(told.contains(lacks) && told.contains("gave no answer"), "{told}");
        }
        let told = advice(&LoadError::Nothing, &"postgres://u:secret@h/d".parse().unwrap());
        assert_eq!(told, "cannot read the catalog of the database: the database gave no answer");
    }
}
