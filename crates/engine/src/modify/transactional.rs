//! Modifications of a transaction: what they must not say, the row that they read before they change it, and their updates.

use std::rc::Rc;
use std::sync::Arc;

use helenus_rows::row::{Entry, RowRef};
use helenus_rows::update::Update;
use helenus_schema::{ColumnId, TableMetadata};
use helenus_types::Token;

use super::attributes::Ballot;
use super::conditional::merged;
use super::list_view::StoredList;
use super::plan::ModifyPlan;
use super::prior_lists::PriorLists;
use super::updates::check_written;
use crate::CqlError;
use crate::clause::slices;
use crate::clause::statement_kind::StatementKind;
use crate::execute::{QueryOptions, Scratch};
use crate::select::{RowRead, StoredRow};
use crate::term::BoundValues;

/// The updates of a transaction, in their order: all that one partition gets is one update.
pub struct TransactionUpdates<'p> {
    ballot_us: i64,
    gathered: Gathered<'p>,
    written_bytes: usize,
}

enum Gathered<'p> {
    /// No two statements write to the same partition.
    Apart(Vec<Vec<u8>>),
    ToMerge(Vec<PartitionUpdates<'p>>),
}

struct PartitionUpdates<'p> {
    table: &'p Arc<TableMetadata>,
    key: Vec<u8>,
    updates: Vec<Vec<u8>>,
}

impl ModifyPlan {
    pub(crate) fn kind_text(&self) -> &'static str {
        match self.kind {
            StatementKind::Insert => "INSERT",
            StatementKind::Delete => "DELETE",
            _ => "UPDATE",
        }
    }

    pub fn has_ttl(&self) -> bool {
        self.attributes.ttl.is_some()
    }

    /// Returns whether it changes what it finds, or an element of a list by its place or value.
    pub(crate) fn reads_its_row(&self) -> bool {
        let mut operations = self.static_operations.iter().chain(&self.regular_operations);
        operations.any(|operation| operation.needs_read() || operation.adds_to_own())
    }

    /// The row that it reads; none if it reads none.
    pub(crate) fn own_row(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Option<RowRead>, CqlError> {
        if !self.reads_its_row() {
            return Ok(None);
        }
        let context = options.evaluation(values);
        let mut keys = self.partition_keys(&context)?;
        let mut clusterings = match self.updates_rows() {
            true => slices::clusterings(&self.table, &self.keys.clustering, &context)?,
            false => Vec::new(),
        };
        if keys.len() != 1 || clusterings.len() > 1 {
            return Err(invalid!(
                "Within a transaction, a statement that changes what it finds must name a single row"
            ));
        }
        let (key, clustering) = (keys.swap_remove(0), clusterings.pop());
        Ok(Some(RowRead::of_key(&self.table, key, clustering.as_deref())))
    }
}

impl<'p> TransactionUpdates<'p> {
    /// `are_apart` if no two statements write to the same partition.
    pub fn new(ballot_us: i64, are_apart: bool) -> Self {
        TransactionUpdates {
            ballot_us,
            gathered: match are_apart {
                true => Gathered::Apart(Vec::new()),
                false => Gathered::ToMerge(Vec::new()),
            },
            written_bytes: 0,
        }
    }

    /// Adds what a statement writes; `own` is its row, if it reads one.
    pub fn add(
        &mut self,
        plan: &'p ModifyPlan,
        own: Option<&StoredRow>,
        (values, options): (&BoundValues<'_>, &QueryOptions<'_>),
        scratch: &mut Scratch,
    ) -> Result<(), CqlError> {
        let ballot_us = self.ballot_us;
        let ballot = Ballot {
            timestamp_us: ballot_us,
            // What is merged is made older after that.
            deletion_us: match &self.gathered {
                Gathered::Apart(_) => ballot_us - 1,
                Gathered::ToMerge(_) => ballot_us,
            },
        };
        let empty = StoredRow::default();
        let mut before = OwnRow(own.unwrap_or(&empty));
        let (gathered, written_bytes) = (&mut self.gathered, &mut self.written_bytes);
        plan.build_at(ballot, values, options, scratch, &mut before, &mut |_, update| {
            *written_bytes += update.len();
            check_written(*written_bytes)?;
            let by_partition = match gathered {
                Gathered::Apart(updates) => {
                    updates.push(update.to_vec());
                    return Ok(());
                }
                Gathered::ToMerge(by_partition) => by_partition,
            };
            let key = Update::decode_trusted(update).map_or(&[][..], |update| update.partition_key);
            let same = |of: &&mut PartitionUpdates<'_>| of.table.id == plan.table.id && of.key == key;
            match by_partition.iter_mut().find(same) {
                Some(of) => of.updates.push(update.to_vec()),
                None => by_partition.push(PartitionUpdates {
                    table: &plan.table,
                    key: key.to_vec(),
                    updates: vec![update.to_vec()],
                }),
            }
            Ok(())
        })
    }

    /// One update for each partition.
    pub fn into_updates(self) -> Vec<Vec<u8>> {
        match self.gathered {
            Gathered::Apart(updates) => updates,
            Gathered::ToMerge(by_partition) => by_partition
                .iter()
                .map(|of| merged(of.table, &of.key, &of.updates, self.ballot_us))
                .collect(),
        }
    }
}

/// Row that a statement finds before the transaction has written anything.
struct OwnRow<'r>(&'r StoredRow);

impl PriorLists for OwnRow<'_> {
    fn list(
        &mut self,
        _: Token,
        _: &[u8],
        clustering: Option<&[u8]>,
        column: ColumnId,
    ) -> Result<Rc<StoredList>, CqlError> {
        let row: RowRef<'_> = self.0.place(clustering);
        let cells = row.entries().filter_map(|entry| match entry {
            Entry::Cell(cell) if cell.column == column => Some((cell.path?.to_vec(), cell.value.to_vec())),
            _ => None,
        });
        Ok(Rc::new(StoredList::new(cells.collect())))
    }

    fn value(&mut self, clustering: Option<&[u8]>, column: ColumnId) -> Result<Option<Vec<u8>>, CqlError> {
        let mut entries = self.0.place(clustering).entries();
        Ok(entries.find_map(|entry| match entry {
            Entry::Cell(cell) if cell.column == column => Some(cell.value.to_vec()),
            _ => None,
        }))
    }
}
