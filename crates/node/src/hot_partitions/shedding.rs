//! Which requests are for the partition or the table that is refused first, without planning them.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_engine::error::PreparedId;
use helenus_engine::term::BoundValues;
use helenus_engine::{Plan, Prepared};
use helenus_events::Event;
use helenus_protocol::Opcode;
use helenus_protocol::extensions::RateLimitedOperation as Operation;
use helenus_protocol::frame::Envelope;
use helenus_protocol::request::{Execute, Request, Value, Values};
use helenus_schema::TableMetadata;
use helenus_types::{Token, token_of};

use super::HotPartitions;
use super::first_refused::RATE_IN_FORCE_NS;
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

/// As [`write_key`], of a read whose key is written out in its text.
fn write_literal_key(
    context: &ShardContext,
    prepared: &Prepared,
    envelope: &Envelope<'_>,
    execute: &Execute<'_>,
    key: &mut Vec<u8>,
) -> bool {
    let Plan::Select(plan) = &prepared.plan else {
        return false;
    };
    let parameters = &execute.parameters;
    let options = context.options_of(envelope.header.version, parameters, context.clock.wall_us());
    !plan.is_range_scan() && plan.write_partition_key(&BoundValues::EMPTY, &options, key)
}

/// The statement that an EXECUTE names; `None` for another message, or an id that cannot be ours.
#[inline]
fn statement_id(envelope: &Envelope<'_>) -> Option<PreparedId> {
    let body = envelope.body;
    let (length, rest) = body.split_first_chunk::<2>()?;
    let id = rest.first_chunk().copied().map(PreparedId)?;
    (envelope.header.opcode == Opcode::Execute && u16::from_be_bytes(*length) == 16).then_some(id)
}

/// The table that a statement reads or writes by its key.
fn table_of(prepared: &Prepared) -> Option<(&Arc<TableMetadata>, Operation)> {
    match &prepared.plan {
        Plan::Select(plan) => Some((&plan.table, Operation::Read)),
        Plan::Modify(plan) => Some((&plan.table, Operation::Write)),
        _ => None,
    }
}

impl Shard {
    /// `HotPartitions::sheds` of this shard's.
    #[inline]
    pub fn sheds_partition_of(&self, envelope: &Envelope<'_>) -> bool {
        self.hot_partitions.sheds(&self.context, &self.prepared, envelope)
    }

    /// `HotPartitions::is_beyond_rate` of this shard's.
    #[inline]
    pub(crate) fn is_beyond_rate_of_table(&self, envelope: &Envelope<'_>) -> bool {
        self.hot_partitions.table_rate.is_limited()
            && self
                .hot_partitions
                .is_beyond_rate(&self.context, &self.prepared, envelope)
    }
}

impl HotPartitions {
    /// Returns whether a message executes a prepared statement on a partition that is refused first. Looks at no more
    /// than the statement's id and the values of the key; false for other messages than EXECUTE.
    #[inline]
    fn sheds(&self, context: &ShardContext, plans: &RefCell<PreparedCache>, envelope: &Envelope<'_>) -> bool {
        if !self.shed.get().has_partitions() {
            return false;
        }
        let Some(id) = statement_id(envelope) else {
            return false;
        };
        // Refused requests count, or the partition would not stay known as hot: now and then one is decoded.
        if self.known.borrow().knows(envelope) && !self.is_sampled() {
            self.shed_requests.set(self.shed_requests.get() + 1);
            return true;
        }
        let mut plans = plans.borrow_mut();
        let Some(prepared) = plans.find(&id) else {
            return false;
        };
        let is_of_table = |(table, _): &(&Arc<TableMetadata>, _)| self.shed.get().has_partitions_of(table.id);
        let Some((table, operation)) = table_of(prepared).filter(is_of_table) else {
            return false;
        };
        let mut key = self.shed_key.borrow_mut();
        let Some(end) = self.write_key_of(context, prepared, envelope, &mut key) else {
            return false;
        };
        let token = token_of(&key);
        if !self.is_to_be_shed(table.id, token) {
            return false;
        }
        self.shed_requests.set(self.shed_requests.get() + 1);
        if self.is_sampled() {
            self.note_sample(context, table, operation, token, &key);
        }
        let is_known = self.known.borrow().knows(envelope);
        if self.is_to_be_shed(table.id, token) && !is_known {
            self.known.borrow_mut().learn(envelope, end);
        }
        true
    }

    /// Returns whether a message executes a prepared statement on a table that is refused first, and more of them than may be served.
    /// Refused requests count, or the table would not stay known.
    #[inline(never)]
    fn is_beyond_rate(
        &self,
        context: &ShardContext,
        plans: &RefCell<PreparedCache>,
        envelope: &Envelope<'_>,
    ) -> bool {
        let Some(id) = statement_id(envelope) else {
            return false;
        };
        let mut plans = plans.borrow_mut();
        let Some(prepared) = plans.find(&id) else {
            return false;
        };
        let Some((table, operation)) = table_of(prepared) else {
            return false;
        };
        if !self.is_beyond_rate_of(table.id, context.last_looked_ns()) {
            return false;
        }
        self.shed_requests.set(self.shed_requests.get() + 1);
        if self.is_sampled() {
            let mut key = self.shed_key.borrow_mut();
            let is_known = self.write_key_of(context, prepared, envelope, &mut key).is_some();
            let partition = is_known.then(|| (token_of(&key), &key[..]));
            self.note(context, table, operation, partition);
        }
        true
    }

    /// Writes the key of the one partition that an EXECUTE is for. Returns how much of its body says which that is.
    fn write_key_of(
        &self,
        context: &ShardContext,
        prepared: &Prepared,
        envelope: &Envelope<'_>,
        key: &mut Vec<u8>,
    ) -> Option<usize> {
        let Ok((Request::Execute(execute), _payload)) = Request::decode(envelope) else {
            return None;
        };
        let (values, indexes) = (execute.parameters.values, &prepared.partition_key_bind_indexes);
        if indexes.is_empty() {
            let id_end = size_of::<u16>() + execute.statement_id.len();
            return write_literal_key(context, prepared, envelope, &execute, key).then_some(id_end);
        }
        match write_key(key, values, indexes) {
            true => key_end(envelope.body, values, indexes),
            false => None,
        }
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
        self.note(context, table, operation, Some((token, key)));
    }

    fn note(
        &self,
        context: &ShardContext,
        table: &Arc<TableMetadata>,
        operation: Operation,
        partition: Option<(Token, &[u8])>,
    ) {
        let now_ns = context.last_looked_ns();
        let admission = &context.transport.admission;
        let report = self.sample(table, operation, partition, now_ns, admission.pressure());
        if self.table_rate.is_limited() {
            admission.refuses_at_once_until(now_ns + RATE_IN_FORCE_NS);
        }
        if let Some(report) = report {
            context.options.events.event(&Event::HotPartition {
                shard: context.id.0,
                report: &report,
            });
        }
    }
}
