//! untwin: a Postgres proxy that gives the later of two rows with one UUID key a fresh key.
//!
//! ```text
//! client bytes -> proxy -> wire (frames) -> session (whose statement, which transaction)
//!              -> sql (text -> facts) -> rekey (facts + catalog -> plan -> decision)
//!              -> carrier (where the keys stand) -> fresh key over the old one, in place
//!              -> journal -> the same frame, upstream
//! ```
//!
//! A module imports only modules of lower floors; `tests/architecture.rs` holds the drawing to it.
//!
//! | floor | module | what it knows |
//! | --- | --- | --- |
//! | 0 | [`wire`] | bytes and frames of the Postgres protocol |
//! | 0 | [`sql`] | statement text and what it says |
//! | 0 | [`key`] | a UUID and how it is spelled |
//! | 0 | [`live`] | what is happening now: counters, health |
//! | 1 | [`catalog`] | the database's unique keys, and which table a name means |
//! | 2 | [`carrier`] | where the keys stand in a statement's data |
//! | 3 | [`rekey`] | the decision: first or twin, and what becomes of a twin |
//! | 4 | [`session`] | one conversation as a state machine |
//! | 4 | [`journal`] | the rewrite log |
//! | 5 | [`proxy`] | sockets |
//! | 6 | [`admin`] | looking in: metrics and health by HTTP |
//! | 7 | [`config`] | settings from file, environment and flags |
//! | 8 | [`cli`] | the commands |

pub mod admin;
pub mod carrier;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod journal;
pub mod key;
pub mod live;
pub mod proxy;
pub mod rekey;
pub mod session;
pub mod sql;
pub mod wire;
