//! Bytes and frames of the Postgres protocol: headers, a checked cursor, borrowed views of bodies.
//! Knows the format, not what a message means for a session.

pub mod frame;
pub mod message;
pub mod proxy_header;
pub mod reader;
pub mod startup;
pub mod tag;
