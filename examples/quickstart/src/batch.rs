//! Knows the batch with a twin, how to send it, and how to read what was stored; judges nothing.

use std::fmt;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio_postgres::error::DbError;

use crate::connection::Connection;

pub const TABLE: &str = "CREATE TABLE ev (id uuid PRIMARY KEY, v text, src text)";

/// The key that two of the three rows carry.
pub const SHARED_KEY: &str = "11111111-1111-4111-8111-111111111111";
/// The key of the row in between.
pub const OTHER_KEY: &str = "22222222-2222-4222-8222-222222222222";

/// A row of `ev`, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: String,
    pub v: String,
    pub src: String,
}

impl Row {
    pub fn new(id: &str, v: &str, src: &str) -> Self {
        let [id, v, src] = [id, v, src].map(str::to_owned);
        Self { id, v, src }
    }
}

/// What became of a batch.
pub enum Outcome {
    Committed,
    /// The server refused it; the transaction has been rolled back.
    Refused(Box<DbError>),
}

impl fmt::Display for Outcome {
    /// As psql shows it, with the SQLSTATE.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Refused(error) = self else { return f.write_str("COMMIT") };
        write!(f, "ERROR {}: {}", error.code().code(), error.message())?;
        match error.detail() {
            Some(detail) => write!(f, "\nDETAIL: {detail}"),
            None => Ok(()),
        }
    }
}

/// The rows in the order in which they are sent.
pub fn rows() -> [Row; 3] {
    [Row::new(SHARED_KEY, "a", "s1"), Row::new(OTHER_KEY, "b", "s1"), Row::new(SHARED_KEY, "c", "s1")]
}

/// The text that is sent, both times: one transaction with one INSERT.
pub fn sql() -> String {
    let values = rows().map(|Row { id, v, src }| format!("  ('{id}', '{v}', '{src}')"));
    format!("BEGIN;\nINSERT INTO ev (id, v, src) VALUES\n{};\nCOMMIT;", values.join(",\n"))
}

/// Creates the empty table and says which Postgres this is, for example `17.5`.
pub async fn prepare(addr: SocketAddr) -> Result<String> {
    let connection = Connection::open(addr).await?;
    connection.client.batch_execute(TABLE).await?;
    let version = connection.client.query_one("SHOW server_version", &[]).await?;
    connection.close().await?;
    Ok(version.try_get(0)?)
}

/// Sends the batch to `addr` on a connection of its own.
///
/// # Errors
/// Only if there is no answer to judge; a refusal by the server is an [`Outcome`].
pub async fn send(addr: SocketAddr) -> Result<Outcome> {
    let connection = Connection::open(addr).await?;
    let outcome = match connection.client.batch_execute(&sql()).await {
        Ok(()) => Outcome::Committed,
        Err(error) => {
            let refusal = error.as_db_error().cloned().map(Box::new);
            let refusal = refusal.ok_or(error).context("the batch got no answer")?;
            connection.client.batch_execute("ROLLBACK").await?;
            Outcome::Refused(refusal)
        }
    };
    connection.close().await?;
    Ok(outcome)
}

/// The rows that are in the table, ordered by `v`.
pub async fn stored(addr: SocketAddr) -> Result<Vec<Row>> {
    let connection = Connection::open(addr).await?;
    let select = "SELECT id::text, v, src FROM ev ORDER BY v, id";
    let found = connection.client.query(select, &[]).await?;
    connection.close().await?;
    found
        .iter()
        .map(|row| Ok(Row { id: row.try_get(0)?, v: row.try_get(1)?, src: row.try_get(2)? }))
        .collect()
}
