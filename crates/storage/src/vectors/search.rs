//! A query's way through an index of vectors.

use std::collections::VecDeque;

use helenus_index::IndexPredicate;
use helenus_schema::{IndexId, TableId};
use helenus_types::{Token, token_of};
use helenus_vector::{Near, NodeSet, Search};

use super::index::VectorIndex;

/// A query for the nearest rows, as far as one shard knows it.
#[derive(Clone, Copy, Debug)]
pub struct NearestRequest<'q> {
    pub table: TableId,
    /// The index of vectors.
    pub index: IndexId,
    pub vector: &'q [f32],
    /// Rows that are looked for at once.
    pub count: usize,
    /// Predicates that rows match, as far as other indexes can say; the reader looks at each row again.
    pub predicates: &'q [IndexPredicate],
}

/// A search of one query on one shard, between whose steps the shard serves others.
#[derive(Debug)]
pub struct NearestSearch {
    pub table: TableId,
    pub index: IndexId,
    generation: u64,
    matching_count: u32,
    /// Rows that it hands out at first, if it finds as many.
    count: usize,
    search: Search,
    /// Found, and not handed out yet; the nearest first.
    found: VecDeque<Near>,
    is_searched: bool,
    /// Handed out last.
    at: Option<u32>,
}

/// Next result of a search.
#[derive(Debug)]
pub enum NextNearest {
    /// A row that may be the nearest of those that are left. It is to be read: its vector may be another one by now.
    Row {
        token: Token,
        key: Vec<u8>,
        clustering: Vec<u8>,
    },
    /// As much was done as one step may.
    Paused,
    /// All that is in reach was handed out.
    End {
        /// And that is all that there is.
        is_everything: bool,
    },
    /// The index is gone or another one: rows have to be scanned.
    Lost,
}

impl NearestSearch {
    pub(crate) fn begin(
        index: &VectorIndex,
        request: &NearestRequest<'_>,
        walks_small_graphs: bool,
    ) -> Option<NearestSearch> {
        let nodes = index.whole()?;
        if request.vector.len() != index.dimension {
            return None;
        }
        index.note_search();
        let graph = &nodes.graph;
        let code = graph.encode(request.vector);
        let beam = graph.search_beam(request.count);
        let matching = index.filters.matching(request.predicates, graph.len());
        let matching_count = matching
            .as_ref()
            .map_or_else(|| graph.live_count(), NodeSet::count);
        Some(NearestSearch {
            table: request.table,
            index: index.index,
            generation: index.generation,
            matching_count,
            count: request.count,
            search: match matching {
                None if walks_small_graphs => Search::walk(graph, code, beam),
                matching => Search::new(graph, code, beam, matching),
            },
            found: VecDeque::new(),
            is_searched: false,
            at: None,
        })
    }

    /// Vectors that the search may find, some of which may be gone.
    pub fn matching_count(&self) -> u32 {
        self.matching_count
    }

    pub(crate) fn next(&mut self, index: &VectorIndex, now_s: u32, units_left: &mut u32) -> NextNearest {
        let Some(nodes) = index.whole().filter(|_| index.generation == self.generation) else {
            return NextNearest::Lost;
        };
        loop {
            while let Some(near) = self.found.pop_front() {
                let found = nodes.rows.get(near.node);
                if found.expires_at_s <= now_s || !nodes.graph.is_live(near.node) {
                    continue;
                }
                self.at = Some(near.node);
                let (key, clustering) = found.row;
                return NextNearest::Row {
                    token: token_of(key),
                    key: key.to_vec(),
                    clustering: clustering.to_vec(),
                };
            }
            if self.is_searched {
                self.search.widen(&nodes.graph);
                self.is_searched = false;
            }
            if !self.search.step(&nodes.graph, units_left) {
                return NextNearest::Paused;
            }
            self.is_searched = true;
            let least = std::mem::take(&mut self.count);
            self.found.extend(self.search.take_found(&nodes.graph, least));
            if self.found.is_empty() {
                let is_everything = self.search.has_taken_all(&nodes.graph);
                return NextNearest::End { is_everything };
            }
        }
    }

    /// The node of the row that was handed out last, as long as it has that number.
    pub(crate) fn at(&self, index: &VectorIndex) -> Option<u32> {
        self.at.filter(|_| index.generation == self.generation)
    }

    pub(crate) fn expires(&self, index: &VectorIndex, node: u32) -> bool {
        let nodes = index.whole();
        nodes.is_none_or(|nodes| nodes.rows.get(node).expires_at_s != helenus_rows::deletion::NEVER_S)
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        self.search.memory_bytes() + self.found.capacity() * size_of::<Near>()
    }
}
