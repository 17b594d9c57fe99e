//! Everything that can be read of an SSTable, with bounds on how long it may take.

use std::path::Path;

use helenus_rows::clustering::{ClusteringBound, Components, Side, Slice, push_component};
use helenus_rows::partition_range::PartitionRange;
use helenus_schema::TableMetadata;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, PartitionScanner, Unfiltered};
use helenus_sstable::{Descriptor, OpenError, PageCache, SsTable};
use helenus_storage_model::{Item, Partition, Partitions};
use helenus_types::Token;
use helenus_types::token::token_of;
use helenus_vfs::Disk;

/// One read and what it returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Scan(Partitions),
    Point(Option<Partition>),
}

/// A read's answers in a fixed order; an error where the file was refused.
pub type Answers = Vec<Result<Answer, ReadError>>;

/// Items that a damaged file may seem to have before reading it counts as endless.
const ITEMS_MAX: usize = 1 << 16;
const CACHE_BYTES: usize = 1 << 20;

/// Scans in both directions, reads every key of the model in both directions, a slice of each, and keys that are not
/// there.
pub fn read_everything(
    disk: &dyn Disk,
    folder: &Path,
    descriptor: Descriptor,
    table: &TableMetadata,
    model: &Partitions,
) -> Result<Answers, OpenError> {
    let sstable = SsTable::open(disk, folder, descriptor, table)?;
    let mut answers = vec![scan(&sstable, false), scan(&sstable, true)];
    for ((token, key), partition) in model {
        let all = [Slice::all()];
        for reversed in [false, true] {
            answers.push(point(&sstable, *token, key, &all, reversed));
        }
        if let Some(slice) = middle(partition) {
            answers.push(point(&sstable, *token, key, &[slice], false));
        }
        let mut missing = key.clone();
        missing.push(0x5a);
        answers.push(point(&sstable, token_of(&missing), &missing, &all, false));
    }
    Ok(answers)
}

/// The row in the middle alone, which the index has to find.
fn middle(partition: &Partition) -> Option<Slice> {
    let Item::Row { clustering, .. } = partition.items.get(partition.items.len() / 2)? else {
        return None;
    };
    let mut prefix = Vec::new();
    Components::new(clustering).for_each(|component| push_component(&mut prefix, component));
    let bound = |side| ClusteringBound {
        prefix: prefix.clone().into(),
        side,
    };
    Some(Slice {
        start: bound(Side::Before),
        end: bound(Side::After),
    })
}

fn scan(sstable: &SsTable, reversed: bool) -> Result<Answer, ReadError> {
    let cache = PageCache::new(CACHE_BYTES);
    let slices = [Slice::all()];
    let (start, end) = PartitionRange::everything().bounds();
    let mut scanner = sstable.scan(&cache, start, end, &slices, reversed);
    let mut partitions = Partitions::new();
    let mut left = ITEMS_MAX;
    while scanner.advance()? {
        let (token, key) = scanner.position();
        let place = (token, key.to_vec());
        let partition = drain(&mut scanner.open()?, &mut left)?;
        assert!(
            partitions.insert(place, partition).is_none(),
            "a scan met a partition twice"
        );
    }
    Ok(Answer::Scan(partitions))
}

fn point(
    sstable: &SsTable,
    token: Token,
    key: &[u8],
    slices: &[Slice],
    reversed: bool,
) -> Result<Answer, ReadError> {
    let cache = PageCache::new(CACHE_BYTES);
    let found = sstable.partition(&cache, token, key, slices, reversed)?;
    let mut left = ITEMS_MAX;
    let partition = found.map(|mut cursor| drain(&mut cursor, &mut left));
    Ok(Answer::Point(partition.transpose()?))
}

fn drain(cursor: &mut dyn PartitionCursor, left: &mut usize) -> Result<Partition, ReadError> {
    let mut partition = Partition {
        deletion: cursor.deletion(),
        static_row: cursor.static_row().as_bytes().to_vec(),
        items: Vec::new(),
    };
    while cursor.advance()? {
        *left = left.checked_sub(1).expect("reading has an end");
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
