//! Which requests are for the partition that is refused first, without planning them.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_engine::Plan;
use helenus_engine::error::PreparedId;
use helenus_events::Event;
use helenus_protocol::Opcode;
use helenus_protocol::extensions::RateLimitedOperation as Operation;
use helenus_protocol::frame::Envelope;
use helenus_protocol::request::{Request, Value, Values};
use helenus_schema::{TableId, TableMetadata};
use helenus_types::{Token, token_of};

use super::HotPartitions;
use crate::context::ShardContext;
use crate::shard::Shard;
use crate::shard::prepared_cache::PreparedCache;

/// Puts the partition's key together from positional values. False where they do not give it.
fn write_key(key: &mut Vec<u8>, values: Values<'_>, indexes: &[u16]) -> bool {
    key.clear();
    if values.has_names() {
        return false;
    }
    for &index in indexes {
        let Some(Value::Bytes(component)) = values.iter().nth(usize::from(index)) else {
            return false;
        };
        if indexes.len() == 1 {
            key.extend_from_slice(component);
            continue;
        }
        let Ok(length) = u16::try_from(component.len()) else {
            return false;
        };
        key.extend_from_slice(&length.to_be_bytes());
        key.extend_from_slice(component);
        key.push(0);
    }
    !key.is_empty()
}

/// How far the last of the key's values reaches into the body that holds it.
fn key_end(body: &[u8], values: Values<'_>, indexes: &[u16]) -> Option<usize> {
    let last = indexes.iter().max()?;
    let Some(Value::Bytes(component)) = values.iter().nth(usize::from(*last)) else {
        return None;
    };
    let from = (component.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    Some(from + component.len()).filter(|end| *end <= body.len())
}

impl Shard {
    /// `HotPartitions::sheds` of this shard's.
    #[inline]
    pub fn sheds_partition_of(&self, envelope: &Envelope<'_>) -> bool {
        self.hot_partitions.sheds(&self.context, &self.prepared, envelope)
    }
}

impl HotPartitions {
    /// Returns whether a message executes a prepared statement on the partition that is refused first. Looks at no more
    /// than the statement's id and the values of the key; false for other messages than EXECUTE.
    #[inline]
    fn sheds(&self, context: &ShardContext, plans: &RefCell<PreparedCache>, envelope: &Envelope<'_>) -> bool {
        let hot = self;
        let shed = hot.shed.get();
        if shed.iter().all(Option::is_none) {
            return false;
        }
        if envelope.header.opcode != Opcode::Execute {
            return false;
        }
        // Refused requests count, or the partition would not stay known as hot: now and then one is decoded.
        if hot.known.borrow().knows(envelope) && !hot.is_sampled() {
            hot.shed_requests.set(hot.shed_requests.get() + 1);
            return true;
        }
        self.sheds_decoded(context, plans, envelope, &shed)
    }

    fn sheds_decoded(
        &self,
        context: &ShardContext,
        plans: &RefCell<PreparedCache>,
        envelope: &Envelope<'_>,
        shed: &[Option<(TableId, Token)>],
    ) -> bool {
        let hot = self;
        let Ok((Request::Execute(execute), _payload)) = Request::decode(envelope) else {
            return false;
        };
        let Ok(id) = execute.statement_id.try_into() else {
            return false;
        };
        let mut plans = plans.borrow_mut();
        let Some(prepared) = plans.find(&PreparedId(id)) else {
            return false;
        };
        let (known, operation) = match &prepared.plan {
            Plan::Select(plan) => (&plan.table, Operation::Read),
            Plan::Modify(plan) => (&plan.table, Operation::Write),
            _ => return false,
        };
        let values = execute.parameters.values;
        let indexes = &prepared.partition_key_bind_indexes;
        let mut key = self.shed_key.borrow_mut();
        let is_of_table = shed.iter().flatten().any(|(table, _)| *table == known.id);
        if !is_of_table || !write_key(&mut key, values, indexes) {
            return false;
        }
        let (table, token) = (known.id, token_of(&key));
        if !shed.contains(&Some((table, token))) {
            return false;
        }
        hot.shed_requests.set(hot.shed_requests.get() + 1);
        if hot.is_sampled() {
            self.note_sample(context, known, operation, token, &key);
        }
        if hot.is_to_be_shed(table, token)
            && !hot.known.borrow().knows(envelope)
            && let Some(end) = key_end(envelope.body, values, indexes)
        {
            hot.known.borrow_mut().learn(envelope, end);
        }
        true
    }

    /// Looks at a request for a partition that this shard owns, where [`HotPartitions::is_sampled`] says so.
    ///
    /// [`HotPartitions::is_sampled`]: super::HotPartitions::is_sampled
    #[cold]
    pub(crate) fn note_sample(
        &self,
        context: &ShardContext,
        table: &Arc<TableMetadata>,
        operation: Operation,
        token: Token,
        key: &[u8],
    ) {
        let now_ns = context.last_looked_ns();
        if let Some(report) = self.sample(table, operation, token, key, now_ns) {
            context.options.events.event(&Event::HotPartition {
                shard: context.id.0,
                report: &report,
            });
        }
    }
}
