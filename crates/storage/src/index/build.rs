//! The terms of an SSTable's rows, made by going through it once; of one that was a memtable from the terms of that.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use helenus_index::{ANY_TERM, IndexedColumn, Place};
use helenus_rows::clustering::Slice;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::RowRef;
use helenus_schema::IndexId;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, PartitionScanner, Unfiltered};
use helenus_sstable::terms::{
    TermFile, TermFileBuilder, TermFileError, TermPlace, term_file_path, write_sorted_terms,
};
use helenus_sstable::{PageCache, SsTable, WriteError};
use helenus_types::Token;
use helenus_vfs::Disk;

use super::memtable::MemtableTerms;
use crate::compaction::Stopped;

/// It is read once from start to end; nothing is worth keeping.
const BUILD_CACHE_BYTES: usize = 1 << 20;
/// A build says how far it is after about as many bytes of partitions.
const LOOK_BYTES: u64 = 256 << 10;

/// Entries of a memtable for each row of the SSTable that it becomes, from which on it is gone through instead: most are of values that were
/// overwritten.
const MEMTABLE_ENTRIES_PER_ROW_MAX: u64 = 2;
/// And so many besides.
const MEMTABLE_ENTRIES_MIN: u64 = 64;

/// Files of terms of one SSTable.
pub(crate) type BuiltTerms = Vec<(IndexId, Arc<TermFile>)>;

/// Subject of a build: the SSTable, and the columns of which it has no terms.
#[derive(Clone, Debug)]
pub(crate) struct IndexBuild {
    pub sstable: Arc<SsTable>,
    pub columns: Vec<Arc<IndexedColumn>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<TermFileError> for BuildError {
    fn from(error: TermFileError) -> Self {
        match error {
            TermFileError::Read(error) => BuildError::Read(error),
            TermFileError::Write(error) => BuildError::Write(error),
        }
    }
}

/// Writes the terms that a memtable has, for the SSTable that was made of it: they are in their order, and nothing has to be read. `None` where
/// they say less than its rows do, or much of what is not so any more.
pub(crate) fn write_memtable_terms(
    disk: &Arc<dyn Disk>,
    layout: &TableLayout,
    (sstable, column): (&SsTable, &IndexedColumn),
    terms: &MemtableTerms,
) -> Result<Option<Arc<TermFile>>, BuildError> {
    let entries_max = sstable.statistics().rows * MEMTABLE_ENTRIES_PER_ROW_MAX + MEMTABLE_ENTRIES_MIN;
    if terms.flags().has_any || terms.entry_count() > entries_max {
        return Ok(None);
    }
    let path = term_file_path(sstable.directory(), column.index.0, sstable.descriptor());
    let identity = sstable.identity();
    let written = write_sorted_terms(&**disk, &path, (identity, terms.flags()), terms.sorted_entries());
    let opened = written.map_err(BuildError::from).and_then(|_| {
        let file = TermFile::open(&**disk, &path, identity, &layout.comparator)?;
        Ok(Some(Arc::new(file)))
    });
    if opened.is_err() {
        let _absent = disk.remove(&path);
    }
    opened
}

/// Writes the terms of an SSTable under some indexes. `look` is told now and then how many bytes of data have been gone
/// through since, and may end it. After an error nothing is left.
pub(crate) fn build_terms(
    disk: &Arc<dyn Disk>,
    layout: &TableLayout,
    build: &IndexBuild,
    look: &mut dyn FnMut(u64) -> Result<(), Stopped>,
) -> Result<BuiltTerms, BuildError> {
    let IndexBuild { sstable, columns } = build;
    let path =
        |column: &IndexedColumn| term_file_path(sstable.directory(), column.index.0, sstable.descriptor());
    let mut writers: Vec<ColumnWriter> = columns
        .iter()
        .map(|column| ColumnWriter {
            column: Arc::clone(column),
            builder: TermFileBuilder::new(disk, &path(column), &layout.comparator),
            term: Vec::new(),
        })
        .collect();
    if let Err(error) = push_all(layout, sstable, &mut writers, look) {
        writers.into_iter().for_each(|writer| writer.builder.abandon());
        return Err(error);
    }
    let mut built = Vec::with_capacity(writers.len());
    for writer in writers {
        let path = path(&writer.column);
        let made = finish(disk, &path, layout, sstable, writer.builder);
        match made {
            Ok(file) => built.push((writer.column.index, file)),
            Err(error) => {
                let _absent = disk.remove(&path);
                return Err(error);
            }
        }
    }
    Ok(built)
}

fn finish(
    disk: &Arc<dyn Disk>,
    path: &Path,
    layout: &TableLayout,
    sstable: &SsTable,
    builder: TermFileBuilder,
) -> Result<Arc<TermFile>, BuildError> {
    builder.finish(sstable.identity())?;
    let file = TermFile::open(&**disk, path, sstable.identity(), &layout.comparator)?;
    Ok(Arc::new(file))
}

struct ColumnWriter {
    column: Arc<IndexedColumn>,
    builder: TermFileBuilder,
    term: Vec<u8>,
}

fn push_all(
    layout: &TableLayout,
    sstable: &SsTable,
    writers: &mut [ColumnWriter],
    look: &mut dyn FnMut(u64) -> Result<(), Stopped>,
) -> Result<(), BuildError> {
    let cache = PageCache::new(BUILD_CACHE_BYTES);
    let slices = [Slice::all()];
    let (start, end) = PartitionRange::everything().bounds();
    let mut scanner = sstable.scan(&cache, start, end, &slices, false);
    let mut key = Vec::new();
    let mut bytes = 0;
    while scanner.advance()? {
        let (token, position_key) = scanner.position();
        key.clear();
        key.extend_from_slice(position_key);
        let mut partition = PartitionTerms {
            layout,
            token,
            key: &key,
            writers,
        };
        partition.push_key()?;
        bytes += key.len() as u64;
        let mut cursor = scanner.open()?;
        bytes += partition.push_row(None, cursor.static_row())?;
        while cursor.advance()? {
            if let Unfiltered::Row { clustering, row } = cursor.current() {
                bytes += partition.push_row(Some(clustering), row)? + clustering.len() as u64;
            }
            if bytes >= LOOK_BYTES {
                look(std::mem::take(&mut bytes))?;
            }
        }
    }
    look(bytes)?;
    Ok(())
}

struct PartitionTerms<'a> {
    layout: &'a TableLayout,
    token: Token,
    key: &'a [u8],
    writers: &'a mut [ColumnWriter],
}

impl PartitionTerms<'_> {
    fn push_key(&mut self) -> Result<(), WriteError> {
        for writer in &mut *self.writers {
            let place = TermPlace {
                token: self.token,
                key: self.key,
                clustering: None,
            };
            let builder = &mut writer.builder;
            let mut result = Ok(());
            writer.column.key_terms(self.key, &mut writer.term, |term| {
                result = builder.push(term, term == ANY_TERM, place);
            });
            result?;
        }
        Ok(())
    }

    /// Returns the row's length.
    fn push_row(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) -> Result<u64, WriteError> {
        let has_clustering = self.layout.comparator.component_count() > 0;
        for writer in &mut *self.writers {
            if matches!(writer.column.place, Place::PartitionKey(_)) {
                continue;
            }
            let place = TermPlace {
                token: self.token,
                key: self.key,
                clustering: clustering.filter(|_| has_clustering),
            };
            let builder = &mut writer.builder;
            let mut result = Ok(());
            let _ended = writer
                .column
                .row_terms(clustering, row, &mut writer.term, |term| {
                    result = builder.push(term, term == ANY_TERM, place);
                    match result {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    }
                });
            result?;
        }
        Ok(row.as_bytes().len() as u64)
    }
}
