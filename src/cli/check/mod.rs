//! `untwin check`: reads the database's catalog with a connection of its own, and hands on.

mod find;
mod password;
mod print;

use std::io::Write;

use tokio_postgres::SimpleQueryMessage;

use super::Failure;
use super::args::{CheckArgs, Format};
use crate::catalog::{self, Catalog};
use crate::config::Config;
use crate::proxy::{self, Login, Own, OwnError, Wanted};

pub(super) fn check(arguments: &CheckArgs, out: &mut impl Write) -> Result<(), Failure> {
    let config = arguments.sources().config()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut login, warning) = password::login(&config.upstream, |name| std::env::var_os(name));
    login.config.application_name("untwin check");
    let loaded = runtime.block_on(load(&config, &login));
    let (database, catalog) = loaded.map_err(|error| {
        let lines = [Some(advice(&error, &login)), warning];
        Failure::Told(lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    })?;
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
    #[error(transparent)]
    Session(#[from] OwnError),
    #[error(transparent)]
    Answer(#[from] catalog::load::Error),
    #[error("the database gave no answer")]
    Nothing,
}

/// The name of the database and its catalog, from the server that sessions of clients would be on.
async fn load(config: &Config, login: &Login) -> Result<(String, Catalog), LoadError> {
    let mut config = config.proxy();
    if let Some(limit) = login.config.get_connect_timeout() {
        config.connect_timeout = *limit;
    }
    if config.choice.wanted != Wanted::Any {
        config.choice.login = Some(login.clone());
    }
    let own = proxy::log_in_once(&config, login).await?;
    let read = read(&own).await;
    own.close().await;
    read
}

async fn read(own: &Own) -> Result<(String, Catalog), LoadError> {
    let value = async |statement: &str| {
        let messages = own.client().simple_query(statement).await.map_err(|error| own.error(&error))?;
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
fn advice(error: &LoadError, login: &Login) -> String {
    let Login { config, passwords } = login;
    let parts = [
        ("user", config.get_user().is_none()),
        ("password", config.get_password().is_none() && passwords.is_empty()),
        ("database", config.get_dbname().is_none()),
    ];
    let missing: Vec<_> = parts.iter().filter(|(_, missing)| *missing).map(|(part, _)| *part).collect();
    let told = format!("cannot read the catalog of the database: {error}");
    match missing[..] {
        [] => told,
        _ => format!(
            "{told}\nThe URL names no {}: write --upstream postgres://user:password@host:port/database{}",
            missing.join(" and no "),
            if missing.contains(&"password") { ", or set PGPASSWORD or PGPASSFILE" } else { "" }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(url: &str) -> Login {
        url.parse::<crate::config::upstream::Upstream>().unwrap().login()
    }

    #[test]
    fn an_error_says_what_the_url_lacks() {
        for (url, lacks) in [
            ("postgres://h", "The URL names no user and no password and no database: "),
            ("postgres://u:p@h", "The URL names no database: "),
        ] {
            let told = advice(&LoadError::Nothing, &login(url));
            assert!(told.contains(lacks) && told.contains("gave no answer"), "{told}");
        }
        let told = advice(&LoadError::Nothing, &login("postgres://u:secret@h/d"));
        assert_eq!(told, "cannot read the catalog of the database: the database gave no answer");
    }
}
