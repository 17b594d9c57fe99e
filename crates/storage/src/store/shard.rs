//! The store of one shard.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::fast::FixedState;
use helenus_schema::{Schema, SsTableFormat, TableId, TableKind, TableMetadata};
use helenus_types::{ShardId, Token, token_of};

use super::DataFolder;
use super::answer::ReadScratch;
use super::cache_memory::CacheMemory;
use super::folder::RefusedSsTable;
use super::job::JobProgress;
use super::schedule::Schedule;
use super::table::Table;
use crate::commitlog::{CommitLog, FlushedPositions, LogOptions, LogPosition, WriteSetPart};
use crate::compaction::CompactionLimits;
use crate::error::WriteError;
use crate::read_state::STEP_UNITS_MAX;
use crate::row_cache::RowCache;
use helenus_rows::guardrails::PartitionGuardrails;
use helenus_rows::layout::TableLayout;
use helenus_rows::update::Update;
use helenus_sstable::PageCache;

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes that this shard's memtables may hold, sealed ones included. A write that finds them full is refused.
    pub memtable_bytes_max: usize,
    /// Decompressed chunks of SSTables that this shard keeps.
    pub chunk_cache_bytes_max: usize,
    /// Rows that were read from SSTables and are kept apart from them; 0 for none.
    pub row_cache_bytes_max: usize,
    /// Bytes that memtables lend to caches, of what they do not hold at the moment; 0 for nothing.
    pub lent_bytes_max: usize,
    /// Bytes that indexes of vectors may take. Pages have so much less; an index that would take more is not kept, and its
    /// queries look at all rows.
    pub vector_bytes_max: usize,
    /// True if a search goes over the links of a graph however small it is, where it would compare all its vectors: tests have
    /// few.
    pub walks_small_graphs: bool,
    pub log: LogOptions,
    /// Size of this shard's log, in bytes at most. As it nears that, the memtable with the oldest write is flushed.
    pub log_bytes_max: u64,
    /// Work after which a read lets others have their turn; see [`STEP_UNITS_MAX`].
    pub read_step_units_max: u32,
    /// Granularity of the index inside a partition of what is written: Cassandra's `column_index_size`.
    pub column_index_bytes: u32,
    /// The version of what is written for tables that do not name one.
    pub sstable_format: SsTableFormat,
    pub partition_guardrails: PartitionGuardrails,
    /// Limits that compactions of all shards share: the same one in all their options.
    pub compaction: Arc<CompactionLimits>,
}

impl StoreOptions {
    /// Returns how many bytes caches may hold together while memtables are empty.
    pub(crate) fn cache_bytes_max(&self) -> usize {
        self.chunk_cache_bytes_max
            .saturating_add(self.row_cache_bytes_max)
            .saturating_add(self.lent_bytes_max)
    }
}

/// Cassandra's default.
const COLUMN_INDEX_BYTES: u32 = 64 << 10;
/// Cassandra's `compaction_throughput`.
const COMPACTION_BYTES_PER_S_MAX: u64 = 64 << 20;
/// The least that Cassandra's `concurrent_compactors` is by default.
const CONCURRENT_COMPACTORS: usize = 2;

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            memtable_bytes_max: 512 << 20,
            chunk_cache_bytes_max: 256 << 20,
            row_cache_bytes_max: 256 << 20,
            lent_bytes_max: 0,
            vector_bytes_max: 256 << 20,
            walks_small_graphs: false,
            log: LogOptions::default(),
            // Cassandra's commitlog_total_space, for a store that is alone.
            log_bytes_max: 8 << 30,
            read_step_units_max: STEP_UNITS_MAX,
            column_index_bytes: COLUMN_INDEX_BYTES,
            sstable_format: SsTableFormat::DEFAULT,
            partition_guardrails: PartitionGuardrails::default(),
            compaction: CompactionLimits::new(
                COMPACTION_BYTES_PER_S_MAX,
                CONCURRENT_COMPACTORS,
                CompactionLimits::READ_BYTES_MAX,
            ),
        }
    }
}

/// A memtable is sealed when all active ones together hold this share of the budget, so that the rest takes the
/// writes that arrive while it is flushed.
const ACTIVE_SHARE: usize = 3;

/// Updates of tables whose writes are logged.
fn logged<'u>(
    tables: &HashMap<TableId, Table, FixedState>,
    updates: impl Iterator<Item = (Token, Update<'u>)> + Clone,
) -> impl Iterator<Item = &'u [u8]> + Clone {
    let is_logged = |id| tables.get(&id).is_some_and(|table| table.is_logged);
    let logged = updates.filter(move |(_, update)| is_logged(update.table));
    logged.map(|(_, update)| update.as_bytes())
}

/// All tables of one shard. Owned by the shard's thread.
#[derive(Debug)]
pub struct ShardStore {
    pub(super) options: StoreOptions,
    pub(super) shard: ShardId,
    /// `None` for a store in memory.
    pub(super) disk: Option<Disk>,
    pub(super) cache: PageCache,
    pub(super) row_cache: RowCache,
    pub(super) cache_memory: CacheMemory,
    /// Tables with flushed memtables that the row cache does not know all of, one entry per memtable.
    pub(super) absorbing: VecDeque<TableId>,
    pub(super) tables: HashMap<TableId, Table, FixedState>,
    /// The sum over all memtables, also those that nothing reads any more, until a job has freed them.
    pub(super) memtable_bytes: usize,
    /// The sum over those that take writes.
    pub(super) active_bytes: usize,
    pub(super) schedule: Schedule,
    /// Ever: a table that is made again under its id is another.
    tables_made: u64,
    pub(super) read_scratch: ReadScratch,
    write_scratch: Vec<u8>,
}

/// State that a store on a disk has besides.
#[derive(Debug)]
pub(super) struct Disk {
    pub folder: Arc<DataFolder>,
    /// `None` until replay is over.
    pub log: Option<CommitLog>,
    pub flushed: FlushedPositions,
}

impl Disk {
    /// Microseconds since the Unix epoch.
    pub fn now_us(&self) -> i64 {
        self.folder.clock().wall_us()
    }
}

impl ShardStore {
    /// A store without a disk: memtables are all there is, and a full budget stays full.
    pub fn in_memory(options: StoreOptions, schema: &Schema) -> Self {
        let mut store = Self::empty(options, ShardId(0), None);
        store.set_schema(schema);
        store
    }

    pub(super) fn empty(options: StoreOptions, shard: ShardId, disk: Option<Disk>) -> Self {
        let mut store = ShardStore {
            cache: PageCache::new(options.chunk_cache_bytes_max),
            cache_memory: CacheMemory::new(&options),
            row_cache: RowCache::new(options.row_cache_bytes_max),
            options,
            shard,
            disk,
            absorbing: VecDeque::new(),
            tables: HashMap::default(),
            memtable_bytes: 0,
            active_bytes: 0,
            schedule: Schedule::default(),
            tables_made: 0,
            read_scratch: ReadScratch::default(),
            write_scratch: Vec::new(),
        };
        store.divide_memory();
        store
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Takes over a newer schema: makes room for new tables, drops those that are gone with all their data.
    pub fn set_schema(&mut self, schema: &Schema) {
        self.drop_tables(|table| {
            let of_name = schema.table(&table.keyspace, &table.name);
            of_name.is_some_and(|of_name| of_name.id == table.id && of_name.kind == TableKind::Regular)
        });
        for keyspace in schema.keyspaces.values() {
            for metadata in keyspace
                .tables
                .values()
                .filter(|table| table.kind == TableKind::Regular)
            {
                match self.tables.get_mut(&metadata.id) {
                    Some(table) if Arc::ptr_eq(&table.layout.metadata, metadata) => {
                        table.is_logged = keyspace.durable_writes;
                    }
                    Some(table) => {
                        // What a row looks like may have changed.
                        self.row_cache.drop_table(metadata.id);
                        table.set_layout(TableLayout::in_schema(metadata, schema), keyspace.durable_writes);
                        table.set_vectors();
                        self.set_indexes(metadata.id);
                    }
                    None => {
                        let folder = self
                            .disk
                            .as_ref()
                            .map_or_else(PathBuf::new, |disk| disk.folder.table_folder(metadata));
                        let mut table = Table::new(
                            TableLayout::in_schema(metadata, schema),
                            keyspace.durable_writes,
                            folder,
                        );
                        table.epoch = self.tables_made << 32;
                        self.tables_made += 1;
                        self.tables.insert(metadata.id, table);
                    }
                }
            }
        }
    }

    fn drop_tables(&mut self, is_kept: impl Fn(&TableMetadata) -> bool) {
        let gone = self.tables.iter();
        let gone = gone.filter(|(_, table)| !is_kept(&table.layout.metadata));
        let gone: Vec<TableId> = gone.map(|(&id, _)| id).collect();
        for table in gone.iter().filter_map(|id| self.tables.remove(id)) {
            self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
            self.row_cache.drop_table(table.layout.metadata.id);
            match self.disk {
                Some(_) => self.schedule.remove_dropped(table),
                None => self.memtable_bytes = self.memtable_bytes.saturating_sub(table.memory_bytes()),
            }
        }
        // A snapshot may bring a table back under its id, and must not bring back what the log has of it.
        let log = self.disk.as_ref().and_then(|disk| disk.log.as_ref());
        if let Some(dropped_at) = log.map(CommitLog::position) {
            gone.iter().for_each(|&id| self.log_flushed(id, dropped_at));
        }
        self.count_sstable_memory();
    }

    /// Takes a write. It is durable once the log has reached the position returned; a table that is not logged gives
    /// the position of the last write that was.
    #[inline]
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
        if table.flush_failure.is_some() {
            table.check_unflushed(&self.options, &self.schedule)?;
        }
        let log = self.disk.as_mut().and_then(|disk| disk.log.as_mut());
        let position = match log {
            Some(log) if table.is_logged => Some(log.append(update.as_bytes())?),
            _ => None,
        };
        let grown = table
            .active
            .apply(token, update, position, &mut self.write_scratch);
        table.feed_vectors(update);
        self.note_grown(grown);
        Ok(position.unwrap_or_default())
    }

    /// Takes a write that the log of the last run has, also where memory is full.
    pub(super) fn take_again(&mut self, token: Token, update: &Update<'_>) -> Result<(), WriteError> {
        let table = self
            .tables
            .get_mut(&update.table)
            .ok_or(WriteError::UnknownTable { id: update.table })?;
        table.active.expect_dropped();
        let grown = table.active.apply(token, update, None, &mut self.write_scratch);
        table.feed_vectors(update);
        self.note_grown(grown);
        Ok(())
    }

    /// Memtables that hold so many bytes are no more.
    pub(super) fn note_freed(&mut self, bytes: usize) {
        self.memtable_bytes = self.memtable_bytes.saturating_sub(bytes);
    }

    #[inline]
    fn note_grown(&mut self, grown: isize) {
        self.memtable_bytes = self.memtable_bytes.saturating_add_signed(grown);
        self.active_bytes = self.active_bytes.saturating_add_signed(grown);
        self.give_back_lent();
        if self.disk.is_some() && self.active_bytes > self.options.memtable_bytes_max / ACTIVE_SHARE {
            self.seal_largest();
        }
    }

    /// As [`ShardStore::apply_at`], for several partitions: a crash leaves all of these updates or none.
    pub fn apply_all(&mut self, updates: &[(Token, Update<'_>)]) -> Result<LogPosition, WriteError> {
        self.apply_each(updates.iter().copied())
    }

    /// As [`ShardStore::apply_all`], of updates that are no slice; they are gone through several times.
    pub fn apply_each<'u>(
        &mut self,
        updates: impl Iterator<Item = (Token, Update<'u>)> + Clone,
    ) -> Result<LogPosition, WriteError> {
        self.check_taken(updates.clone())?;
        let position = match self.disk.as_mut().and_then(|disk| disk.log.as_mut()) {
            Some(log) => {
                let mut logged = logged(&self.tables, updates.clone()).peekable();
                match logged.peek() {
                    Some(_) => Some(log.append_all(logged)?),
                    None => None,
                }
            }
            None => None,
        };
        self.merge_in(updates, position);
        Ok(position.unwrap_or_default())
    }

    /// Checks that this shard would take its part of a write set now, and returns whether any of that is logged; if not, its
    /// part is none.
    pub fn check_part(&self, updates: &[(Token, Update<'_>)]) -> Result<bool, WriteError> {
        let updates = updates.iter().copied();
        self.check_taken(updates.clone())?;
        let mut logged = logged(&self.tables, updates).peekable();
        match self.disk.as_ref().and_then(|disk| disk.log.as_ref()) {
            Some(log) if logged.peek().is_some() => log.check_part(logged)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a shard's share of a write set that [`ShardStore::check_part`] has promised to take, with the part that it
    /// is in the log. Also where memory has filled since then: what is taken beyond the bound is as much as requests are
    /// in flight. Tables that were dropped since then are passed over.
    pub fn apply_part(
        &mut self,
        part: Option<WriteSetPart>,
        updates: &[(Token, Update<'_>)],
    ) -> Result<LogPosition, WriteError> {
        let updates = updates.iter().copied();
        let log = self.disk.as_mut().and_then(|disk| disk.log.as_mut());
        let position = match (log, part) {
            // Even of nothing: the set is resolved once all its parts are there.
            (Some(log), Some(part)) => Some(log.append_part(part, logged(&self.tables, updates.clone()))?),
            _ => None,
        };
        self.merge_in(updates, position);
        Ok(position.unwrap_or_default())
    }

    fn check_taken<'u>(&self, updates: impl Iterator<Item = (Token, Update<'u>)>) -> Result<(), WriteError> {
        if self.memtable_bytes >= self.options.memtable_bytes_max {
            return Err(WriteError::MemtablesFull {
                bytes_max: self.options.memtable_bytes_max,
            });
        }
        for (_, update) in updates {
            let table = self.tables.get(&update.table);
            let table = table.ok_or(WriteError::UnknownTable { id: update.table })?;
            if table.flush_failure.is_some() {
                table.check_unflushed(&self.options, &self.schedule)?;
            }
        }
        Ok(())
    }

    pub(super) fn log(&self) -> Option<&CommitLog> {
        self.disk.as_ref()?.log.as_ref()
    }

    /// Merges the updates of one record of the log into memory. No memtable is sealed in between: what is flushed up to
    /// the record's position must have all of it.
    fn merge_in<'u>(
        &mut self,
        updates: impl Iterator<Item = (Token, Update<'u>)>,
        position: Option<LogPosition>,
    ) {
        let mut grown = 0;
        for (token, update) in updates {
            let Some(table) = self.tables.get_mut(&update.table) else {
                continue;
            };
            let position = position.filter(|_| table.is_logged);
            grown += table
                .active
                .apply(token, &update, position, &mut self.write_scratch);
            table.feed_vectors(&update);
        }
        self.note_grown(grown);
    }

    /// Flushes and compactions under way on all shards of the node, the oldest first.
    pub fn node_jobs(&self) -> Vec<Arc<JobProgress>> {
        self.disk
            .as_ref()
            .map_or_else(Vec::new, |disk| disk.folder.jobs())
    }

    /// Bytes that all memtables hold, also those that are about to be freed.
    pub fn memtable_bytes(&self) -> usize {
        self.memtable_bytes
    }

    fn seal_largest(&mut self) {
        if let Some(table) = self.tables.values_mut().max_by_key(|table| table.active.bytes()) {
            self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
            table.seal();
        }
        self.schedule.note_news();
    }

    /// SSTables that reads may touch.
    pub fn sstable_count(&self) -> usize {
        self.tables.values().map(|table| table.sstables.len()).sum()
    }

    /// Those of the folder that could not be opened at its start, whichever shard's they are, of tables that are still
    /// there.
    pub fn refused_sstables(&self) -> Vec<Arc<RefusedSsTable>> {
        let mut refused = self
            .disk
            .as_ref()
            .map(|disk| disk.folder.refused_sstables())
            .unwrap_or_default();
        refused.retain(|refused| {
            self.tables.values().any(|table| {
                let metadata = &table.layout.metadata;
                metadata.keyspace == refused.keyspace && metadata.name == refused.table
            })
        });
        refused
    }

    /// Components of SSTables that are ours and not needed, which could not be written or read since the start. What the
    /// whole node found when it wrote or opened them the first shard tells.
    pub fn lost_sidecars(&self) -> u64 {
        let folder = self.disk.as_ref().filter(|_| self.shard == ShardId(0));
        let found = folder.map_or(0, |disk| disk.folder.sidecar_faults());
        let sstables = self.tables.values().flat_map(|table| &table.sstables);
        found + sstables.filter(|sstable| sstable.has_lost_sidecar()).count() as u64
    }

    /// Bytes that open SSTables keep in memory whatever is read: filters, samples and pinned pages of indexes, checksums.
    pub fn sstable_memory_bytes(&self) -> u64 {
        let tables = self.tables.values().flat_map(|table| &table.sstables);
        let indexes = self
            .tables
            .values()
            .map(|table| table.indexes.memory_bytes() as u64);
        tables.map(|sstable| sstable.memory_bytes()).sum::<u64>() + indexes.sum::<u64>()
    }

    /// Seals a table's memtable, or all with `None`; [`ShardStore::next_job`] has the flushes then.
    pub fn flush(&mut self, id: Option<TableId>) {
        if self.disk.is_none() {
            return;
        }
        self.schedule.note_news();
        for (_, table) in self
            .tables
            .iter_mut()
            .filter(|(table_id, _)| id.is_none_or(|id| id == **table_id))
        {
            self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
            table.seal();
            table.ask_for_flush();
        }
    }
}
