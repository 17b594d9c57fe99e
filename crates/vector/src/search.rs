//! Looking for the vectors that are nearest to one.

use crate::codes::TOGETHER;
use crate::filter::{Filter, Way, scanned_max};
use crate::graph::Graph;
use crate::near::{Near, NodeSet};
use crate::walk::{Walk, nearer};

/// Nodes of a scan whose codes are loaded at once.
const SCANNED_TOGETHER: usize = 16;

/// A search, in steps between which vectors may be added, linked and removed. What is added after it began is not found.
#[derive(Debug)]
pub struct Search {
    code: Vec<u8>,
    stage: Stage,
    walk: Walk,
    /// Nodes that were not linked when it began.
    unlinked: std::ops::Range<u32>,
    taken: NodeSet,
    /// True once all nodes that are looked for are compared, instead of a walk.
    pub(crate) is_scanned: bool,
    /// True if it was looked at whether they lie farther away than others.
    is_sparseness_known: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Descent {
        at: Near,
        layer: u8,
    },
    Walk,
    Unlinked,
    /// All nodes of the filter from this one on are still to be compared.
    Scan {
        from: u32,
    },
    Done,
}

impl Search {
    /// For a code of [`Graph::encode`], among some nodes or all. A wider beam finds nearer ones, and takes longer.
    pub fn new(graph: &Graph, code: Vec<u8>, beam: usize, among: Option<NodeSet>) -> Self {
        match among.map(|nodes| Filter::new(graph, nodes, beam)) {
            Some((filter, beam)) => Search::by(graph, code, beam, Some(filter)),
            // That is exact, and takes twice the time of a walk at most.
            None if u64::from(graph.len()) <= scanned_max(beam) => Search::by_scan(graph, code, beam, None),
            None => Search::walk(graph, code, beam),
        }
    }

    /// Among all nodes, over the links of the graph however few they are.
    pub fn walk(graph: &Graph, code: Vec<u8>, beam: usize) -> Self {
        Search::by_walk(graph, code, beam, None)
    }

    pub(crate) fn by(graph: &Graph, code: Vec<u8>, beam: usize, filter: Option<Filter>) -> Self {
        match filter.as_ref().map(Filter::way) {
            Some(Way::Scan) => Search::by_scan(graph, code, beam, filter),
            _ => Search::by_walk(graph, code, beam, filter),
        }
    }

    fn by_scan(graph: &Graph, code: Vec<u8>, beam: usize, filter: Option<Filter>) -> Self {
        let mut walk = Walk::among(filter);
        walk.beam = beam;
        Search {
            stage: Stage::Scan { from: 0 },
            is_scanned: true,
            ..Search::begun(graph, code, walk)
        }
    }

    fn by_walk(graph: &Graph, code: Vec<u8>, beam: usize, filter: Option<Filter>) -> Self {
        let mut walk = Walk::among(filter);
        let stage = match graph.entry {
            Some(entry) => Stage::Descent {
                at: graph.near(&code, entry),
                layer: graph.layer_of(entry),
            },
            None => {
                walk.begin(graph, &code, 0, beam, &[]);
                Stage::Unlinked
            }
        };
        walk.beam = beam;
        Search {
            stage,
            ..Search::begun(graph, code, walk)
        }
    }

    fn begun(graph: &Graph, code: Vec<u8>, walk: Walk) -> Self {
        Search {
            code,
            stage: Stage::Unlinked,
            walk,
            unlinked: graph.linked..graph.len(),
            taken: NodeSet::of(graph.len()),
            is_scanned: false,
            is_sparseness_known: false,
        }
    }

    /// Searches for as many units; whether the search is over.
    pub fn step(&mut self, graph: &Graph, units_left: &mut u32) -> bool {
        loop {
            match self.stage {
                Stage::Done => return true,
                _ if *units_left == 0 => return false,
                Stage::Descent { at, layer: 0 } => {
                    let beam = self.walk.beam;
                    self.walk.begin(graph, &self.code, 0, beam, &[at.node]);
                    self.stage = Stage::Walk;
                }
                Stage::Descent { at, layer } => {
                    self.stage = match nearer(graph, &self.code, layer, at, units_left) {
                        Some(at) => Stage::Descent { at, layer },
                        None => Stage::Descent { at, layer: layer - 1 },
                    };
                }
                Stage::Walk => {
                    if self.walk.step(graph, &self.code, units_left) {
                        self.end_walk(graph);
                    }
                }
                Stage::Scan { from } => self.scan(graph, from, units_left),
                Stage::Unlinked => match self.unlinked.next() {
                    Some(node) => {
                        self.walk.meet(graph, &self.code, node);
                        *units_left = units_left.saturating_sub(graph.comparison_units());
                    }
                    None => self.stage = Stage::Done,
                },
            }
        }
    }

    /// Compares some of the nodes that are looked for, from one on.
    fn scan(&mut self, graph: &Graph, from: u32, units_left: &mut u32) {
        let Some(filter) = &self.walk.filter else {
            return self.scan_all(graph, from, units_left);
        };
        let mut nodes = [0; SCANNED_TOGETHER];
        let (mut count, mut next) = (0, from);
        while count < nodes.len()
            && let Some(node) = filter.nodes().next_from(next)
        {
            nodes[count] = node;
            (count, next) = (count + 1, node + 1);
        }
        let nodes = &nodes[..count];
        graph.codes.load(nodes);
        for node in nodes.iter().filter(|node| !self.taken.contains(**node)) {
            self.walk.keep_nearest(graph, graph.near(&self.code, *node));
        }
        self.walk.cost += count as u64;
        *units_left = units_left.saturating_sub(count as u32 * graph.comparison_units());
        self.stage = match count < SCANNED_TOGETHER {
            true => Stage::Done,
            false => Stage::Scan { from: next },
        };
    }

    /// The same of all nodes, which lie in their order.
    fn scan_all(&mut self, graph: &Graph, from: u32, units_left: &mut u32) {
        if from >= self.unlinked.end {
            self.stage = Stage::Done;
            return;
        }
        let mut distances = [0.0; TOGETHER];
        let count = graph.codes.distances(&self.code, from, &mut distances);
        let nodes = (from..self.unlinked.end).zip(&distances[..count]);
        for (node, distance) in nodes {
            let near = Near {
                distance: *distance,
                node,
            };
            if self.walk.is_near(near) && !self.taken.contains(node) {
                self.walk.keep_nearest(graph, near);
            }
        }
        self.walk.cost += count as u64;
        *units_left = units_left.saturating_sub(count as u32 * graph.comparison_units());
        self.stage = Stage::Scan {
            from: from + count as u32,
        };
    }

    fn begin_scan(&mut self) {
        self.is_scanned = true;
        self.walk.nearest.clear();
        self.stage = Stage::Scan { from: 0 };
    }

    fn end_walk(&mut self, graph: &Graph) {
        if self.walk.decide_way(graph, &self.code) {
            return;
        }
        if !std::mem::replace(&mut self.is_sparseness_known, true) && self.walk.widen_where_sparse(graph) {
            return;
        }
        // It has cost too much, or has not found as many as there are.
        let has_failed = |filter: &Filter| self.walk.cost > filter.cost_max() || !self.walk.is_full();
        match self.walk.filter.as_ref().is_some_and(has_failed) {
            true => self.begin_scan(),
            false => self.stage = Stage::Unlinked,
        }
    }

    /// Takes the nodes found and not taken yet, the nearest first: of a beam that is full the nearer half, since others that are
    /// as near as the farther one were not met, or `least` of them if that is more.
    pub fn take_found(&mut self, graph: &Graph, least: usize) -> Vec<Near> {
        let mut found: Vec<Near> = self.walk.nearest.iter().copied().collect();
        found.sort_unstable();
        if self.walk.is_full() && !self.is_scanned {
            found.truncate(found.len().div_ceil(2).max(least));
        }
        found.retain(|near| graph.is_live(near.node) && self.taken.set(near.node));
        found
    }

    /// Returns whether all vectors were taken: those that no path leads to, or that were added after it began, were not.
    pub fn has_taken_all(&self, graph: &Graph) -> bool {
        let among = self.walk.filter.as_ref().map(Filter::nodes);
        self.taken.covers_with(&graph.dead, graph.len(), among)
    }

    /// Goes on with a beam of twice the width.
    pub fn widen(&mut self, graph: &Graph) {
        let beam = self.walk.beam.saturating_mul(2);
        if self.is_scanned {
            self.walk.beam = beam;
            self.begin_scan();
        } else {
            self.walk.widen(graph, beam);
            self.stage = Stage::Walk;
        }
    }

    /// Nodes that were compared on the lowest layer so far, or whose neighbours were looked at.
    pub fn cost(&self) -> u64 {
        self.walk.cost
    }

    /// Returns whether paths lead it over nodes that are not looked for, which a graph of those that are would not have.
    pub fn takes_detours(&self) -> bool {
        let filter = self.walk.filter.as_ref();
        filter.is_some_and(|filter| filter.way() == Way::Detours)
    }

    pub fn memory_bytes(&self) -> usize {
        self.walk.memory_bytes() + self.taken.memory_bytes()
    }
}
