//! What the database says of its tables: unique keys, foreign keys, defaults, triggers, and which
//! table a name means. Pure: rows come in, a model comes out; it knows no socket.

pub mod model;
