//! What the database says of its tables: unique keys, foreign keys, defaults, triggers, and which
//! table a name means. Pure: rows come in, a model comes out; it knows no socket.
//!
//! `load.sql` is sent by whoever owns a connection; its one text value goes to [`load::parse`], which
//! returns a [`Catalog`]. `scope.sql` likewise asks a session where it looks for names.

mod calls;
mod families;
mod frees;
mod keys;
pub mod load;
pub mod model;
mod moves;
mod raw;
mod reach;
pub mod reasons;
pub mod resolve;
pub mod snapshot;
mod tables;
mod trigger;

pub use resolve::{Path, Resolution, Scope, Temporary};
pub use snapshot::Catalog;
