//! Metadata of an SSTable, read without knowing its table: for tools, and for tables whose schema is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableId, TableKind, TableMetadata, TableParams,
};
use helenus_types::CqlType;
use helenus_vfs::Disk;
use uuid::Uuid;

use crate::component::Component;
use crate::decode::DecodeError;
use crate::descriptor::Descriptor;
use crate::error::OpenError;
use crate::error::ReadError;
use crate::meta::encoding_stats::EncodingStats;
use crate::meta::statistics::SsTableStatistics;
use crate::meta::statistics_file::StatisticsFile;

/// The largest Statistics.db that is read: histograms and types take kilobytes. Bounds what a damaged disk can ask for.
const STATISTICS_BYTES_MAX: u64 = 256 << 20;

/// The content of Statistics.db.
#[derive(Clone, Debug)]
pub struct StoredMetadata {
    pub path: PathBuf,
    pub bloom_filter_fp_chance: f64,
    pub statistics: SsTableStatistics,
    pub encoding_stats: EncodingStats,
    pub key_class: String,
    pub clustering_classes: Vec<String>,
    /// Names and classes.
    pub static_columns: Vec<(String, String)>,
    pub regular_columns: Vec<(String, String)>,
}

/// The names that Cassandra's tools give to columns whose names an SSTable does not have.
const KEY_NAME: &str = "PartitionKey";
const CLUSTERING_NAME: &str = "clustering";

impl StoredMetadata {
    pub fn read(disk: &dyn Disk, directory: &Path, descriptor: Descriptor) -> Result<Self, OpenError> {
        let path = &*descriptor.path(directory, Component::Statistics);
        let read = || {
            let file = disk.open(path)?;
            let length = file.length()?;
            if length > STATISTICS_BYTES_MAX {
                return Ok(Err(DecodeError::malformed(0, "at most 256 MiB", length)));
            }
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(0, &mut bytes)?;
            Ok(Ok(bytes))
        };
        let bytes = read()
            .map_err(|source| ReadError::Io {
                file: path.to_path_buf(),
                source,
            })?
            .map_err(|error| error.in_file(path, 0))?;
        let file = StatisticsFile::decode(&bytes, descriptor.version, path)?;
        Ok(StoredMetadata {
            path: path.to_path_buf(),
            bloom_filter_fp_chance: file.bloom_filter_fp_chance,
            statistics: file.stats,
            encoding_stats: file.header.stats,
            key_class: file.header.key_class,
            clustering_classes: file.header.clustering_classes,
            static_columns: file.header.static_columns,
            regular_columns: file.header.regular_columns,
        })
    }

    /// The table as far as the file knows it: the types of all columns, the names of all that are not keys.
    pub fn table(&self, keyspace: &str, name: &str) -> Result<TableMetadata, OpenError> {
        let mut columns = Vec::new();
        let unreadable = |column: &str, class: &str| OpenError::IncompatibleColumn {
            file: self.path.clone(),
            column: column.to_owned(),
            stored: class.to_owned(),
        };
        let key_types = CqlType::key_types_from_marshal_class(&self.key_class)
            .map_err(|_| unreadable(KEY_NAME, &self.key_class))?;
        for (position, cql_type) in key_types.into_iter().enumerate() {
            let place = (ColumnKind::PartitionKey, position);
            push(&mut columns, numbered(KEY_NAME, position), place, cql_type, false);
        }
        for (position, class) in self.clustering_classes.iter().enumerate() {
            let parsed =
                CqlType::from_marshal_class(class).map_err(|_| unreadable(CLUSTERING_NAME, class))?;
            let place = (ColumnKind::Clustering, position);
            let name = numbered(CLUSTERING_NAME, position);
            push(&mut columns, name, place, parsed.cql_type, parsed.is_reversed);
        }
        for (kind, stored) in [
            (ColumnKind::Static, &self.static_columns),
            (ColumnKind::Regular, &self.regular_columns),
        ] {
            for (name, class) in stored {
                let parsed = CqlType::from_marshal_class(class).map_err(|_| unreadable(name, class))?;
                push(&mut columns, name.clone(), (kind, 0), parsed.cql_type, false);
            }
        }
        let mut table = TableMetadata {
            keyspace: keyspace.into(),
            name: name.into(),
            id: TableId(Uuid::nil()),
            kind: TableKind::Regular,
            columns: Vec::new(),
            partition_key_count: 0,
            clustering_count: 0,
            static_count: 0,
            next_column_id: ColumnId(u16::try_from(columns.len()).unwrap_or(u16::MAX)),
            dropped_columns: Vec::new(),
            indexes: Vec::new(),
            expiration_column: None,
            params: TableParams::default(),
        };
        table.set_columns(columns);
        Ok(table)
    }
}

fn numbered(name: &str, position: usize) -> String {
    if position == 0 {
        name.to_owned()
    } else {
        format!("{name}{position}")
    }
}

fn push(
    columns: &mut Vec<ColumnMetadata>,
    name: String,
    (kind, position): (ColumnKind, usize),
    cql_type: CqlType,
    is_reversed: bool,
) {
    columns.push(ColumnMetadata {
        // The header's decoder has refused more columns than ids.
        id: ColumnId(columns.len() as u16),
        name: Arc::from(name),
        kind,
        position: position as u16,
        cql_type,
        order: if is_reversed {
            ClusteringOrder::Descending
        } else {
            ClusteringOrder::Ascending
        },
    });
}
