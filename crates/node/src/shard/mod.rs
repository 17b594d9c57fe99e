//! A shard: one thread that owns a contiguous range of tokens and everything stored under them.
//!
//! Invariants:
//! 1. Only the shard's thread touches its store; others send messages ([`mailbox`]).
//! 2. No `RefCell` borrow of the shard is held across an `await`.
//! 3. A write is acknowledged only after [`Shard::log_persisted`] covered its position, unless the log is periodic.

mod background;
pub(crate) mod deferred_read;
mod durability;
mod ending;
pub(crate) mod foreground;
mod log;
mod log_queue;
pub mod mailbox;
mod messages;
mod persistence;
pub(crate) mod prepared_cache;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use helenus_catalog::ddl::SchemaChange;
use helenus_engine::execute::Scratch;
use helenus_engine::functions;
use helenus_schema::Schema;
use helenus_storage::ShardStore;
use helenus_storage::commitlog::ResolvedWriteSets;
use helenus_transport::request_memory::RequestMemory;
use helenus_transport::{TransportContext, TransportOptions};
use helenus_types::ShardId;
use tokio::sync::broadcast;
use uuid::Uuid;

pub use background::BackgroundThreads;
pub use durability::{Acknowledgement, LogThread};
pub use ending::Ending;
pub use prepared_cache::{LearnedCost, PreparedCache, is_valid};

use crate::clients::Clients;
use crate::context::{ShardContext, Timestamps};
use crate::counting::Counters;
use crate::disk_reads::DiskReads;
use crate::forward::PendingForwards;
use crate::handle::lane::Lanes;
use crate::hot_partitions::HotPartitions;
use crate::metrics::{Gauges, MetricsSnapshot};
use crate::options::{CommitlogSync, NodeOptions};
use crate::planning::Planner;
use crate::rate_limit::{PartitionRates, RateLimiter};
use crate::reader::Reader;
use crate::roles::password_threads::PasswordThreads;
use crate::roles::passwords::Passwords;
use crate::schema_change::{SCHEMA_OWNER, SchemaListeners};
use crate::schema_owner::{SchemaOwner, SchemaOwnerParts};
use crate::sealed_partitions::SealedPartitions;
use crate::viewed_writes::Views;
use crate::write_set::WriteSets;
use mailbox::{Inbox, Mailbox};
use messages::Messages;
use persistence::Persistence;

/// Parts that a shard starts with; its store, log and background thread are its own.
pub(crate) struct ShardParts {
    pub id: ShardId,
    pub options: Arc<NodeOptions>,
    pub mailboxes: Arc<[Mailbox]>,
    pub store: ShardStore,
    pub schema: Arc<Schema>,
    pub schema_version: Uuid,
    /// Parts of the schema's owner, on shard 0 only.
    pub schema_owner: Option<SchemaOwnerParts>,
    /// Channel on which shard 0 announces changes of the schema to clients in this process; on shard 0 only.
    pub announcing: Option<broadcast::Sender<SchemaChange>>,
    pub host_id: Uuid,
    pub log: Option<LogThread>,
    pub resolved: Arc<ResolvedWriteSets>,
    /// Where clients log in with passwords.
    pub passwords: Option<Arc<PasswordThreads>>,
    pub background: BackgroundThreads,
    pub planner: Planner,
}

pub struct Shard {
    pub context: Rc<ShardContext>,
    pub store: Rc<RefCell<ShardStore>>,
    pub persistence: Rc<Persistence>,
    pub schema: RefCell<Arc<Schema>>,
    /// Version of that schema: to compute it takes time in proportion to the schema.
    pub(crate) schema_version: Cell<Uuid>,
    pub(crate) reader: Reader,
    pub(crate) prepared: Rc<RefCell<PreparedCache>>,
    pub(crate) hot_partitions: HotPartitions,
    pub clients: Clients,
    /// Lanes of clients in this process.
    pub(crate) lanes: Lanes,
    /// Where clients log in with passwords.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) rates: PartitionRates,
    pub(crate) planner: Planner,
    pub(crate) forwards: RefCell<PendingForwards>,
    pub(crate) scratch: Rc<RefCell<Scratch>>,
    pub(crate) counters: Counters,
    pub(crate) views: Views,
    pub(crate) sealed: SealedPartitions,
    pub(crate) schema_owner: Option<SchemaOwner>,
    /// The default role is known to have been made.
    pub(crate) default_role_is_settled: Cell<bool>,
    pub(crate) schema_listeners: SchemaListeners,
    pub(crate) write_sets: WriteSets,
    messages: Messages,
}

impl Shard {
    pub(crate) fn new(
        parts: ShardParts,
        inbox: Inbox,
        disk_reads: DiskReads,
        has_slept: Arc<AtomicBool>,
    ) -> Rc<Shard> {
        let (options, mailboxes) = (parts.options, parts.mailboxes);
        let memory = mailboxes[usize::from(parts.id.0)].memory().clone();
        let transport = TransportContext::new(transport_options(&options, memory), has_slept);
        let prepared = PreparedCache::of_memory(options.memory_bytes);
        let started_at = functions::Clock {
            server_timestamp_us: options.clock.wall_us(),
        };
        // Random, so that two nodes (or this one before a restart) never make the same timeuuid.
        let timeuuid_seed = options.random.next_u64();
        let rate_limiter = RateLimiter::new(options.random.next_u64());
        let hot_partitions = HotPartitions::new(timeuuid_seed);
        let timestamps = Timestamps::new(options.clock.clone(), timeuuid_seed);
        let context = ShardContext::new(parts.id, options, mailboxes, transport, timestamps, parts.host_id);
        let (context, store) = (Rc::new(context), Rc::new(RefCell::new(parts.store)));
        let persistence = Persistence::new(context.clone(), store.clone(), parts.log, parts.background);
        let (prepared, scratch) = (Rc::new(RefCell::new(prepared)), Rc::new(RefCell::default()));
        let reader = Reader::new(
            context.clone(),
            store.clone(),
            prepared.clone(),
            Rc::clone(&scratch),
            disk_reads,
        );
        let rates = PartitionRates::new(context.clone(), rate_limiter, &parts.schema);
        Rc::new(Shard {
            context,
            rates,
            write_sets: WriteSets::new(parts.id, parts.resolved),
            views: Views::of_schema(&parts.schema, started_at),
            sealed: SealedPartitions::default(),
            reader,
            prepared,
            store,
            persistence: Rc::new(persistence),
            schema: RefCell::new(parts.schema),
            schema_version: Cell::new(parts.schema_version),
            hot_partitions,
            clients: Clients::default(),
            lanes: Lanes::default(),
            passwords: parts.passwords.map(Passwords::new),
            planner: parts.planner,
            forwards: RefCell::new(PendingForwards::default()),
            scratch,
            counters: Counters::default(),
            schema_owner: parts.schema_owner.map(SchemaOwner::new),
            default_role_is_settled: Cell::new(false),
            schema_listeners: SchemaListeners::default(),
            messages: Messages::of(inbox),
        })
    }

    /// Runs until [`Shard::stop`]; the thread's main task.
    pub(crate) async fn run(self: &Rc<Self>) {
        self.context.spawn(self.persistence.clone().turns());
        if !self.context.options.in_memory {
            self.context.spawn(self.persistence.clone().pace_compactions());
        }
        if self.context.id == SCHEMA_OWNER {
            self.build_views_at_start();
        }
        self.context.spawn(self.clone().tend_vectors());
        self.context.spawn(self.clone().expire_rows());
        if self.snapshots().is_some() {
            self.context.spawn(self.clone().sweep_snapshots());
        }
        let shard = self.clone();
        self.context
            .spawn(async move { shard.reader.watch_disk_reads().await });
        self.context.spawn(self.clone().give_up_late_requests());
        self.context.spawn(self.context.transport.clone().mark_rounds());
        // Not watched as a whole for what holds the shard: each step is.
        tokio::task::spawn_local(self.clone().run_long_reads());
        if matches!(
            self.context.options.commitlog_sync,
            CommitlogSync::Periodic { .. }
        ) && !self.context.options.in_memory
        {
            self.context
                .spawn(self.persistence.clone().write_log_periodically());
        }
        self.serve_messages().await;
    }

    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        let store = self.store.borrow();
        self.context.metrics.snapshot(
            self.context.id.0,
            &self.context.transport,
            &self.gauges(),
            &store,
            self.hot_partitions.activity(self.context.last_looked_ns()),
            self.hot_partitions.shed_requests(),
        )
    }

    fn gauges(&self) -> Gauges {
        let (waiting, begun) = self.reader.long_reads.counts();
        Gauges {
            prepared_statements: self.prepared.borrow().len() as u64,
            prepared_statements_evicted: self.prepared.borrow().evicted(),
            long_reads_waiting: waiting as u64,
            long_reads_begun: begun as u64,
            disk_reads_waiting: self.reader.disk_reads.borrow().queued() as u64,
        }
    }

    /// Forgets all rows and pages that could be read again: for measurements that begin cold.
    pub fn clear_caches(&self) {
        self.store.borrow_mut().clear_caches();
    }
}

fn transport_options(options: &NodeOptions, memory: Arc<RequestMemory>) -> TransportOptions {
    TransportOptions {
        admission: options.admission,
        request_timeout: options.read_request_timeout.min(options.write_request_timeout),
        buffer_pool: options.buffer_pool,
        memory,
        clock: options.clock.clone(),
        events: options.events.clone(),
    }
}
