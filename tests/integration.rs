//! The real binary in front of a real Postgres: one module a behaviour, one server for all of them.

mod support;

#[path = "integration/ahead.rs"]
mod ahead;
#[path = "integration/auth_query.rs"]
mod auth_query;
#[path = "integration/authentication.rs"]
mod authentication;
#[path = "integration/check.rs"]
mod check;
#[path = "integration/check_login.rs"]
mod check_login;
#[path = "integration/copy.rs"]
mod copy;
#[path = "integration/corpus.rs"]
mod corpus;
#[path = "integration/cuts.rs"]
mod cuts;
#[path = "integration/deaths.rs"]
mod deaths;
#[path = "integration/deploy.rs"]
mod deploy;
#[path = "integration/differential/mod.rs"]
mod differential;
#[path = "integration/encodings.rs"]
mod encodings;
#[path = "integration/expect.rs"]
mod expect;
#[path = "integration/families.rs"]
mod families;
#[path = "integration/freed.rs"]
mod freed;
#[path = "integration/harmless.rs"]
mod harmless;
#[path = "integration/hostile.rs"]
mod hostile;
#[path = "integration/identity.rs"]
mod identity;
#[path = "integration/journal.rs"]
mod journal;
#[path = "integration/kin.rs"]
mod kin;
#[path = "integration/limits.rs"]
mod limits;
#[path = "integration/lookalikes.rs"]
mod lookalikes;
#[path = "integration/modes.rs"]
mod modes;
#[path = "integration/names.rs"]
mod names;
#[path = "integration/newer_postgres.rs"]
mod newer_postgres;
#[path = "integration/operations/mod.rs"]
mod operations;
#[path = "integration/pipelines.rs"]
mod pipelines;
#[path = "integration/pooling.rs"]
mod pooling;
#[path = "integration/protection.rs"]
mod protection;
#[path = "integration/protocol.rs"]
mod protocol;
#[path = "integration/readme.rs"]
mod readme;
#[path = "integration/references.rs"]
mod references;
#[path = "integration/reload.rs"]
mod reload;
#[path = "integration/replication.rs"]
mod replication;
#[path = "integration/returning.rs"]
mod returning;
#[path = "integration/rust_driver.rs"]
mod rust_driver;
#[path = "integration/saved.rs"]
mod saved;
#[path = "integration/scenario.rs"]
mod scenario;
#[path = "integration/settings.rs"]
mod settings;
#[path = "integration/shared_keys.rs"]
mod shared_keys;
#[path = "integration/sqlx_driver.rs"]
mod sqlx_driver;
#[path = "integration/three_modes.rs"]
mod three_modes;
#[path = "integration/tls_clients.rs"]
mod tls_clients;
#[path = "integration/tls_servers.rs"]
mod tls_servers;
#[path = "integration/tools.rs"]
mod tools;
#[path = "integration/transparent.rs"]
mod transparent;
