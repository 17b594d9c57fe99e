//! Schema of keyspaces, tables and user types, as the node knows it: immutable snapshots, shared by all shards.
//!
//! A schema change builds a new [`Schema`] and hands it to every shard; nothing here is ever changed in place.
//! The crate is data and look-ups only: executing DDL, printing it and persisting it belong to the catalog.

mod change_log;
mod index;
mod keyspace;
mod sstable_format;
mod system_keyspaces;
mod table;
mod view;

pub use change_log::{ChangeLogOptions, Delta, Preimage, change_log_columns, change_log_name};
pub use index::{IndexId, IndexKind, IndexMetadata, IndexTarget};
pub use keyspace::{KeyspaceMetadata, Replication, Schema};
pub use sstable_format::SsTableFormat;
pub use system_keyspaces::{
    is_local_system_keyspace, is_made_from_code, is_replicated_system_keyspace, is_system_keyspace,
    is_virtual_system_keyspace,
};
pub use table::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, DroppedColumn, PerPartitionRateLimit, TableId,
    TableKind, TableMetadata, TableParams,
};
pub use view::ViewMetadata;
