//! The packed row: one byte string per row, the same in memtables, SSTable readers, compaction and updates.
//!
//! | part | bytes |
//! |---|---|
//! | flags | 1: what follows |
//! | liveness | timestamp i64; with `ROW_EXPIRES` also ttl u32, expiration u32 |
//! | row deletion | timestamp i64, local time u32 |
//! | entries | one per cell or collection deletion, ordered by column id, then deletion before cells, then path |
//!
//! | entry | bytes |
//! |---|---|
//! | column | 2 |
//! | flags | 1 |
//! | timestamp | 8, unless it is the row's liveness timestamp (`CELL_USES_ROW_TIMESTAMP`) |
//! | ttl | 4, with `CELL_EXPIRES` |
//! | local deletion time | 4, with `CELL_EXPIRES`, `CELL_IS_TOMBSTONE` or `IS_COMPLEX_DELETION` |
//! | path | u32 length, bytes, with `CELL_HAS_PATH`: the map key, set element, list time-uuid or UDT field index (i16) |
//! | value | u32 length, bytes, unless tombstone or complex deletion |
//!
//! Numbers are little-endian. The form never reaches a disk except inside the commit log.

mod builder;
mod expiration;
mod view;

mod shape;

pub mod counter;
pub mod live;
pub mod merge;
pub mod purge;
pub mod split;

pub use builder::RowBuilder;
pub use expiration::ExpirationColumn;
pub use shape::RowShape;
use view::EntryTime;
pub use view::{CellRef, Entries, Entry, EntryValue, Liveness, RowRef};

const ROW_HAS_LIVENESS: u8 = 0x01;
const ROW_EXPIRES: u8 = 0x02;
const ROW_HAS_DELETION: u8 = 0x04;
/// At least one entry expires or is a deletion. A row without any of the last three flags is live as it stands, at
/// any time: a read hands it through unseen.
const ROW_HAS_MORTAL_ENTRIES: u8 = 0x08;
/// The row deletion is that of a view's row: a newer marker ends it, and what it hid is there again. Only files that
/// Cassandra wrote have such.
const ROW_DELETION_IS_SHADOWABLE: u8 = 0x10;

const CELL_USES_ROW_TIMESTAMP: u8 = 0x01;
const CELL_EXPIRES: u8 = 0x02;
const CELL_IS_TOMBSTONE: u8 = 0x04;
const CELL_HAS_PATH: u8 = 0x08;
const IS_COMPLEX_DELETION: u8 = 0x10;
