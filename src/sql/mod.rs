//! Statement text and what it says: tokens, statements, inserts. Pure; knows no catalog and no session.

pub mod insert;
pub mod lex;
pub mod name;
pub mod split;
pub mod statement;
