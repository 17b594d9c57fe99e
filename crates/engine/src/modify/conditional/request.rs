//! One execution of a conditional statement or batch: bound, read, decided, and built.

use std::borrow::Cow;
use std::sync::Arc;

use helenus_protocol::Consistency;
use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::partition_range::PartitionRange;
use helenus_schema::TableMetadata;
use helenus_sstable::AbsentPages;
use helenus_storage::read::ReadCommand;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use super::answer::{NotApplied, applied, applied_metadata, not_applied};
use super::ballot::merged;
use super::bound::BoundCondition;
use super::few::Few;
use super::plan::Conditions;
use super::rows::{ReadBuffers, ReadColumns, RowsBefore, RowsRead};
use crate::CqlError;
use crate::clause::key::{append_single_clustering, append_single_key, borrowed_key};
use crate::clause::restriction::Restriction;
use crate::clause::slices;
use crate::clause::slices::set_single_row;
use crate::clause::statement_kind::StatementKind;
use crate::execute::{QueryOptions, Scratch};
use crate::modify::attributes::Ballot;
use crate::modify::plan::ModifyPlan;
use crate::modify::updates::{EmitUpdate, check_written};
use crate::row_store::{RowStore, read_failure};
use crate::select::JSON_BYTES_PER_VALUE;
use crate::term::{BoundValues, EvaluationContext};

/// Statements of a conditional batch: some two microseconds each, and all of it is done in one turn of a shard.
const STATEMENTS_MAX: usize = 500;

/// JSON of a conditional request: it is decoded in that turn, three times, some ten nanoseconds a byte.
const JSON_BYTES_MAX: u64 = 32 << 10;

/// Bytes of nearly all rows' clusterings at most: these then take one allocation.
const CLUSTERING_BYTES: usize = 64;

/// Steps of a read that a decision may take: they follow each other without anything in between, some 200 microseconds each.
const STEPS_MAX: usize = 5;

/// One statement, with its values.
#[derive(Clone, Copy, Debug)]
pub struct ConditionalMember<'r> {
    pub plan: &'r ModifyPlan,
    pub values: &'r BoundValues<'r>,
}

/// A conditional statement or batch, bound.
#[derive(Debug)]
pub struct ConditionalRequest<'r> {
    members: &'r [ConditionalMember<'r>],
    is_batch: bool,
    options: &'r QueryOptions<'r>,
    table: &'r Arc<TableMetadata>,
    comparator: Cow<'r, ClusteringComparator>,
    key: Cow<'r, [u8]>,
    token: Token,
    columns: Cow<'r, ReadColumns>,
    of_static_row: Option<RowTest<'r>>,
    /// In the order of clusterings.
    of_rows: Few<(Vec<u8>, RowTest<'r>)>,
}

#[derive(Debug)]
enum RowTest<'r> {
    Exists,
    NotExists,
    Columns(Few<BoundCondition<'r>>),
}

/// Outcome of a run.
#[derive(Debug)]
pub enum ConditionalOutcome {
    /// The read lacks these pages: another run once they are there.
    Absent(Box<AbsentPages>),
    Decided {
        /// Update to write; none if a condition is not met, or there is nothing to write.
        update: Option<Vec<u8>>,
        /// The body of the RESULT.
        body: Vec<u8>,
    },
}

impl<'r> ConditionalRequest<'r> {
    /// Binds a request where it is used: there are 400 bytes of it, which nobody moves.
    pub fn with_bound<T>(
        members: &'r [ConditionalMember<'r>],
        is_batch: bool,
        options: &'r QueryOptions<'r>,
        work: impl FnOnce(&Self) -> Result<T, CqlError>,
    ) -> Result<T, CqlError> {
        let Some((first, others)) = members.split_first() else {
            return Err(CqlError::server(format_args!("a conditional batch is empty")));
        };
        if members.len() > STATEMENTS_MAX {
            return Err(invalid!(
                "A conditional batch has at most {STATEMENTS_MAX} statements, this one has {}",
                members.len()
            ));
        }
        let json = members.iter().map(|member| member.plan.json_count(member.values));
        if json.sum::<u64>() > JSON_BYTES_MAX / JSON_BYTES_PER_VALUE {
            return Err(invalid!(
                "A conditional request has at most {JSON_BYTES_MAX} bytes of JSON; divide it, or bind the values by themselves"
            ));
        }
        let table = &first.plan.table;
        let conditional = members.iter().find_map(|member| member.plan.conditions.as_ref());
        let comparator = match conditional {
            Some(conditions) => Cow::Borrowed(&*conditions.comparator),
            None => Cow::Owned(ClusteringComparator::of(table)),
        };
        let key = key_of(first, is_batch, options)?;
        let mut request = ConditionalRequest {
            members,
            is_batch,
            options,
            table,
            comparator,
            token: token_of(&key),
            key,
            columns: columns_read(members),
            of_static_row: None,
            of_rows: Few::new(),
        };
        request.add(first)?;
        for member in others {
            if request.key != key_of(member, is_batch, options)? {
                return Err(invalid!("Batch with conditions cannot span multiple partitions"));
            }
            request.add(member)?;
        }
        check_consistency(options)?;
        work(&request)
    }

    pub fn token(&self) -> Token {
        self.token
    }

    pub fn table(&self) -> &'r Arc<TableMetadata> {
        self.table
    }

    fn add(&mut self, member: &ConditionalMember<'r>) -> Result<(), CqlError> {
        let plan = member.plan;
        let Some(conditions) = &plan.conditions else {
            return Ok(());
        };
        let context = self.options.evaluation(member.values);
        let clustering = match plan.updates_rows() {
            true => Some(plan.clustering(member.values, self.options)?),
            false => None,
        };
        match &conditions.conditions {
            Conditions::Exists => self.add_existence(clustering, RowTest::Exists),
            Conditions::NotExists => self.add_existence(clustering, RowTest::NotExists),
            Conditions::Columns { regular, statics } => {
                for (clustering, conditions) in [(clustering, regular), (None, statics)] {
                    if !conditions.is_empty() {
                        let bind = |condition| BoundCondition::bind(condition, &context);
                        self.add_columns(clustering, conditions.iter().map(bind))?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Where the test of a row is, or is to be inserted; `None` for the static row's.
    fn place(&self, clustering: Option<&[u8]>) -> Result<Option<usize>, Option<usize>> {
        let Some(clustering) = clustering else {
            return match &self.of_static_row {
                Some(_) => Ok(None),
                None => Err(None),
            };
        };
        let compare = |(other, _): &(Vec<u8>, _)| self.comparator.compare(other, clustering);
        match self.of_rows.as_slice().binary_search_by(compare) {
            Ok(place) => Ok(Some(place)),
            Err(place) => Err(Some(place)),
        }
    }

    fn test_at(&mut self, place: Option<usize>) -> Option<&mut RowTest<'r>> {
        match place {
            Some(place) => Some(&mut self.of_rows.as_mut_slice().get_mut(place)?.1),
            None => self.of_static_row.as_mut(),
        }
    }

    fn insert(&mut self, place: Option<usize>, clustering: Option<Vec<u8>>, test: RowTest<'r>) {
        match (place, clustering) {
            (Some(place), Some(clustering)) => self.of_rows.insert(place, (clustering, test)),
            _ => self.of_static_row = Some(test),
        }
    }

    fn add_existence(&mut self, clustering: Option<Vec<u8>>, test: RowTest<'r>) -> Result<(), CqlError> {
        let place = match self.place(clustering.as_deref()) {
            Ok(place) => place,
            Err(place) => {
                self.insert(place, clustering, test);
                return Ok(());
            }
        };
        match self.test_at(place) {
            Some(RowTest::Columns(_)) => {
                let not = match test {
                    RowTest::NotExists => "NOT ",
                    _ => "",
                };
                Err(invalid!(
                    "Cannot mix IF conditions and IF {not}EXISTS for the same row"
                ))
            }
            Some(before) if std::mem::discriminant(before) == std::mem::discriminant(&test) => Ok(()),
            _ => Err(invalid!(
                "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
            )),
        }
    }

    fn add_columns(
        &mut self,
        clustering: Option<Vec<u8>>,
        conditions: impl Iterator<Item = Result<BoundCondition<'r>, CqlError>>,
    ) -> Result<(), CqlError> {
        let place = match self.place(clustering.as_deref()) {
            Ok(place) => place,
            Err(place) => {
                let test = RowTest::Columns(Few::of_results(conditions)?);
                self.insert(place, clustering, test);
                return Ok(());
            }
        };
        match self.test_at(place) {
            Some(RowTest::Columns(before)) => before.try_extend(conditions),
            _ => Err(invalid!(
                "Cannot mix IF conditions and IF NOT EXISTS for the same row"
            )),
        }
    }

    /// Reads from the start, decides, and builds what is to be written. `ballot_us` is given the newest timestamp that was read
    /// and gives that of what is written.
    pub fn run<R: RowStore>(
        &self,
        store: &mut R,
        state: &mut ReadState,
        scratch: &mut Scratch,
        ballot_us: &mut dyn FnMut(i64) -> Result<i64, CqlError>,
    ) -> Result<ConditionalOutcome, CqlError> {
        let mut slices = std::mem::take(&mut scratch.slices);
        let buffers = std::mem::take(&mut scratch.rows_read);
        let read = self.read(store, state, &mut slices, buffers);
        scratch.slices = slices;
        let rows = match read? {
            Ok(rows) => rows,
            Err(absent) => return Ok(ConditionalOutcome::Absent(absent)),
        };
        let decided = self.decide(&rows, scratch, ballot_us);
        scratch.rows_read = rows.into_buffers();
        decided
    }

    fn decide(
        &self,
        rows: &RowsRead<'_>,
        scratch: &mut Scratch,
        ballot_us: &mut dyn FnMut(i64) -> Result<i64, CqlError>,
    ) -> Result<ConditionalOutcome, CqlError> {
        let mut body = scratch.take_answer();
        if !self.is_met_by(rows) {
            self.refusal(rows, &mut body);
            return Ok(ConditionalOutcome::Decided { update: None, body });
        }
        let ballot_us = ballot_us(rows.newest_us())?;
        let update = match self.is_batch {
            true => self.update_of_batch(rows, ballot_us, scratch)?,
            false => self.update_of_one(rows, ballot_us, scratch)?,
        };
        let shape = self.members[0].plan.conditions.as_ref();
        match shape {
            Some(conditions) => applied(&mut body, &conditions.applied, self.options, true),
            None => applied(&mut body, &applied_metadata(self.table), self.options, true),
        }
        Ok(ConditionalOutcome::Decided { update, body })
    }

    /// The rows, or the pages that are missing.
    fn read<R: RowStore>(
        &self,
        store: &mut R,
        state: &mut ReadState,
        slices: &mut Vec<Slice>,
        buffers: ReadBuffers,
    ) -> Result<Result<RowsRead<'_>, Box<AbsentPages>>, CqlError> {
        self.set_slices(slices);
        // Conditions on the static row alone show a row of the partition, if it has any.
        let rows_max = if self.of_rows.as_slice().is_empty() {
            1
        } else {
            usize::MAX
        };
        let mut rows = RowsRead::new(
            &self.columns,
            &self.comparator,
            rows_max,
            self.options.now_s,
            buffers,
        );
        let command = ReadCommand {
            table: self.table,
            partitions: PartitionRange::One {
                token: self.token,
                key: &self.key,
            },
            slices,
            reversed: false,
            now_s: self.options.now_s,
            index: &[],
        };
        state.begin_again();
        let mut steps = 0;
        loop {
            match store
                .read_step(&command, state, &mut rows)
                .map_err(read_failure)?
            {
                ReadProgress::Done => return Ok(Ok(rows)),
                ReadProgress::Absent(absent) => return Ok(Err(absent)),
                ReadProgress::Yield => steps += 1,
            }
            if steps >= STEPS_MAX {
                return Err(invalid!(
                    "The conditions have to pass more rows and tombstones than one decision may"
                ));
            }
        }
    }

    fn set_slices(&self, slices: &mut Vec<Slice>) {
        match self.of_rows.as_slice() {
            [] => {
                slices.clear();
                slices.push(Slice::all());
            }
            [(clustering, _)] => set_single_row(slices, clustering),
            several => {
                slices.clear();
                slices.extend(several.iter().map(|(clustering, _)| Slice::covering(clustering)));
            }
        }
    }

    fn is_met_by(&self, rows: &RowsRead<'_>) -> bool {
        let meets = |clustering: Option<&[u8]>, test: &RowTest<'_>| {
            let row = rows.view(clustering);
            match test {
                RowTest::Exists => row.is_some(),
                RowTest::NotExists => row.is_none(),
                RowTest::Columns(conditions) => conditions
                    .as_slice()
                    .iter()
                    .all(|condition| condition.is_met_by(row.as_ref())),
            }
        };
        self.of_static_row.as_ref().is_none_or(|test| meets(None, test))
            && self
                .of_rows
                .as_slice()
                .iter()
                .all(|(clustering, test)| meets(Some(clustering), test))
    }

    /// In a buffer of the shard's, which it wants back ([`Scratch::give_back`]).
    fn update_of_one(
        &self,
        rows: &RowsRead<'_>,
        ballot_us: i64,
        scratch: &mut Scratch,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        let ballot = Ballot {
            timestamp_us: ballot_us,
            deletion_us: ballot_us - 1,
        };
        let mut written = std::mem::take(&mut scratch.decided);
        for member in self.members {
            let mut before = RowsBefore(rows);
            let emit: &mut EmitUpdate<'_> = &mut |_, update| {
                check_written(update.len())?;
                written.clear();
                written.extend_from_slice(update);
                Ok(())
            };
            member
                .plan
                .build_at(ballot, member.values, self.options, scratch, &mut before, emit)?;
        }
        Ok((!written.is_empty()).then_some(written))
    }

    fn update_of_batch(
        &self,
        rows: &RowsRead<'_>,
        ballot_us: i64,
        scratch: &mut Scratch,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        // Deletions are made one older after the updates were merged.
        let ballot = Ballot {
            timestamp_us: ballot_us,
            deletion_us: ballot_us,
        };
        let mut updates = Vec::with_capacity(self.members.len());
        let mut written_bytes = 0;
        for member in self.members {
            let mut before = RowsBefore(rows);
            let emit: &mut EmitUpdate<'_> = &mut |_, update| {
                written_bytes += update.len();
                check_written(written_bytes)?;
                updates.push(update.to_vec());
                Ok(())
            };
            member
                .plan
                .build_at(ballot, member.values, self.options, scratch, &mut before, emit)?;
        }
        Ok((!updates.is_empty()).then(|| merged(self.table, &self.key, &updates, ballot_us)))
    }

    fn refusal(&self, rows: &RowsRead<'_>, out: &mut Vec<u8>) {
        let mut show =
            |shape: &NotApplied| not_applied(out, shape, (self.table, &self.key), rows, self.options);
        match (self.is_batch, &self.members[0].plan.conditions) {
            (false, Some(conditions)) => {
                if !show(&conditions.not_applied) {
                    applied(out, &conditions.applied, self.options, false);
                }
            }
            _ => {
                if !show(&self.shape_of_batch()) {
                    applied(out, &applied_metadata(self.table), self.options, false);
                }
            }
        }
    }

    /// The key first, so that the rows can be told apart.
    fn shape_of_batch(&self) -> NotApplied {
        let key = self.table.partition_key().iter().chain(self.table.clustering());
        let mut columns = Some(key.collect::<Vec<_>>());
        for member in self.members {
            let Some(conditions) = &member.plan.conditions else {
                continue;
            };
            match (conditions.conditions.columns(), &mut columns) {
                (Some(more), Some(columns)) => columns.extend(more),
                _ => columns = None,
            }
        }
        NotApplied::new(self.table, columns)
    }
}

fn key_of<'r>(
    member: &ConditionalMember<'r>,
    is_batch: bool,
    options: &'r QueryOptions<'r>,
) -> Result<Cow<'r, [u8]>, CqlError> {
    let plan = member.plan;
    if plan.keys.partition.iter().any(Restriction::is_in) {
        return Err(match is_batch {
            true => invalid!(
                "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)"
            ),
            false => invalid!(
                "IN on the partition key is not supported with conditional {}",
                kind_text(plan)
            ),
        });
    }
    let key = match plan.decoded(member.values, options)? {
        None => plan.single_key(&options.evaluation(member.values))?,
        Some(row) => {
            let extended = row.behind(member.values);
            let key = plan.single_key(&options.evaluation(&extended))?;
            Cow::Owned(key.into_owned())
        }
    };
    if plan.keys.clustering.iter().any(Restriction::is_in) {
        return Err(invalid!(
            "IN on the clustering key columns is not supported with conditional {}",
            kind_text(plan)
        ));
    }
    Ok(key)
}

fn columns_read<'r>(members: &'r [ConditionalMember<'r>]) -> Cow<'r, ReadColumns> {
    match members {
        [ConditionalMember { plan, .. }] if let Some(conditions) = &plan.conditions => {
            Cow::Borrowed(&conditions.columns)
        }
        members => Cow::Owned(columns_of(members.iter().map(|member| member.plan))),
    }
}

/// If rows are written all of their columns are read, also if only some are compared: whether there is a row cannot be told
/// by its marker alone. Likewise of the static row. Of a batch's statements as in Cassandra those with conditions say it, besides
/// those that change what they find.
fn columns_of<'p>(plans: impl Iterator<Item = &'p ModifyPlan> + Clone) -> ReadColumns {
    let plans = plans.filter(|plan| plan.is_conditional() || plan.needs_read());
    let all_statics = plans.clone().any(|plan| !plan.static_operations.is_empty());
    let compared = plans
        .clone()
        .filter_map(|plan| match &plan.conditions.as_ref()?.conditions {
            Conditions::Columns { statics, .. } => Some(statics),
            Conditions::Exists | Conditions::NotExists => None,
        });
    let statics = compared.flatten().map(|condition| condition.column.id);
    ReadColumns {
        statics: (!all_statics).then(|| statics.collect()),
        all_regular: plans.clone().any(ModifyPlan::updates_rows),
    }
}

fn kind_text(plan: &ModifyPlan) -> &'static str {
    match plan.kind {
        StatementKind::Delete => "deletions",
        _ => "updates",
    }
}

fn check_consistency(options: &QueryOptions<'_>) -> Result<(), CqlError> {
    if options.serial_consistency.is_some_and(|level| !level.is_serial()) {
        return Err(invalid!(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL"
        ));
    }
    let level = match options.consistency {
        Consistency::Serial => "SERIAL",
        Consistency::LocalSerial => "LOCAL_SERIAL",
        _ => return Ok(()),
    };
    Err(invalid!(
        "{level} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted \
         but I don't care how many replicas commit it for non-SERIAL reads\""
    ))
}

impl ModifyPlan {
    /// Once all of the statement is planned: what its conditions read.
    pub(in crate::modify) fn with_columns_read(mut self) -> Self {
        let columns = columns_of(std::iter::once(&self));
        if let Some(conditions) = &mut self.conditions {
            conditions.columns = columns;
        }
        self
    }

    /// The first partition key that it names.
    fn single_key<'e>(&'e self, context: &EvaluationContext<'e>) -> Result<Cow<'e, [u8]>, CqlError> {
        if let Some(key) = borrowed_key(&self.keys.partition, context)? {
            return Ok(key);
        }
        let mut key = Vec::new();
        if !append_single_key(&mut key, &self.keys.partition, context)? {
            key = self.partition_keys(context)?.swap_remove(0);
        }
        Ok(Cow::Owned(key))
    }

    fn clustering(&self, values: &BoundValues<'_>, options: &QueryOptions<'_>) -> Result<Vec<u8>, CqlError> {
        if self.table.clustering_count == 0 {
            return Ok(Vec::new());
        }
        let decoded = self.decoded(values, options)?;
        let extended = decoded.as_ref().map(|row| row.behind(values));
        let context = options.evaluation(extended.as_ref().unwrap_or(values));
        let mut clustering = Vec::with_capacity(CLUSTERING_BYTES);
        if append_single_clustering(&mut clustering, &self.keys.clustering, &context)? {
            return Ok(clustering);
        }
        let mut clusterings = slices::clusterings(&self.table, &self.keys.clustering, &context)?;
        Ok(clusterings.pop().unwrap_or_default())
    }
}
