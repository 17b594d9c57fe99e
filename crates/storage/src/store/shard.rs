//! The store of one shard.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use helenus_schema::{Schema, TableId, TableKind};
use helenus_types::{Token, token_of};

use super::answer::{Answer, ReadScratch};
use super::table::Table;
use crate::commitlog::LogPosition;
use crate::error::{ReadError, WriteError};
use crate::layout::TableLayout;
use crate::memtable::Memtable;
use crate::merge::{MergedCursor, MergedScanner};
use crate::read::{PartitionRange, ReadCommand, ReadStatistics, RowSink};
use crate::source::{PartitionCursor, PartitionScanner};
use crate::update::Update;

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What this shard's memtables may hold, sealed ones included. A write that finds it full is refused.
    pub memtable_bytes_max: usize,
}

/// All tables of one shard. Owned by the shard's thread.
#[derive(Debug)]
pub struct ShardStore {
    options: StoreOptions,
    tables: HashMap<TableId, Table, FixedState>,
    /// The sum over all memtables.
    memtable_bytes: usize,
    read_scratch: ReadScratch,
    write_scratch: Vec<u8>,
}

impl ShardStore {
    /// A store without a disk: memtables are all there is, and a full budget stays full.
    pub fn in_memory(options: StoreOptions, schema: &Schema) -> Self {
        let mut store = ShardStore {
            options,
            tables: HashMap::default(),
            memtable_bytes: 0,
            read_scratch: ReadScratch::default(),
            write_scratch: Vec::new(),
        };
        store.set_schema(schema);
        store
    }

    /// Takes over a newer schema: makes room for new tables, drops those that are gone.
    pub fn set_schema(&mut self, schema: &Schema) {
        let stored = || schema.tables().filter(|table| table.kind == TableKind::Regular);
        self.tables.retain(|id, _| stored().any(|table| table.id == *id));
        for metadata in stored() {
            match self.tables.get_mut(&metadata.id) {
                Some(table) if Arc::ptr_eq(&table.layout.metadata, metadata) => {}
                Some(table) => {
                    table.layout = Arc::new(TableLayout::of(metadata));
                    table.active.set_layout(Arc::clone(&table.layout));
                }
                None => {
                    self.tables
                        .insert(metadata.id, Table::new(TableLayout::of(metadata)));
                }
            }
        }
        self.memtable_bytes = self.tables.values().map(Table::memory_bytes).sum();
    }

    /// Takes a write. It is durable once the log has reached the position returned (at once without a log).
    pub fn apply(&mut self, update: &Update<'_>) -> Result<LogPosition, WriteError> {
        self.apply_at(token_of(update.partition_key), update)
    }

    /// As [`ShardStore::apply`], for a caller that knows the key's token already.
    pub fn apply_at(&mut self, token: Token, update: &Update<'_>) -> Result<LogPosition, WriteError> {
        debug_assert_eq!(token, token_of(update.partition_key));
        if self.memtable_bytes >= self.options.memtable_bytes_max {
            return Err(WriteError::MemtablesFull {
                bytes_max: self.options.memtable_bytes_max,
            });
        }
        let table = self
            .tables
            .get_mut(&update.table)
            .ok_or(WriteError::UnknownTable { id: update.table })?;
        let grown = table.active.apply(token, update, None, &mut self.write_scratch);
        self.memtable_bytes = self.memtable_bytes.saturating_add_signed(grown);
        Ok(LogPosition::default())
    }

    /// Removes all rows of a table.
    pub fn truncate(&mut self, id: TableId) -> Result<(), WriteError> {
        let table = self.tables.get_mut(&id).ok_or(WriteError::UnknownTable { id })?;
        self.memtable_bytes -= table.memory_bytes();
        table.active = Memtable::new(Arc::clone(&table.layout));
        table.sealed.clear();
        Ok(())
    }

    /// Hands the rows that the command asks for to the sink, in order, until it has enough.
    pub fn read<S: RowSink>(
        &mut self,
        command: &ReadCommand<'_>,
        sink: &mut S,
    ) -> Result<ReadStatistics, ReadError> {
        let mut statistics = ReadStatistics::default();
        let Some(table) = self.tables.get(&command.table.id) else {
            return Ok(statistics);
        };
        let mut answer = Answer {
            layout: &table.layout,
            now_s: command.now_s,
            sink,
            scratch: &mut self.read_scratch,
            statistics: &mut statistics,
        };
        match command.partitions {
            PartitionRange::One { token, key } => read_partition(table, command, token, key, &mut answer)?,
            PartitionRange::Many { .. } => scan(table, command, &mut answer)?,
        }
        Ok(statistics)
    }
}

#[inline]
fn read_partition<S: RowSink>(
    table: &Table,
    command: &ReadCommand<'_>,
    token: Token,
    key: &[u8],
    answer: &mut Answer<'_, S>,
) -> Result<(), ReadError> {
    if table.sealed.is_empty() {
        let Some(partition) = table.active.partition(token, key) else {
            return Ok(());
        };
        if let [slice] = command.slices
            && let Some(clustering) = slice.as_key(table.layout.comparator.component_count())
        {
            let _ = answer.point(token, partition, clustering);
            return Ok(());
        }
    }
    read_slices(table, command, token, key, answer)
}

fn read_slices<S: RowSink>(
    table: &Table,
    command: &ReadCommand<'_>,
    token: Token,
    key: &[u8],
    answer: &mut Answer<'_, S>,
) -> Result<(), ReadError> {
    let sealed = table.sealed.iter().map(|memtable| &**memtable);
    let mut cursors = std::iter::once(&table.active)
        .chain(sealed)
        .filter_map(|memtable| memtable.cursor(token, key, command.slices, command.reversed));
    let Some(mut first) = cursors.next() else {
        return Ok(());
    };
    let Some(second) = cursors.next() else {
        let _ = answer.partition(token, key, &mut first)?;
        return Ok(());
    };
    let boxed = [first, second].into_iter().chain(cursors);
    let boxed = boxed
        .map(|cursor| Box::new(cursor) as Box<dyn PartitionCursor + '_>)
        .collect();
    let mut merged = MergedCursor::new(&table.layout, command.reversed, boxed)?;
    let _ = answer.partition(token, key, &mut merged)?;
    Ok(())
}

fn scan<S: RowSink>(
    table: &Table,
    command: &ReadCommand<'_>,
    answer: &mut Answer<'_, S>,
) -> Result<(), ReadError> {
    if table.sealed.is_empty() {
        return scan_memtable(table, command, answer);
    }
    let sealed = table.sealed.iter().map(|memtable| &**memtable);
    let scanners = std::iter::once(&table.active)
        .chain(sealed)
        .map(|memtable| {
            let scanner = memtable.scanner(&command.partitions, command.slices, command.reversed);
            Box::new(scanner) as Box<dyn PartitionScanner + '_>
        })
        .collect();
    let mut merged = MergedScanner::new(&table.layout, command.reversed, scanners);
    let mut key = Vec::new();
    while merged.advance()? {
        let (token, position_key) = merged.position();
        key.clear();
        key.extend_from_slice(position_key);
        if answer.partition(token, &key, &mut merged.open()?)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn scan_memtable<S: RowSink>(
    table: &Table,
    command: &ReadCommand<'_>,
    answer: &mut Answer<'_, S>,
) -> Result<(), ReadError> {
    for (token, partition) in table.active.partitions(&command.partitions) {
        let comparator = &table.layout.comparator;
        let mut cursor =
            crate::memtable::MemtableCursor::new(partition, comparator, command.slices, command.reversed);
        if answer.partition(token, partition.key(), &mut cursor)?.is_break() {
            break;
        }
    }
    Ok(())
}
