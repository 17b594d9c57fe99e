//! What a row of a base table is in a materialized view: whether it is there, how long its row lives, and what takes it away
//! again. Pure functions of the row before a write and after it; nothing here reads or writes.

mod entry;

pub use entry::{EntryChange, ViewShape};
