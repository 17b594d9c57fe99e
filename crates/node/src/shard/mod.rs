//! A shard: one thread that owns a contiguous range of tokens and everything stored under them.
//!
//! Invariants:
//! 1. Only the shard's thread touches its store; others send messages ([`mailbox`]).
//! 2. No `RefCell` borrow of the shard is held across an `await`.
//! 3. A write is acknowledged only after [`Shard::log_persisted`] covered its position, unless the log is periodic.

mod background;
pub(crate) mod deferred_read;
mod durability;
mod foreground;
pub mod mailbox;
mod prepared_cache;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_engine::ddl::SchemaChange;
use helenus_engine::execute::Scratch;
use helenus_events::Event;
use helenus_schema::{Schema, TableId};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::{LogBatch, LogError, LogPosition, ResolvedWriteSets};
use helenus_storage::store::JobResult;
use helenus_transport::request_memory::{Held, RequestMemory};
use helenus_transport::{TransportContext, TransportOptions};
use helenus_types::value::timeuuid::TimeuuidGenerator;
use helenus_types::{ShardId, Token, shard_of};
use helenus_vfs::Clock;
use tokio::sync::{Mutex, Notify, broadcast, oneshot};
use uuid::Uuid;

pub use background::BackgroundThreads;
pub use durability::{Acknowledgement, LogThread, Unacknowledged};
pub use foreground::Foreground;
pub use prepared_cache::{LearnedCost, PreparedCache, is_valid};

use crate::clients::Clients;
use crate::counting::Counters;
use crate::deadline::{Deadline, Timeouts};
use crate::disk_reads::DiskReads;
use crate::forward::PendingForwards;
use crate::handle::lane::Lanes;
use crate::hot_partitions::HotPartitions;
use crate::long_reads::LongReads;
use crate::metrics::{Gauges, MetricsSnapshot, ShardMetrics};
use crate::options::{CommitlogSync, NodeOptions};
use crate::panic_boundary::{catch, catch_async};
use crate::planning::Planner;
use crate::rate_limit::{RateLimiter, has_rate_limits};
use crate::roles::default_role::DefaultRole;
use crate::roles::password_threads::PasswordThreads;
use crate::roles::passwords::Passwords;
use crate::schema_change::{SCHEMA_OWNER, SchemaKeeper, SchemaListeners, SchemaWorker};
use crate::sealed_partitions::SealedPartitions;
use crate::session::Session;
use crate::snapshot_worker::SnapshotWorker;
use crate::stall::StallDetector;
use crate::truncation::Truncations;
use crate::viewed_writes::Views;
use crate::write_set::WriteSets;
use foreground::PROBE_INTERVAL;
use mailbox::{Inbox, Mailbox, Message};

/// What a shard starts with; its store, log and background thread are its own.
pub(crate) struct ShardParts {
    pub id: ShardId,
    pub options: Arc<NodeOptions>,
    pub mailboxes: Arc<[Mailbox]>,
    pub store: ShardStore,
    pub schema: Arc<Schema>,
    pub schema_version: Uuid,
    /// Of shard 0 only.
    pub schema_worker: Option<SchemaWorker>,
    /// Of shard 0 only: where it announces changes of the schema to clients in this process.
    pub announcing: Option<broadcast::Sender<SchemaChange>>,
    /// Of shard 0 only, and of none in memory.
    pub schema_keeper: Option<SchemaKeeper>,
    /// Of shard 0 only, and of none in memory.
    pub snapshot_worker: Option<SnapshotWorker>,
    /// Of shard 0 only.
    pub default_role: Option<DefaultRole>,
    pub host_id: Uuid,
    pub log: Option<LogThread>,
    pub resolved: Arc<ResolvedWriteSets>,
    /// Where clients log in with passwords.
    pub passwords: Option<Arc<PasswordThreads>>,
    pub background: BackgroundThreads,
    pub planner: Planner,
}

pub struct Shard {
    pub id: ShardId,
    pub options: Arc<NodeOptions>,
    pub(crate) timeouts: Timeouts,
    pub clock: Arc<dyn Clock>,
    /// Every shard's mailbox, by id; this shard's own included.
    pub mailboxes: Arc<[Mailbox]>,
    pub store: RefCell<ShardStore>,
    pub schema: RefCell<Arc<Schema>>,
    /// Of that: to compute it takes time in proportion to the schema.
    pub(crate) schema_version: Cell<Uuid>,
    /// Of the owner of the schema.
    pub(crate) schema_worker: Option<SchemaWorker>,
    pub prepared: RefCell<PreparedCache>,
    pub metrics: ShardMetrics,
    /// What it shares with its connections.
    pub transport: Rc<TransportContext>,
    pub(crate) hot_partitions: HotPartitions,
    /// Where a key is put together to see whether its request is shed.
    pub(crate) shed_key: RefCell<Vec<u8>>,
    /// What the answer to one statement may take.
    pub(crate) answer_bytes_max: usize,
    pub clients: Clients,
    /// Of clients in this process.
    pub(crate) lanes: Lanes,
    /// Where clients log in with passwords.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) rate_limiter: RefCell<RateLimiter>,
    /// Whether any table limits what its partitions are asked for.
    pub(crate) has_rate_limits: Cell<bool>,
    pub(crate) foreground: Foreground,
    pub(crate) disk_reads: RefCell<DiskReads>,
    pub(crate) long_reads: LongReads,
    /// Reads wait until the disk has less to do.
    pub(crate) disk_is_busy: Cell<bool>,
    stalls: StallDetector,
    pub(crate) planner: Planner,
    pub(crate) forwards: RefCell<PendingForwards>,
    pub(crate) scratch: RefCell<Scratch>,
    pub(crate) counters: Counters,
    pub(crate) views: Views,
    pub(crate) sealed: SealedPartitions,
    /// Where the owner of the schema makes changes durable. The mutex orders changes: each starts from the schema
    /// that the one before it made.
    pub(crate) schema_keeper: Mutex<Option<SchemaKeeper>>,
    /// Where the owner of the schema knows whether the default role was made. The mutex lets one login at a time decide.
    pub(crate) default_role: Mutex<Option<DefaultRole>>,
    pub(crate) snapshot_worker: Option<SnapshotWorker>,
    /// Of the owner of the schema.
    pub(crate) truncations: Truncations,
    /// The default role is known to have been made.
    pub(crate) default_role_is_settled: Cell<bool>,
    /// Chosen once per data folder.
    pub host_id: Uuid,
    pub(crate) schema_listeners: SchemaListeners,
    timeuuids: RefCell<TimeuuidGenerator>,
    tasks_spawned: Cell<u64>,
    log: RefCell<Option<LogThread>>,
    log_is_busy: Cell<bool>,
    /// On the clock's monotonic time, when the log thread got the batch it has.
    log_handed_over_ns: Cell<u64>,
    /// When it was last said that the log has no file to go on in; 0 for never.
    log_stall_said_ns: Cell<u64>,
    /// A task waits to hand the log's batch over again.
    tries_log_again: Cell<bool>,
    unacknowledged: RefCell<Unacknowledged>,
    pub(crate) write_sets: WriteSets,
    /// Somebody waits for a periodic log to be synced.
    wants_log_sync: Cell<bool>,
    background: RefCell<BackgroundThreads>,
    /// Set where the loop must look at log and background work before it sleeps.
    turn: Notify,
    /// Woken when a flush gave memory back, or the log accepted more.
    room: Notify,
    stopping: Cell<bool>,
    writes_since_turn: Cell<u32>,
    pub(crate) last_timestamp_us: Cell<i64>,
}

/// Messages taken from the inbox between two looks at the sockets: enough to amortise the look, few enough that a
/// burst of messages does not starve the shard's own connections.
const MESSAGES_PER_TURN_MAX: usize = 256;

/// How often a periodic log hands its bytes to the operating system, so that a killed process loses at most this much
/// (a power cut loses up to the sync period).
const PERIODIC_WRITE_INTERVAL: Duration = Duration::from_millis(10);

/// Writes that are acknowledged at once between two looks at the log and the memtables: some 100 KiB of small rows.
const WRITES_PER_TURN_MAX: u32 = 1_024;

/// Parts of write sets that a periodic log may owe a sync: some 10 MB of them.
const PARTS_UNSYNCED_MAX: usize = 65_536;

/// How long until a log that has no file to go on in tries to make one again: much shorter than a write's time, and long
/// enough to cost nothing.
const LOG_STALL_RETRY: Duration = Duration::from_millis(100);

/// How often the node says so.
const LOG_STALL_SAID_AGAIN_NS: u64 = 60 * 1_000_000_000;

/// How long a flush waits for a log that has no file to go on in: connections that a stop has closed give theirs back.
const LOG_STALL_WAIT: Duration = Duration::from_secs(5);

/// How long a stopping shard waits for the logs of others, of which some may have ended.
const WRITE_SETS_RESOLVED_IN: Duration = Duration::from_secs(1);

/// How often a stopping shard looks whether its memtables are flushed, in case it missed the news.
const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Shard {
    pub(crate) fn new(parts: ShardParts, disk_reads: DiskReads, has_slept: Arc<AtomicBool>) -> Rc<Shard> {
        let memory = parts.mailboxes[usize::from(parts.id.0)].memory().clone();
        let answer_bytes_max = memory.answer_bytes_max();
        let transport = TransportContext::new(transport_options(&parts.options, memory), has_slept);
        let clock = parts.options.clock.clone();
        // Random, so that two nodes (or this one before a restart) never make the same timeuuid.
        let timeuuid_seed = parts.options.random.next_u64();
        let rate_limiter = RateLimiter::new(parts.options.random.next_u64());
        let stalls = StallDetector::telling(parts.options.stalls.clone());
        Rc::new(Shard {
            write_sets: WriteSets::new(parts.id, parts.resolved),
            wants_log_sync: Cell::new(false),
            id: parts.id,
            has_rate_limits: Cell::new(has_rate_limits(&parts.schema)),
            views: Views::of_schema(&parts.schema),
            sealed: SealedPartitions::default(),
            clock,
            prepared: RefCell::new(PreparedCache::of_memory(parts.options.memory_bytes)),
            timeouts: Timeouts::of(&parts.options),
            options: parts.options,
            mailboxes: parts.mailboxes,
            store: RefCell::new(parts.store),
            schema: RefCell::new(parts.schema),
            schema_version: Cell::new(parts.schema_version),
            schema_worker: parts.schema_worker,
            metrics: ShardMetrics::default(),
            transport,
            shed_key: RefCell::new(Vec::new()),
            hot_partitions: HotPartitions::new(timeuuid_seed),
            answer_bytes_max,
            clients: Clients::default(),
            lanes: Lanes::default(),
            passwords: parts.passwords.map(Passwords::new),
            rate_limiter: RefCell::new(rate_limiter),
            foreground: Foreground::default(),
            disk_reads: RefCell::new(disk_reads),
            long_reads: LongReads::default(),
            disk_is_busy: Cell::new(false),
            stalls,
            planner: parts.planner,
            forwards: RefCell::new(PendingForwards::default()),
            scratch: RefCell::new(Scratch::default()),
            counters: Counters::default(),
            schema_keeper: Mutex::new(parts.schema_keeper),
            snapshot_worker: parts.snapshot_worker,
            truncations: Truncations::default(),
            default_role: Mutex::new(parts.default_role),
            default_role_is_settled: Cell::new(false),
            host_id: parts.host_id,
            schema_listeners: SchemaListeners::default(),
            timeuuids: RefCell::new(TimeuuidGenerator::new(timeuuid_seed)),
            tasks_spawned: Cell::new(0),
            log: RefCell::new(parts.log),
            log_is_busy: Cell::new(false),
            log_handed_over_ns: Cell::new(0),
            log_stall_said_ns: Cell::new(0),
            tries_log_again: Cell::new(false),
            unacknowledged: RefCell::new(Unacknowledged::default()),
            background: RefCell::new(parts.background),
            turn: Notify::new(),
            room: Notify::new(),
            stopping: Cell::new(false),
            writes_since_turn: Cell::new(0),
            last_timestamp_us: Cell::new(0),
        })
    }

    /// Runs until [`Shard::stop`]; the thread's main task.
    pub(crate) async fn run(self: &Rc<Self>, mut inbox: Inbox) {
        self.spawn(self.clone().turns());
        if !self.options.in_memory {
            self.spawn(self.clone().pace_compactions());
        }
        if self.id == SCHEMA_OWNER {
            self.build_views_at_start();
        }
        self.spawn(self.clone().tend_vectors());
        if self.snapshot_worker.is_some() {
            self.spawn(self.clone().sweep_snapshots());
        }
        self.spawn(self.clone().watch_disk_reads());
        self.spawn(self.clone().give_up_late_requests());
        self.spawn(self.transport.clone().mark_rounds());
        // Not watched as a whole for what holds the shard: each step is.
        tokio::task::spawn_local(self.clone().run_long_reads());
        if matches!(self.options.commitlog_sync, CommitlogSync::Periodic { .. }) && !self.options.in_memory {
            self.spawn(self.clone().write_log_periodically());
        }
        let mut messages = Vec::with_capacity(MESSAGES_PER_TURN_MAX);
        while !self.stopping.get() && inbox.receive(&mut messages, MESSAGES_PER_TURN_MAX).await {
            self.look_at_clock();
            for message in messages.drain(..) {
                self.stalls.watch("a message", || match message {
                    // These two answer the sender themselves where they panic.
                    Message::Read(read) => self.read_forwarded(*read),
                    Message::Write(write) => self.write_forwarded(*write),
                    // Dropping the request tells its caller.
                    Message::Asked(asked) => {
                        let _reported = catch(|| self.asked(*asked));
                    }
                    Message::Answered { ticket, result } => self.forward_answered(ticket, result),
                    Message::Run(work) => {
                        // Dropping the work has told whoever waits for it; see `no_answer_from`.
                        let _reported = catch(|| work(self));
                    }
                });
            }
            self.end_turn_of_asked();
        }
    }

    pub fn owner_of(&self, token: Token) -> ShardId {
        shard_of(token, self.options.shard_count)
    }

    pub fn mailbox(&self, shard: ShardId) -> &Mailbox {
        &self.mailboxes[usize::from(shard.0)]
    }

    /// Of this shard's requests and answers.
    pub fn request_memory(&self) -> &Arc<RequestMemory> {
        self.mailbox(self.id).memory()
    }

    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// Seconds since the Unix epoch.
    pub fn now_s(&self) -> u32 {
        self.clock.wall_s()
    }

    /// A write timestamp in microseconds, larger than any this shard gave out before.
    pub fn next_timestamp_us(&self) -> i64 {
        let timestamp_us = self.clock.wall_us().max(self.last_timestamp_us.get() + 1);
        self.last_timestamp_us.set(timestamp_us);
        timestamp_us
    }

    pub fn new_timeuuid(&self) -> Uuid {
        Uuid::from_bytes(self.timeuuids.borrow_mut().next(self.clock.wall_us()))
    }

    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.options.shard_count).map(ShardId)
    }

    /// Starts the task that answers a request, charged to the client. If it panics, the request is answered with a server
    /// error.
    pub(crate) fn answer_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        task: impl Future<Output = ()> + 'static,
    ) {
        session.expect_answer();
        let held = Held::nothing_of(&self.account_of_session(session));
        held.set(size_of_val(&task));
        let (shard, session) = (self.clone(), session.clone());
        let begun_ns = self.clock.monotonic_ns();
        self.spawn(async move {
            let _charged_to_the_end = held;
            let outcome = catch_async(task).await;
            shard
                .foreground
                .request_took(shard.clock.monotonic_ns().saturating_sub(begun_ns));
            if let Err(panicked) = outcome {
                shard.answer_write_later(&session, stream, Err(panicked.error()));
            }
        });
    }

    /// Starts a task on this shard.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks_spawned.set(self.tasks_spawned.get() + 1);
        let stalls = self.stalls.clone();
        // In a box, because whatever wraps a future copies it.
        let mut task = Box::pin(task);
        tokio::task::spawn_local(poll_fn(move |context| {
            stalls.watch("a task", || task.as_mut().poll(context))
        }));
    }

    /// For work of others on this thread, where somebody looks for what holds it.
    pub fn watching_stalls<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        self.stalls.watch(what, work)
    }

    pub fn tasks_spawned(&self) -> u64 {
        self.tasks_spawned.get()
    }

    /// As [`Shard::call_async`], for work that is given up when the caller is no longer there.
    pub async fn call_while_awaited<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Option<T> {
        if shard == self.id {
            return Some(work(self.clone()).await);
        }
        let (mut sender, receiver) = oneshot::channel();
        self.mailbox(shard).run(move |shard| {
            let work = work(shard.clone());
            shard.spawn(async move {
                let result = tokio::select! {
                    result = work => result,
                    () = sender.closed() => return,
                };
                let _gone = sender.send(result);
            });
        });
        receiver.await.ok()
    }

    /// Runs `work` on another shard (or on this one) and waits for what it returns. `None` if that shard has stopped.
    pub async fn call<T: Send + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(&Rc<Shard>) -> T + Send + 'static,
    ) -> Option<T> {
        if shard == self.id {
            return Some(work(self));
        }
        let (sender, receiver) = oneshot::channel();
        self.mailbox(shard).run(move |shard| {
            // The caller may have gone with its connection.
            let _gone = sender.send(work(shard));
        });
        receiver.await.ok()
    }

    /// As [`Shard::call`], for work that waits itself.
    pub async fn call_async<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Option<T> {
        if shard == self.id {
            return Some(work(self.clone()).await);
        }
        let (sender, receiver) = oneshot::channel();
        self.mailbox(shard).run(move |shard| {
            let work = work(shard.clone());
            shard.spawn(async move {
                // The caller may have gone with its connection.
                let _gone = sender.send(work.await);
            });
        });
        receiver.await.ok()
    }

    /// Whether a write must wait for [`Shard::acknowledge_at`], or is acknowledged at once.
    pub fn acknowledges_at_once(&self) -> bool {
        self.options.in_memory || matches!(self.options.commitlog_sync, CommitlogSync::Periodic { .. })
    }

    /// Whether a write is acknowledged when the log is durable up to its position. What no log takes
    /// (`durable_writes = false`) has no position and waits for nobody.
    #[inline]
    pub fn waits_for_log(&self, position: LogPosition) -> bool {
        position != LogPosition::default() && !self.acknowledges_at_once()
    }

    /// A write was appended: once enough of them are, the log or a memtable wants attention.
    #[inline]
    pub fn note_write(&self) {
        let writes = self.writes_since_turn.get() + 1;
        self.writes_since_turn.set(writes);
        if writes >= WRITES_PER_TURN_MAX {
            self.schedule_turn();
        }
    }

    pub(crate) fn acknowledge_at(
        &self,
        position: LogPosition,
        deadline: Deadline,
        acknowledgement: Acknowledgement,
    ) {
        self.unacknowledged
            .borrow_mut()
            .push(position, deadline, acknowledgement);
        self.schedule_turn();
    }

    /// Something was appended to the log or to a memtable: look at it when the tasks that are ready have run.
    pub fn schedule_turn(&self) {
        self.turn.notify_one();
    }

    /// Writes that the log has not made durable in their time. It still may.
    pub(crate) fn take_late_writes(&self, now_ns: u64) -> Vec<(Acknowledgement, Deadline)> {
        self.unacknowledged.borrow_mut().take_late(now_ns)
    }

    /// Waits until a flush has given memory back. False if the write's time is over.
    pub(crate) async fn wait_for_room(&self, deadline: Deadline) -> bool {
        self.schedule_turn();
        let left = deadline.left(self.clock.monotonic_ns());
        tokio::time::timeout(left, self.room.notified()).await.is_ok()
    }

    /// Waits until a background job has ended, a request was found to need none, or the log has accepted more.
    pub(crate) async fn job_ended(&self) {
        self.schedule_turn();
        self.room.notified().await;
    }

    async fn turns(self: Rc<Self>) {
        loop {
            self.turn.notified().await;
            self.writes_since_turn.set(0);
            // Without its turns the shard would acknowledge nothing any more.
            let _reported = catch(|| {
                self.hand_over_log(!self.acknowledges_at_once());
                self.offer_background_work();
            });
        }
    }

    async fn write_log_periodically(self: Rc<Self>) {
        let CommitlogSync::Periodic { period } = self.options.commitlog_sync else {
            return;
        };
        let mut interval = tokio::time::interval(PERIODIC_WRITE_INTERVAL);
        let mut since_sync = Duration::ZERO;
        loop {
            interval.tick().await;
            since_sync += PERIODIC_WRITE_INTERVAL;
            if self.store.borrow().wants_log_sync() {
                self.sync_logs_soon();
            }
            let is_due = since_sync >= period || self.unacknowledged.borrow().len() > PARTS_UNSYNCED_MAX;
            let sync = is_due || self.wants_log_sync.get();
            if self.hand_over_log(sync) && sync {
                self.wants_log_sync.set(false);
                since_sync = Duration::ZERO;
            }
            self.offer_background_work();
        }
    }

    /// Has the periodic logs of all shards synced the next time they are written: a flush, or whoever decides on what a
    /// write set has written, waits for its parts in all of them.
    pub(crate) fn sync_logs_soon(&self) {
        for shard in self.shards() {
            self.mailbox(shard).run(|shard| shard.wants_log_sync.set(true));
        }
    }

    /// Looks how late the loop is, and lets compactions go as fast as requests do not feel.
    async fn pace_compactions(self: Rc<Self>) {
        loop {
            let due_ns = self.clock.monotonic_ns() + PROBE_INTERVAL.as_nanos() as u64;
            tokio::time::sleep(PROBE_INTERVAL).await;
            if self
                .foreground
                .probe(self.clock.monotonic_ns().saturating_sub(due_ns))
            {
                let store = self.store.borrow();
                let share = self
                    .foreground
                    .next_share(store.has_compactions(), store.is_far_behind());
                store.compaction_pace().set_share(share);
            }
        }
    }

    fn offer_background_work(&self) {
        let mut store = self.store.borrow_mut();
        if store.tend_row_cache() {
            self.schedule_turn();
        }
        self.background.borrow_mut().offer(&mut store);
        if store.take_settled_request() {
            self.schedule_turn();
            self.room.notify_waiters();
        }
    }

    /// Gives the log thread what was appended, unless it is still busy with the last batch.
    fn hand_over_log(&self, sync: bool) -> bool {
        if self.log_is_busy.get() {
            return false;
        }
        let log = self.log.borrow();
        let batch = if sync {
            self.store.borrow_mut().take_log_batch_to_sync()
        } else {
            self.store.borrow_mut().take_log_batch()
        };
        let (Some(log), Some(batch)) = (&*log, batch) else {
            return false;
        };
        self.log_is_busy.set(true);
        self.log_handed_over_ns.set(self.clock.monotonic_ns());
        log.persist(batch, sync);
        true
    }

    pub(crate) fn log_persisted(self: &Rc<Self>, batch: LogBatch, result: &Result<LogPosition, LogError>) {
        self.log_is_busy.set(false);
        let log_ns = self
            .clock
            .monotonic_ns()
            .saturating_sub(self.log_handed_over_ns.get());
        self.foreground.log_took(log_ns);
        self.store.borrow_mut().log_batch_done(batch, result);
        match result {
            Ok(durable) => loop {
                let Some(next) = self.unacknowledged.borrow_mut().pop_durable(*durable) else {
                    break;
                };
                self.acknowledge(next, Ok(()));
            },
            Err(error) if !error.is_final() => self.try_log_again(error),
            Err(error) => {
                self.options.events.event(&Event::LogFailed {
                    shard: self.id.0,
                    error,
                });
                let failed: Vec<_> = self.unacknowledged.borrow_mut().drain().collect();
                for acknowledgement in failed {
                    self.acknowledge(acknowledgement, Err(CqlError::server(format_args!("{error}"))));
                }
            }
        }
        self.room.notify_waiters();
        if self.store.borrow().log_stall().is_none() {
            self.schedule_turn();
        }
    }

    /// The log has no file to go on in: its batch waits, and with it the writes that are in it.
    fn try_log_again(self: &Rc<Self>, error: &LogError) {
        let now_ns = self.clock.monotonic_ns();
        let said_ns = self.log_stall_said_ns.get();
        if said_ns == 0 || now_ns >= said_ns + LOG_STALL_SAID_AGAIN_NS {
            self.log_stall_said_ns.set(now_ns.max(1));
            self.options.events.event(&Event::LogStalled {
                shard: self.id.0,
                error,
            });
        }
        if self.tries_log_again.replace(true) {
            return;
        }
        let shard = self.clone();
        self.spawn(async move {
            tokio::time::sleep(LOG_STALL_RETRY).await;
            shard.tries_log_again.set(false);
            shard.hand_over_log(true);
        });
    }

    pub(crate) fn acknowledge(
        self: &Rc<Self>,
        acknowledgement: Acknowledgement,
        result: Result<(), CqlError>,
    ) {
        match acknowledgement {
            Acknowledgement::Session { session, stream } => self.answer_write_later(&session, stream, result),
            Acknowledgement::Answer {
                session,
                stream,
                answer,
            } => self.answer_read(&session, stream, result.map(|()| answer)),
            Acknowledgement::Forwarded { from, ticket } => self.answer_forwarded_write(from, ticket, result),
            Acknowledgement::Task(sender) => {
                let _gone = sender.send(result);
            }
            Acknowledgement::Part(part) => self.part_persisted(part, result),
        }
    }

    pub(crate) fn job_finished(self: &Rc<Self>, thread: usize, result: JobResult) {
        self.background.borrow_mut().job_finished(thread);
        let report = self.store.borrow_mut().complete(result);
        report.tell(self.id.0, &self.options.events);
        self.room.notify_waiters();
        self.schedule_turn();
    }

    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        let store = self.store.borrow();
        self.metrics.snapshot(
            self.id.0,
            &self.transport,
            &self.gauges(),
            &store,
            self.hot_partitions.activity(self.last_looked_ns()),
            self.hot_partitions.shed_requests(),
        )
    }

    fn gauges(&self) -> Gauges {
        let (waiting, begun) = self.long_reads.counts();
        Gauges {
            prepared_statements: self.prepared.borrow().len() as u64,
            long_reads_waiting: waiting as u64,
            long_reads_begun: begun as u64,
            disk_reads_waiting: self.disk_reads.borrow().queued() as u64,
        }
    }

    /// Ends [`Shard::run`]: at once, or when everything acknowledged is in SSTables.
    pub(crate) fn stop(self: &Rc<Self>, ending: Ending) {
        // It has answered everybody; what it still does, down to giving its memory back, others need not wait for.
        self.options.threads.give_way();
        if ending == Ending::Abandon {
            self.stopping.set(true);
            return;
        }
        // Compactions can be done again after the next start. Waited for, they keep the node, and the processors from
        // those who serve meanwhile.
        self.store.borrow_mut().stop_compactions(None);
        let shard = self.clone();
        self.spawn(async move {
            shard.resolve_write_sets().await;
            // After a panic the log still has what was not flushed.
            let _reported = catch_async(shard.flush(None)).await;
            // The loop looks at the flag when the next message arrives.
            shard.mailbox(shard.id).run(|shard| shard.stopping.set(true));
        });
    }

    /// Waits until the write sets that this shard coordinates are durable on all shards, which nobody else can find out:
    /// what shards that end later have of them could not be flushed. Not for long: replay finds out, too.
    async fn resolve_write_sets(&self) {
        let deadline_ns = self.deadline_after(WRITE_SETS_RESOLVED_IN);
        while !self.write_sets.are_resolved() && self.clock.monotonic_ns() < deadline_ns {
            self.sync_logs_soon();
            self.background_progress().await;
        }
    }

    /// Forgets all rows and pages that could be read again: for measurements that begin cold.
    pub fn clear_caches(&self) {
        self.store.borrow_mut().clear_caches();
    }

    /// Seals and flushes the memtables of a table, or all, unless the log has failed, and without those that cannot be
    /// flushed: the log still has what they hold. Whether all of it was flushed.
    pub async fn flush(&self, table: Option<TableId>) -> bool {
        self.store.borrow_mut().flush(table);
        let stalled_until_ns = self.deadline_after(LOG_STALL_WAIT);
        let unresolved_until_ns = self.deadline_after(WRITE_SETS_RESOLVED_IN);
        while self.store.borrow().awaits_flush(table) {
            let now_ns = self.clock.monotonic_ns();
            let stall_is_over = self.store.borrow().log_stall().is_some() && now_ns >= stalled_until_ns;
            let has_failed = self.store.borrow().log_failure().is_some();
            if has_failed || stall_is_over || self.has_orphaned_parts(now_ns >= unresolved_until_ns) {
                break;
            }
            self.background_progress().await;
        }
        let is_flushed = !self.store.borrow().has_sealed_memtables(table);
        if !is_flushed {
            self.options
                .events
                .event(&Event::NotFlushedAtStop { shard: self.id.0 });
        }
        is_flushed
    }

    /// Waits until a start would not bring back what was flushed or truncated. False if the log has failed.
    pub async fn record_flushes(&self) -> bool {
        while !self.store.borrow().are_flushes_recorded() {
            if self.store.borrow().log_failure().is_some() {
                return false;
            }
            self.background_progress().await;
        }
        true
    }

    /// Hands out what there is for the threads of the log and of background work, and waits for one of them to be done.
    pub(crate) async fn background_progress(&self) {
        // A memtable is flushed once its last write is durable, and a periodic log is not synced on its own.
        self.hand_over_log(true);
        self.offer_background_work();
        let _timed_out = tokio::time::timeout(FLUSH_POLL_INTERVAL, self.room.notified()).await;
    }

    /// After the loop has ended; waits for the threads.
    pub(crate) fn close(&self) {
        if let Some(worker) = &self.snapshot_worker {
            worker.stop();
        }
        if let Some(worker) = &self.schema_worker {
            worker.stop();
        }
        self.planner.stop();
        self.background.borrow_mut().stop();
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.stop();
        }
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

/// How a shard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Log synced, memtables flushed; compactions are left.
    Flush,
    /// Nothing more is written: what a crash would leave.
    Abandon,
}
