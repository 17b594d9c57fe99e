//! `PRUNE MATERIALIZED VIEW`, as ScyllaDB has it: which rows of a view are looked at, and whether their base rows have them.
//!
//! Nothing that is written through a node leaves such rows behind; files that another server wrote may.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_cql::ast::{IndexHints, Prune, Select, Selection};
use helenus_rows::clustering::{ClusteringComparator, Components, Slice, push_component};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_rows::row::{Liveness, RowRef};
use helenus_rows::update::UpdateBuilder;
use helenus_schema::TableMetadata;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::partition_key::partition_key_components;
use helenus_types::{CqlType, ShardId, Token};

use super::entry::EXPIRED_TTL_S;
use super::plan::{KeyPart, ViewKey, ViewPlan};
use crate::CqlError;
use crate::clause::slices::append_key;
use crate::execute::QueryOptions;
use crate::heap_bytes::HeapBytes;
use crate::prepare::ResultMetadata;
use crate::row_store::{RowStore, read_failure};
use crate::select::{BOUND_AT_ONCE_MAX, ReadPartitions, SelectPlan, prepare_select};
use crate::term::{BoundValues, ColumnSpec, Evaluated, Expression, Receiver, StatementScope, Typing};

/// Rows of a view that are compared with their base rows at a time, and what `USING CONCURRENCY` may lower: as many as share
/// the turns of their partitions without holding writers up for long.
const ROWS_AT_ONCE_MAX: usize = 256;

/// Bytes of such rows at most: keys may have 64 KiB each.
const ROWS_BYTES_MAX: usize = 1 << 20;

/// A statement ready to be executed.
#[derive(Debug)]
pub struct PrunePlan {
    pub result: Arc<ResultMetadata>,
    rows: SelectPlan,
    concurrency: Option<Expression>,
}

/// A statement with its values.
#[derive(Debug)]
pub struct BoundPrune {
    /// In the order of the shards that own them.
    pub parts: Vec<PrunedPart>,
    pub rows_at_once: usize,
}

/// Some partitions of a view, on the shard that owns them.
#[derive(Clone, Debug)]
pub struct PrunedPart {
    pub shard: ShardId,
    view: Arc<TableMetadata>,
    partitions: ReadPartitions,
    slices: Vec<Slice>,
    now_s: u32,
}

/// The next rows of a view; the sink of a [`PrunedPart`].
#[derive(Debug)]
pub struct NextViewRows {
    rows: Vec<ViewRow>,
    rows_max: usize,
    bytes: usize,
    key: Vec<u8>,
}

/// A live row of a view, as far as it says what base row it is of.
#[derive(Clone, Debug)]
pub struct ViewRow {
    partition_key: Vec<u8>,
    clustering: Vec<u8>,
    liveness: Liveness,
    /// Newest timestamp of all that it has, in microseconds.
    newest_us: i64,
}

/// Where a base row is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BaseKey {
    pub partition: Vec<u8>,
    pub clustering: Vec<u8>,
}

/// Types a `PRUNE` of the view of the scope.
pub(crate) fn prepare_prune(scope: StatementScope<'_>, prune: &Prune) -> Result<PrunePlan, CqlError> {
    let (schema, table) = (scope.schema, scope.table);
    if schema.view(&table.keyspace, &table.name).is_none() {
        return Err(invalid!("Cannot use PRUNE MATERIALIZED VIEW on Table"));
    }
    let receiver = Receiver::new("[concurrency]", CqlType::Int);
    let select = Select {
        json: false,
        distinct: false,
        selection: Selection::Wildcard,
        table: prune.view.clone(),
        relations: prune.relations.clone(),
        group_by: Vec::new(),
        order_by: Vec::new(),
        per_partition_limit: None,
        limit: None,
        allow_filtering: false,
        index_hints: IndexHints::default(),
        bypass_cache: true,
        timeout: None,
    };
    let count = |name: &str| ColumnSpec {
        keyspace: Arc::clone(&table.keyspace),
        table: Arc::clone(&table.name),
        name: name.into(),
        cql_type: CqlType::Bigint,
    };
    let rows = prepare_select(scope, &select)?;
    if rows.filtering().next().is_some() {
        return Err(invalid!(
            "PRUNE MATERIALIZED VIEW restricts only what the primary key of the view leads to"
        ));
    }
    let terms = Typing::terms(scope);
    let concurrency = prune.concurrency.as_ref();
    let concurrency = concurrency.map(|term| terms.term(&term.into(), &receiver));
    Ok(PrunePlan {
        result: Arc::new(ResultMetadata::new(vec![count("[checked]"), count("[removed]")])),
        rows,
        concurrency: concurrency.transpose()?,
    })
}

impl PrunePlan {
    pub fn view(&self) -> &Arc<TableMetadata> {
        &self.rows.table
    }

    /// Binds the values. `shard_count` is that of the node.
    pub fn bind(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        shard_count: u16,
    ) -> Result<BoundPrune, CqlError> {
        if self.rows.is_long_to_bind(values) {
            return Err(invalid!(
                "PRUNE MATERIALIZED VIEW names more than {BOUND_AT_ONCE_MAX} partitions and rows"
            ));
        }
        let (partitions, slices) = self.rows.bind_places(values, options, shard_count)?;
        let parts = partitions.into_iter().map(|(shard, partitions)| PrunedPart {
            shard,
            view: Arc::clone(&self.rows.table),
            partitions,
            slices: slices.clone(),
            now_s: options.now_s,
        });
        Ok(BoundPrune {
            parts: parts.filter(|part| !part.slices.is_empty()).collect(),
            rows_at_once: self.rows_at_once(values, options)?,
        })
    }

    fn rows_at_once(&self, values: &BoundValues<'_>, options: &QueryOptions<'_>) -> Result<usize, CqlError> {
        let Some(concurrency) = &self.concurrency else {
            return Ok(ROWS_AT_ONCE_MAX);
        };
        let value = match concurrency.evaluate(&options.evaluation(values))? {
            Evaluated::Unset => return Ok(ROWS_AT_ONCE_MAX),
            Evaluated::Null => return Err(invalid!("Invalid null value of concurrency")),
            Evaluated::Bytes(bytes) => <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes),
        };
        match value.map(usize::try_from) {
            Ok(Ok(concurrency @ 1..)) => Ok(concurrency.min(ROWS_AT_ONCE_MAX)),
            _ => Err(invalid!("CONCURRENCY must be strictly positive")),
        }
    }
}

impl HeapBytes for PrunePlan {
    fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes() + self.concurrency.heap_bytes()
    }
}

impl PrunedPart {
    /// One step of the read of its rows; it ends early where the sink is full.
    pub fn step<R: RowStore>(
        &self,
        store: &mut R,
        state: &mut ReadState,
        sink: &mut NextViewRows,
    ) -> Result<ReadProgress, CqlError> {
        let command = ReadCommand {
            table: &self.view,
            partitions: match &self.partitions {
                ReadPartitions::Key { token, key } => PartitionRange::One { token: *token, key },
                ReadPartitions::Range { start, end } => PartitionRange::Many {
                    start: PartitionBound {
                        token: start.token,
                        key: None,
                        side: start.side,
                    },
                    end: PartitionBound {
                        token: end.token,
                        key: None,
                        side: end.side,
                    },
                },
            },
            slices: &self.slices,
            reversed: false,
            now_s: self.now_s,
            index: &[],
        };
        state.bypass_cache();
        store.read_step(&command, state, sink).map_err(read_failure)
    }

    pub fn view(&self) -> &Arc<TableMetadata> {
        &self.view
    }
}

impl NextViewRows {
    pub fn new(rows_max: usize) -> Self {
        NextViewRows {
            rows: Vec::new(),
            rows_max,
            bytes: 0,
            key: Vec::new(),
        }
    }

    /// Returns whether they are to be taken before the read goes on.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.rows_max || self.bytes >= ROWS_BYTES_MAX
    }

    pub fn take(&mut self) -> Vec<ViewRow> {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }
}

impl RowSink for NextViewRows {
    fn partition(&mut self, _: Token, key: &[u8], _: RowRef<'_>) -> ControlFlow<()> {
        self.key.clear();
        self.key.extend_from_slice(key);
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        let (liveness, _, entries) = row.open();
        let newest_us = entries.fold(liveness.timestamp_us, |newest_us, entry| {
            newest_us.max(entry.timestamp_us())
        });
        self.bytes += self.key.len() + clustering.len();
        self.rows.push(ViewRow {
            partition_key: self.key.clone(),
            clustering: clustering.to_vec(),
            liveness,
            newest_us,
        });
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Ends the step where rows are to be taken.
    fn take_units(&mut self) -> u32 {
        if self.is_full() { u32::MAX } else { 0 }
    }
}

impl ViewPlan {
    /// The base row that a row of the view would be of.
    pub fn base_key_of(&self, row: &ViewRow, base: &TableMetadata) -> Result<BaseKey, CqlError> {
        let mut partition: Vec<&[u8]> = vec![&[]; usize::from(base.partition_key_count)];
        let mut clustering: Vec<&[u8]> = vec![&[]; usize::from(base.clustering_count)];
        let mut put = |part: &KeyPart, value| {
            let place = match *part {
                KeyPart::Partition(place) => partition.get_mut(place),
                KeyPart::Clustering(place) => clustering.get_mut(place),
                KeyPart::Cell => None,
            };
            place.into_iter().for_each(|place| *place = value);
        };
        let components = partition_key_components(&row.partition_key, self.partition.len());
        self.partition
            .iter()
            .zip(components)
            .for_each(|(part, value)| put(part, value));
        let components = Components::new(&row.clustering);
        self.clustering
            .iter()
            .zip(components)
            .for_each(|(part, value)| put(part, value));
        let mut key = BaseKey {
            partition: Vec::new(),
            clustering: Vec::new(),
        };
        append_key(&mut key.partition, partition.iter().copied())?;
        for component in clustering {
            push_component(&mut key.clustering, component);
        }
        Ok(key)
    }

    /// Returns whether the base row, which is empty where there is none, stands for this row of the view.
    pub fn has_row(
        &self,
        row: &ViewRow,
        (key, base_row): (&BaseKey, RowRef<'_>),
        base: &TableMetadata,
        now_s: u32,
    ) -> Result<bool, CqlError> {
        if !self.shape.has_entry(base_row, now_s) || !self.covers(&key.partition, &key.clustering, base) {
            return Ok(false);
        }
        let mut place = ViewKey::default();
        if !self.key_of(&key.partition, &key.clustering, base_row, base, &mut place)? {
            return Ok(false);
        }
        let comparator = ClusteringComparator::of(&self.table);
        Ok(place.partition == row.partition_key
            && comparator.compare(&place.clustering, &row.clustering).is_eq())
    }

    /// Takes a row away that no base row has, and nothing that is written later: a packed update of the view.
    pub fn removal_of(&self, row: &ViewRow, now_s: u32) -> Vec<u8> {
        let mut update = Vec::new();
        let key = &row.partition_key;
        let mut builder = UpdateBuilder::new(&mut update, self.table.id, key, DeletionTime::LIVE);
        let (liveness, deletion) = match self.shape.key_column() {
            // A later marker may bring back cells as old as these.
            Some(_) => {
                let expired = Liveness {
                    timestamp_us: row.liveness.timestamp_us,
                    ttl_s: EXPIRED_TTL_S,
                    expires_at_s: now_s,
                };
                (expired, DeletionTime::LIVE)
            }
            None => {
                let deletion = DeletionTime {
                    timestamp_us: row.newest_us,
                    local_s: now_s,
                };
                (Liveness::NONE, deletion)
            }
        };
        builder.row(&row.clustering, liveness, deletion, |_| {});
        update
    }
}
