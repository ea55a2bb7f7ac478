//! Statement text and what it says: tokens, statements, inserts. Pure; knows no catalog and no session.
//!
//! ```text
//! text ─► split (pieces between `;`) ─► statement::classify ─► Statement
//!                                            └─ insert (table, columns, conflict)
//!                                                  ├─ rows    VALUES, scanned bytewise
//!                                                  └─ select  the SELECT shapes that can be followed
//! all of it on cursor ─► lex
//! ```

mod argument;
mod bytes;
pub mod calls;
mod cell;
mod copy;
mod cursor;
mod ddl;
mod dml;
pub mod insert;
pub mod lex;
pub mod name;
mod outputs;
mod relation;
mod rows;
mod scalar;
mod select;
mod setting;
pub mod split;
pub mod statement;
mod transaction;
mod types;
pub mod values;
mod with;
