//! Hosts of the files that the tools work on: a running node, through its shards, or a stopped node, directly.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_catalog::schema_store::SchemaStoreError;
use helenus_cql::SyntaxError;
use helenus_engine::CqlError;
use helenus_schema::{
    Schema, TableId, TableKind, TableMetadata, is_local_system_keyspace, is_system_keyspace,
};
use helenus_sstable::Descriptor;
use helenus_storage::error::TruncateError;
use helenus_storage::store::{
    Adoption, AdoptionError, CompactError, CompactionRequest, DataFolder, FolderError, OpenError,
    ShardCompactions,
};

/// Services of a node, running or not, to the tools.
pub trait Host {
    fn schema(&self) -> Result<Arc<Schema>, HostError>;

    /// Executes one schema statement; nothing to change is no error.
    fn change_schema(&self, statement: &str) -> Result<(), HostError>;

    fn data_folder(&self) -> Result<Arc<DataFolder>, HostError>;

    /// Among how many shards SSTables must be split before they are adopted; 1 where the next start does that.
    fn shard_count(&self) -> u16;

    /// Makes SSTables of the memtables of a table, or of all with `None`.
    fn flush(&self, table: Option<TableId>) -> Result<(), HostError>;

    /// The SSTables that are the table's at this moment.
    fn sstables(&self, table: &TableMetadata) -> Result<Vec<Descriptor>, HostError>;

    /// Makes staged files a part of their table; returns how many SSTables it got.
    fn adopt(
        &self,
        table: &TableMetadata,
        adoption: Adoption,
        incumbents: Incumbents,
    ) -> Result<u64, HostError>;

    /// Compactions of every shard.
    fn compactions(&self) -> Result<Vec<ShardCompactions>, HostError>;

    /// Compacts a table on all shards; returns when they have.
    fn compact(&self, request: CompactionRequest) -> Result<(), HostError>;

    /// Stops the compactions of a table, or of all with `None`; returns how many ran.
    fn stop_compactions(&self, table: Option<TableId>) -> Result<u64, HostError>;

    /// All materialized views, by keyspace and name, and how far their building came.
    fn view_builds(&self) -> Result<Vec<ViewBuild>, HostError>;
}

/// A materialized view of a running node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ViewBuild {
    pub keyspace: String,
    pub view: String,
    /// Its base table.
    pub base: String,
    /// True once it has all rows that its base table makes; what is written meanwhile is always in it.
    pub is_built: bool,
    /// Share of all tokens whose rows it has, in thousandths.
    pub per_mille: u16,
}

/// Fate of a table's rows when files are brought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incumbents {
    Stay,
    /// Rows written before go; those that a running node is told while the files come in stay.
    Go,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    #[error("the node is stopping")]
    Stopping,
    #[error("what is known of materialized views cannot be read: {0}")]
    Views(CqlError),
    #[error(
        "shard {shard} has not answered for {seconds} s, so the request was given up: the shard or its disk is held up. The \
         node's own messages and `helenus top` show more; try again when it answers, or restart the node"
    )]
    NoAnswer { shard: u16, seconds: u64 },
    #[error("the node keeps everything in memory; there are no files to work on")]
    InMemory,
    #[error("shard {shard}: not everything could be flushed; the node's own messages say why")]
    NotFlushed { shard: u16 },
    #[error("no node runs on {}; start one, or leave this to its next start", folder.display())]
    NeedsNode { folder: PathBuf },
    #[error(
        "the commit log in {} still holds writes to {keyspace}.{table}, which the next start would add to what is \
         restored; start the node and stop it again, or restore while it runs",
        folder.display()
    )]
    LogHolds {
        folder: PathBuf,
        keyspace: String,
        table: String,
    },
    #[error("{}: the commit log cannot be read: {reason}", folder.display())]
    Log { folder: PathBuf, reason: String },
    #[error("{statement}: {source}")]
    Syntax { statement: String, source: SyntaxError },
    #[error("{statement}: {source}")]
    Schema { statement: String, source: CqlError },
    #[error(transparent)]
    SchemaStore(#[from] SchemaStoreError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Compact(#[from] CompactError),
    #[error(transparent)]
    Held(#[from] TruncateError),
    #[error(transparent)]
    Adoption(#[from] AdoptionError),
}

/// Which tables an operator means.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TableChoice {
    pub keyspace: Option<String>,
    pub table: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    #[error("there is no keyspace {name:?}")]
    NoKeyspace { name: String },
    #[error("there is no table {keyspace}.{table}")]
    NoTable { keyspace: String, table: String },
    #[error("--table needs --keyspace, or the form KEYSPACE.TABLE")]
    TableWithoutKeyspace,
}

impl TableChoice {
    /// `KEYSPACE.TABLE` as a table's name names both.
    pub fn of(keyspace: Option<&str>, table: Option<&str>) -> Self {
        match (keyspace, table.and_then(|table| table.split_once('.'))) {
            (None, Some((keyspace, table))) => TableChoice {
                keyspace: Some(keyspace.to_owned()),
                table: Some(table.to_owned()),
            },
            _ => TableChoice {
                keyspace: keyspace.map(str::to_owned),
                table: table.map(str::to_owned),
            },
        }
    }

    /// Tables with files: all that users made, those of a keyspace, or one.
    pub fn tables(&self, schema: &Schema) -> Result<Vec<Arc<TableMetadata>>, ChoiceError> {
        let mut tables: Vec<_> = match (&self.keyspace, &self.table) {
            (None, Some(_)) => return Err(ChoiceError::TableWithoutKeyspace),
            (None, None) => schema
                .tables()
                .filter(|table| !is_system_keyspace(&table.keyspace))
                .cloned()
                .collect(),
            (Some(keyspace), None) => schema
                .keyspace(keyspace)
                .ok_or_else(|| ChoiceError::NoKeyspace {
                    name: keyspace.clone(),
                })?
                .tables
                .values()
                .cloned()
                .collect(),
            (Some(keyspace), Some(table)) => {
                let found = schema
                    .table(keyspace, table)
                    .ok_or_else(|| ChoiceError::NoTable {
                        keyspace: keyspace.clone(),
                        table: table.clone(),
                    })?;
                vec![Arc::clone(found)]
            }
        };
        tables.retain(|table| table.kind == TableKind::Regular && !is_local_system_keyspace(&table.keyspace));
        tables.sort_by(|left, right| (&left.keyspace, &left.name).cmp(&(&right.keyspace, &right.name)));
        Ok(tables)
    }
}
