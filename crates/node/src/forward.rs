//! Work for one partition on its way to the shard that owns it, and the answer on its way back.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::ast::BatchKind;
use helenus_engine::modify::ModifyPlan;
use helenus_engine::term::{BoundValues, OwnedValues};
use helenus_engine::{CqlError, Plan, Prepared, QueryOptions};
use helenus_protocol::response::MetadataForm;
use helenus_rows::update::PackedUpdate;
use helenus_transport::request_memory::{Account, Held};
use helenus_types::ShardId;

use crate::deadline::{Deadline, no_memory};
use crate::execution::Statement;
use crate::session::Session;
use crate::traced_reads::TracedReads;

/// Finds the request that an answer belongs to; given out by the shard that forwarded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    slot: u32,
    /// How often the slot was given out before, so that the answer to a request that was given up is not taken for
    /// that of its successor. Wraps after 4 billion uses of one slot.
    use_number: u32,
}

/// A read that begins on the receiver: of one partition of its own, or a scan.
pub struct ForwardedRead {
    pub from: ShardId,
    pub ticket: Ticket,
    pub execution: OwnedExecution,
    /// Memory account of the requesting client; the answer is charged to it.
    pub account: Arc<Account>,
}

/// A write to one partition, packed.
pub struct ForwardedWrite {
    pub from: ShardId,
    pub ticket: Ticket,
    pub update: PackedUpdate,
    /// Kind of the write: counting or not.
    pub kind: BatchKind,
    pub deadline: Deadline,
    /// When the request came, on the clock that all shards share.
    pub received_ns: u64,
    /// Its client asked to be told of overload.
    pub throws_on_overload: bool,
    /// The update, charged to the client that sent it.
    pub(crate) held: Option<Held>,
}

/// A statement with its values and options, free of the message it came in.
pub struct OwnedExecution {
    pub prepared: Arc<Prepared>,
    pub values: OwnedValues,
    options: QueryOptions<'static>,
    paging_state: Option<Vec<u8>>,
    is_metadata_changed: bool,
    /// When the request came, on the clock that all shards share.
    pub received_ns: u64,
    /// Its client asked to be told of overload.
    pub throws_on_overload: bool,
    /// Counts of what it reads, if it is traced.
    pub(crate) traced: Option<Arc<TracedReads>>,
    /// Memory that it keeps, charged to the client that sent it.
    _held: Option<Held>,
}

/// Copies a request's options, but for what they borrow from its message.
fn owned_options(options: &QueryOptions<'_>, metadata_form: MetadataForm<'static>) -> QueryOptions<'static> {
    QueryOptions {
        version: options.version,
        consistency: options.consistency,
        serial_consistency: options.serial_consistency,
        page_size: options.page_size,
        paging_state: None,
        timestamp_us: options.timestamp_us,
        now_s: options.now_s,
        server_timestamp_us: options.server_timestamp_us,
        deadline_ns: options.deadline_ns,
        metadata_form,
        answer_bytes_max: options.answer_bytes_max,
    }
}

/// The statements of a BATCH message, all of them modifications, free of the message they came in.
pub(crate) struct OwnedBatch {
    members: Vec<(Arc<Prepared>, OwnedValues)>,
    pub options: QueryOptions<'static>,
    /// Memory that it keeps, charged to the client that sent it.
    _held: Option<Held>,
}

impl OwnedBatch {
    pub fn new(
        members: Vec<(Arc<Prepared>, OwnedValues)>,
        options: &QueryOptions<'_>,
        account: &Arc<Account>,
    ) -> Self {
        let kept_bytes = members.iter().map(|(_, values)| values.heap_bytes()).sum();
        OwnedBatch {
            members,
            options: owned_options(options, MetadataForm::Full),
            _held: Held::waiting(account, kept_bytes),
        }
    }

    pub fn plans(&self) -> impl Iterator<Item = (&ModifyPlan, &OwnedValues)> {
        let members = self.members.iter();
        members.filter_map(|(prepared, values)| match &prepared.plan {
            Plan::Modify(plan) => Some((&**plan, values)),
            _ => None,
        })
    }
}

impl OwnedExecution {
    pub(crate) fn new(
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        account: &Arc<Account>,
    ) -> Self {
        // The new id of changed metadata is the statement's own, from which `options` borrows it again.
        let (metadata_form, is_metadata_changed) = match options.metadata_form {
            MetadataForm::Full => (MetadataForm::Full, false),
            MetadataForm::Skipped => (MetadataForm::Skipped, false),
            MetadataForm::Changed { .. } => (MetadataForm::Full, true),
        };
        let values = values.to_owned_values();
        let paging_state = options.paging_state.map(<[u8]>::to_vec);
        // A prepared one is in a cache that has its own bound.
        let plan_bytes = match statement.is_prepared {
            true => 0,
            false => statement.prepared.heap_bytes(),
        };
        let kept_bytes = values.heap_bytes() + paging_state.as_ref().map_or(0, Vec::len) + plan_bytes;
        OwnedExecution {
            prepared: statement.prepared.clone(),
            values,
            options: owned_options(options, metadata_form),
            paging_state,
            is_metadata_changed,
            received_ns: statement.request.received_ns,
            throws_on_overload: statement.request.session.client().throws_on_overload,
            traced: statement.request.session.conversation.traced_reads().cloned(),
            _held: Held::waiting(account, kept_bytes),
        }
    }

    pub fn options(&self) -> QueryOptions<'_> {
        let mut options = QueryOptions {
            paging_state: self.paging_state.as_deref(),
            ..self.options
        };
        if let (true, Some(result)) = (self.is_metadata_changed, &self.prepared.result) {
            options.metadata_form = MetadataForm::Changed { new_id: &result.id };
        }
        options
    }

    pub fn deadline_ns(&self) -> u64 {
        self.options.deadline_ns
    }

    /// Borrows everything in the form that the engine takes.
    pub fn with<T>(&self, work: impl FnOnce(&Plan, &BoundValues<'_>, &QueryOptions<'_>) -> T) -> T {
        work(&self.prepared.plan, &self.values.bound(), &self.options())
    }
}

/// The answer to a forwarded request, or of a task that executes one.
pub type ForwardedResult = Result<ForwardedAnswer, CqlError>;

/// A RESULT body, appended to the connection's output as it is, and what the client is told besides.
#[derive(Debug, Default)]
pub struct ForwardedAnswer {
    pub body: Vec<u8>,
    pub warnings: Vec<String>,
    /// The body, charged to the shard whose client asked.
    pub(crate) held: Option<Held>,
}

impl ForwardedAnswer {
    /// From now on; unless there is no room for it.
    pub(crate) fn charged_to(mut self, account: &Arc<Account>) -> ForwardedResult {
        if self.held.is_none() {
            let held = Held::nothing_of(account);
            held.try_set(self.body.capacity()).map_err(no_memory)?;
            self.held = Some(held);
        }
        Ok(self)
    }
}

impl From<Vec<u8>> for ForwardedAnswer {
    fn from(body: Vec<u8>) -> Self {
        ForwardedAnswer {
            body,
            ..ForwardedAnswer::default()
        }
    }
}

/// Whom a forwarded request's answer is for.
pub struct Waiting {
    pub session: Rc<Session>,
    pub stream: i16,
    pub deadline: Deadline,
}

/// The forwarded requests of a shard that have no answer yet. As many as requests are in flight, of which a
/// connection has at most 32,768.
pub struct PendingForwards {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// No request that waits must be answered before.
    earliest_deadline_ns: u64,
}

#[derive(Default)]
struct Slot {
    use_number: u32,
    waiting: Option<Waiting>,
}

impl Default for PendingForwards {
    fn default() -> Self {
        PendingForwards {
            slots: Vec::new(),
            free: Vec::new(),
            earliest_deadline_ns: u64::MAX,
        }
    }
}

impl PendingForwards {
    pub fn insert(&mut self, waiting: Waiting) -> Ticket {
        self.earliest_deadline_ns = self.earliest_deadline_ns.min(waiting.deadline.at_ns);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.use_number = place.use_number.wrapping_add(1);
        place.waiting = Some(waiting);
        Ticket {
            slot,
            use_number: place.use_number,
        }
    }

    pub fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let slot = self.slots.get_mut(ticket.slot as usize)?;
        if slot.use_number != ticket.use_number {
            return None;
        }
        let waiting = slot.waiting.take()?;
        self.free.push(ticket.slot);
        Some(waiting)
    }

    /// Takes out those whose time was over at `now_ns`.
    pub fn take_late(&mut self, now_ns: u64) -> Vec<Waiting> {
        if now_ns <= self.earliest_deadline_ns {
            return Vec::new();
        }
        self.earliest_deadline_ns = u64::MAX;
        let is_late = |waiting: &mut Waiting| waiting.deadline.is_over(now_ns);
        let mut late = Vec::new();
        for (index, slot) in (0..).zip(&mut self.slots) {
            if let Some(waiting) = slot.waiting.take_if(is_late) {
                self.free.push(index);
                late.push(waiting);
            } else if let Some(waiting) = &slot.waiting {
                self.earliest_deadline_ns = self.earliest_deadline_ns.min(waiting.deadline.at_ns);
            }
        }
        late
    }
}
