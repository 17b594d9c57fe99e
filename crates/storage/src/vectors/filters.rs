//! Sets of nodes whose rows may match a predicate: what a search for the nearest is narrowed to.
//!
//! A set is gathered from the places that a secondary index has under the predicate, and kept for the queries after it. None that
//! matches is missing from it: its row was found under the index, or its node was added since the set was begun, or its row was
//! written since then in the column of the index. What is in it and does not match is found out by whoever reads the row.
//!
//! What a query does is a matter of what is known of its predicates:
//! - Each query gathers at most [`PLACES_PER_QUERY`] places. So the rare ones are known at once, and those of many rows
//!   once so many queries have asked for them that gathering was worth it: it never takes longer than the queries themselves.
//! - Of predicates whose sets are whole the search is narrowed to what all of them have; how it goes on from there is
//!   [`helenus_vector::Search`]'s to say: small sets are compared one by one, others steer the walk.
//!   Where that takes long ways, and is asked for often, a set is given a [graph of its own](super::own_graph).
//! - The other predicates are left to the reader, who filters what is found. Where none is known that is the plain walk.

use std::cell::Cell;

use helenus_index::IndexPredicate;
use helenus_schema::ColumnId;
use helenus_vector::{Graph, NodeSet};

use super::index::Nodes;
use super::own_graph::{OwnGraph, OwnGraphNumber};
use super::rows::Row;
use crate::index::Candidate;

/// Places that one query gathers: about a millisecond, as much as it takes to read some hundred rows that do not match.
pub(crate) const PLACES_PER_QUERY: u32 = 4_096;

/// Sets that one index of vectors keeps, a bit for each of its vectors: together less than a fiftieth of what it holds.
const SETS_MAX: usize = 16;

/// Part of a set's nodes that may be there without being known to match, before it is gathered anew.
const UNKNOWN_PART: u32 = 4;
/// And so many besides.
const UNKNOWN_MIN: u32 = 256;

/// Graphs of sets may take this many times the memory of the graph of all, besides: enough for the values of a column that has few.
const OWN_GRAPHS_TIMES: usize = 1;

/// The sets of one graph.
#[derive(Debug, Default)]
pub(crate) struct FilterSets {
    sets: Vec<FilterSet>,
    /// Queries so far, by which it is known what was asked for last.
    queries: u64,
    /// Graphs of sets so far.
    graphs_begun: u64,
}

#[derive(Debug)]
pub(crate) struct FilterSet {
    number: SetNumber,
    predicate: IndexPredicate,
    /// The column that the predicate is on.
    column: ColumnId,
    nodes: NodeSet,
    /// Nodes from here on were added since it was begun, and are as good as in it.
    begun_at: u32,
    pub gathered: Gathered,
    /// Nodes that are in it for what was written since.
    written: u32,
    asked_at: u64,
    /// By how much searches have cost more than over a graph of its own.
    detours_cost: Cell<u64>,
    own: Option<OwnGraph>,
    /// True once its graph has made room for something else: another one has to become worth it first.
    has_made_room: bool,
}

/// Nodes that a search is narrowed to.
#[derive(Debug)]
pub(crate) enum Narrowed<'s> {
    /// Nothing is known of its predicates.
    No,
    /// Nodes of the graph of all, and the number of the set if they are those of one.
    To(NodeSet, Option<SetNumber>),
    Own(&'s OwnGraph),
}

/// The query that a set was begun with, by which it is known for as long as there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetNumber(u64);

/// Bounds of the memory of graphs of sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnGraphLimits {
    /// Memory that is left to indexes of vectors.
    pub bytes_left: usize,
    /// True if each set is to have one, for tests.
    pub is_eager: bool,
}

/// How much of what the index has under a predicate is in a set.
#[derive(Debug)]
pub(crate) enum Gathered {
    Nothing,
    /// And all before it.
    To(Candidate),
    Whole {
        count: u32,
    },
    /// The index has places that are not of single rows, or more than it says where.
    Unusable,
}

impl FilterSets {
    /// Nodes have other numbers.
    pub fn clear(&mut self) {
        self.sets.clear();
    }

    pub fn memory_bytes(&self) -> usize {
        let set_bytes: usize = self.sets.iter().map(|set| set.nodes.memory_bytes()).sum();
        set_bytes + self.own_graph_bytes()
    }

    fn own_graph_bytes(&self) -> usize {
        let graphs = self.sets.iter().filter_map(|set| set.own.as_ref());
        graphs.map(OwnGraph::memory_bytes).sum()
    }

    pub fn own_graph_count(&self) -> usize {
        self.sets.iter().filter(|set| set.own.is_some()).count()
    }

    /// Gives up the graphs of sets; whether there was one.
    pub fn forget_own_graphs(&mut self) -> bool {
        let forgotten = self.sets.iter_mut().filter_map(FilterSet::forget_own_graph);
        forgotten.count() > 0
    }

    /// `None` once it was given up.
    pub fn own_graph(&self, number: OwnGraphNumber) -> Option<&OwnGraph> {
        let mut graphs = self.sets.iter().filter_map(|set| set.own.as_ref());
        graphs.find(|own| own.number == number)
    }

    /// Makes graphs for sets that are worth one; whether there is nothing to do.
    pub fn tend(&mut self, all: &Nodes, units_left: &mut u32, limits: OwnGraphLimits) -> bool {
        for set in &mut self.sets {
            if let Some(own) = &mut set.own
                && !own.step(&all.graph, &set.nodes, set.begun_at, units_left)
            {
                return false;
            }
        }
        for set in 0..self.sets.len() {
            let is_wanted = self.sets[set].wants_own_graph(&all.graph, limits.is_eager);
            if is_wanted && self.has_room(set, all, limits) {
                self.graphs_begun += 1;
                let number = OwnGraphNumber(self.graphs_begun);
                self.sets[set].own = Some(OwnGraph::begin(number, &all.graph));
                return false;
            }
        }
        true
    }

    /// Returns whether there is memory for the graph of a set; makes room by those that were not asked for since this set was begun, if
    /// that is enough.
    fn has_room(&mut self, set: usize, all: &Nodes, limits: OwnGraphLimits) -> bool {
        let (count, begun_at) = (self.sets[set].nodes.count() as usize, self.sets[set].number.0);
        let bytes = all.graph.memory_bytes() / (all.graph.len() as usize).max(1) * count;
        if bytes > limits.bytes_left {
            return false;
        }
        let bytes_max = all.memory_bytes() * OWN_GRAPHS_TIMES;
        let mut missing = (self.own_graph_bytes() + bytes).saturating_sub(bytes_max);
        let mut others: Vec<&mut FilterSet> = self
            .sets
            .iter_mut()
            .filter(|set| set.own.is_some() && set.asked_at < begun_at)
            .collect();
        let own_bytes = |set: &FilterSet| set.own.as_ref().map_or(0, OwnGraph::memory_bytes);
        if others.iter().map(|set| own_bytes(set)).sum::<usize>() < missing {
            return false;
        }
        others.sort_unstable_by_key(|set| set.asked_at);
        for oldest in others {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(own_bytes(oldest));
            oldest.forget_own_graph();
        }
        true
    }

    /// A search of a set has cost so much more than one over a graph of its own; whether one is being made.
    pub fn note_detours(&self, number: SetNumber, cost: u64) -> bool {
        let Some(set) = self.sets.iter().find(|set| set.number == number) else {
            return false;
        };
        set.detours_cost.set(set.detours_cost.get().saturating_add(cost));
        set.own.is_some()
    }

    /// A node was added to the graph of all.
    pub fn note_added(&mut self, node: u32, code: &[u8]) {
        for set in &mut self.sets {
            set.note_added(node, code);
        }
    }

    /// The set of a predicate, begun if there is none that is worth its place.
    pub fn open(&mut self, predicate: &IndexPredicate, column: ColumnId, node_count: u32) -> &mut FilterSet {
        self.queries += 1;
        let known = self.sets.iter().position(|set| set.predicate == *predicate);
        let place = known.unwrap_or_else(|| {
            if self.sets.len() >= SETS_MAX
                && let Some(oldest) = (0..self.sets.len()).min_by_key(|set| self.sets[*set].asked_at)
            {
                self.sets.swap_remove(oldest);
            }
            self.sets
                .push(FilterSet::begin(predicate, column, node_count, self.queries));
            self.sets.len() - 1
        });
        let set = &mut self.sets[place];
        if set.is_outdated(node_count) {
            *set = FilterSet::begin(predicate, column, node_count, self.queries);
        }
        set.asked_at = self.queries;
        set
    }

    /// A row was written in some column: it may match from now on.
    pub fn note_written(&mut self, column: ColumnId, node: u32, code: &[u8]) {
        for set in &mut self.sets {
            if set.column == column && node < set.begun_at && set.nodes.set(node) {
                set.written += 1;
                set.note_added(node, code);
            }
        }
    }

    /// Another node has taken this one's row although it may be the one that counts: no set finds it any more.
    pub fn note_unmapped(&mut self, node: u32, code: &[u8]) {
        for set in &mut self.sets {
            if set.nodes.set(node) && node < set.begun_at {
                set.note_added(node, code);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// To what a search is narrowed by its predicates: the nodes that may match all of them, as far as is known.
    pub fn narrow(&self, predicates: &[IndexPredicate], all: &Graph) -> Narrowed<'_> {
        let mut known = predicates.iter().filter_map(|predicate| {
            let mut sets = self.sets.iter();
            sets.find(|set| set.predicate == *predicate && set.is_whole())
        });
        let Some(first) = known.next() else {
            return Narrowed::No;
        };
        let Some(second) = known.next() else {
            let own = first.own.as_ref();
            return match own.filter(|own| own.is_ready(all)) {
                Some(own) => Narrowed::Own(own),
                None => Narrowed::To(first.all_nodes(all.len()), Some(first.number)),
            };
        };
        let mut nodes = first.all_nodes(all.len());
        for set in std::iter::once(second).chain(known) {
            nodes.intersect(&set.all_nodes(all.len()));
        }
        Narrowed::To(nodes, None)
    }
}

impl FilterSet {
    fn begin(predicate: &IndexPredicate, column: ColumnId, node_count: u32, query: u64) -> Self {
        FilterSet {
            number: SetNumber(query),
            predicate: predicate.clone(),
            column,
            nodes: NodeSet::of(node_count),
            begun_at: node_count,
            gathered: Gathered::Nothing,
            written: 0,
            asked_at: 0,
            detours_cost: Cell::new(0),
            own: None,
            has_made_room: false,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self.gathered, Gathered::Whole { .. })
    }

    /// With those that were added since it was begun.
    fn all_nodes(&self, node_count: u32) -> NodeSet {
        let mut nodes = self.nodes.clone();
        nodes.add_from(self.begun_at, node_count);
        nodes
    }

    fn wants_own_graph(&self, all: &Graph, is_eager: bool) -> bool {
        let is_worth_it = || self.detours_cost.get() >= all.linking_cost(self.nodes.count());
        // What cost nothing is not worth anything, not even a set of no nodes.
        let is_asked_for = || self.detours_cost.get() > 0 && is_worth_it();
        let is_made_at_once = is_eager && !self.has_made_room;
        self.own.is_none() && self.is_whole() && (is_made_at_once || is_asked_for())
    }

    fn forget_own_graph(&mut self) -> Option<OwnGraph> {
        self.detours_cost.set(0);
        self.has_made_room |= self.own.is_some();
        self.own.take()
    }

    fn note_added(&mut self, node: u32, code: &[u8]) {
        if let Some(own) = &mut self.own {
            own.note_added(node, code);
        }
    }

    fn is_outdated(&self, node_count: u32) -> bool {
        let Gathered::Whole { count } = self.gathered else {
            return false;
        };
        let unknown = node_count - self.begun_at + self.written;
        unknown > count / UNKNOWN_PART + UNKNOWN_MIN
    }

    /// Takes in places that the index has, in their order.
    pub fn take(&mut self, nodes: &Nodes, is_clustered: bool, places: Vec<Candidate>) {
        for place in &places {
            let row: Row<'_> = match &place.clustering {
                Some(clustering) => (&place.key, clustering),
                None => (&place.key, &[]),
            };
            if place.key.is_empty() || place.clustering.is_some() != is_clustered {
                self.gathered = Gathered::Unusable;
                return;
            }
            if let Some(node) = nodes.rows.find(row) {
                self.nodes.set(node);
            }
        }
        if let Some(last) = places.into_iter().next_back() {
            self.gathered = Gathered::To(last);
        }
    }

    /// All that the index has was taken in. Nodes that no row leads to may be of any row.
    pub fn note_whole(&mut self, nodes: &Nodes) {
        if matches!(self.gathered, Gathered::Unusable) {
            return;
        }
        for node in &nodes.unmapped {
            self.nodes.set(*node);
        }
        let count = self.nodes.count();
        self.gathered = Gathered::Whole { count };
    }
}
