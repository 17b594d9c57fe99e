//! The rows that a query would see: all SSTables merged, without what is deleted or has expired.

use std::sync::Arc;

use helenus_rows::clustering::{Components, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::counter::total;
use helenus_rows::row::live::{ReadTime, live_view};
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, PartitionScanner, Unfiltered};
use helenus_sstable::{PageCache, SsTable};
use helenus_storage::merge::MergedScanner;
use helenus_types::CqlType;
use helenus_types::partition_key::partition_key_components;

/// Value of a column in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Bytes(Vec<u8>),
    /// The cells of a multi-cell column: path and value.
    Elements(Vec<(Vec<u8>, Vec<u8>)>),
}

/// A pass reads every page once, of each file.
const CACHE_BYTES: usize = 16 << 20;

/// Hands each live row over, its columns in the table's order. A partition with nothing but statics is one row.
/// Returns how many partitions and rows there were.
pub fn for_each_row<E: From<ReadError>>(
    table: &Arc<TableMetadata>,
    sstables: &[Arc<SsTable>],
    now_s: u32,
    mut each: impl FnMut(&[Value]) -> Result<(), E>,
) -> Result<(u64, u64), E> {
    let layout = TableLayout::of(table);
    let cache = PageCache::new(CACHE_BYTES);
    let slices = [Slice::all()];
    let (start, end) = PartitionRange::everything().bounds();
    let scanners = sstables
        .iter()
        .map(|sstable| {
            Box::new(sstable.scan(&cache, start, end, &slices, false)) as Box<dyn PartitionScanner + '_>
        })
        .collect();
    let mut scanner = MergedScanner::new(&layout, false, scanners);
    let (mut partitions, mut rows) = (0, 0);
    let (mut scratch, mut tombstones) = (Vec::new(), 0);
    let time = ReadTime {
        now_s,
        gc_before_s: now_s.saturating_sub(table.params.gc_grace_seconds),
    };
    while scanner.advance()? {
        let key = scanner.position().1.to_vec();
        let mut values = key_values(table, &key);
        let mut cursor = scanner.open()?;
        let deletion = cursor.deletion();
        let statics = live_view(
            &layout.shape,
            cursor.static_row(),
            deletion,
            time,
            &mut scratch,
            &mut tombstones,
        );
        let has_statics = statics.is_some();
        if let Some(row) = statics {
            fill(table, row, &mut values);
        }
        let (mut in_force, mut rows_here) = (DeletionTime::LIVE, 0);
        while cursor.advance()? {
            match cursor.current() {
                Unfiltered::Marker { deletion, .. } => in_force = deletion,
                Unfiltered::Row { clustering, row } => {
                    let shadow = deletion.max(in_force);
                    let live = live_view(&layout.shape, row, shadow, time, &mut scratch, &mut tombstones);
                    let Some(row) = live else { continue };
                    let mut row_values = values.clone();
                    let first = usize::from(table.partition_key_count);
                    for (value, part) in row_values.iter_mut().skip(first).zip(Components::new(clustering)) {
                        *value = Value::Bytes(part.to_vec());
                    }
                    fill(table, row, &mut row_values);
                    rows_here += 1;
                    each(&row_values)?;
                }
            }
        }
        if rows_here == 0 && has_statics {
            rows_here = 1;
            each(&values)?;
        }
        rows += rows_here;
        partitions += u64::from(rows_here > 0);
    }
    Ok((partitions, rows))
}

/// A row's values with those of its partition key, the others null.
fn key_values(table: &TableMetadata, key: &[u8]) -> Vec<Value> {
    let mut values = vec![Value::Null; table.columns.len()];
    let parts = partition_key_components(key, table.partition_key().len());
    for (value, part) in values.iter_mut().zip(parts) {
        *value = Value::Bytes(part.to_vec());
    }
    values
}

fn fill(table: &TableMetadata, row: RowRef<'_>, values: &mut [Value]) {
    for entry in row.entries() {
        let Entry::Cell(cell) = entry else { continue };
        let Some(index) = table.columns.iter().position(|column| column.id == cell.column) else {
            continue;
        };
        let (Some(column), Some(value)) = (table.columns.get(index), values.get_mut(index)) else {
            continue;
        };
        debug_assert!(matches!(column.kind, ColumnKind::Static | ColumnKind::Regular));
        match (cell.path, &mut *value) {
            (Some(path), Value::Elements(elements)) => {
                elements.push((path.to_vec(), cell.value.to_vec()));
            }
            (Some(path), _) => *value = Value::Elements(vec![(path.to_vec(), cell.value.to_vec())]),
            (None, _) if column.cql_type == CqlType::Counter => {
                *value = Value::Bytes(total(cell.value).to_be_bytes().to_vec());
            }
            (None, _) => *value = Value::Bytes(cell.value.to_vec()),
        }
    }
}
