//! The terms of an SSTable's rows, made by going through it once; of one that was a memtable from the terms of that.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
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
use helenus_sstable::{Descriptor, PageCache, SsTable, WriteError};
use helenus_types::Token;
use helenus_vfs::Disk;

use super::memtable::MemtableTerms;
use crate::compaction::Stopped;

/// It is read once from start to end; nothing is worth keeping.
const BUILD_CACHE_BYTES: usize = 1 << 20;
/// A build says how far it is after about as many bytes of partitions.
const LOOK_BYTES: usize = 256 << 10;

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
    layout: &Arc<TableLayout>,
    build: &IndexBuild,
    look: &mut dyn FnMut(u64) -> Result<(), Stopped>,
) -> Result<BuiltTerms, BuildError> {
    let IndexBuild { sstable, columns } = build;
    let mut terms = TermsWriter::begin(disk, layout, (sstable.directory(), sstable.descriptor()), columns);
    if let Err(error) = push_all(sstable, &mut terms, look) {
        terms.abandon();
        return Err(error);
    }
    terms.finish(sstable)
}

/// The terms of an SSTable under some indexes, as its rows are written or read.
#[derive(Debug)]
pub(crate) struct TermsWriter {
    disk: Arc<dyn Disk>,
    layout: Arc<TableLayout>,
    folder: PathBuf,
    descriptor: Descriptor,
    writers: Vec<ColumnWriter>,
}

#[derive(Debug)]
struct ColumnWriter {
    column: Arc<IndexedColumn>,
    builder: TermFileBuilder,
    term: Vec<u8>,
}

fn push_all(
    sstable: &SsTable,
    terms: &mut TermsWriter,
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
        bytes += key.len();
        let mut cursor = scanner.open()?;
        terms.push_partition(token, &key, cursor.static_row())?;
        bytes += cursor.static_row().as_bytes().len();
        while cursor.advance()? {
            if let Unfiltered::Row { clustering, row } = cursor.current() {
                terms.push_row(token, &key, Some(clustering), row)?;
                bytes += row.as_bytes().len() + clustering.len();
            }
            if bytes >= LOOK_BYTES {
                look(std::mem::take(&mut bytes) as u64)?;
            }
        }
    }
    look(bytes as u64)?;
    Ok(())
}

impl TermsWriter {
    /// For an SSTable of this name in a folder. Nothing is written yet.
    pub fn begin(
        disk: &Arc<dyn Disk>,
        layout: &Arc<TableLayout>,
        (folder, descriptor): (&Path, Descriptor),
        columns: &[Arc<IndexedColumn>],
    ) -> Self {
        let writer = |column: &Arc<IndexedColumn>| {
            let path = term_file_path(folder, column.index.0, descriptor);
            ColumnWriter {
                column: Arc::clone(column),
                builder: TermFileBuilder::new(disk, &path, &layout.comparator),
                term: Vec::new(),
            }
        };
        TermsWriter {
            disk: Arc::clone(disk),
            layout: Arc::clone(layout),
            folder: folder.to_path_buf(),
            descriptor,
            writers: columns.iter().map(writer).collect(),
        }
    }

    pub fn push_partition(
        &mut self,
        token: Token,
        key: &[u8],
        static_row: RowRef<'_>,
    ) -> Result<(), WriteError> {
        for writer in &mut self.writers {
            let place = TermPlace {
                token,
                key,
                clustering: None,
            };
            let builder = &mut writer.builder;
            let mut result = Ok(());
            writer.column.key_terms(key, &mut writer.term, |term| {
                result = builder.push(term, term == ANY_TERM, place);
            });
            result?;
        }
        self.push_row(token, key, None, static_row)
    }

    /// `clustering` is `None` for a static row.
    pub fn push_row(
        &mut self,
        token: Token,
        key: &[u8],
        clustering: Option<&[u8]>,
        row: RowRef<'_>,
    ) -> Result<(), WriteError> {
        let has_clustering = self.layout.comparator.component_count() > 0;
        let place = TermPlace {
            token,
            key,
            clustering: clustering.filter(|_| has_clustering),
        };
        for writer in &mut self.writers {
            if matches!(writer.column.place, Place::PartitionKey(_)) {
                continue;
            }
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
        Ok(())
    }

    /// Writes the files of the SSTable, which has become what was pushed. After an error nothing is left.
    pub fn finish(self, sstable: &SsTable) -> Result<BuiltTerms, BuildError> {
        let mut built = BuiltTerms::with_capacity(self.writers.len());
        let path = |index: IndexId| term_file_path(&self.folder, index.0, self.descriptor);
        let mut writers = self.writers.into_iter();
        while let Some(ColumnWriter { column, builder, .. }) = writers.next() {
            let made = builder.finish(sstable.identity()).map_err(BuildError::from);
            let opened = made.and_then(|_| {
                let (path, comparator) = (path(column.index), &self.layout.comparator);
                Ok(TermFile::open(
                    &*self.disk,
                    &path,
                    sstable.identity(),
                    comparator,
                )?)
            });
            match opened {
                Ok(file) => built.push((column.index, Arc::new(file))),
                Err(error) => {
                    writers.for_each(|writer| writer.builder.abandon());
                    let made = built.iter().map(|(index, _)| *index);
                    for index in made.chain([column.index]) {
                        let _absent = self.disk.remove(&path(index));
                    }
                    return Err(error);
                }
            }
        }
        Ok(built)
    }

    /// Removes what was written.
    pub fn abandon(self) {
        for writer in self.writers {
            writer.builder.abandon();
        }
    }
}
