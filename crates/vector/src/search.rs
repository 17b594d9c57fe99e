//! Looking for the vectors that are nearest to one.

use crate::graph::Graph;
use crate::near::{Bits, Near};
use crate::walk::{Walk, nearer};

/// A search, in steps between which vectors may be added, linked and removed. What is added after it began is not found.
#[derive(Debug)]
pub struct Search {
    code: Vec<u8>,
    stage: Stage,
    walk: Walk,
    /// Nodes that were not linked when it began.
    unlinked: std::ops::Range<u32>,
    taken: Bits,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Descent { at: Near, layer: u8 },
    Walk,
    Unlinked,
    Done,
}

impl Search {
    /// For a code of [`Graph::encode`]. A wider beam finds nearer ones, and takes longer.
    pub fn new(graph: &Graph, code: Vec<u8>, beam: usize) -> Self {
        let mut walk = Walk::default();
        let stage = match graph.entry {
            Some(entry) => Stage::Descent {
                at: Near {
                    distance: graph.codes.distance(&code, graph.codes.get(entry)),
                    node: entry,
                },
                layer: graph.layer_of(entry),
            },
            None => {
                walk.begin(graph, &code, 0, beam, &[]);
                Stage::Unlinked
            }
        };
        walk.beam = beam;
        Search {
            code,
            stage,
            walk,
            unlinked: graph.linked..graph.len(),
            taken: Bits::of(graph.len()),
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
                        self.stage = Stage::Unlinked;
                    }
                }
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

    /// Takes the nodes found and not taken yet, the nearest first: of a beam that is full the nearer half, since others that are
    /// as near as the farther one were not met.
    pub fn take_found(&mut self, graph: &Graph) -> Vec<Near> {
        let mut found: Vec<Near> = self.walk.nearest.iter().copied().collect();
        found.sort_unstable();
        if found.len() >= self.walk.beam {
            found.truncate(found.len().div_ceil(2));
        }
        found.retain(|near| graph.is_live(near.node) && self.taken.set(near.node));
        found
    }

    /// Returns whether all vectors were taken: those that no path leads to, or that were added after it began, were not.
    pub fn has_taken_all(&self, graph: &Graph) -> bool {
        self.taken.covers_with(&graph.dead, graph.len())
    }

    /// Goes on with a beam of twice the width.
    pub fn widen(&mut self, graph: &Graph) {
        self.walk.widen(graph, self.walk.beam.saturating_mul(2));
        self.stage = Stage::Walk;
    }

    pub fn memory_bytes(&self) -> usize {
        self.walk.memory_bytes() + self.taken.memory_bytes()
    }
}
