//! Statements run on shards without threads or sockets: what a node does, one step after the other.

use std::sync::Arc;

use helenus_catalog::ddl;
use helenus_engine::functions::Clock;
use helenus_engine::modify::{ConditionalMember, ConditionalOutcome, ConditionalRequest, ListReading};
use helenus_engine::select::{Direct, SelectExecution};
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan, Prepared, QueryOptions, Scratch, prepare};
use helenus_protocol::response::MetadataForm;
use helenus_protocol::{Consistency, ProtocolVersion};
use helenus_rows::update::Update;
use helenus_schema::{Schema, TableId};
use helenus_storage::ShardStore;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_storage::store::{CounterReading, Counting, StoreOptions};
use helenus_types::{ShardId, Token, shard_of};
use uuid::Uuid;

/// 2024-01-01, so that what statements of time return can be written down.
pub const NOW_S: u32 = 1_704_067_200;

pub struct Shards {
    pub schema: Arc<Schema>,
    pub stores: Vec<ShardStore>,
    pub scratch: Scratch,
    tables: u128,
    timestamp_us: i64,
}

pub fn options(page_size: Option<i32>) -> QueryOptions<'static> {
    QueryOptions {
        version: ProtocolVersion::V5,
        consistency: Consistency::One,
        serial_consistency: None,
        page_size,
        paging_state: None,
        timestamp_us: None,
        now_s: NOW_S,
        server_timestamp_us: i64::from(NOW_S) * 1_000_000,
        deadline_ns: u64::MAX,
        answer_bytes_max: usize::MAX,
        metadata_form: MetadataForm::Full,
    }
}

impl Shards {
    /// With a keyspace `ks` to work in.
    pub fn new(count: u16) -> Self {
        let schema = Arc::new(Schema::default());
        let store = |_| ShardStore::in_memory(StoreOptions::default(), &schema);
        let mut shards = Shards {
            stores: (0..count).map(store).collect(),
            schema: Arc::clone(&schema),
            scratch: Scratch::default(),
            tables: 0,
            timestamp_us: 0,
        };
        let keyspace =
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        shards.execute(keyspace, &options(None)).unwrap();
        shards
    }

    pub fn prepare(&self, statement: &str) -> Result<Prepared, CqlError> {
        self.prepare_at(Clock::default(), statement)
    }

    pub fn prepare_at(&self, now: Clock, statement: &str) -> Result<Prepared, CqlError> {
        prepare(&self.schema, Some("ks"), now, statement)
    }

    /// Runs a statement without values; the body of a RESULT of rows, or nothing.
    pub fn execute(&mut self, statement: &str, options: &QueryOptions<'_>) -> Result<Vec<u8>, CqlError> {
        let prepared = self.prepare(statement)?;
        // Each write is later than the one before, as on a node whose clock moves on.
        self.timestamp_us += 1;
        let server_timestamp_us = options.server_timestamp_us + self.timestamp_us;
        let options = QueryOptions {
            server_timestamp_us,
            ..*options
        };
        self.run(&prepared, &BoundValues::EMPTY, &options)
    }

    fn decide(
        &mut self,
        members: &[ConditionalMember<'_>],
        is_batch: bool,
        options: &QueryOptions<'_>,
    ) -> Result<Vec<u8>, CqlError> {
        ConditionalRequest::with_bound(members, is_batch, options, |request| {
            let owner = shard_of(request.token(), self.stores.len() as u16);
            let store = &mut self.stores[usize::from(owner.0)];
            let (state, scratch) = (&mut ReadState::suspending(), &mut self.scratch);
            let ballot_us = &mut |newest_us: i64| Ok(options.server_timestamp_us.max(newest_us + 1));
            match request.run(store, state, scratch, ballot_us)? {
                ConditionalOutcome::Decided { update, body } => {
                    if let Some(update) = update {
                        store.apply(&Update::decode(&update).unwrap()).unwrap();
                        scratch.give_back(update);
                    }
                    let answered = body.clone();
                    scratch.give_back_answer(body);
                    Ok(answered)
                }
                ConditionalOutcome::Absent(_) => panic!("a store in memory has all of its pages"),
            }
        })
    }

    pub fn run(
        &mut self,
        prepared: &Prepared,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Vec<u8>, CqlError> {
        let count = self.stores.len() as u16;
        let mut out = Vec::new();
        let mut updates: Vec<(Token, Vec<u8>)> = Vec::new();
        let mut collect = |token: Token, update: &[u8]| {
            updates.push((token, update.to_vec()));
            Ok(())
        };
        match &prepared.plan {
            Plan::Select(plan) => {
                if let Some(read) = plan.direct(values, options, &mut self.scratch)? {
                    let store = &mut self.stores[usize::from(shard_of(read.token(), count).0)];
                    let done = read.execute(store, &mut ReadState::suspending(), &mut out)?;
                    if matches!(done, Direct::Done) {
                        return Ok(out);
                    }
                }
                let mut execution = SelectExecution::new(plan, values, options, count)?;
                while let Some(read) = execution.next_read()? {
                    let store = &mut self.stores[usize::from(read.shard.0)];
                    execution.absorb(plan.read_at_once(store, options, read)?)?;
                }
                out = execution.finish()?;
            }
            Plan::Modify(plan) if plan.is_conditional() => {
                let member = ConditionalMember { plan, values };
                return self.decide(&[member], false, options);
            }
            Plan::Batch(plan) if plan.is_conditional() => {
                let members: Vec<ConditionalMember<'_>> = plan
                    .statements
                    .iter()
                    .map(|plan| ConditionalMember { plan, values })
                    .collect();
                return self.decide(&members, true, options);
            }
            Plan::Modify(plan) if plan.needs_read() => {
                for shard in 0..count {
                    let owns = |token| shard_of(token, count) == ShardId(shard);
                    let store = &mut self.stores[usize::from(shard)];
                    let reading = &mut ListReading::default();
                    updates.extend(plan.updates_reading(
                        store,
                        reading,
                        &owns,
                        values,
                        options,
                        &mut self.scratch,
                    )?);
                }
            }
            Plan::Batch(plan) if plan.needs_read() => {
                for shard in 0..count {
                    let owns = |token| shard_of(token, count) == ShardId(shard);
                    let store = &mut self.stores[usize::from(shard)];
                    let reading = &mut ListReading::default();
                    let scratch = &mut self.scratch;
                    let built = plan.updates_reading(store, reading, &owns, values, options, scratch);
                    updates.extend(built.map_err(|failed| failed.error)?);
                }
            }
            Plan::Modify(plan) => plan.updates(values, options, &mut self.scratch, &mut collect)?,
            Plan::Batch(plan) => plan.updates(values, options, &mut self.scratch, &mut collect)?,
            Plan::Schema(statement) => {
                self.tables += 1;
                let context = ddl::DdlContext {
                    session_keyspace: Some("ks"),
                    now_us: options.server_timestamp_us,
                    new_table_id: TableId(Uuid::from_u128(self.tables)),
                    data_center: "datacenter1",
                    materialized_views: true,
                    default_index: helenus_schema::IndexKind::Legacy,
                };
                if let Some(transition) = ddl::apply(&self.schema, statement, &context)?.transition {
                    self.schema = transition.schema;
                    for store in &mut self.stores {
                        store.set_schema(&self.schema);
                    }
                }
            }
            Plan::Use(_)
            | Plan::Truncate(_)
            | Plan::Prune(_)
            | Plan::Transaction(_)
            | Plan::Role(_)
            | Plan::Describe(_) => {}
        }
        for (token, update) in updates {
            let store = &mut self.stores[usize::from(shard_of(token, count).0)];
            let mut update = update;
            let table = Update::decode(&update).unwrap().table;
            if self
                .schema
                .table_by_id(table)
                .is_some_and(|table| table.is_counter())
            {
                update = counted(store, token, &update, options);
            }
            store.apply(&Update::decode(&update).unwrap()).unwrap();
        }
        Ok(out)
    }
}

/// Counts an update of counters and returns the update to be written.
fn counted(store: &mut ShardStore, token: Token, update: &[u8], options: &QueryOptions<'_>) -> Vec<u8> {
    let counting = Counting {
        node_id: [1; 16],
        now_us: options.server_timestamp_us,
        now_s: options.now_s,
    };
    let update = Update::decode(update).unwrap();
    let (mut reading, mut out) = (CounterReading::default(), Vec::new());
    loop {
        match store.count_step(token, &update, &counting, &mut reading, &mut out) {
            Ok(ReadProgress::Done) => return out,
            Ok(ReadProgress::Yield) => {}
            other => panic!("{other:?}"),
        }
    }
}
