//! Asks a server what it is, in a session of the proxy's own.

use super::own::{self, Login, OwnError};
use super::tls_connect::Connector;
use super::{Address, Config};
use tokio_postgres::SimpleQueryMessage;

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
    login: &Login,
) -> Result<Role, String> {
    let mut login = login.clone();
    login.config.application_name("untwin");
    let asked = async {
        let own = own::log_in_at(address, config, connector, &login).await?;
        let answer = own.client().simple_query(QUESTION).await.map_err(|error| own.error(&error))?;
        Ok::<_, OwnError>(answer.iter().find_map(read))
    };
    // The login has its own limit.
    let answered = tokio::time::timeout(2 * config.connect_timeout, asked).await;
    let answer = answered.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
    answer.ok_or_else(|| "the server's answer is not understood".to_owned())
}

fn read(message: &SimpleQueryMessage) -> Option<Role> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    Some(Role { standby: row.get(0)? == "t", read_only: row.get(1)? == "on" })
}
