//! From a node of one layer to those that are nearest to a code, in steps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::Graph;
use crate::near::{Bits, Near};

/// A best-first walk that keeps the nearest nodes in sight, at most as many as its beam.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub beam: usize,
    layer: u8,
    visited: Bits,
    /// Nodes whose neighbours were looked at.
    passed: Bits,
    frontier: BinaryHeap<Reverse<Near>>,
    /// Those in sight that are not removed, the farthest on top.
    pub nearest: BinaryHeap<Near>,
    /// All that were compared, for a walk that goes on with a wider beam.
    compared: Vec<Near>,
}

impl Walk {
    /// Begins anew; nodes that were added since then are not seen.
    pub fn begin(&mut self, graph: &Graph, code: &[u8], layer: u8, beam: usize, from: &[u32]) {
        self.beam = beam;
        self.layer = layer;
        self.visited.reset(graph.len());
        self.passed.reset(graph.len());
        self.frontier.clear();
        self.nearest.clear();
        self.compared.clear();
        for node in from {
            self.meet(graph, code, *node);
        }
    }

    /// Looks at a node, unless it was looked at.
    #[inline]
    pub fn meet(&mut self, graph: &Graph, code: &[u8], node: u32) {
        if !self.visited.set(node) {
            return;
        }
        let near = Near {
            distance: graph.codes.distance(code, graph.codes.get(node)),
            node,
        };
        self.compared.push(near);
        self.keep(graph, near);
    }

    fn keep(&mut self, graph: &Graph, near: Near) {
        let is_full = self.nearest.len() >= self.beam;
        if is_full && self.nearest.peek().is_some_and(|farthest| near > *farthest) {
            return;
        }
        self.frontier.push(Reverse(near));
        if graph.is_live(near.node) {
            if is_full {
                self.nearest.pop();
            }
            self.nearest.push(near);
        }
    }

    /// Walks for as many units; whether the walk is over.
    pub fn step(&mut self, graph: &Graph, code: &[u8], units_left: &mut u32) -> bool {
        let comparison_units = graph.comparison_units();
        while let Some(Reverse(next)) = self.frontier.peek().copied() {
            let is_full = self.nearest.len() >= self.beam;
            if is_full && self.nearest.peek().is_some_and(|farthest| next > *farthest) {
                return true;
            }
            if *units_left == 0 {
                return false;
            }
            self.frontier.pop();
            self.passed.set(next.node);
            let before = self.compared.len();
            for neighbour in graph.links.of(self.layer, next.node) {
                self.meet(graph, code, *neighbour);
            }
            if let Some(twin) = graph.twins.first_of(next.node) {
                self.meet(graph, code, twin);
            }
            let compared = (self.compared.len() - before) as u32;
            *units_left = units_left.saturating_sub(1 + compared * comparison_units);
        }
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
            let is_full = self.nearest.len() >= self.beam;
            if !is_full && graph.is_live(near.node) {
                self.nearest.push(*near);
            }
            if !self.passed.get(near.node) {
                self.frontier.push(Reverse(*near));
            }
        }
        self.compared = compared;
    }

    pub fn memory_bytes(&self) -> usize {
        self.visited.memory_bytes()
            + self.passed.memory_bytes()
            + (self.frontier.capacity() + self.nearest.capacity() + self.compared.capacity())
                * size_of::<Near>()
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
    let nearest = neighbours
        .iter()
        .map(|node| Near {
            distance: graph.codes.distance(code, graph.codes.get(*node)),
            node: *node,
        })
        .min()?;
    (nearest.distance < from.distance).then_some(nearest)
}
