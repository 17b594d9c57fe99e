//! Indexes of vectors of a store: how they are fed, filled from the rows, and searched.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_rows::clustering::{Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_rows::row::RowRef;
use helenus_rows::update::Update;
use helenus_schema::{IndexId, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_types::Token;

use super::shard::ShardStore;
use super::table::Table;
use crate::read::{ReadCommand, RowSink};
use crate::read_state::{ReadProgress, ReadState};
use crate::vectors::{
    Content, Filled, NearestRequest, NearestSearch, NextNearest, OwnGraphLimits, VectorIndex,
};

/// Comparisons of vectors that a step in the background makes: a tenth of a millisecond.
const UNITS_PER_STEP: u32 = 2_048;

/// Rows that a step of filling reads before it notes where it stands.
const ROWS_PER_FILL: usize = 256;

/// Outcome of a step in the background.
#[derive(Debug)]
pub enum Tended {
    /// There is nothing to do, until something is written.
    Nothing,
    /// There may be more.
    Some,
    /// There is more, and searches have spent more on going through it than it has had.
    Owing,
}

/// An index that is being filled from what the table has, on one shard.
#[derive(Debug)]
pub struct VectorFill {
    table: Arc<TableMetadata>,
    index: IndexId,
    generation: u64,
    from: Filled,
    sink: FillSink,
    state: ReadState,
}

/// Rows as they are read.
#[derive(Debug, Default)]
struct FillSink {
    key: Vec<u8>,
    token: Option<Token>,
    rows: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>,
    /// The last partition of which there are all rows.
    whole_to: Option<(Token, Vec<u8>)>,
}

impl RowSink for FillSink {
    fn partition(&mut self, token: Token, key: &[u8], _: RowRef<'_>) -> ControlFlow<()> {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.token = Some(token);
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        let (key, row) = (self.key.clone(), row.as_bytes().to_vec());
        self.rows.push((key, clustering.to_vec(), row));
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        self.whole_to = self.token.map(|token| (token, self.key.clone()));
        match self.rows.len() >= ROWS_PER_FILL {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl VectorFill {
    /// The read that pages are brought for.
    pub fn state(&self) -> &ReadState {
        &self.state
    }
}

/// Those of a table without data have all rows.
pub(super) fn vectors_of(table: &TableMetadata) -> Vec<VectorIndex> {
    let indexes = table.indexes.iter();
    let mut vectors: Vec<VectorIndex> = indexes
        .filter_map(|index| VectorIndex::of(table, index))
        .collect();
    for index in &mut vectors {
        index.note_empty();
    }
    vectors
}

impl Table {
    /// Takes over the indexes of vectors of the table's schema.
    pub fn set_vectors(&mut self) {
        let has_data = !self.sstables.is_empty() || self.memtables().any(|memtable| !memtable.is_empty());
        let before = std::mem::take(&mut self.vectors);
        let mut before: Vec<Option<VectorIndex>> = before.into_iter().map(Some).collect();
        for mut index in vectors_of(&self.layout.metadata) {
            let known = before.iter_mut().find(|known| {
                let known = known.as_ref();
                known.is_some_and(|known| known.index == index.index && known.column == index.column)
            });
            match known.and_then(Option::take) {
                Some(known) => self.vectors.push(known),
                None => {
                    if has_data {
                        index.forget();
                    }
                    self.vectors.push(index);
                }
            }
        }
    }

    #[inline]
    pub fn feed_vectors(&mut self, update: &Update<'_>) {
        for index in &mut self.vectors {
            index.apply(update);
        }
    }

    /// Empties the indexes of vectors: the table has other data than they were fed with.
    pub fn forget_vectors(&mut self) {
        self.vectors.iter_mut().for_each(VectorIndex::forget);
    }

    /// Returns whether an index of vectors lacks rows; `None` for another one.
    pub fn is_filling_vectors(&self, index: IndexId) -> Option<bool> {
        let index = self.vector_index(index)?;
        Some(matches!(index.content, Content::Partial { .. }))
    }

    fn vector_index(&self, index: IndexId) -> Option<&VectorIndex> {
        self.vectors.iter().find(|vectors| vectors.index == index)
    }

    pub fn vector_index_mut(&mut self, index: IndexId) -> Option<&mut VectorIndex> {
        self.vectors.iter_mut().find(|vectors| vectors.index == index)
    }
}

impl ShardStore {
    pub fn has_vectors(&self) -> bool {
        self.tables.values().any(|table| !table.vectors.is_empty())
    }

    /// Memory that indexes of vectors hold.
    pub fn vector_bytes(&self) -> usize {
        let indexes = self.tables.values().flat_map(|table| &table.vectors);
        indexes.map(VectorIndex::memory_bytes).sum()
    }

    /// Vectors that are to be linked yet.
    pub fn unlinked_vectors(&self) -> u64 {
        let indexes = self.tables.values().flat_map(|table| &table.vectors);
        indexes.map(|index| u64::from(index.unlinked_count())).sum()
    }

    /// Graphs that indexes of vectors have for filters by which it is searched often.
    pub fn vector_filter_graphs(&self) -> usize {
        let indexes = self.tables.values().flat_map(|table| &table.vectors);
        indexes.map(|index| index.filters.own_graph_count()).sum()
    }

    /// Does a step of what indexes of vectors have to do, but for filling them.
    pub fn tend_vectors(&mut self) -> Tended {
        let bytes = self.bound_vectors();
        let limits = OwnGraphLimits {
            bytes_left: self.options.vector_bytes_max.saturating_sub(bytes),
            is_eager: self.options.walks_small_graphs,
        };
        for table in self.tables.values_mut() {
            for index in &mut table.vectors {
                let mut units_left = UNITS_PER_STEP;
                let is_done = index.tend(&mut units_left, limits);
                if index.owes_linking() {
                    return Tended::Owing;
                }
                if !is_done || units_left < UNITS_PER_STEP {
                    return Tended::Some;
                }
            }
        }
        Tended::Nothing
    }

    /// Keeps indexes of vectors within their memory, after a step that did something else.
    pub fn tend_vectors_between(&mut self) -> Tended {
        self.bound_vectors();
        Tended::Some
    }

    /// Keeps indexes of vectors within their memory, and returns what they hold: what they take, caches do not have. Where it is too
    /// much graphs of sets go, then the greatest index.
    fn bound_vectors(&mut self) -> usize {
        let bytes = self.vector_bytes();
        self.set_vector_memory(bytes);
        if bytes > self.options.vector_bytes_max {
            let mut indexes = self.tables.values_mut().flat_map(|table| &mut table.vectors);
            if !indexes.any(|index| index.filters.forget_own_graphs()) {
                let indexes = self.tables.values_mut().flat_map(|table| &mut table.vectors);
                let greatest = indexes.max_by_key(|index| index.memory_bytes());
                greatest.into_iter().for_each(VectorIndex::give_up);
            }
        }
        bytes
    }

    /// An index of vectors that lacks rows which the table has.
    pub fn begin_vector_fill(&self) -> Option<VectorFill> {
        self.tables.values().find_map(|table| {
            table.vectors.iter().find_map(|index| match &index.content {
                Content::Partial { filled_to, .. } => Some(VectorFill {
                    table: Arc::clone(&table.layout.metadata),
                    index: index.index,
                    generation: index.generation,
                    from: filled_to.clone(),
                    sink: FillSink::default(),
                    state: ReadState::suspending(),
                }),
                _ => None,
            })
        })
    }

    /// Reads on for an index; where that is `Done` the fill is over, and another one may have to begin. What expires is taken
    /// in whenever that is: searches look at the time themselves.
    pub fn step_vector_fill(&mut self, fill: &mut VectorFill) -> Result<ReadProgress, ReadError> {
        let start = match &fill.from {
            Filled::Nothing => PartitionBound {
                token: Token::MINIMUM,
                key: None,
                side: Side::Before,
            },
            Filled::To(token, key) => PartitionBound {
                token: *token,
                key: Some(key),
                side: Side::After,
            },
        };
        let end = PartitionBound {
            token: Token::MAXIMUM,
            key: None,
            side: Side::After,
        };
        let command = ReadCommand {
            table: &fill.table,
            partitions: PartitionRange::Many { start, end },
            slices: &[Slice::all()],
            reversed: false,
            now_s: 0,
            index: &[],
        };
        let progress = self.read_step(&command, &mut fill.state, &mut fill.sink)?;
        let index = self
            .tables
            .get_mut(&fill.table.id)
            .and_then(|table| table.vector_index_mut(fill.index))
            .filter(|index| index.generation == fill.generation);
        let Some(index) = index else {
            return Ok(ReadProgress::Done);
        };
        for (key, clustering, row) in fill.sink.rows.drain(..) {
            index.apply_row((&key, &clustering), RowRef::new(&row));
        }
        if matches!(progress, ReadProgress::Done) {
            match (fill.sink.whole_to.take(), &mut index.content) {
                (Some((token, key)), Content::Partial { filled_to, .. }) => {
                    *filled_to = Filled::To(token, key)
                }
                _ => index.note_whole(),
            }
        }
        Ok(progress)
    }

    /// A search for the rows that are nearest to a vector; `None` where rows have to be scanned for that.
    pub fn begin_nearest(&self, request: &NearestRequest<'_>) -> Option<NearestSearch> {
        let index = self.tables.get(&request.table)?.vector_index(request.index)?;
        NearestSearch::begin(index, request, self.options.walks_small_graphs)
    }

    pub fn next_nearest(&self, search: &mut NearestSearch, now_s: u32, units_left: &mut u32) -> NextNearest {
        let table = self.tables.get(&search.table);
        match table.and_then(|table| table.vector_index(search.index)) {
            Some(index) => search.next(index, now_s, units_left),
            None => NextNearest::Lost,
        }
    }

    /// The row that was handed out last is not there. One that may expire is kept: clocks go back. So is every one of a table whose
    /// rows expire by a column: another value brings them back.
    pub fn note_nearest_gone(&mut self, search: &NearestSearch) {
        let table = self.tables.get_mut(&search.table);
        let table = table.filter(|table| table.layout.shape.expiration().is_none());
        let index = table.and_then(|table| table.vector_index_mut(search.index));
        if let Some(index) = index
            && let Some(node) = search.at(index)
            && !search.expires(index, node)
        {
            index.note_gone(node);
        }
    }
}
