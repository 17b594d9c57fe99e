//! Executing a modification: one packed update for each partition.

use helenus_protocol::Consistency;
use helenus_rows::clustering::{Components, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::Liveness;
use helenus_rows::update::{BoundRef, UpdateBuilder};
use helenus_schema::TableId;
use helenus_types::{Token, token_of};

use super::attributes::{Ballot, WriteTime};
use super::cells::{RowAddress, write_cells};
use super::json::DecodedRow;
use super::operation::Operation;
use super::plan::ModifyPlan;
use super::prior_lists::{ListReading, NoPriorLists, PriorLists, StoredLists};
use crate::CqlError;
use crate::clause::key::{append_single_clustering, append_single_key};
use crate::clause::restriction::Restriction;
use crate::clause::slices;
use crate::clause::slices::{KEY_BYTES_MAX, key_too_long};
use crate::clause::statement_kind::StatementKind;
use crate::execute::{QueryOptions, Scratch};
use crate::row_store::RowStore;
use crate::term::{BoundValues, EvaluationContext};

/// Takes a packed update and the token of its partition.
pub type EmitUpdate<'e> = dyn FnMut(Token, &[u8]) -> Result<(), CqlError> + 'e;

/// Context in which a statement is built.
struct Surroundings<'s> {
    /// Ballot of a conditional statement.
    ballot: Option<Ballot>,
    lists: &'s mut dyn PriorLists,
    /// Updates are made of the partitions that this is true of.
    owns: &'s dyn Fn(Token) -> bool,
}

impl ModifyPlan {
    /// Builds the packed updates and hands them over one by one. Not for statements that
    /// [`need to read`](Self::needs_read).
    pub fn updates(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        emit: &mut EmitUpdate<'_>,
    ) -> Result<(), CqlError> {
        self.check_consistency(options)?;
        let around = Surroundings {
            ballot: None,
            lists: &mut NoPriorLists,
            owns: &|_| true,
        };
        self.build(values, options, scratch, around, emit)
    }

    /// As [`updates`](Self::updates), of a statement of a batch, which Cassandra writes also at the levels of conditional
    /// statements.
    pub fn updates_in_batch(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        emit: &mut EmitUpdate<'_>,
    ) -> Result<(), CqlError> {
        let around = Surroundings {
            ballot: None,
            lists: &mut NoPriorLists,
            owns: &|_| true,
        };
        self.build(values, options, scratch, around, emit)
    }

    /// As [`updates`](Self::updates), on a shard that owns (some of) the partitions: makes the updates of those.
    pub fn updates_reading<R: RowStore>(
        &self,
        store: &mut R,
        reading: &mut ListReading,
        owns: &dyn Fn(Token) -> bool,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
    ) -> Result<Vec<(Token, Vec<u8>)>, CqlError> {
        let mut updates = Vec::new();
        let mut lists = StoredLists {
            store,
            reading,
            table: &self.table,
            now_s: options.now_s,
        };
        self.check_consistency(options)?;
        let around = Surroundings {
            ballot: None,
            lists: &mut lists,
            owns,
        };
        self.build(values, options, scratch, around, &mut |token, update| {
            updates.push((token, update.to_vec()));
            Ok(())
        })?;
        Ok(updates)
    }

    #[inline]
    fn check_consistency(&self, options: &QueryOptions<'_>) -> Result<(), CqlError> {
        match self.is_counter() {
            true => Ok(()),
            false => options.check_write(),
        }
    }

    /// The consistency levels that a statement on counters cannot have. As in Cassandra, one of a batch can have any.
    pub fn check_counter_consistency(&self, options: &QueryOptions<'_>) -> Result<(), CqlError> {
        match options.consistency {
            Consistency::Any => Err(invalid!(
                "Consistency level ANY is not yet supported for counter table {}",
                self.table.name
            )),
            serial if serial.is_serial() => {
                Err(invalid!("Counter operations are inherently non-serializable"))
            }
            _ => Ok(()),
        }
    }

    /// Decodes the text of an `INSERT JSON ?`.
    pub(super) fn decoded(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Option<DecodedRow>, CqlError> {
        let json = self.json.as_ref();
        json.map(|json| json.decoded(values, options)).transpose()
    }

    /// The partitions the statement touches.
    pub fn partitions(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Vec<(TableId, Token)>, CqlError> {
        let decoded = self.decoded(values, options)?;
        let extended = decoded.as_ref().map(|row| row.behind(values));
        let context = options.evaluation(extended.as_ref().unwrap_or(values));
        let keys = self.partition_keys(&context)?;
        Ok(keys.iter().map(|key| (self.table.id, token_of(key))).collect())
    }

    pub(super) fn partition_keys(&self, context: &EvaluationContext<'_>) -> Result<Vec<Vec<u8>>, CqlError> {
        let mut key = Vec::new();
        if append_single_key(&mut key, &self.keys.partition, context)? {
            return Ok(vec![key]);
        }
        let keys = slices::partition_keys(&self.table, &self.keys.partition, context)?;
        slices::check_keys(&keys)?;
        Ok(keys)
    }

    /// Builds the update of a conditional request's statement.
    pub(super) fn build_at(
        &self,
        ballot: Ballot,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        lists: &mut dyn PriorLists,
        emit: &mut EmitUpdate<'_>,
    ) -> Result<(), CqlError> {
        let around = Surroundings {
            ballot: Some(ballot),
            lists,
            owns: &|_| true,
        };
        self.build(values, options, scratch, around, emit)
    }

    fn build(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        around: Surroundings<'_>,
        emit: &mut EmitUpdate<'_>,
    ) -> Result<(), CqlError> {
        match self.decoded(values, options)? {
            None => self.build_bound(values, options, scratch, around, emit),
            Some(row) => self.build_bound(&row.behind(values), options, scratch, around, emit),
        }
    }

    fn build_bound(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        around: Surroundings<'_>,
        emit: &mut EmitUpdate<'_>,
    ) -> Result<(), CqlError> {
        let Surroundings { ballot, lists, owns } = around;
        let context = options.evaluation(values);
        let Scratch {
            partition_key,
            clustering,
            update,
            ..
        } = scratch;
        partition_key.clear();
        clustering.clear();
        let has_one_key = append_single_key(partition_key, &self.keys.partition, &context)?;
        let has_one_row = has_one_key
            && self.keys.clustering.len() == usize::from(self.table.clustering_count)
            && append_single_clustering(clustering, &self.keys.clustering, &context)?;
        if has_one_row {
            let token = token_of(partition_key);
            if !owns(token) {
                return Ok(());
            }
            let time = self
                .attributes
                .write_time(&self.table, options, &context, ballot)?;
            let target = Target {
                plan: self,
                time,
                context: &context,
                token,
                key: partition_key,
            };
            update.clear();
            target.build_rows(update, &[clustering.as_slice()], lists)?;
            return emit(token, update);
        }
        let keys = match has_one_key {
            true => vec![partition_key.clone()],
            false => self.partition_keys(&context)?,
        };
        let rows = self.rows(&context)?;
        let time = self
            .attributes
            .write_time(&self.table, options, &context, ballot)?;
        let target = Target {
            plan: self,
            time,
            context: &context,
            token: token_of(&[]),
            key: &[],
        };
        target.build_each(&keys, &rows, (update, lists), owns, emit)
    }

    fn rows(&self, context: &EvaluationContext<'_>) -> Result<Rows, CqlError> {
        let is_slice = |restriction: &Restriction| restriction.is_slice();
        let restrictions = &self.keys.clustering;
        let is_range = self.kind == StatementKind::Delete
            && !restrictions.is_empty()
            && (restrictions.iter().any(is_slice)
                || self.named_clustering_count() < usize::from(self.table.clustering_count));
        if is_range {
            restrictions
                .iter()
                .try_for_each(|restriction| restriction.check_bounds(context))?;
            let slices = slices::slices(&self.table, restrictions, context)?;
            return Ok(if slices.is_empty() {
                Rows::None
            } else {
                Rows::Slices(slices)
            });
        }
        let clusterings = slices::clusterings(&self.table, restrictions, context)?;
        Ok(match clusterings.is_empty() {
            true => Rows::None,
            false => Rows::Clusterings(clusterings),
        })
    }

    fn named_clustering_count(&self) -> usize {
        self.keys
            .clustering
            .iter()
            .map(|restriction| restriction.columns.len())
            .sum()
    }
}

enum Rows {
    None,
    Slices(Vec<helenus_rows::clustering::Slice>),
    /// Complete clustering keys, or the empty one.
    Clusterings(Vec<Vec<u8>>),
}

/// One partition that a modification writes to.
struct Target<'t> {
    plan: &'t ModifyPlan,
    time: WriteTime,
    context: &'t EvaluationContext<'t>,
    token: Token,
    key: &'t [u8],
}

impl<'t> Target<'t> {
    /// An update of each of these partitions that is wanted.
    fn build_each(
        mut self,
        keys: &'t [Vec<u8>],
        rows: &Rows,
        (update, lists): (&mut Vec<u8>, &mut dyn PriorLists),
        owns: &dyn Fn(Token) -> bool,
        emit: &mut EmitUpdate<'_>,
    ) -> Result<(), CqlError> {
        let mut written_bytes = 0;
        for key in keys {
            self.token = token_of(key);
            self.key = key;
            if !owns(self.token) {
                continue;
            }
            update.clear();
            match rows {
                Rows::None => continue,
                Rows::Slices(slices) => self.build_range_tombstones(update, slices)?,
                Rows::Clusterings(clusterings) => self.build_rows(update, clusterings, lists)?,
            }
            written_bytes += update.len();
            check_written(written_bytes)?;
            emit(self.token, update)?;
        }
        Ok(())
    }

    fn deletion(&self) -> DeletionTime {
        DeletionTime {
            timestamp_us: self.time.deletion_us,
            local_s: self.time.now_s,
        }
    }

    fn build_range_tombstones(
        &self,
        out: &mut Vec<u8>,
        slices: &[helenus_rows::clustering::Slice],
    ) -> Result<(), CqlError> {
        if !self.plan.deletes_rows() {
            return Err(invalid!("Range deletions are not supported for specific columns"));
        }
        let mut builder = UpdateBuilder::new(out, self.plan.table.id, self.key, DeletionTime::LIVE);
        for slice in slices {
            let bound =
                |bound: &helenus_rows::clustering::ClusteringBound| (bound.prefix.clone(), bound.side);
            let ((start, start_side), (end, end_side)) = (bound(&slice.start), bound(&slice.end));
            builder.range_tombstone(
                BoundRef {
                    prefix: &start,
                    side: start_side,
                },
                BoundRef {
                    prefix: &end,
                    side: end_side,
                },
                self.deletion(),
            );
        }
        Ok(())
    }

    fn build_rows(
        &self,
        out: &mut Vec<u8>,
        clusterings: &[impl AsRef<[u8]>],
        lists: &mut dyn PriorLists,
    ) -> Result<(), CqlError> {
        let plan = self.plan;
        clusterings
            .iter()
            .try_for_each(|clustering| check_clustering(clustering.as_ref()))?;
        if plan.deletes_rows() {
            self.build_row_deletions(out, clusterings);
            return Ok(());
        }
        let is_partial_delete =
            plan.kind == StatementKind::Delete && !plan.regular_operations.is_empty() && !plan.updates_rows();
        if is_partial_delete {
            return Err(invalid!("Range deletions are not supported for specific columns"));
        }
        let mut builder = UpdateBuilder::new(out, plan.table.id, self.key, DeletionTime::LIVE);
        let writes_rows = match plan.kind {
            StatementKind::Delete => !plan.regular_operations.is_empty(),
            _ => plan.updates_rows(),
        };
        let mut result = Ok(());
        if writes_rows {
            let liveness = match plan.kind {
                StatementKind::Insert => Liveness {
                    timestamp_us: self.time.timestamp_us,
                    ttl_s: self.time.ttl_s,
                    expires_at_s: self.time.expires_at_s,
                },
                _ => Liveness::NONE,
            };
            for clustering in clusterings {
                let clustering = clustering.as_ref();
                builder.row(clustering, liveness, DeletionTime::LIVE, |row| {
                    result = self.write(row, &plan.regular_operations, Some(clustering), lists);
                });
                std::mem::replace(&mut result, Ok(()))?;
                check_written(builder.byte_count())?;
            }
        }
        if plan.static_operations.is_empty() {
            return Ok(());
        }
        // As in Cassandra, once for each row that is named: a list in the static row gets its elements as often.
        for _ in 0..clusterings.len() {
            builder.static_row(Liveness::NONE, DeletionTime::LIVE, |row| {
                result = self.write(row, &plan.static_operations, None, lists);
            });
            std::mem::replace(&mut result, Ok(()))?;
            check_written(builder.byte_count())?;
        }
        Ok(())
    }

    fn write(
        &self,
        row: &mut helenus_rows::row::RowBuilder<'_>,
        operations: &[Operation],
        clustering: Option<&[u8]>,
        lists: &mut dyn PriorLists,
    ) -> Result<(), CqlError> {
        let address = RowAddress {
            token: self.token,
            key: self.key,
            clustering,
        };
        write_cells(row, operations, self.time, address, self.context, lists)
    }

    /// Deletes whole rows, or the partition if no clustering column is named.
    fn build_row_deletions(&self, out: &mut Vec<u8>, clusterings: &[impl AsRef<[u8]>]) {
        let table = &self.plan.table;
        let names_rows = !self.plan.keys.clustering.is_empty();
        let partition_deletion = if names_rows {
            DeletionTime::LIVE
        } else {
            self.deletion()
        };
        let mut builder = UpdateBuilder::new(out, table.id, self.key, partition_deletion);
        if !names_rows {
            return;
        }
        for clustering in clusterings {
            let clustering = clustering.as_ref();
            if Components::new(clustering).count() == usize::from(table.clustering_count) {
                builder.row(clustering, Liveness::NONE, self.deletion(), |_| {});
                continue;
            }
            builder.range_tombstone(
                BoundRef {
                    prefix: clustering,
                    side: Side::Before,
                },
                BoundRef {
                    prefix: clustering,
                    side: Side::After,
                },
                self.deletion(),
            );
        }
    }
}

/// Bytes that one statement, or all of a batch together, may write. A request brings at most 16 MiB, but by an IN each value
/// is written as often as there are keys; all of it is built before any of it is written.
pub const WRITTEN_BYTES_MAX: usize = 64 << 20;

/// Refuses to build more of a statement's or batch's updates.
pub fn check_written(bytes: usize) -> Result<(), CqlError> {
    match bytes > WRITTEN_BYTES_MAX {
        true => Err(invalid!(
            "The statement would write more than {WRITTEN_BYTES_MAX} bytes; divide it, or name fewer keys"
        )),
        false => Ok(()),
    }
}

/// All columns together are no longer than one key may be, as in Cassandra.
#[inline]
fn check_clustering(clustering: &[u8]) -> Result<(), CqlError> {
    if clustering.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    match Components::new(clustering).map(<[u8]>::len).sum() {
        length if length > KEY_BYTES_MAX => Err(key_too_long(length)),
        _ => Ok(()),
    }
}
