//! One execution of a conditional statement or batch: bound, read, decided, and built.

use std::sync::Arc;

use helenus_protocol::Consistency;
use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::partition_range::PartitionRange;
use helenus_schema::TableMetadata;
use helenus_sstable::AbsentPages;
use helenus_storage::read::ReadCommand;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use super::answer::{applied, applied_metadata, not_applied, not_applied_metadata};
use super::ballot::merged;
use super::bound::BoundCondition;
use super::plan::Conditions;
use super::rows::{ReadColumns, RowsBefore, RowsRead};
use crate::CqlError;
use crate::execute::{QueryOptions, RowStore, Scratch, read_failure};
use crate::modify::attributes::Ballot;
use crate::modify::plan::ModifyPlan;
use crate::modify::updates::{append_single_clustering, append_single_key, check_written};
use crate::prepare::ResultMetadata;
use crate::select::restriction::Restriction;
use crate::select::slices;
use crate::select::{JSON_BYTES_PER_VALUE, StatementKind, set_single_row};
use crate::term::BoundValues;

/// Statements of a conditional batch: some two microseconds each, and all of it is done in one turn of a shard.
const STATEMENTS_MAX: usize = 500;

/// JSON of a conditional request: it is decoded in that turn, three times, some ten nanoseconds a byte.
const JSON_BYTES_MAX: u64 = 32 << 10;

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
    comparator: Arc<ClusteringComparator>,
    key: Vec<u8>,
    token: Token,
    columns: ReadColumns,
    of_static_row: Option<RowTest<'r>>,
    /// In the order of clusterings.
    of_rows: Vec<(Vec<u8>, RowTest<'r>)>,
}

#[derive(Debug)]
enum RowTest<'r> {
    Exists,
    NotExists,
    Columns(Vec<BoundCondition<'r>>),
}

/// What came of a run.
#[derive(Debug)]
pub enum ConditionalOutcome {
    /// The read lacks these pages: another run once they are there.
    Absent(Box<AbsentPages>),
    Decided {
        /// What to write; none if a condition is not met, or there is nothing to write.
        update: Option<Vec<u8>>,
        /// The body of the RESULT.
        body: Vec<u8>,
    },
}

impl<'r> ConditionalRequest<'r> {
    pub fn bind(
        members: &'r [ConditionalMember<'r>],
        is_batch: bool,
        options: &'r QueryOptions<'r>,
    ) -> Result<Self, CqlError> {
        let Some(first) = members.first() else {
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
            Some(conditions) => conditions.comparator.clone(),
            None => Arc::new(ClusteringComparator::of(table)),
        };
        let mut request = ConditionalRequest {
            members,
            is_batch,
            options,
            table,
            comparator,
            key: Vec::new(),
            token: token_of(&[]),
            columns: columns_read(members),
            of_static_row: None,
            of_rows: Vec::new(),
        };
        for (place, member) in members.iter().enumerate() {
            let key = request.key_of(member)?;
            if place == 0 {
                request.token = token_of(&key);
                request.key = key;
            } else if request.key != key {
                return Err(invalid!("Batch with conditions cannot span multiple partitions"));
            }
            request.add(member)?;
        }
        check_consistency(options)?;
        Ok(request)
    }

    pub fn token(&self) -> Token {
        self.token
    }

    pub fn table(&self) -> &'r Arc<TableMetadata> {
        self.table
    }

    fn key_of(&self, member: &ConditionalMember<'_>) -> Result<Vec<u8>, CqlError> {
        let plan = member.plan;
        if plan.keys.partition.iter().any(Restriction::is_in) {
            return Err(match self.is_batch {
                true => invalid!(
                    "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)"
                ),
                false => invalid!(
                    "IN on the partition key is not supported with conditional {}",
                    kind_text(plan)
                ),
            });
        }
        let decoded = plan.decoded(member.values, self.options)?;
        let extended = decoded.as_ref().map(|row| row.behind(member.values));
        let context = self
            .options
            .evaluation(extended.as_ref().unwrap_or(member.values));
        let mut key = Vec::new();
        if !append_single_key(&mut key, &plan.keys.partition, &context)? {
            key = plan.partition_keys(&context)?.swap_remove(0);
        }
        if plan.keys.clustering.iter().any(Restriction::is_in) {
            return Err(invalid!(
                "IN on the clustering key columns is not supported with conditional {}",
                kind_text(plan)
            ));
        }
        Ok(key)
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
                let bind = |conditions: &'r [_]| {
                    let bound = conditions
                        .iter()
                        .map(|condition| BoundCondition::bind(condition, &context));
                    bound.collect::<Result<Vec<_>, CqlError>>()
                };
                if !regular.is_empty() {
                    self.add_columns(clustering, bind(regular)?)?;
                }
                if !statics.is_empty() {
                    self.add_columns(None, bind(statics)?)?;
                }
                Ok(())
            }
        }
    }

    /// The test of a row, or of the static row; or where it is to be inserted.
    fn place(&mut self, clustering: Option<&[u8]>) -> Result<&mut RowTest<'r>, Option<usize>> {
        let Some(clustering) = clustering else {
            return self.of_static_row.as_mut().ok_or(None);
        };
        let comparator = &self.comparator;
        let place = self
            .of_rows
            .binary_search_by(|(other, _)| comparator.compare(other, clustering));
        match place {
            Ok(place) => Ok(&mut self.of_rows[place].1),
            Err(place) => Err(Some(place)),
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
            Err(place) => place,
            Ok(RowTest::Columns(_)) => {
                let not = if matches!(test, RowTest::NotExists) {
                    "NOT "
                } else {
                    ""
                };
                return Err(invalid!(
                    "Cannot mix IF conditions and IF {not}EXISTS for the same row"
                ));
            }
            Ok(before) if std::mem::discriminant(before) == std::mem::discriminant(&test) => return Ok(()),
            Ok(_) => {
                return Err(invalid!(
                    "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
                ));
            }
        };
        self.insert(place, clustering, test);
        Ok(())
    }

    fn add_columns(
        &mut self,
        clustering: Option<Vec<u8>>,
        conditions: Vec<BoundCondition<'r>>,
    ) -> Result<(), CqlError> {
        let place = match self.place(clustering.as_deref()) {
            Err(place) => place,
            Ok(RowTest::Columns(before)) => {
                before.extend(conditions);
                return Ok(());
            }
            Ok(_) => {
                return Err(invalid!(
                    "Cannot mix IF conditions and IF NOT EXISTS for the same row"
                ));
            }
        };
        self.insert(place, clustering, RowTest::Columns(conditions));
        Ok(())
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
        let read = self.read(store, state, &mut slices);
        scratch.slices = slices;
        let rows = match read? {
            Ok(rows) => rows,
            Err(absent) => return Ok(ConditionalOutcome::Absent(absent)),
        };
        if !self.is_met_by(&rows) {
            return Ok(ConditionalOutcome::Decided {
                update: None,
                body: self.refusal(&rows),
            });
        }
        let ballot_us = ballot_us(rows.newest_us())?;
        let update = self.update(&rows, ballot_us, scratch)?;
        let shape = self.members[0].plan.conditions.as_ref();
        let body = match shape {
            Some(conditions) => applied(&conditions.applied, self.options, true),
            None => applied(&applied_metadata(self.table), self.options, true),
        };
        Ok(ConditionalOutcome::Decided { update, body })
    }

    /// The rows, or the pages that are missing.
    fn read<R: RowStore>(
        &self,
        store: &mut R,
        state: &mut ReadState,
        slices: &mut Vec<Slice>,
    ) -> Result<Result<RowsRead<'_>, Box<AbsentPages>>, CqlError> {
        self.set_slices(slices);
        // Conditions on the static row alone show a row of the partition, if it has any.
        let rows_max = if self.of_rows.is_empty() { 1 } else { usize::MAX };
        let mut rows = RowsRead::new(&self.columns, &self.comparator, rows_max, self.options.now_s);
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
                    .iter()
                    .all(|condition| condition.is_met_by(row.as_ref())),
            }
        };
        self.of_static_row.as_ref().is_none_or(|test| meets(None, test))
            && self
                .of_rows
                .iter()
                .all(|(clustering, test)| meets(Some(clustering), test))
    }

    fn update(
        &self,
        rows: &RowsRead<'_>,
        ballot_us: i64,
        scratch: &mut Scratch,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        // Deletions of a batch are made one older after its updates were merged.
        let ballot = Ballot {
            timestamp_us: ballot_us,
            deletion_us: ballot_us - i64::from(!self.is_batch),
        };
        let mut updates = Vec::with_capacity(self.members.len());
        let mut written_bytes = 0;
        for member in self.members {
            let mut before = RowsBefore(rows);
            member.plan.build_at(
                ballot,
                member.values,
                self.options,
                scratch,
                &mut before,
                &mut |_, update| {
                    written_bytes += update.len();
                    check_written(written_bytes)?;
                    updates.push(update.to_vec());
                    Ok(())
                },
            )?;
        }
        Ok(match (self.is_batch, updates.len()) {
            (_, 0) => None,
            (false, _) => updates.pop(),
            (true, _) => Some(merged(self.table, &self.key, &updates, ballot_us)),
        })
    }

    fn refusal(&self, rows: &RowsRead<'_>) -> Vec<u8> {
        let (metadata, empty): (Arc<ResultMetadata>, _) =
            match (self.is_batch, &self.members[0].plan.conditions) {
                (false, Some(conditions)) => (conditions.not_applied.clone(), conditions.applied.clone()),
                _ => (
                    Arc::new(self.batch_metadata()),
                    Arc::new(applied_metadata(self.table)),
                ),
            };
        let shown = not_applied(&metadata, self.table, &self.key, rows, self.options);
        shown.unwrap_or_else(|| applied(&empty, self.options, false))
    }

    /// The key first, so that the rows can be told apart.
    fn batch_metadata(&self) -> ResultMetadata {
        let key = self.table.partition_key().iter().chain(self.table.clustering());
        let key: Vec<_> = key.map(|column| Arc::new(column.clone())).collect();
        let mut columns = Some(key.iter().collect::<Vec<_>>());
        for member in self.members {
            let Some(conditions) = &member.plan.conditions else {
                continue;
            };
            match (conditions.conditions.columns(), &mut columns) {
                (Some(more), Some(columns)) => columns.extend(more),
                _ => columns = None,
            }
        }
        not_applied_metadata(self.table, columns)
    }
}

/// If rows are written all of their columns are read, also if only some are compared: whether there is a row cannot be told
/// by its marker alone. Likewise of the static row.
fn columns_read(members: &[ConditionalMember<'_>]) -> ReadColumns {
    let plans = || members.iter().map(|member| member.plan);
    let all_statics = plans().any(|plan| !plan.static_operations.is_empty());
    let compared = plans().filter_map(|plan| match &plan.conditions.as_ref()?.conditions {
        Conditions::Columns { statics, .. } => Some(statics),
        Conditions::Exists | Conditions::NotExists => None,
    });
    ReadColumns {
        all_regular: plans().any(ModifyPlan::updates_rows),
        statics: (!all_statics).then(|| compared.flatten().map(|condition| condition.column.id).collect()),
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
    fn clustering(&self, values: &BoundValues<'_>, options: &QueryOptions<'_>) -> Result<Vec<u8>, CqlError> {
        let decoded = self.decoded(values, options)?;
        let extended = decoded.as_ref().map(|row| row.behind(values));
        let context = options.evaluation(extended.as_ref().unwrap_or(values));
        let mut clustering = Vec::new();
        if append_single_clustering(&mut clustering, &self.keys.clustering, &context)? {
            return Ok(clustering);
        }
        let mut clusterings = slices::clusterings(&self.table, &self.keys.clustering, &context)?;
        Ok(clusterings.pop().unwrap_or_default())
    }
}
