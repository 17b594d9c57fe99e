//! List operations by index or value, which read the lists before they change them.
//!
//! Where all partitions are one shard's, it reads and writes in one turn ([`crate::decide`]). Else each owner reads its own,
//! then all is written: what others write in between may move the elements.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::ast::BatchKind;
use helenus_engine::modify::{FailedStatement, ListReading};
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan, QueryOptions};
use helenus_rows::update::{PackedUpdate, merge_by_partition};
use helenus_schema::TableId;
use helenus_storage::read_state::ReadState;
use helenus_types::{ShardId, Token};

use crate::built_updates::{by_owner, packed};
use crate::deadline::{Deadline, not_begun_in_time};
use crate::decide::{Decide, Run, Updates};
use crate::execution::Statement;
use crate::forward::OwnedExecution;
use crate::shard::Shard;

/// A decision on the writes of a statement or batch to lists of one shard.
struct ListDecision<'o> {
    owned: &'o OwnedExecution,
    tokens: Vec<Token>,
    reading: ListReading,
}

impl Decide for ListDecision<'_> {
    type Answer = ();

    fn partitions(&self) -> &[Token] {
        &self.tokens
    }

    fn run(&mut self, shard: &Rc<Shard>) -> Result<Run<()>, CqlError> {
        self.reading.begin_again();
        let built = shard.run_updates_reading(self.owned, &mut self.reading);
        if let Some((absent, _)) = self.reading.take_absent() {
            return Ok(Run::Absent(absent));
        }
        let updates = built.map_err(|failed| failed.error)?;
        Ok(Run::Decided {
            updates: Updates::OfSeveral(merge_by_partition(updates)),
            answer: (),
        })
    }

    fn read_state(&self) -> &ReadState {
        self.reading.state()
    }
}

impl Shard {
    /// List operations by index or value: each owner of a partition reads its own, then all is written.
    pub(crate) fn modify_reading(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let partitions = match &statement.prepared.plan {
            Plan::Modify(plan) => plan.partitions(values, options)?,
            Plan::Batch(plan) => plan.partitions(values, options)?,
            _ => Vec::new(),
        };
        let account = self.context.account_of_session(statement.request.session);
        let owned = Arc::new(OwnedExecution::new(statement, values, options, &account));
        let (answered, stream) = (statement.request.session.clone(), statement.request.stream);
        let (kind, deadline) = match &statement.prepared.plan {
            Plan::Batch(plan) => (plan.kind, Deadline::of_batch(options, plan.kind)),
            _ => (BatchKind::Unlogged, Deadline::of_write(options)),
        };
        let shard = self.clone();
        let owner = self.owner_of_all(&partitions);
        self.context
            .answer_later(statement.request.session, stream, async move {
                let written = async {
                    if let Some(owner) = owner {
                        return shard.decide_on_lists(owner, owned, partitions, deadline).await;
                    }
                    // Nothing is written before every owner has read: what fails on one must not be done by half.
                    let built = shard.on_all_shards_while_awaited(move |shard| async move {
                        shard.updates_reading(&owned).await
                    });
                    let mut updates = Vec::new();
                    let mut failed: Option<FailedStatement> = None;
                    for (owner, built) in shard.context.shards().zip(built.await) {
                        match built.unwrap_or_else(|| Err(shard.context.no_answer_from(owner).into())) {
                            Ok(built) => updates.extend(built),
                            // As if the statements were gone through one after the other.
                            Err(other) if failed.as_ref().is_none_or(|failed| other.place < failed.place) => {
                                failed = Some(other);
                            }
                            Err(_) => {}
                        }
                    }
                    match failed {
                        Some(failed) => Err(failed.error),
                        None if deadline.is_over(shard.context.clock.monotonic_ns()) => {
                            Err(not_begun_in_time())
                        }
                        None => {
                            let updates = by_owner(updates, shard.context.options.shard_count);
                            shard.write_updates(updates, kind, deadline).await
                        }
                    }
                };
                let result = shard.context.in_time(deadline, written).await;
                shard.context.answer_write_later(&answered, stream, result);
            });
        Ok(())
    }

    /// The shard that owns all of these partitions, if it is one.
    pub(crate) fn owner_of_all(&self, partitions: &[(TableId, Token)]) -> Option<ShardId> {
        let mut owners = partitions.iter().map(|(_, token)| self.context.owner_of(*token));
        let first = owners.next()?;
        owners.all(|owner| owner == first).then_some(first)
    }

    async fn decide_on_lists(
        self: &Rc<Self>,
        owner: ShardId,
        owned: Arc<OwnedExecution>,
        partitions: Vec<(TableId, Token)>,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let decided = self.ask(owner, move |shard| async move {
            for (table, token) in &partitions {
                shard.rates.check_write(&shard.schema, *table, *token)?;
            }
            let mut decision = ListDecision {
                owned: &owned,
                tokens: partitions.into_iter().map(|(_, token)| token).collect(),
                reading: ListReading::default(),
            };
            shard.decide(&mut decision, deadline).await
        });
        decided.await
    }

    /// Builds the statement's updates of this shard's partitions, once all lists that they depend on were read.
    async fn updates_reading(
        self: &Rc<Self>,
        owned: &OwnedExecution,
    ) -> Result<Vec<PackedUpdate>, FailedStatement> {
        self.write_sets_resolved().await?;
        let mut reading = ListReading::default();
        loop {
            reading.begin_run();
            let result = self.run_updates_reading(owned, &mut reading);
            let Some((absent, state)) = reading.take_absent() else {
                return result;
            };
            self.reader.bring(state, &absent).await?;
        }
    }

    fn run_updates_reading(
        &self,
        owned: &OwnedExecution,
        reading: &mut ListReading,
    ) -> Result<Vec<PackedUpdate>, FailedStatement> {
        let built = owned.with(|plan, values, options| {
            let scratch = &mut *self.scratch.borrow_mut();
            let store = &mut *self.store.borrow_mut();
            let owns = |token| self.context.owner_of(token) == self.context.id;
            match plan {
                Plan::Modify(plan) => {
                    let built = plan.updates_reading(store, reading, &owns, values, options, scratch);
                    built.map_err(FailedStatement::from)
                }
                Plan::Batch(plan) => plan.updates_reading(store, reading, &owns, values, options, scratch),
                _ => Ok(Vec::new()),
            }
        })?;
        let updates = built.into_iter().map(|(token, update)| packed(token, update));
        Ok(updates.collect::<Result<_, CqlError>>()?)
    }
}
