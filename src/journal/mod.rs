//! The rewrite log: a file of JSON lines, written before the server sees a rewrite, and read by people.
//! Knows files and lines; who decides what is recorded is not its business.

mod files;
pub mod filter;
pub mod follow;
mod line;
mod lines;
mod merge;
mod output;
pub mod reader;
pub mod record;
pub mod writer;

use std::path::PathBuf;

pub use files::default_path;
#[cfg(test)]
pub(crate) use line::tests::record as example;

/// Where the journal is and how it is kept short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file; `None`: [`default_path`].
    pub path: Option<PathBuf>,
    /// The file is set aside before it grows past this, in bytes.
    pub rotate_bytes: u64,
    /// How many files set aside are kept.
    pub keep: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { path: None, rotate_bytes: 64 << 20, keep: 10 }
    }
}
