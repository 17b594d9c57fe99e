//! A hierarchical navigable small world (Malkov, Yashunin, 2016) over codes of vectors.
//!
//! Nodes are numbered as they are added. One that was just added is searched by going through all such, until an
//! [`Insertion`](crate::Insertion) has linked it; one that is removed stays where paths lead over it, and is found no more.

use std::collections::BTreeMap;

use crate::codes::Codes;
use crate::links::Links;
use crate::near::{Near, NodeSet};
use crate::options::VectorOptions;
use crate::random::mixed;

/// More than an index of so many vectors needs.
const LAYERS_MAX: u8 = 12;

/// Limits that a graph sets to the options: more costs time that nobody is given back.
const CONNECTIONS_MAX: u32 = 64;
const CONSTRUCTION_BEAM_MAX: u32 = 512;

#[derive(Debug)]
pub struct Graph {
    pub(crate) codes: Codes,
    pub(crate) links: Links,
    pub(crate) construction_beam: usize,
    options: VectorOptions,
    /// By what the chance to be on the next layer falls.
    layer_factor: f64,
    /// A linked node of the topmost layer.
    pub(crate) entry: Option<u32>,
    /// Nodes below that are linked, or were removed before.
    pub(crate) linked: u32,
    pub(crate) dead: NodeSet,
    dead_count: u32,
    pub(crate) twins: Twins,
}

/// Nodes with the code of another one. No path leads to them but from one to the next: else equal vectors would have
/// neighbours only among themselves.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// By the node that was there first.
    first: BTreeMap<u32, u32>,
    are: NodeSet,
}

impl Twins {
    #[inline]
    pub fn first_of(&self, node: u32) -> Option<u32> {
        match self.first.is_empty() {
            true => None,
            false => self.first.get(&node).copied(),
        }
    }

    pub fn contains(&self, node: u32) -> bool {
        self.are.contains(node)
    }

    /// Puts a twin before those that a node has; returns what comes behind it.
    pub fn add(&mut self, of: u32, twin: u32) -> u32 {
        self.are.set(twin);
        self.first.insert(of, twin).unwrap_or(of)
    }
}

impl Graph {
    pub fn new(options: &VectorOptions, dimension: usize) -> Self {
        let connections = options.connections.clamp(2, CONNECTIONS_MAX);
        Graph {
            codes: Codes::new(options.similarity, dimension),
            links: Links::new(connections),
            construction_beam: options
                .construction_beam
                .clamp(connections, CONSTRUCTION_BEAM_MAX) as usize,
            options: *options,
            layer_factor: f64::from(connections).ln().recip(),
            entry: None,
            linked: 0,
            dead: NodeSet::default(),
            dead_count: 0,
            twins: Twins::default(),
        }
    }

    /// A graph without nodes for codes of this one.
    pub fn begin_alike(&self) -> Self {
        Graph::new(&self.options, self.codes.dimension())
    }

    /// The beam of a query that compares so many vectors as they are.
    pub fn search_beam(&self, compared: usize) -> usize {
        self.options.beam(compared)
    }

    /// Nodes that were ever added.
    pub fn len(&self) -> u32 {
        self.codes.count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn live_count(&self) -> u32 {
        self.len() - self.dead_count
    }

    /// Nodes that wait to be linked.
    pub fn unlinked_count(&self) -> u32 {
        self.len() - self.linked
    }

    pub fn memory_bytes(&self) -> usize {
        self.codes.memory_bytes() + self.links.memory_bytes() + self.dead.memory_bytes()
    }

    /// Cost of comparing two vectors, in units of a step: one for short ones.
    pub(crate) fn comparison_units(&self) -> u32 {
        const COMPONENTS_PER_UNIT: usize = 256;
        (1 + self.codes.dimension() / COMPONENTS_PER_UNIT) as u32
    }

    /// The code of a vector that is to be searched or added.
    pub fn encode(&self, vector: &[f32]) -> Vec<u8> {
        self.codes.encode(vector)
    }

    pub fn code(&self, node: u32) -> &[u8] {
        self.codes.get(node)
    }

    /// How near a node is to a code.
    #[inline]
    pub(crate) fn near(&self, code: &[u8], node: u32) -> Near {
        Near {
            distance: self.codes.distance(code, self.codes.get(node)),
            node,
        }
    }

    /// Adds a vector by its code; returns the number of its node.
    pub fn add(&mut self, code: &[u8]) -> u32 {
        let node = self.codes.push(code);
        self.links.grow(node);
        self.dead.grow(self.codes.count());
        self.twins.are.grow(self.codes.count());
        node
    }

    /// The vector is found no more.
    pub fn remove(&mut self, node: u32) {
        if self.dead.set(node) {
            self.dead_count += 1;
        }
    }

    #[inline]
    pub fn is_live(&self, node: u32) -> bool {
        !self.dead.contains(node)
    }

    /// The topmost layer that a node is on: each has some of the nodes of the layer below.
    pub(crate) fn layer_of(&self, node: u32) -> u8 {
        let chance = ((mixed(u64::from(node)) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        // Not negative; what is greater than a byte is cut by the cast.
        ((-chance.ln() * self.layer_factor) as u8).min(LAYERS_MAX)
    }
}
