//! From a node of one layer to those that are nearest to a code, in steps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::filter::{Filter, Way};
use crate::graph::Graph;
use crate::near::{Near, NodeSet};

/// Part of a beam by which it is judged whether those that are looked for lie farther away than others.
const SPARSE_PART: usize = 6;

/// A best-first walk that keeps the nearest nodes in sight, at most as many as its beam.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub beam: usize,
    layer: u8,
    /// The nodes that are kept in sight, if not all.
    pub filter: Option<Filter>,
    /// Nodes that were compared, or whose neighbours were looked at.
    pub cost: u64,
    visited: NodeSet,
    /// Nodes whose neighbours were looked at.
    passed: NodeSet,
    frontier: BinaryHeap<Reverse<Near>>,
    /// Those in sight that are looked for, the farthest on top.
    pub nearest: BinaryHeap<Near>,
    /// All that were compared, for a walk that goes on with a wider beam.
    compared: Vec<Near>,
    /// Room for neighbours that are not known yet.
    unknown: Vec<u32>,
    /// Room for those that pass the filter, and for the others.
    accepted: Vec<u32>,
    detours: Vec<u32>,
}

impl Walk {
    /// Keeps in sight what passes a filter, if there is one.
    pub fn among(filter: Option<Filter>) -> Self {
        Walk {
            filter,
            ..Walk::default()
        }
    }

    /// Begins anew; nodes that were added since then are not seen.
    pub fn begin(&mut self, graph: &Graph, code: &[u8], layer: u8, beam: usize, from: &[u32]) {
        self.beam = beam;
        self.layer = layer;
        self.cost = 0;
        self.visited.reset(graph.len());
        self.passed.reset(graph.len());
        self.frontier.clear();
        self.nearest.clear();
        self.compared.clear();
        for node in from {
            self.meet(graph, code, *node);
        }
    }

    /// Returns whether as many are in sight as may be.
    pub fn is_full(&self) -> bool {
        self.nearest.len() >= self.beam
    }

    /// Looks at a node, unless it was looked at.
    #[inline]
    pub fn meet(&mut self, graph: &Graph, code: &[u8], node: u32) {
        if !self.visited.set(node) {
            return;
        }
        let near = graph.near(code, node);
        self.compared.push(near);
        self.keep(graph, near);
    }

    /// Looks at nodes whose codes are likely to lie apart.
    fn meet_all(&mut self, graph: &Graph, code: &[u8], nodes: impl Iterator<Item = u32>) {
        let mut unknown = std::mem::take(&mut self.unknown);
        unknown.clear();
        let visited = &mut self.visited;
        nodes.for_each(|node| {
            if visited.set(node) {
                unknown.push(node);
            }
        });
        graph.codes.load(&unknown);
        // Distances first: none has to wait for what becomes of the one before.
        let first = self.compared.len();
        let near = unknown.iter().map(|node| graph.near(code, *node));
        self.compared.extend(near);
        for index in first..self.compared.len() {
            self.keep(graph, self.compared[index]);
        }
        self.unknown = unknown;
    }

    /// Returns whether a node is nearer than the farthest in sight, or there is room for it.
    #[inline]
    pub fn is_near(&self, near: Near) -> bool {
        !self.is_full() || self.nearest.peek().is_some_and(|farthest| near <= *farthest)
    }

    /// Keeps in sight a node that no path is to lead on from.
    #[inline]
    pub fn keep_nearest(&mut self, graph: &Graph, near: Near) {
        if !self.is_near(near) || !graph.is_live(near.node) {
            return;
        }
        if self.is_full() {
            self.nearest.pop();
        }
        self.nearest.push(near);
    }

    fn keep(&mut self, graph: &Graph, near: Near) {
        let is_full = self.is_full();
        if is_full && self.nearest.peek().is_some_and(|farthest| near > *farthest) {
            return;
        }
        self.frontier.push(Reverse(near));
        graph.links.load_place(self.layer, near.node);
        if self.accepts(graph, near.node) {
            if is_full {
                self.nearest.pop();
            }
            self.nearest.push(near);
        }
    }

    /// Returns whether a node is looked for.
    #[inline]
    fn accepts(&self, graph: &Graph, node: u32) -> bool {
        let filter = self.filter.as_ref();
        graph.is_live(node)
            && filter.is_none_or(|filter| filter.way() == Way::Probe || filter.nodes().contains(node))
    }

    /// Walks for as many units; whether the walk is over.
    pub fn step(&mut self, graph: &Graph, code: &[u8], units_left: &mut u32) -> bool {
        let cost_max = self.filter.as_ref().map_or(u64::MAX, Filter::cost_max);
        while let Some(Reverse(next)) = self.frontier.peek().copied() {
            if self.is_full() && self.nearest.peek().is_some_and(|farthest| next > *farthest) {
                return true;
            }
            if self.cost > cost_max {
                return true;
            }
            if *units_left == 0 {
                return false;
            }
            self.frontier.pop();
            // Likely the next, if this one does not lead to a nearer.
            if let Some(Reverse(likely)) = self.frontier.peek() {
                graph.links.load(self.layer, &[likely.node]);
            }
            self.passed.set(next.node);
            let compared_before = self.compared.len();
            let passed = match self.filter.as_ref().map(Filter::way) {
                Some(Way::Detours) => self.pass_with_detours(graph, code, next.node),
                _ => {
                    self.meet_all(graph, code, graph.links.of(self.layer, next.node));
                    1
                }
            };
            if let Some(twin) = graph.twins.first_of(next.node) {
                self.meet(graph, code, twin);
            }
            let compared = (self.compared.len() - compared_before) as u32;
            self.cost += u64::from(passed + compared);
            *units_left = units_left.saturating_sub(passed + compared * graph.comparison_units());
        }
        true
    }

    /// Looks at the neighbours that are looked for, and in place of the others at theirs (Patel, Kraft, Guestrin, Zaharia:
    /// ACORN, 2024). Returns at the neighbours of how many nodes.
    fn pass_with_detours(&mut self, graph: &Graph, code: &[u8], node: u32) -> u32 {
        let mut accepted = std::mem::take(&mut self.accepted);
        let mut detours = std::mem::take(&mut self.detours);
        accepted.clear();
        detours.clear();
        for neighbour in graph.links.of(self.layer, node) {
            if self.visited.contains(neighbour) {
                continue;
            }
            match self.accepts(graph, neighbour) {
                true => accepted.push(neighbour),
                false => detours.push(neighbour),
            }
        }
        let compared_before = self.compared.len();
        self.meet_all(graph, code, accepted.iter().copied());
        graph.links.load(self.layer, &detours);
        let mut passed = 1;
        for detour in &detours {
            // As many as it has neighbours at most: more lead to the same.
            if self.compared.len() - compared_before >= graph.links.max(self.layer) {
                break;
            }
            passed += 1;
            self.visited.set(*detour);
            let neighbours = graph.links.of(self.layer, *detour);
            accepted.clear();
            accepted.extend(neighbours.filter(|neighbour| self.accepts(graph, *neighbour)));
            self.meet_all(graph, code, accepted.iter().copied());
            if let Some(twin) = graph.twins.first_of(*detour) {
                self.meet(graph, code, twin);
            }
        }
        if self.compared.len() == compared_before {
            // Else it would end among nodes that nobody looks for.
            for detour in &detours {
                self.visited.unset(*detour);
                self.meet(graph, code, *detour);
            }
        }
        (self.accepted, self.detours) = (accepted, detours);
        passed
    }

    /// Goes on the way that what it has found suggests, if it was to find that out; whether it was.
    pub fn decide_way(&mut self, graph: &Graph, code: &[u8]) -> bool {
        let Some(filter) = self.filter.as_mut().filter(|filter| filter.way() == Way::Probe) else {
            return false;
        };
        let is_looked_for = |near: &&Near| filter.nodes().contains(near.node);
        let looked_for = self.nearest.iter().filter(is_looked_for).count();
        let beam = filter.decide(looked_for, self.nearest.len());
        if filter.way() == Way::Detours {
            // From each of the others that it has met it would look for detours.
            let (from, cost) = (self.compared.iter().min().map(|near| near.node), self.cost);
            self.begin(graph, code, self.layer, beam, from.as_slice());
            self.cost = cost;
        } else {
            self.widen(graph, beam);
        }
        true
    }

    /// Goes on with a wider beam where those that are looked for lie farther away than others; whether they do.
    pub fn widen_where_sparse(&mut self, graph: &Graph) -> bool {
        let Some(filter) = &self.filter else {
            return false;
        };
        let looked_for = (self.beam / SPARSE_PART).min(self.nearest.len());
        let mut found: Vec<Near> = self.nearest.iter().copied().collect();
        found.sort_unstable();
        let Some(last) = looked_for.checked_sub(1).and_then(|last| found.get(last)) else {
            return false;
        };
        let nearer = self.compared.iter().filter(|near| *near <= last).count();
        let Some(beam) = filter.beam_where_sparse(self.beam, looked_for, nearer) else {
            return false;
        };
        self.widen(graph, beam);
        true
    }

    /// Those that were compared, removed or not, as many as its beam.
    pub fn nearest_compared(&self) -> Vec<Near> {
        let mut compared = self.compared.clone();
        compared.sort_unstable();
        compared.truncate(self.beam);
        compared
    }

    /// Goes on with a wider beam from where it ended.
    pub fn widen(&mut self, graph: &Graph, beam: usize) {
        self.beam = beam;
        self.frontier.clear();
        self.nearest.clear();
        let mut compared = std::mem::take(&mut self.compared);
        compared.sort_unstable();
        for near in &compared {
            if !self.is_full() && self.accepts(graph, near.node) {
                self.nearest.push(*near);
            }
            if !self.passed.contains(near.node) {
                self.frontier.push(Reverse(*near));
            }
        }
        self.compared = compared;
    }

    pub fn memory_bytes(&self) -> usize {
        let filter_bytes = |filter: &Filter| filter.nodes().memory_bytes();
        self.filter.as_ref().map_or(0, filter_bytes)
            + self.visited.memory_bytes()
            + self.passed.memory_bytes()
            + (self.frontier.capacity() + self.nearest.capacity() + self.compared.capacity())
                * size_of::<Near>()
            + (self.accepted.capacity() + self.detours.capacity() + self.unknown.capacity())
                * size_of::<u32>()
    }
}

/// The neighbour of a node, on one layer, that is nearer to a code than the node; `None` at the nearest.
pub(crate) fn nearer(
    graph: &Graph,
    code: &[u8],
    layer: u8,
    from: Near,
    units_left: &mut u32,
) -> Option<Near> {
    let neighbours = graph.links.of(layer, from.node);
    *units_left = units_left.saturating_sub(1 + neighbours.len() as u32 * graph.comparison_units());
    let nearest = neighbours.map(|node| graph.near(code, node)).min()?;
    (nearest.distance < from.distance).then_some(nearest)
}
