//! SELECTs from the tables whose rows are made when they are asked for.

use std::rc::Rc;
use std::sync::Arc;

use helenus_catalog::system::{HotPartition, NodeMetric, NodeState, is_of_all_shards, read_system_table};
use helenus_engine::RowStore;
use helenus_engine::execute::QueryOptions;
use helenus_engine::select::{SelectExecution, SelectPlan};
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan};
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_schema::{Schema, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_storage::read::{ReadCommand, ReadSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_transport::request_memory::Account;

use crate::deadline::Deadline;
use crate::execution::Statement;
use crate::forward::{ForwardedAnswer, ForwardedResult, OwnedExecution};
use crate::metrics::{self, MetricsSnapshot, Sample};
use crate::shard::Shard;

/// Its tables have a row or none, and drivers look at them every second: they are read where the statement arrives. The
/// others have as many rows as the schema has columns, or the node has metrics.
const SMALL_KEYSPACE: &str = "system";

/// The tables whose rows are made when they are asked for.
struct SystemTables {
    schema: Arc<Schema>,
    node: NodeState,
}

impl RowStore for SystemTables {
    fn read_step<S: ReadSink>(
        &mut self,
        command: &ReadCommand<'_>,
        _state: &mut ReadState,
        sink: &mut S,
    ) -> Result<ReadProgress, ReadError> {
        read_system_table(command, &self.schema, &self.node, sink)?;
        Ok(ReadProgress::Done)
    }
}

impl Shard {
    pub(crate) fn select_from_system(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &SelectPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let is_small = &*plan.table.keyspace == SMALL_KEYSPACE;
        if !is_small || is_of_all_shards(&plan.table) || plan.is_long_to_bind(values) {
            self.select_from_system_beside(statement, &plan.table, values, options);
            return Ok(());
        }
        let body = read_system_tables(self.schema(), self.node_state(), plan, values, options)?;
        statement.request.session.respond(
            statement.request.stream,
            EnvelopeFlags::NONE,
            Opcode::Result,
            |out| {
                out.extend_from_slice(&body);
                Ok(())
            },
        );
        Ok(())
    }

    /// On the planner's thread. Asks every shard first for what the table shows of it.
    fn select_from_system_beside(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        table: &Arc<TableMetadata>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) {
        let account = self.context.account_of_session(statement.request.session);
        let execution = OwnedExecution::new(statement, values, options, &account);
        let (session, stream) = (statement.request.session.clone(), statement.request.stream);
        let deadline = Deadline::of_read(options);
        let (shard, table) = (self.clone(), table.clone());
        self.context
            .answer_later(statement.request.session, stream, async move {
                let left = deadline.left(shard.context.clock.monotonic_ns());
                let reading = shard.read_system_tables_beside(execution, &table, &account);
                let answer = tokio::time::timeout(left, reading).await;
                let answer = answer.unwrap_or_else(|_| Err(deadline.timed_out()));
                shard.context.answer_read(&session, stream, answer);
            });
    }

    async fn read_system_tables_beside(
        self: &Rc<Self>,
        execution: OwnedExecution,
        table: &TableMetadata,
        account: &Arc<Account>,
    ) -> ForwardedResult {
        let node = match is_of_all_shards(table) {
            true => self.node_state_of_all_shards(table).await,
            false if (&*table.keyspace, &*table.name) == ("system_views", "settings") => NodeState {
                settings: self.settings(),
                ..self.node_state()
            },
            false => self.node_state(),
        };
        let schema = self.schema();
        let work = move || {
            execution.with(|plan, values, options| match plan {
                Plan::Select(plan) => Some(read_system_tables(schema, node, plan, values, options)),
                _ => None,
            })
        };
        let body = self.planner.run(account, work).await?;
        let body = body.flatten().ok_or_else(|| self.no_plan())??;
        ForwardedAnswer::from(body).charged_to(account)
    }

    async fn node_state_of_all_shards(self: &Rc<Self>, table: &TableMetadata) -> NodeState {
        let snapshots = self.metrics_snapshots().await;
        NodeState {
            usage: self.usage_for(table, &snapshots).await,
            hot_partitions: snapshots.iter().flat_map(hot_partitions_of).collect(),
            metrics: metrics::samples(&snapshots)
                .into_iter()
                .map(node_metric)
                .collect(),
            ..self.node_state()
        }
    }
}

/// The body of the RESULT.
fn read_system_tables(
    schema: Arc<Schema>,
    node: NodeState,
    plan: &SelectPlan,
    values: &BoundValues<'_>,
    options: &QueryOptions<'_>,
) -> Result<Vec<u8>, CqlError> {
    let mut tables = SystemTables { schema, node };
    let mut execution = SelectExecution::new(plan, values, options, 1)?;
    while let Some(read) = execution.next_read()? {
        execution.absorb(plan.read_at_once(&mut tables, options, read)?)?;
    }
    execution.finish()
}

fn node_metric(sample: Sample) -> NodeMetric {
    NodeMetric {
        name: sample.name,
        labels: sample.labels,
        value: sample.value,
    }
}

fn hot_partitions_of(snapshot: &MetricsSnapshot) -> impl Iterator<Item = HotPartition> {
    snapshot.activity.partitions.iter().map(|hot| HotPartition {
        keyspace: hot.keyspace.clone(),
        table: hot.table.clone(),
        shard: snapshot.shard,
        token: hot.token.0,
        key: hot.key.clone(),
        reads_per_second: hot.reads_per_second,
        writes_per_second: hot.writes_per_second,
        share: hot.share,
    })
}
