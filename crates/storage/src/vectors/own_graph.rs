//! A graph of the nodes of one set alone, over which searches go that are narrowed to it again and again.
//!
//! In the graph of all, paths between nodes that are looked for lead over those that are not, the more of them the fewer are looked for:
//! a tenth of a million vectors took six times the comparisons of all. Filters by which one searches often are given links of their own
//! (as Qdrant's payload indexes are), and a search over those is one of a smaller graph.
//!
//! - It is made once searches of the set have cost as much more than others as linking its nodes does. So to make it never costs
//!   more than they did: to rent until one could have bought.
//! - It has all that its set has, and what is added to the set afterwards, which is linked in both: a quarter of it at most, then the
//!   set is begun anew and its graph goes. What was removed is passed over by whoever searches, who looks at the graph of all.

use helenus_vector::{Graph, Insertion, NodeSet};

/// Nodes that one step takes over.
const TAKEN_OVER_PER_STEP: u32 = 64;
/// It is searched once so few of its nodes are not linked: they are gone through one by one.
const UNLINKED_MAX: u32 = 256;

/// How much wider the beam of a search is than one of all: those of a set lie farther apart, so that the same beam meets fewer of the
/// nearest.
pub(super) const BEAM_TIMES: usize = 2;

/// By which searches find the graph that they began with, as long as it is not given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnGraphNumber(pub u64);

#[derive(Debug)]
pub(crate) struct OwnGraph {
    pub number: OwnGraphNumber,
    pub graph: Graph,
    /// For each of its nodes, the one in the graph of all.
    nodes: Vec<u32>,
    /// Nodes of the graph of all before this are taken over.
    taken_to: u32,
    insertion: Insertion,
}

impl OwnGraph {
    /// One without nodes, for codes of the graph of all.
    pub fn begin(number: OwnGraphNumber, all: &Graph) -> Self {
        OwnGraph {
            number,
            graph: all.begin_alike(),
            nodes: Vec::new(),
            taken_to: 0,
            insertion: Insertion::default(),
        }
    }

    /// The node of the graph of all.
    pub fn node(&self, own: u32) -> u32 {
        self.nodes[own as usize]
    }

    /// Returns whether all is in it, and almost all is linked.
    pub fn is_ready(&self, all: &Graph) -> bool {
        self.taken_to == all.len() && self.graph.unlinked_count() <= UNLINKED_MAX
    }

    /// A node has come into the set, and is in the graph of all.
    pub fn note_added(&mut self, node: u32, code: &[u8]) {
        if node == self.taken_to {
            self.taken_to += 1;
        }
        // The others are still to be taken over.
        if node < self.taken_to {
            self.push(node, code);
        }
    }

    fn push(&mut self, node: u32, code: &[u8]) {
        self.graph.add(code);
        self.nodes.push(node);
    }

    /// Takes over and links; whether there is nothing left to do. All nodes from `begun_at` on are in the set.
    pub fn step(&mut self, all: &Graph, set: &NodeSet, begun_at: u32, units_left: &mut u32) -> bool {
        if self.taken_to == all.len() {
            return self.insertion.step(&mut self.graph, units_left);
        }
        for _ in 0..TAKEN_OVER_PER_STEP {
            let next = match self.taken_to < begun_at {
                true => set
                    .next_from(self.taken_to)
                    .map_or(begun_at, |node| node.min(begun_at)),
                false => self.taken_to,
            };
            if next >= all.len() {
                self.taken_to = all.len();
                break;
            }
            if all.is_live(next) {
                self.push(next, all.code(next));
            }
            self.taken_to = next + 1;
        }
        *units_left = units_left.saturating_sub(TAKEN_OVER_PER_STEP);
        false
    }

    pub fn memory_bytes(&self) -> usize {
        self.graph.memory_bytes() + self.nodes.capacity() * size_of::<u32>()
    }
}
