//! A query's way through an index of vectors.

use std::collections::VecDeque;

use helenus_index::IndexPredicate;
use helenus_schema::{IndexId, TableId};
use helenus_types::{Token, token_of};
use helenus_vector::{Graph, Near, Search};

use super::filters::{Narrowed, SetNumber};
use super::index::{Nodes, VectorIndex};
use super::own_graph::{BEAM_TIMES, OwnGraphNumber};

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
    /// Where another graph than that of all is searched.
    own: Option<OwnSearch>,
    /// Handed out before the graph that was searched first was given up.
    handed_out: Vec<u32>,
    /// The set that it is narrowed to in the graph of all.
    set: Option<SetNumber>,
    /// Part of its cost that is known to the set, or is not to be.
    noted_cost: u64,
    /// Found, and not handed out yet; the nearest first.
    found: VecDeque<Near>,
    is_searched: bool,
    /// Handed out last.
    at: Option<u32>,
}

/// A search over the graph of a set, which may be given up before it is over.
#[derive(Debug)]
struct OwnSearch {
    graph: OwnGraphNumber,
    /// For a search of all, which it is then.
    code: Vec<u8>,
    beam: usize,
    handed_out: Vec<u32>,
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
        let all = &nodes.graph;
        let code = all.encode(request.vector);
        let beam = all.search_beam(request.count);
        let own_beam = beam * BEAM_TIMES;
        let among_all = |graph: &Graph, code, beam| match walks_small_graphs {
            true => Search::walk(graph, code, beam),
            false => Search::new(graph, code, beam, None),
        };
        let (mut own, mut set) = (None, None);
        let (search, matching_count, unlinked_count) = match index.filters.narrow(request.predicates, all) {
            Narrowed::No => (among_all(all, code, beam), all.live_count(), all.unlinked_count()),
            Narrowed::To(matching, of) => {
                set = of;
                let count = matching.count();
                let search = Search::new(all, code, beam, Some(matching));
                (search, count, all.unlinked_count())
            }
            Narrowed::Own(graph) => {
                own = Some(OwnSearch {
                    graph: graph.number,
                    code: code.clone(),
                    beam,
                    handed_out: Vec::new(),
                });
                let graph = &graph.graph;
                (
                    among_all(graph, code, own_beam),
                    graph.len(),
                    graph.unlinked_count(),
                )
            }
        };
        index.note_unlinked_search(unlinked_count);
        Some(NearestSearch {
            table: request.table,
            index: index.index,
            generation: index.generation,
            matching_count,
            count: request.count,
            search,
            own,
            handed_out: Vec::new(),
            set,
            noted_cost: all.walk_cost(own_beam),
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
        self.go_on_among_all(index, nodes);
        let own = self
            .own
            .as_ref()
            .and_then(|own| index.filters.own_graph(own.graph));
        let graph = own.map_or(&nodes.graph, |own| &own.graph);
        loop {
            while let Some(near) = self.found.pop_front() {
                let node = own.map_or(near.node, |own| own.node(near.node));
                if let Some(row) = self.row_of(nodes, node, now_s) {
                    return row;
                }
            }
            if self.is_searched {
                self.search.widen(graph);
                self.is_searched = false;
            }
            if !self.search.step(graph, units_left) {
                return NextNearest::Paused;
            }
            self.is_searched = true;
            let least = std::mem::take(&mut self.count);
            self.found.extend(self.search.take_found(graph, least));
            if self.found.is_empty() {
                let is_everything = self.search.has_taken_all(graph);
                return NextNearest::End { is_everything };
            }
            self.note_detours(index);
        }
    }

    /// Searches the graph of all if the other one was given up.
    fn go_on_among_all(&mut self, index: &VectorIndex, nodes: &Nodes) {
        let is_given_up = |own: &mut OwnSearch| index.filters.own_graph(own.graph).is_none();
        if let Some(own) = self.own.take_if(is_given_up) {
            self.search = Search::new(&nodes.graph, own.code, own.beam, None);
            self.found.clear();
            self.is_searched = false;
            self.handed_out = own.handed_out;
        }
    }

    /// The row of a node that was found, if it may have that vector and was not handed out.
    fn row_of(&mut self, nodes: &Nodes, node: u32, now_s: u32) -> Option<NextNearest> {
        let found = nodes.rows.get(node);
        let is_there = found.expires_at_s > now_s && nodes.graph.is_live(node);
        if !is_there || self.handed_out.contains(&node) {
            return None;
        }
        if let Some(own) = &mut self.own {
            own.handed_out.push(node);
        }
        self.at = Some(node);
        let (key, clustering) = found.row;
        Some(NextNearest::Row {
            token: token_of(key),
            key: key.to_vec(),
            clustering: clustering.to_vec(),
        })
    }

    /// Tells the set what it would have saved to have a graph of its own.
    fn note_detours(&mut self, index: &VectorIndex) {
        let cost = self.search.cost();
        if let Some(set) = self.set.filter(|_| self.search.takes_detours())
            && let Some(more) = cost.checked_sub(self.noted_cost)
        {
            self.noted_cost = cost;
            index.note_detours(set, more);
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
        let handed_out = self.own.as_ref().map_or(&self.handed_out, |own| &own.handed_out);
        self.search.memory_bytes()
            + self.found.capacity() * size_of::<Near>()
            + handed_out.capacity() * size_of::<u32>()
    }
}
