//! Searches that are for some of the nodes only: which way they go.
//!
//! The rule goes by what each way is likely to cost, from how many nodes are looked for:
//! - Of few, each is compared ([`Way::Scan`]). That is exact, and goes through memory in its order: three such comparisons take
//!   as long as one of a walk. A walk that turns out to cost more is given up for that.
//! - Where they are more than a seventh of all, the walk goes over all nodes and keeps those that are looked for
//!   ([`Way::Routes`]). It takes longer the fewer they are. Where the query's neighbourhood is of other nodes, its beam is widened:
//!   that far from a query many are almost equally near.
//! - Below that it looks first at what is nearest to the query ([`Way::Probe`]). Where many of that are looked for, as where a filter
//!   and the query are about the same, it goes on over all nodes.
//! - Else it goes from one of them to the next, over those between ([`Way::Detours`]), with a wider beam: paths that were made
//!   for all nodes lead less straight to some.
//!
//! The numbers are measured: `docs/decisions/0024-vectors.md`.

use crate::graph::Graph;
use crate::near::NodeSet;

/// So many nodes a walk compares for each that its beam is wide, or looks at the neighbours of.
const COMPARED_PER_BEAM: u64 = 40;

/// The same of a walk over all nodes of a graph, which has nothing to pass over.
const WALKED_PER_BEAM: u64 = 20;

/// So many a walk compares in the time of linking a node, for each that the construction beam is wide.
const LINKED_PER_BEAM: u64 = 16;

/// Nodes that are compared in their order in the time of one to which a path leads.
const SCANNED_PER_COMPARED: u64 = 3;

/// A walk is given up where its cost is more than this part of the nodes that are looked for: it was to be a third at most.
const GIVEN_UP_PART: u64 = 2;

/// Share of all nodes from which on a walk goes over all of them.
const ROUTES_SHARE_MIN: f64 = 0.15;

/// Share of all nodes from which on a beam is as wide as without filter, for a walk from one node that is looked for to the next.
const DETOURS_SHARE_FULL: f64 = 0.25;

/// Nodes looked for from which on the beam of such a walk is wider still, and by which power of how many there are: of more that are near
/// more are lost on the way.
const DETOURS_COUNT_USUAL: f64 = 30_000.0;
const DETOURS_COUNT_POWER: f64 = 0.75;

/// Beam of a walk that looks at what is nearest to the query: a tenth of what a walk with detours costs.
const PROBE_BEAM: usize = 24;

/// Share of what is nearest to the query from which on a walk goes over all nodes.
const PROBED_SHARE_MIN: f64 = 0.5;

/// By how much farther from the query nodes that are looked for have to be found, compared with others, than their share lets
/// expect, for the beam to be widened.
const SPARSE_FACTOR: f64 = 1.5;

/// How much wider it is then.
const SPARSE_WIDER: usize = 8;

/// Nodes that a search is for.
#[derive(Debug)]
pub(crate) struct Filter {
    nodes: NodeSet,
    /// The cost at which a walk is given up for a scan.
    cost_max: u64,
    /// Share of the nodes of the graph.
    share: f64,
    way: Way,
    /// Beam of the search, for a walk over all nodes.
    beam: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Scan,
    Routes,
    Detours,
    /// Over all nodes, for which [`Filter::decide`] then has routes or detours.
    Probe,
}

impl Filter {
    /// Returns the filter, and the beam that is to be begun with instead of the one given.
    pub fn new(graph: &Graph, nodes: NodeSet, beam: usize) -> (Self, usize) {
        let count = u64::from(nodes.count());
        let share = count as f64 / f64::from(graph.len().max(1));
        let (walk, walk_beam) = match share >= ROUTES_SHARE_MIN {
            true => (Way::Routes, beam),
            false => (Way::Detours, detours_beam(share, count, beam)),
        };
        let (way, first_beam) = match walk {
            _ if count <= scanned_max(walk_beam) => (Way::Scan, beam),
            Way::Detours => (Way::Probe, PROBE_BEAM.min(beam)),
            walk => (walk, walk_beam),
        };
        let filter = Filter {
            cost_max: count / GIVEN_UP_PART,
            beam,
            ..Filter::by(graph, nodes, way)
        };
        (filter, first_beam)
    }

    /// Goes one way to its end.
    pub fn by(graph: &Graph, nodes: NodeSet, way: Way) -> Self {
        let count = nodes.count();
        Filter {
            nodes,
            cost_max: u64::MAX,
            share: f64::from(count) / f64::from(graph.len().max(1)),
            way,
            beam: 0,
        }
    }

    /// Chooses the way by how many of those nearest to the query are looked for; the beam of the walk that goes on.
    pub fn decide(&mut self, looked_for: usize, nearest: usize) -> usize {
        let is_about_the_query = looked_for as f64 >= nearest as f64 * PROBED_SHARE_MIN;
        let (way, beam) = match is_about_the_query {
            true => (Way::Routes, self.beam),
            false => {
                let count = u64::from(self.nodes.count());
                (Way::Detours, detours_beam(self.share, count, self.beam))
            }
        };
        self.way = way;
        beam
    }

    pub fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    pub fn way(&self) -> Way {
        self.way
    }

    pub fn cost_max(&self) -> u64 {
        self.cost_max
    }

    /// Returns the beam that a walk over all nodes is to go on with, of which it has compared so many that are nearer than the
    /// farthest of some that are looked for; `None` if it has found them where they were to be expected.
    pub fn beam_where_sparse(&self, beam: usize, looked_for: usize, nearer: usize) -> Option<usize> {
        let expected = looked_for as f64 / self.share;
        (self.way == Way::Routes && nearer as f64 > expected * SPARSE_FACTOR).then_some(beam * SPARSE_WIDER)
    }
}

impl Graph {
    /// Likely cost, as of [`Search::cost`](crate::Search::cost), of a walk with this beam over a graph of all that are looked for.
    pub fn walk_cost(&self, beam: usize) -> u64 {
        beam as u64 * WALKED_PER_BEAM
    }

    /// Likely cost of linking so many nodes.
    pub fn linking_cost(&self, count: u32) -> u64 {
        self.construction_beam as u64 * LINKED_PER_BEAM * u64::from(count)
    }
}

/// Nodes that are compared one by one in the time of a walk with this beam.
pub(crate) fn scanned_max(beam: usize) -> u64 {
    beam as u64 * COMPARED_PER_BEAM * SCANNED_PER_COMPARED
}

/// The beam of a walk with detours to so many nodes.
fn detours_beam(share: f64, count: u64, beam: usize) -> usize {
    // Below a thousandth it makes no difference: they are compared one by one.
    let by_share = beam as f64 * DETOURS_SHARE_FULL / share.max(1e-3);
    let by_count = (count as f64 / DETOURS_COUNT_USUAL).powf(DETOURS_COUNT_POWER);
    (by_share * by_count.max(1.0)) as usize
}
