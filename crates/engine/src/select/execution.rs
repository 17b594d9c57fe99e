//! The coordinator's side of a SELECT: which reads to make, in order, and the result made of their answers.
//!
//! It does no I/O: the caller asks for the next read, has it run on its shard, and hands the answer back.

use std::cmp::Ordering;
use std::sync::Arc;

use helenus_protocol::response::RowsWriter;
use helenus_types::partition_key::partition_key_components;
use helenus_types::value::{TupleComponents, write_component};

use super::bound::{BoundClause, BoundSelect, InProducts};
use super::grouping::{GroupInProgress, group_key, write_output};
use super::paging::{PagingState, Position};
use super::plan::{Output, SelectPlan};
use super::read_partitions::ReadPartitions;
use super::shard_read::ANSWER_SHARE;
use super::shard_rows::{ShardRead, ShardRows};
use super::targets::Target;
use crate::CqlError;
use crate::execute::QueryOptions;
use crate::term::{BoundValues, EvaluationContext, FetchedRow};

/// Room for an answer of a few rows without their metadata.
const ANSWER_BYTES: usize = 256;

/// Index of a target among those of its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetIndex(usize);

/// A SELECT in execution.
#[derive(Debug)]
pub struct SelectExecution<'a> {
    pub(super) plan: &'a SelectPlan,
    values: &'a BoundValues<'a>,
    options: &'a QueryOptions<'a>,
    pub(super) progress: Box<SelectProgress>,
}

/// The state of a SELECT in execution, free of its plan and values: it can go on on another thread.
#[derive(Debug)]
pub struct SelectProgress {
    /// Targets of the reads, in order; those from `next_target` on are still to be read.
    targets: Arc<Vec<Target>>,
    next_target: usize,
    /// WHERE clause of all reads; an error until it is told.
    clause: Option<Result<Arc<BoundClause>, CqlError>>,
    in_products: InProducts,
    after: Option<Position>,
    rows_left_in_partition: u32,
    rows_per_partition_max: u32,
    /// Rows (or groups) that LIMIT still allows; `u32::MAX` without one.
    rows_left: u32,
    /// Rows (or groups) that the page still has room for; `u32::MAX` without paging.
    page_left: u32,
    /// The body of the RESULT as far as it is made: its head, and from `rows_at` on the rows.
    pub(super) output: Vec<u8>,
    writer: RowsWriter,
    rows_at: usize,
    pub(super) output_count: u32,
    pub(super) group: GroupInProgress,
    groups_in_partition: u32,
    /// The partition key's values of the last grouped row.
    grouped_partition: Vec<u8>,
    paging_state: Option<PagingState>,
    warnings: Vec<String>,
    is_done: bool,
}

impl<'a> SelectExecution<'a> {
    /// Binds the values. `shard_count` is 1 for tables whose rows are all in one place.
    pub fn new(
        plan: &'a SelectPlan,
        values: &'a BoundValues<'a>,
        options: &'a QueryOptions<'a>,
        shard_count: u16,
    ) -> Result<Self, CqlError> {
        let bound = plan.bind(values, options, shard_count)?;
        Ok(Self::of_bound(plan, values, options, bound))
    }

    /// As [`new`](Self::new), where the values have been bound.
    pub fn of_bound(
        plan: &'a SelectPlan,
        values: &'a BoundValues<'a>,
        options: &'a QueryOptions<'a>,
        bound: BoundSelect,
    ) -> Self {
        let mut output = Vec::with_capacity(ANSWER_BYTES);
        let metadata = plan.result.for_version(options.version);
        let writer = RowsWriter::begin(&mut output, metadata, options.metadata_form);
        let progress = SelectProgress {
            targets: bound.targets,
            next_target: bound.first_target,
            clause: Some(bound.clause),
            in_products: bound.in_products,
            after: None,
            rows_left_in_partition: bound.rows_per_partition_max,
            rows_per_partition_max: bound.rows_per_partition_max,
            rows_left: bound.rows_max,
            page_left: bound.page_rows,
            rows_at: output.len(),
            output,
            writer,
            output_count: 0,
            group: GroupInProgress::new(plan),
            groups_in_partition: 0,
            grouped_partition: Vec::new(),
            paging_state: None,
            warnings: bound.warnings,
            is_done: false,
        };
        let mut execution = Self::begun(plan, values, options, Box::new(progress));
        if let Some(state) = bound.paging_state {
            execution.resume(state);
        }
        execution
    }

    /// One that was begun elsewhere, with the same plan, values and options.
    pub fn begun(
        plan: &'a SelectPlan,
        values: &'a BoundValues<'a>,
        options: &'a QueryOptions<'a>,
        progress: Box<SelectProgress>,
    ) -> Self {
        SelectExecution {
            plan,
            values,
            options,
            progress,
        }
    }

    pub fn into_progress(self) -> Box<SelectProgress> {
        self.progress
    }

    /// For work elsewhere: what has come of it so far, and the way back.
    pub fn divide(self) -> (Box<SelectProgress>, impl FnOnce(Box<SelectProgress>) -> Self) {
        let SelectExecution {
            plan,
            values,
            options,
            progress,
        } = self;
        let go_on = move |progress| Self::begun(plan, values, options, progress);
        (progress, go_on)
    }

    /// The first target is the one that the page before this one ended in.
    fn resume(&mut self, state: PagingState) {
        self.progress.rows_left = self.progress.rows_left.min(state.rows_left);
        self.progress.rows_left_in_partition = state.rows_left_in_partition;
        if self.plan.grouping.is_some() {
            self.progress.groups_in_partition = self.progress.rows_per_partition_max
                - self
                    .progress
                    .rows_left_in_partition
                    .min(self.progress.rows_per_partition_max);
            let count = usize::from(self.plan.table.partition_key_count);
            for component in partition_key_components(&state.position.key, count) {
                write_component(&mut self.progress.grouped_partition, Some(component));
            }
        }
        // Past the last row of a partition that was asked for by its key comes the next key.
        if state.position.place.is_none() && self.is_at_key() {
            self.progress.next_target += 1;
        } else {
            self.progress.after = Some(state.position);
        }
    }

    /// Returns the target that is being read, or is next.
    fn target(&self) -> Option<&Target> {
        self.progress.targets.get(self.progress.next_target)
    }

    fn is_at_key(&self) -> bool {
        self.target()
            .is_some_and(|target| matches!(target.partitions, ReadPartitions::Key { .. }))
    }

    /// Targets that are not done with.
    fn targets_left(&self) -> usize {
        self.progress
            .targets
            .len()
            .saturating_sub(self.progress.next_target)
    }

    fn clause(&mut self) -> Result<Option<Arc<BoundClause>>, CqlError> {
        match &self.progress.clause {
            Some(Ok(clause)) => Ok(Some(clause.clone())),
            _ => self.progress.clause.take().transpose(),
        }
    }

    /// The next read, or none when the result is complete.
    pub fn next_read(&mut self) -> Result<Option<ShardRead>, CqlError> {
        if self.progress.is_done
            || self.progress.rows_left == 0
            || self.progress.page_left == 0
            || self.target().is_none()
        {
            return Ok(None);
        }
        let clause = self.clause()?;
        let (Some(target), Some(clause)) = (self.target(), clause) else {
            return Ok(None);
        };
        Ok(Some(ShardRead {
            after: self.progress.after.clone(),
            rows_left_in_partition: self.rows_of_partition(self.progress.rows_left_in_partition),
            ..self.read_of(target, clause)
        }))
    }

    /// The next read and those after it, of at most `count` targets, as far as each is of one row: they may be made at the same time, and
    /// their answers be absorbed in turn where [`ShardRows::is_whole`].
    pub fn reads_ahead(&mut self, count: usize) -> Vec<(TargetIndex, ShardRead)> {
        let is_begun = self.progress.after.is_some();
        let clause = match self.plan.names_one_row() && !is_begun {
            true => self.clause().ok().flatten(),
            false => None,
        };
        let Some(clause) = clause else {
            return Vec::new();
        };
        let targets = self
            .progress
            .targets
            .iter()
            .enumerate()
            .skip(self.progress.next_target);
        let keys = targets.take(
            count
                .min(self.progress.rows_left as usize)
                .min(self.progress.page_left as usize),
        );
        keys.filter(|(_, target)| matches!(target.partitions, ReadPartitions::Key { .. }))
            .map(|(index, target)| (TargetIndex(index), self.read_of(target, clause.clone())))
            .collect()
    }

    /// Index of the target of the next read.
    pub fn next_index(&self) -> TargetIndex {
        TargetIndex(self.progress.next_target)
    }

    /// The read of a target from its beginning.
    fn read_of(&self, target: &Target, clause: Arc<BoundClause>) -> ShardRead {
        let collects = self.plan.grouping.is_some() || self.plan.has_aggregates();
        let rows_max = match (collects, !self.plan.is_sorted_later()) {
            (true, _) => self.plan.computed_rows_max(),
            (false, true) => self
                .progress
                .rows_left
                .min(self.progress.page_left)
                .min(self.plan.computed_rows_max()),
            (false, false) => u32::MAX,
        };
        let rows_of_partition = self.rows_of_partition(self.progress.rows_per_partition_max);
        ShardRead {
            shard: target.shard,
            partitions: target.partitions.clone(),
            clause,
            after: None,
            rows_max,
            rows_left_in_partition: rows_of_partition,
            rows_per_partition_max: rows_of_partition,
        }
    }

    /// Groups are counted when they are made.
    fn rows_of_partition(&self, rows: u32) -> u32 {
        match self.plan.grouping {
            None => rows,
            Some(_) => u32::MAX,
        }
    }

    /// Takes the answer to the last read.
    pub fn absorb(&mut self, mut rows: ShardRows) -> Result<(), CqlError> {
        self.progress.warnings.append(&mut rows.warnings);
        match self.plan.grouping.is_some() || self.plan.has_aggregates() {
            true => self.absorb_groups(&rows)?,
            false => self.absorb_rows(&rows)?,
        }
        if self.progress.is_done {
            return Ok(());
        }
        if self.progress.output.len() > self.options.answer_bytes_max && self.progress.output_count > 1 {
            self.end_long_page(&mut rows)?;
        }
        if rows.is_cut {
            self.progress.page_left = 0;
        }
        match rows.stopped_at {
            Some(position) => {
                self.progress.rows_left_in_partition = rows.rows_left_in_partition;
                self.progress.after = Some(position);
            }
            None => self.next_target(),
        }
        // A key whose partition is done with needs no further read.
        let is_key_done = self
            .progress
            .after
            .as_ref()
            .is_some_and(|position| position.place.is_none())
            && self.is_at_key();
        // Whether a range has more is not looked at, as in Cassandra; whether a last key's partition has is known.
        let is_last_key_done = is_key_done && self.targets_left() == 1;
        let is_page_full = self.progress.page_left == 0 && self.progress.rows_left > 0;
        if is_page_full && self.plan.grouping.is_none() && !is_last_key_done {
            self.progress.paging_state = self.progress.after.clone().map(|position| PagingState {
                position,
                rows_left: self.progress.rows_left,
                rows_left_in_partition: self.progress.rows_left_in_partition,
            });
        } else if is_key_done {
            self.next_target();
        }
        Ok(())
    }

    /// The answer takes more than it may: the page ends with these rows, if it is one that may end early.
    fn end_long_page(&mut self, rows: &mut ShardRows) -> Result<(), CqlError> {
        if !self.plan.is_cut_into_pages(self.options) {
            return Err(self.options.answer_too_long());
        }
        if rows.stopped_at.is_none()
            && let Some(ReadPartitions::Key { key, .. }) = self.target().map(|target| &target.partitions)
        {
            rows.stopped_at = Some(Position {
                key: key.clone(),
                place: None,
            });
        }
        // Behind the last row of a shard no place has a name; another answer of a shard makes no difference.
        rows.is_cut |= rows.stopped_at.is_some();
        Ok(())
    }

    /// Returns the bytes that its rows take so far, and will take before it has ended.
    pub fn output_bytes(&self) -> usize {
        let copies = if self.plan.is_sorted_later() { 2 } else { 1 };
        copies * self.progress.output.capacity()
    }

    fn next_target(&mut self) {
        self.progress.next_target += 1;
        self.progress.after = None;
        self.progress.rows_left_in_partition = self.progress.rows_per_partition_max;
    }

    /// Room for rows: as a vector makes it, but no more than the longest answer and the rows that end it take.
    fn reserve(&mut self, bytes: usize) {
        let needed_bytes = self.progress.output.len() + bytes;
        if needed_bytes > self.progress.output.capacity() {
            let answer_bytes_max = self.options.answer_bytes_max;
            let useful_bytes = answer_bytes_max.saturating_add(answer_bytes_max / ANSWER_SHARE);
            let wanted_bytes = (2 * self.progress.output.capacity()).min(useful_bytes);
            self.progress
                .output
                .reserve_exact(wanted_bytes.max(needed_bytes) - self.progress.output.len());
        }
    }

    fn absorb_rows(&mut self, rows: &ShardRows) -> Result<(), CqlError> {
        let is_sorted_later = self.plan.is_sorted_later();
        self.reserve(rows.bytes.len());
        match &self.plan.output {
            Output::Expressions { .. } if !is_sorted_later => {
                let context = self.context();
                let mut output = std::mem::take(&mut self.progress.output);
                for row in row_slices(&rows.bytes, self.plan.fetched.len(), rows.count) {
                    let context = EvaluationContext {
                        row: Some(FetchedRow::new(row)),
                        ..context
                    };
                    write_output(self.plan, &context, &mut output)?;
                }
                self.progress.output = output;
            }
            Output::Columns(count) if *count != self.plan.fetched.len() && !is_sorted_later => {
                for row in row_slices(&rows.bytes, self.plan.fetched.len(), rows.count) {
                    let kept = row_slices(row, *count, 1).next().unwrap_or_default();
                    self.progress.output.extend_from_slice(kept);
                }
            }
            _ => self.progress.output.extend_from_slice(&rows.bytes),
        }
        self.progress.output_count += rows.count;
        if !is_sorted_later {
            self.progress.rows_left = reduced(self.progress.rows_left, rows.count);
            self.progress.page_left = reduced(self.progress.page_left, rows.count);
        }
        Ok(())
    }

    fn context(&self) -> EvaluationContext<'a> {
        self.options.evaluation(self.values)
    }

    fn absorb_groups(&mut self, rows: &ShardRows) -> Result<(), CqlError> {
        let context = self.context();
        for row in row_slices(&rows.bytes, self.plan.fetched.len(), rows.count) {
            let row = FetchedRow::new(row);
            let Some(grouping) = &self.plan.grouping else {
                // All rows are one group. Keys without bytes are not compared: of nothing, some processors take long.
                self.progress.group.add(self.plan, Vec::new(), row, &context)?;
                continue;
            };
            let key = group_key(grouping, row, &context)?;
            if !self.progress.group.takes(&key) {
                let is_partition_left = self.partition_of(row) != self.progress.grouped_partition;
                self.finish_group(&context, is_partition_left || self.targets_left() > 1)?;
                if self.progress.rows_left == 0 || self.progress.page_left == 0 {
                    self.progress.is_done = true;
                    return Ok(());
                }
            }
            self.enter_partition(row);
            self.progress.group.add(self.plan, key, row, &context)?;
        }
        Ok(())
    }

    /// Starts counting groups anew if the row belongs to another partition than the one before it.
    fn enter_partition(&mut self, row: FetchedRow<'_>) {
        let key = self.partition_of(row);
        if key != self.progress.grouped_partition {
            self.progress.grouped_partition = key;
            self.progress.groups_in_partition = 0;
        }
    }

    /// The values of the row's partition key; nothing if there are no groups.
    fn partition_of(&self, row: FetchedRow<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        for slot in self
            .plan
            .grouping
            .iter()
            .flat_map(|grouping| &grouping.partition_key_slots)
        {
            write_component(&mut key, row.value(*slot));
        }
        key
    }

    /// Writes the group's row, and remembers where it ended if the page ends with it. A last key's partition needs no
    /// further page once it has given all the groups that it may.
    fn finish_group(
        &mut self,
        context: &EvaluationContext<'_>,
        has_more_partitions: bool,
    ) -> Result<(), CqlError> {
        let group = std::mem::replace(&mut self.progress.group, GroupInProgress::new(self.plan));
        if self.progress.groups_in_partition < self.progress.rows_per_partition_max {
            group.write(self.plan, context, &mut self.progress.output)?;
            self.progress.output_count += 1;
            self.progress.rows_left = reduced(self.progress.rows_left, 1);
            self.progress.page_left = reduced(self.progress.page_left, 1);
        }
        self.progress.groups_in_partition = self.progress.groups_in_partition.saturating_add(1);
        if let (0, 1.., Some(grouping)) = (
            self.progress.page_left,
            self.progress.rows_left,
            &self.plan.grouping,
        ) {
            let position = group.position(grouping, self.plan.side_behind())?;
            // A static row alone, as the one row of a partition without clustering, is all there is.
            let has_one_row = position
                .place
                .as_ref()
                .is_none_or(|place| place.bound.prefix.is_empty());
            let is_partition_done =
                has_one_row || self.progress.groups_in_partition >= self.progress.rows_per_partition_max;
            if is_partition_done && !has_more_partitions && !self.plan.is_range_scan() {
                return Ok(());
            }
            self.progress.paging_state = Some(PagingState {
                position,
                rows_left: self.progress.rows_left,
                rows_left_in_partition: reduced(
                    self.progress.rows_per_partition_max,
                    self.progress.groups_in_partition,
                ),
            });
        }
        Ok(())
    }

    /// How many partitions are asked for by their keys, before the first read.
    pub fn partition_keys(&self) -> u64 {
        match self.is_at_key() {
            true => self.targets_left() as u64,
            false => 0,
        }
    }

    pub fn in_products(&self) -> InProducts {
        self.progress.in_products
    }

    /// Takes the warnings that the client is told with the result.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.progress.warnings)
    }

    /// The body of the RESULT.
    pub fn finish(mut self) -> Result<Vec<u8>, CqlError> {
        let context = self.context();
        let plan = self.plan;
        if plan.aggregates_everything() || (!self.progress.is_done && !self.progress.group.is_empty()) {
            self.finish_group(&context, self.targets_left() > 0)?;
        }
        if plan.is_sorted_later() {
            self.sort(&context)?;
        }
        let SelectProgress {
            mut output,
            mut writer,
            output_count,
            paging_state,
            ..
        } = *self.progress;
        (0..output_count).for_each(|_| writer.end_row());
        let paging_state = paging_state.as_ref().map(PagingState::encode);
        writer.finish(&mut output, paging_state.as_deref());
        Ok(output)
    }

    /// Sorts the rows of several partitions and cuts them to LIMIT.
    fn sort(&mut self, context: &EvaluationContext<'_>) -> Result<(), CqlError> {
        let plan = self.plan;
        let fetched = self.progress.output.split_off(self.progress.rows_at);
        let mut rows: Vec<&[u8]> =
            row_slices(&fetched, plan.fetched.len(), self.progress.output_count).collect();
        let clause = self
            .progress
            .clause
            .as_ref()
            .and_then(|clause| clause.as_ref().ok());
        match clause.and_then(|clause| clause.nearest.as_ref()) {
            // Those of one shard are in order, and shards in that of their tokens, so that ties stay as each shard settles them.
            Some(nearest) => nearest.sort(plan.nearest.as_ref().map_or(0, |nearest| nearest.slot), &mut rows),
            None => rows.sort_by(|left, right| compare_rows(plan, left, right)),
        }
        rows.truncate(self.progress.rows_left as usize);
        for row in &rows {
            let context = EvaluationContext {
                row: Some(FetchedRow::new(row)),
                ..*context
            };
            write_output(plan, &context, &mut self.progress.output)?;
        }
        self.progress.output_count = rows.len() as u32;
        Ok(())
    }
}

fn reduced(left: u32, by: u32) -> u32 {
    if left == u32::MAX {
        left
    } else {
        left.saturating_sub(by)
    }
}

fn compare_rows(plan: &SelectPlan, left: &[u8], right: &[u8]) -> Ordering {
    let (left, right) = (FetchedRow::new(left), FetchedRow::new(right));
    for column in &plan.ordering {
        let (ordering, is_turned) = match (left.value(column.slot), right.value(column.slot)) {
            (Some(left), Some(right)) => (column.cql_type.compare(left, right), column.is_descending),
            (left, right) => (left.is_some().cmp(&right.is_some()), column.nulls_last),
        };
        let ordering = if is_turned { ordering.reverse() } else { ordering };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// The rows of a shard's answer, or of anything else with `value_count` values for each row.
fn row_slices(bytes: &[u8], value_count: usize, row_count: u32) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    (0..row_count).map(move |_| {
        let mut values = TupleComponents::new(rest);
        values.by_ref().take(value_count).for_each(drop);
        let row = &rest[..rest.len() - values.rest().len()];
        rest = values.rest();
        row
    })
}
