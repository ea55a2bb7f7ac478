//! A byte lexer for Postgres SQL.
