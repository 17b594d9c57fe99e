//! One index of vectors on one shard.

use std::cell::Cell;

use helenus_index::IndexPredicate;
use helenus_rows::row::{CellRef, Entry, RowRef};
use helenus_rows::update::{Update, UpdateItem};
use helenus_schema::{ColumnId, ColumnKind, IndexId, IndexMetadata, TableMetadata};
use helenus_types::{CqlType, Token};
use helenus_vector::{Graph, Insertion, VectorOptions};

use super::filters::{FilterSet, FilterSets, OwnGraphLimits, SetNumber};
use super::rows::{NodeRows, Row};

/// A graph with fewer removed vectors is not made anew for them.
const REMOVED_MIN: u32 = 1_024;
/// So many vectors are taken over into a new graph in one step.
const TAKEN_OVER_PER_STEP: u32 = 64;
/// A new graph takes the place of the old one once so few of its vectors are not linked: they are gone through one by one.
const UNLINKED_AT_EXCHANGE: u32 = 256;

#[derive(Debug)]
pub(crate) struct VectorIndex {
    pub index: IndexId,
    pub column: ColumnId,
    pub options: VectorOptions,
    pub dimension: usize,
    pub content: Content,
    /// Sets of nodes that searches are narrowed to.
    pub filters: FilterSets,
    /// Changes whenever nodes get other numbers.
    pub generation: u64,
    /// Units that searches have cost more for links that were not there, less the units that linking has had since.
    owed_units: Cell<u64>,
}

/// Content of an index, by how many of the rows are in it.
#[derive(Debug)]
pub(crate) enum Content {
    /// Rows up to this token, and those that were written since it was begun.
    Partial { nodes: Nodes, filled_to: Filled },
    Whole {
        nodes: Nodes,
        /// Without what was removed.
        renewed: Option<Box<Renewed>>,
    },
    /// It took more memory than it may; nothing is kept.
    TooLarge,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Nothing,
    /// And all before this partition, and it.
    To(Token, Vec<u8>),
}

/// Vectors, and the rows that they are of.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub graph: Graph,
    pub(super) rows: NodeRows,
    /// Nodes that may have the vector that counts, though another of the same timestamp has their row.
    pub(super) unmapped: Vec<u32>,
    insertion: Insertion,
}

/// A graph that is being made from the live nodes of another one.
#[derive(Debug)]
pub(crate) struct Renewed {
    nodes: Nodes,
    /// Nodes of the other one before this are taken over.
    taken_to: u32,
}

impl Nodes {
    fn new(options: &VectorOptions, dimension: usize) -> Self {
        Nodes {
            graph: Graph::new(options, dimension),
            rows: NodeRows::new(),
            unmapped: Vec::new(),
            insertion: Insertion::default(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let unmapped_bytes = self.unmapped.capacity() * size_of::<u32>();
        self.graph.memory_bytes() + self.rows.memory_bytes() + unmapped_bytes
    }

    /// Returns the node that had the row and stays beside the new one.
    fn add(&mut self, row: Row<'_>, code: &[u8], timestamp_us: i64, expires_at_s: u32) -> Option<u32> {
        let beside = self.rows.find(row);
        self.unmapped.extend(beside);
        self.graph.add(code);
        self.rows.push(row, timestamp_us, expires_at_s);
        beside
    }

    /// The row's vector of up to that timestamp is gone.
    fn remove(&mut self, row: Row<'_>, timestamp_us: i64) {
        if let Some(node) = self.rows.find(row)
            && self.rows.get(node).timestamp_us <= timestamp_us
        {
            self.graph.remove(node);
            self.rows.unmap(row);
        }
    }

    /// Links what is not yet; whether there is nothing left to do.
    fn link(&mut self, units_left: &mut u32) -> bool {
        self.insertion.step(&mut self.graph, units_left)
    }
}

impl VectorIndex {
    /// `None` for an index of another kind, and for one whose vectors are read from all rows: those of static columns and of
    /// the primary key.
    pub fn of(table: &TableMetadata, index: &IndexMetadata) -> Option<Self> {
        let column = table.column_by_id(index.column)?;
        if !table.is_vector_index(index) || column.kind != ColumnKind::Regular {
            return None;
        }
        let CqlType::Vector { dimension, .. } = column.cql_type else {
            return None;
        };
        let options = VectorOptions::of(&index.options).unwrap_or_default();
        let dimension = dimension as usize;
        Some(VectorIndex {
            index: index.id,
            column: column.id,
            options,
            dimension,
            content: Content::Partial {
                nodes: Nodes::new(&options, dimension),
                filled_to: Filled::Nothing,
            },
            filters: FilterSets::default(),
            generation: 0,
            owed_units: Cell::new(0),
        })
    }

    /// Forgets everything: it is made again from the rows.
    pub fn forget(&mut self) {
        self.content = Content::Partial {
            nodes: Nodes::new(&self.options, self.dimension),
            filled_to: Filled::Nothing,
        };
        self.note_renumbered();
    }

    fn note_renumbered(&mut self) {
        self.generation += 1;
        self.filters.clear();
    }

    /// There are no rows.
    pub fn note_empty(&mut self) {
        self.forget();
        self.note_whole();
    }

    pub fn note_whole(&mut self) {
        if let Content::Partial { nodes, .. } = &mut self.content {
            let nodes = std::mem::replace(nodes, Nodes::new(&self.options, self.dimension));
            self.content = Content::Whole { nodes, renewed: None };
        }
    }

    pub fn give_up(&mut self) {
        self.content = Content::TooLarge;
        self.note_renumbered();
    }

    pub fn memory_bytes(&self) -> usize {
        let content_bytes = match &self.content {
            Content::Partial { nodes, .. } => nodes.memory_bytes(),
            Content::Whole { nodes, renewed } => {
                let renewed = renewed.as_ref().map_or(0, |renewed| renewed.nodes.memory_bytes());
                nodes.memory_bytes() + renewed
            }
            Content::TooLarge => 0,
        };
        content_bytes + self.filters.memory_bytes()
    }

    /// A search is begun, which goes through what is not linked one by one.
    pub fn note_unlinked_search(&self, unlinked_count: u32) {
        self.owe(u64::from(unlinked_count));
    }

    /// A search of a set has cost so much more than one over a graph of its own.
    pub fn note_detours(&self, set: SetNumber, cost: u64) {
        if self.filters.note_detours(set, cost) {
            self.owe(cost);
        }
    }

    fn owe(&self, units: u64) {
        let owed = self.owed_units.get();
        self.owed_units.set(owed.saturating_add(units));
    }

    /// Returns whether searches have spent more for want of links than linking has had since.
    pub fn owes_linking(&self) -> bool {
        self.owed_units.get() > 0
    }

    pub fn unlinked_count(&self) -> u32 {
        match &self.content {
            Content::Partial { nodes, .. } | Content::Whole { nodes, .. } => nodes.graph.unlinked_count(),
            Content::TooLarge => 0,
        }
    }

    /// Returns the nodes to search; `None` while rows are missing.
    pub fn whole(&self) -> Option<&Nodes> {
        match &self.content {
            Content::Whole { nodes, .. } => Some(nodes),
            _ => None,
        }
    }

    /// The set of nodes of a predicate on some column; `None` while rows are missing.
    pub fn open_filter(
        &mut self,
        predicate: &IndexPredicate,
        column: ColumnId,
    ) -> Option<(&mut FilterSet, &Nodes)> {
        let Content::Whole { nodes, .. } = &self.content else {
            return None;
        };
        Some((self.filters.open(predicate, column, nodes.graph.len()), nodes))
    }

    fn nodes_mut(&mut self) -> Option<(&mut Nodes, Option<&mut Renewed>)> {
        match &mut self.content {
            Content::Partial { nodes, .. } => Some((nodes, None)),
            Content::Whole { nodes, renewed } => Some((nodes, renewed.as_deref_mut())),
            Content::TooLarge => None,
        }
    }

    /// Takes in an update.
    pub fn apply(&mut self, update: &Update<'_>) {
        for item in update.items() {
            if let UpdateItem::Row { clustering, row } = item {
                self.apply_row((update.partition_key, clustering), row);
            }
        }
    }

    /// Takes in what is known of a row, from a write or from what is stored. Range deletions leave vectors that reads find
    /// gone.
    pub fn apply_row(&mut self, row: Row<'_>, cells: RowRef<'_>) {
        let deletion = cells.deletion();
        if !deletion.is_live() {
            self.remove(row, deletion.timestamp_us);
        }
        let cell = cells.entries().find_map(|entry| match entry {
            Entry::Cell(cell) if cell.column == self.column => Some(cell),
            _ => None,
        });
        if let Some(cell) = cell {
            match vector_of(&cell, self) {
                Some(vector) => self.add(row, &cell, &vector),
                None => self.remove(row, cell.timestamp_us),
            }
        }
        if !self.filters.is_empty() {
            self.note_written(row, cells);
        }
    }

    fn note_written(&mut self, row: Row<'_>, cells: RowRef<'_>) {
        let Content::Whole { nodes, .. } = &self.content else {
            return;
        };
        let Some(node) = nodes.rows.find(row) else {
            return;
        };
        for entry in cells.entries() {
            if let Entry::Cell(cell) = entry {
                let code = nodes.graph.code(node);
                self.filters.note_written(cell.column, node, code);
            }
        }
    }

    fn add(&mut self, row: Row<'_>, cell: &CellRef<'_>, vector: &[f32]) {
        let Some((nodes, _)) = self.nodes_mut() else {
            return;
        };
        let code = nodes.graph.encode(vector);
        if let Some(node) = nodes.rows.find(row) {
            let known_us = nodes.rows.get(node).timestamp_us;
            let is_known = known_us == cell.timestamp_us && nodes.graph.code(node) == code;
            if is_known || known_us > cell.timestamp_us {
                return;
            }
            // Of two of one timestamp either may be the one that stays: both are kept, and reads tell.
            if known_us < cell.timestamp_us {
                self.remove(row, known_us);
            }
        }
        let Some((nodes, _)) = self.nodes_mut() else {
            return;
        };
        let node = nodes.graph.len();
        let beside = nodes.add(row, &code, cell.timestamp_us, cell.local_deletion_s);
        let Content::Whole { nodes, .. } = &self.content else {
            return;
        };
        if let Some(beside) = beside {
            self.filters.note_unmapped(beside, nodes.graph.code(beside));
        }
        self.filters.note_added(node, &code);
    }

    fn remove(&mut self, row: Row<'_>, timestamp_us: i64) {
        if let Some((nodes, renewed)) = self.nodes_mut() {
            nodes.remove(row, timestamp_us);
            if let Some(renewed) = renewed {
                renewed.nodes.remove(row, timestamp_us);
            }
        }
    }

    /// A read has found that a node's row has no such vector, and will have none.
    pub fn note_gone(&mut self, node: u32) {
        let Some((nodes, renewed)) = self.nodes_mut() else {
            return;
        };
        let timestamp_us = nodes.rows.get(node).timestamp_us;
        let (key, clustering) = nodes.rows.row(node);
        let (key, clustering) = (key.to_vec(), clustering.to_vec());
        nodes.graph.remove(node);
        if nodes.rows.find((&key, &clustering)) == Some(node) {
            nodes.rows.unmap((&key, &clustering));
        }
        if let Some(renewed) = renewed {
            renewed.nodes.remove((&key, &clustering), timestamp_us);
        }
    }

    /// Does what is to be done in the background, but for filling it; whether there is nothing of that.
    pub fn tend(&mut self, units_left: &mut u32, limits: OwnGraphLimits) -> bool {
        let units = *units_left;
        let is_done = self.tend_content(units_left) && self.tend_filters(units_left, limits);
        let owed = match is_done {
            true => 0,
            false => self.owed_units.get().saturating_sub(u64::from(units)),
        };
        self.owed_units.set(owed);
        is_done
    }

    fn tend_filters(&mut self, units_left: &mut u32, limits: OwnGraphLimits) -> bool {
        match &self.content {
            Content::Whole { nodes, .. } => self.filters.tend(nodes, units_left, limits),
            Content::Partial { .. } | Content::TooLarge => true,
        }
    }

    fn tend_content(&mut self, units_left: &mut u32) -> bool {
        match &mut self.content {
            Content::Partial { nodes, .. } => nodes.link(units_left),
            Content::TooLarge => true,
            Content::Whole { nodes, renewed } => {
                if let Some(renewed_nodes) = renewed {
                    if renewed_nodes.step(nodes, units_left)
                        && let Some(renewed) = renewed.take()
                    {
                        *nodes = renewed.nodes;
                        self.note_renumbered();
                    }
                    return false;
                }
                let removed = nodes.graph.len() - nodes.graph.live_count();
                if removed >= REMOVED_MIN && removed > nodes.graph.live_count() / 2 {
                    *renewed = Some(Box::new(Renewed {
                        nodes: Nodes::new(&self.options, self.dimension),
                        taken_to: 0,
                    }));
                    return false;
                }
                nodes.link(units_left)
            }
        }
    }
}

impl Renewed {
    /// Takes over and links; whether it may take the place of the other one.
    fn step(&mut self, from: &Nodes, units_left: &mut u32) -> bool {
        let end = from.graph.len().min(self.taken_to + TAKEN_OVER_PER_STEP);
        for node in self.taken_to..end {
            if from.graph.is_live(node) {
                let row = from.rows.get(node);
                let code = from.graph.code(node);
                self.nodes.add(row.row, code, row.timestamp_us, row.expires_at_s);
            }
        }
        self.taken_to = end;
        *units_left = units_left.saturating_sub(TAKEN_OVER_PER_STEP);
        let is_linked =
            self.nodes.link(units_left) || self.nodes.graph.unlinked_count() <= UNLINKED_AT_EXCHANGE;
        is_linked && self.taken_to == from.graph.len()
    }
}

/// The vector of a cell; `None` for a tombstone, and for one that has no place in an order.
fn vector_of(cell: &CellRef<'_>, index: &VectorIndex) -> Option<Vec<f32>> {
    if cell.is_tombstone() || cell.path.is_some() {
        return None;
    }
    let (components, rest) = cell.value.as_chunks::<4>();
    if components.len() != index.dimension || !rest.is_empty() {
        return None;
    }
    let vector: Vec<f32> = components
        .iter()
        .map(|component| f32::from_be_bytes(*component))
        .collect();
    index
        .options
        .similarity
        .fault(&vector)
        .is_none()
        .then_some(vector)
}
