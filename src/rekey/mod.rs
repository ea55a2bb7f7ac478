//! The decision: first or twin, and what becomes of a twin. Pure.

pub mod choice;
pub mod policy;
pub mod table_name;
