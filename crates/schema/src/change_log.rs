//! Change logs: ScyllaDB's tables of what was written to another table (its CDC).

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_types::CqlType;

use crate::{ColumnKind, KeyspaceMetadata, TableMetadata};

/// The option `cdc = {'enabled': 'true', ...}` of a table whose changes are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLogOptions {
    pub preimage: Preimage,
    /// True if the log has what each row that was written has become.
    pub postimage: bool,
    pub delta: Delta,
    /// Seconds after which rows of the log are gone; 0 for never.
    pub ttl_s: u32,
}

/// Part of a row as it was before a write that a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preimage {
    None,
    /// The columns that the write changes.
    Changed,
    Full,
}

/// Part of the write itself that a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// All that it writes.
    Full,
    /// The keys of the rows.
    Keys,
}

impl ChangeLogOptions {
    pub const ENABLED: &str = "enabled";
    pub const PREIMAGE: &str = "preimage";
    pub const POSTIMAGE: &str = "postimage";
    pub const DELTA: &str = "delta";
    pub const TTL: &str = "ttl";

    /// The option as CQL has it.
    pub fn options(&self) -> BTreeMap<String, String> {
        let preimage = match self.preimage {
            Preimage::None => "false",
            Preimage::Changed => "true",
            Preimage::Full => "full",
        };
        let delta = match self.delta {
            Delta::Full => "full",
            Delta::Keys => "keys",
        };
        [
            (Self::ENABLED, "true".to_owned()),
            (Self::PREIMAGE, preimage.to_owned()),
            (Self::POSTIMAGE, self.postimage.to_string()),
            (Self::DELTA, delta.to_owned()),
            (Self::TTL, self.ttl_s.to_string()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Returns whether rows are to be read before they are written to.
    pub fn has_images(&self) -> bool {
        self.preimage != Preimage::None || self.postimage
    }
}

impl Default for ChangeLogOptions {
    fn default() -> Self {
        ChangeLogOptions {
            preimage: Preimage::None,
            postimage: false,
            delta: Delta::Full,
            ttl_s: 24 * 60 * 60,
        }
    }
}

/// Names of the columns that a log has beside those of its table.
pub mod change_log_columns {
    pub const STREAM_ID: &str = "cdc$stream_id";
    pub const TIME: &str = "cdc$time";
    pub const BATCH_SEQ_NO: &str = "cdc$batch_seq_no";
    pub const END_OF_BATCH: &str = "cdc$end_of_batch";
    pub const OPERATION: &str = "cdc$operation";
    pub const TTL: &str = "cdc$ttl";
    /// Stands before the name of a column that was set to null.
    pub const DELETED: &str = "cdc$deleted_";
    /// Stands before the name of a column of which elements were deleted.
    pub const DELETED_ELEMENTS: &str = "cdc$deleted_elements_";
    /// No table with a log has columns of its own whose names begin so.
    pub const RESERVED: &str = "cdc$";
}

const LOG_SUFFIX: &str = "_scylla_cdc_log";

/// Name of the log of the table of a name.
pub fn change_log_name(base: &str) -> String {
    format!("{base}{LOG_SUFFIX}")
}

impl TableMetadata {
    /// Returns whether this is a log, or was one: whether it is in use says [`KeyspaceMetadata::base_of_log`].
    pub fn is_change_log(&self) -> bool {
        let key = [
            (
                change_log_columns::STREAM_ID,
                CqlType::Blob,
                ColumnKind::PartitionKey,
            ),
            (
                change_log_columns::TIME,
                CqlType::Timeuuid,
                ColumnKind::Clustering,
            ),
            (
                change_log_columns::BATCH_SEQ_NO,
                CqlType::Int,
                ColumnKind::Clustering,
            ),
        ];
        let keys = self.partition_key().iter().chain(self.clustering());
        self.name.ends_with(LOG_SUFFIX)
            && keys
                .map(|column| (&*column.name, column.cql_type.clone(), column.kind))
                .eq(key)
    }
}

impl KeyspaceMetadata {
    /// The log that the changes of a table go to.
    pub fn log_of(&self, base: &TableMetadata) -> Option<&Arc<TableMetadata>> {
        base.params.change_log?;
        self.tables.get(change_log_name(&base.name).as_str())
    }

    /// The table whose changes go to this one.
    pub fn base_of_log(&self, log: &TableMetadata) -> Option<&Arc<TableMetadata>> {
        let base = self.tables.get(log.name.strip_suffix(LOG_SUFFIX)?)?;
        base.params.change_log.map(|_| base)
    }
}
