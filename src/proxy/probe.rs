//! Asks a server what it is, with a login of the proxy's own.

use super::machine::Machine;
use super::stream::Stream;
use super::tls_connect::{Connector, Way};
use super::{Address, Config};
use std::time::Duration;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// It follows another one.
    pub standby: bool,
    /// Transactions do not write unless they ask to.
    pub read_only: bool,
}

/// Names and settings are those of `pg_catalog`, whatever the search path of the login is.
const QUESTION: &str =
    "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

/// Asks the first machine of this address that answers.
///
/// # Errors
/// Why none of them told, in words.
pub(super) async fn role(
    address: &Address,
    config: &Config,
    connector: &Connector,
    login: &tokio_postgres::Config,
) -> Result<Role, String> {
    let limit = config.connect_timeout;
    let mut reason = "the name stands for no address".to_owned();
    for machine in address.machines(limit).await.map_err(|error| error.to_string())? {
        for &way in connector.ways(address) {
            match ask_within(limit, &machine, way, config, connector, login).await {
                Ok(role) => return Ok(role),
                Err(error) => reason = error,
            }
        }
    }
    Err(reason)
}

async fn ask_within(
    limit: Duration,
    machine: &Machine,
    way: Way,
    config: &Config,
    connector: &Connector,
    login: &tokio_postgres::Config,
) -> Result<Role, String> {
    let asked = async {
        let stream = connector.connect(machine, way, &config.tcp).await.map_err(|error| error.to_string())?;
        ask(stream, login).await.map_err(|error| told(&error))
    };
    tokio::time::timeout(limit, asked)
        .await
        .map_err(|_| "no answer in time".to_owned())??
        .ok_or_else(|| "the server's answer is not understood".to_owned())
}

async fn ask(
    mut stream: Stream,
    login: &tokio_postgres::Config,
) -> Result<Option<Role>, tokio_postgres::Error> {
    let mut login = login.clone();
    // The stream is encrypted already, where it is to be.
    login.ssl_mode(tokio_postgres::config::SslMode::Disable);
    login.application_name("untwin");
    let (reader, writer) = stream.halves();
    let (client, connection) = login.connect_raw(tokio::io::join(reader, writer), NoTls).await?;
    let asking = async move {
        let rows = client.simple_query(QUESTION).await;
        drop(client);
        rows
    };
    let (rows, _) = tokio::join!(asking, connection);
    Ok(rows?.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some(Role { standby: row.get(0)? == "t", read_only: row.get(1)? == "on" })
        }
        _ => None,
    }))
}

/// The server's own words, where it has said any.
fn told(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned())
}
