//! The decision: which row is a twin, and what becomes of it. Read this folder first; it sees values and
//! plans, never bytes of a message.

pub mod choice;
mod escapes;
pub mod fresh;
pub mod judge;
pub mod likeness;
pub mod plan;
pub mod policy;
pub mod protection;
mod raw;
mod refer;
pub mod references;
pub mod rows;
pub mod table_name;
pub mod value;
pub mod window;
