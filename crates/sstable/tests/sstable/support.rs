//! Tables, rows and whole SSTables for the tests: a model of a partition, and both ways between it and a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::{Side, Slice, push_component};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness, RowBuilder, RowRef};
use helenus_rows::update::BoundRef;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableId, TableKind, TableMetadata, TableParams,
};
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_sstable::{
    Descriptor, EncodingStatsCollector, PageCache, SsTable, SsTableId, SsTableInfo, SsTableWriter, Version,
    WriterOptions, table_folder,
};
use helenus_types::token::token_of;
use helenus_types::{CqlType, Token};
use helenus_vfs::Disk;
use uuid::Uuid;

pub const DATA: &str = "/data";
pub const DESCRIPTOR: Descriptor = Descriptor {
    id: SsTableId::Number(1),
    version: Version::Nb,
};
/// 2023-11-14T22:13:20Z.
pub const NOW_S: u32 = 1_700_000_000;
pub const NOW_US: i64 = NOW_S as i64 * 1_000_000;

/// One partition, as it was written and as a whole forward read must return it.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    pub deletion: DeletionTime,
    pub static_row: Vec<u8>,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Row {
        clustering: Vec<u8>,
        row: Vec<u8>,
    },
    /// `deletion` is in force from here on.
    Marker {
        prefix: Vec<u8>,
        side: Side,
        deletion: DeletionTime,
    },
}

pub type Partitions = BTreeMap<(Token, Vec<u8>), Partition>;

impl Default for Partition {
    fn default() -> Self {
        Partition {
            deletion: DeletionTime::LIVE,
            static_row: empty_row(),
            items: Vec::new(),
        }
    }
}

impl Partition {
    pub fn row(&mut self, clustering: Vec<u8>, row: Vec<u8>) -> &mut Self {
        self.items.push(Item::Row { clustering, row });
        self
    }

    pub fn marker(&mut self, prefix: Vec<u8>, side: Side, deletion: DeletionTime) -> &mut Self {
        self.items.push(Item::Marker {
            prefix,
            side,
            deletion,
        });
        self
    }
}

pub struct Column(pub &'static str, pub ColumnKind, pub CqlType);

/// Ids count down, so that their order is never that of the file.
pub fn table(name: &str, columns: Vec<Column>, descending: &[&str]) -> TableMetadata {
    let count = columns.len();
    let mut positions = [0_u16; 2];
    let mut columns: Vec<ColumnMetadata> = columns
        .into_iter()
        .enumerate()
        .map(|(index, Column(name, kind, cql_type))| {
            let position = match kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => {
                    let counter = &mut positions[usize::from(kind == ColumnKind::Clustering)];
                    *counter += 1;
                    *counter - 1
                }
                _ => 0,
            };
            let order = if descending.contains(&name) {
                ClusteringOrder::Descending
            } else {
                ClusteringOrder::Ascending
            };
            let id = ColumnId((count - index) as u16);
            ColumnMetadata {
                id,
                name: name.into(),
                kind,
                position,
                cql_type,
                order,
            }
        })
        .collect();
    columns.sort_by(|left, right| {
        let by_name = |column: &ColumnMetadata| match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => Arc::from(""),
            _ => Arc::clone(&column.name),
        };
        (left.kind, left.position, by_name(left)).cmp(&(right.kind, right.position, by_name(right)))
    });
    let of_kind = |kind| columns.iter().filter(|column| column.kind == kind).count() as u16;
    TableMetadata {
        keyspace: "ks".into(),
        name: name.into(),
        id: TableId(Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0)),
        kind: TableKind::Regular,
        partition_key_count: of_kind(ColumnKind::PartitionKey),
        clustering_count: of_kind(ColumnKind::Clustering),
        static_count: of_kind(ColumnKind::Static),
        columns,
        next_column_id: ColumnId(count as u16 + 1),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params: TableParams::default(),
    }
}

pub fn id(table: &TableMetadata, column: &str) -> ColumnId {
    table
        .column(column)
        .unwrap_or_else(|| panic!("no column {column}"))
        .id
}

pub fn empty_row() -> Vec<u8> {
    RowRef::EMPTY.as_bytes().to_vec()
}

/// A row whose cells are put in the order of their columns.
pub fn row(liveness: Liveness, deletion: DeletionTime, mut cells: Vec<CellRef<'_>>) -> Vec<u8> {
    cells.sort_by_key(|cell| cell.column);
    let mut out = Vec::new();
    let mut builder = RowBuilder::new(&mut out, liveness, deletion);
    cells.into_iter().for_each(|cell| builder.cell(cell));
    out
}

pub fn live(timestamp_us: i64) -> Liveness {
    Liveness {
        timestamp_us,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    }
}

pub fn cell(column: ColumnId, timestamp_us: i64, value: &[u8]) -> CellRef<'_> {
    CellRef {
        column,
        timestamp_us,
        ttl_s: 0,
        local_deletion_s: NEVER_S,
        path: None,
        value,
    }
}

pub fn key(components: &[&[u8]]) -> Vec<u8> {
    let mut packed = Vec::new();
    components
        .iter()
        .for_each(|component| push_component(&mut packed, component));
    packed
}

pub fn insert(partitions: &mut Partitions, partition_key: &[u8], partition: Partition) {
    partitions.insert((token_of(partition_key), partition_key.to_vec()), partition);
}

pub fn options(table: &TableMetadata, partitions: &Partitions) -> WriterOptions {
    let mut stats = EncodingStatsCollector::default();
    for partition in partitions.values() {
        stats.deletion(partition.deletion);
        stats.row(RowRef::new(&partition.static_row));
        for item in &partition.items {
            match item {
                Item::Row { row, .. } => stats.row(RowRef::new(row)),
                Item::Marker { deletion, .. } => stats.deletion(*deletion),
            }
        }
    }
    let mut options = WriterOptions::of(table);
    options.partition_count_estimate = partitions.len() as u64;
    options.encoding_stats = stats.finish();
    options
}

pub fn folder(table: &TableMetadata) -> PathBuf {
    table_folder(Path::new(DATA), table)
}

pub fn write(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    table: &TableMetadata,
    partitions: &Partitions,
    options: WriterOptions,
) -> SsTableInfo {
    disk.create_dir_all(folder).unwrap();
    let mut writer = SsTableWriter::new(Arc::clone(disk), folder, DESCRIPTOR.id, table, options).unwrap();
    for ((token, partition_key), partition) in partitions {
        let static_row = RowRef::new(&partition.static_row);
        writer
            .begin_partition(*token, partition_key, partition.deletion, static_row)
            .unwrap();
        let mut open = DeletionTime::LIVE;
        for item in &partition.items {
            match item {
                Item::Row { clustering, row } => writer.row(clustering, RowRef::new(row)).unwrap(),
                Item::Marker {
                    prefix,
                    side,
                    deletion,
                } => {
                    writer
                        .marker(BoundRef { prefix, side: *side }, open, *deletion)
                        .unwrap();
                    open = *deletion;
                }
            }
        }
        writer.end_partition().unwrap();
    }
    writer.finish().unwrap()
}

/// All that a cursor returns.
pub fn drain(cursor: &mut dyn PartitionCursor) -> Result<Partition, helenus_sstable::error::ReadError> {
    let mut partition = Partition {
        deletion: cursor.deletion(),
        static_row: cursor.static_row().as_bytes().to_vec(),
        items: Vec::new(),
    };
    while cursor.advance()? {
        match cursor.current() {
            Unfiltered::Row { clustering, row } => {
                partition.row(clustering.to_vec(), row.as_bytes().to_vec());
            }
            Unfiltered::Marker { bound, deletion } => {
                partition.marker(bound.prefix.to_vec(), bound.side, deletion);
            }
        }
    }
    Ok(partition)
}

/// A whole SSTable by scan, each partition whole.
pub fn scan(sstable: &SsTable) -> Result<Partitions, helenus_sstable::error::ReadError> {
    use helenus_rows::partition_range::PartitionBound;
    use helenus_sstable::source::PartitionScanner;
    let cache = PageCache::new(1 << 20);
    let start = PartitionBound {
        token: Token::MINIMUM,
        key: None,
        side: Side::Before,
    };
    let end = PartitionBound {
        token: Token::MAXIMUM,
        key: None,
        side: Side::After,
    };
    let slices = [Slice::all()];
    let mut scanner = sstable.scan(&cache, start, end, &slices, false);
    let mut partitions = Partitions::new();
    while scanner.advance()? {
        let (token, partition_key) = scanner.position();
        let place = (token, partition_key.to_vec());
        let partition = drain(&mut scanner.open()?)?;
        partitions.insert(place, partition);
    }
    Ok(partitions)
}

/// With `HELENUS_GOLDEN=rewrite` the golden file is written instead of compared: review the difference.
pub fn compare_with_golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sstable/golden")
        .join(name);
    if std::env::var_os("HELENUS_GOLDEN").is_some_and(|mode| mode == "rewrite") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(found, wanted, "{}", path.display());
}
