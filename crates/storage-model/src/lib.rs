//! A model of what SSTables hold, for proofs: random tables with random contents, written to files and read from them,
//! and the text that Cassandra's `sstabledump` must print of them.
//!
//! Everything random comes from a seed: the same seed gives the same case on every machine.

mod chance;

mod partition;
mod sstable;

mod case;
mod content;
mod table;
mod value;

mod collision;
mod large;

mod answer;
mod dump;
mod json;
mod statement;
mod writes;

pub use answer::{AnswerRow, answer};
pub use case::{Case, CaseKind};
pub use chance::Chance;
pub use collision::key_with_token;
pub use content::Era;
pub use dump::{dump, without_layout};
pub use large::{LargePartition, LargeRead};
pub use partition::{Item, Partition, Partitions, cell, empty_row, insert, live, packed_row};
pub use sstable::{drain, encoding_stats, point_read, scan, write};
pub use statement::schema_statements;
pub use table::{RandomTable, TableWish, random_table, wished_table};
pub use value::{element_of_list, random_value};
pub use writes::{BoundStatement, RandomWrites};
