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
//! - The other predicates are left to the reader, who filters what is found. Where none is known that is the plain walk.

use helenus_index::IndexPredicate;
use helenus_schema::ColumnId;
use helenus_vector::NodeSet;

use super::index::Nodes;
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

/// The sets of one graph.
#[derive(Debug, Default)]
pub(crate) struct FilterSets {
    sets: Vec<FilterSet>,
    /// Queries so far, by which it is known what was asked for last.
    queries: u64,
}

#[derive(Debug)]
pub(crate) struct FilterSet {
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
        self.sets.iter().map(|set| set.nodes.memory_bytes()).sum()
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
            self.sets.push(FilterSet::begin(predicate, column, node_count));
            self.sets.len() - 1
        });
        let set = &mut self.sets[place];
        if set.is_outdated(node_count) {
            *set = FilterSet::begin(predicate, column, node_count);
        }
        set.asked_at = self.queries;
        set
    }

    /// A row was written in some column: it may match from now on.
    pub fn note_written(&mut self, column: ColumnId, node: u32) {
        for set in &mut self.sets {
            if set.column == column && node < set.begun_at && set.nodes.set(node) {
                set.written += 1;
            }
        }
    }

    /// Another node has taken this one's row although it may be the one that counts: no set finds it any more.
    pub fn note_unmapped(&mut self, node: u32) {
        for set in &mut self.sets {
            set.nodes.set(node);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The nodes that may match all of the predicates, as far as is known; `None` where nothing is.
    pub fn matching(&self, predicates: &[IndexPredicate], node_count: u32) -> Option<NodeSet> {
        let mut matching: Option<NodeSet> = None;
        for predicate in predicates {
            let known = self.sets.iter().find(|set| set.predicate == *predicate);
            let Some(set) = known.filter(|set| matches!(set.gathered, Gathered::Whole { .. })) else {
                continue;
            };
            let mut nodes = set.nodes.clone();
            nodes.add_from(set.begun_at, node_count);
            match &mut matching {
                Some(matching) => matching.intersect(&nodes),
                None => matching = Some(nodes),
            }
        }
        matching
    }
}

impl FilterSet {
    fn begin(predicate: &IndexPredicate, column: ColumnId, node_count: u32) -> Self {
        FilterSet {
            predicate: predicate.clone(),
            column,
            nodes: NodeSet::of(node_count),
            begun_at: node_count,
            gathered: Gathered::Nothing,
            written: 0,
            asked_at: 0,
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
