//! Starting and stopping the shards of a node.

use std::io;
use std::panic;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use helenus_catalog::schema_store::{SchemaStore, SchemaStoreError, types_beyond_bounds};
use helenus_catalog::system::{add_system_keyspaces, schema_version};
use helenus_events::{Event, Events};
use helenus_schema::Schema;
use helenus_storage::ShardStore;
use helenus_storage::commitlog::{LogOptions, LogWriter, ResolvedWriteSets};
use helenus_storage::compaction::CompactionLimits;
use helenus_storage::store::{DataFolder, FolderError, OpenError, StoreOptions};
use helenus_transport::request_memory::{REQUEST_SHARE, RequestMemory};
use helenus_types::ShardId;
use tokio::runtime::{Builder, LocalOptions};
use uuid::Uuid;

use crate::disk_reads::DiskReads;
use crate::guardrails::PartitionGuardrails;
use crate::handle::{ClientOptions, Door, Handle, Login};
use crate::host_id::{self, new_host_id};
use crate::operator::Operator;
use crate::options::NodeOptions;
use crate::planning::Planner;
use crate::roles::authenticator::Authenticator;
use crate::roles::default_role::DefaultRole;
use crate::roles::password_threads::PasswordThreads;
use crate::schema_change::{SchemaKeeper, SchemaWorker};
use crate::schema_owner::SchemaOwnerParts;
use crate::shard::mailbox::{Inbox, Mailbox, mailbox};
use crate::shard::{BackgroundThreads, Ending, LogThread, Shard, ShardParts};
use crate::snapshot_worker::SnapshotWorker;

/// Called once on each shard's thread before its first message: where listeners are opened.
pub type OpenDoors = Arc<dyn Fn(&Rc<Shard>) + Send + Sync>;

/// A running node. Dropping it without [`Node::stop`] leaves the threads running until the process ends.
pub struct Node {
    mailboxes: Arc<[Mailbox]>,
    door: Arc<Door>,
    passwords: Option<Arc<PasswordThreads>>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Schema(#[from] SchemaStoreError),
    #[error(transparent)]
    Storage(#[from] OpenError),
    #[error(
        "{} does not give the node's identity: {source}; restore it from a copy, or remove it, and drivers see another node",
        file.display()
    )]
    HostId { file: PathBuf, source: io::Error },
    #[error("whether the default role was made, in {}: {source}", root.display())]
    DefaultRole { root: PathBuf, source: io::Error },
    #[error("the system keyspaces do not fit the stored schema: {0}")]
    SystemKeyspaces(String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("a shard stopped while it was starting")]
    ShardStopped,
}

/// Checks that a node can be started on the data folder, as far as that can be seen while another process has it.
pub fn check_data_folder(options: &NodeOptions) -> Result<(), StartError> {
    Ok(DataFolder::check(&*options.disk, &options.data_folder)?)
}

/// The stack of a shard's thread, in bytes: deep enough for the parser's and planner's bounded recursion.
const SHARD_STACK_BYTES: usize = 8 << 20;

impl Node {
    /// Opens the data folder, replays the log and starts the shards; returns when all of them take requests.
    pub fn start(options: NodeOptions, open_doors: OpenDoors) -> Result<Node, StartError> {
        let options = Arc::new(options);
        let opened = if options.in_memory {
            Opened::in_memory(&options)?
        } else {
            beside_those_who_serve(options.is_awaited, || Opened::on_disk(&options))?
        };
        let AssembledNode {
            mailboxes,
            shards,
            door,
            passwords,
        } = AssembledNode::of(&options, opened)?;
        let mut node = Node {
            mailboxes,
            door,
            passwords,
            threads: Vec::new(),
        };
        if let Err(error) = node.run(shards, &open_doors) {
            node.abandon();
            return Err(error);
        }
        Ok(node)
    }

    /// Starts the shards' threads; returns when all of them take requests.
    fn run(&mut self, shards: Vec<AssembledShard>, open_doors: &OpenDoors) -> Result<(), StartError> {
        let (ready, started) = mpsc::channel();
        for shard in shards {
            let open_doors = open_doors.clone();
            let ready = ready.clone();
            let thread = thread::Builder::new()
                .name(format!("shard-{}", shard.id().0))
                .stack_size(SHARD_STACK_BYTES)
                .spawn(move || run_shard(shard, &open_doors, &ready))
                .map_err(StartError::Thread)?;
            self.threads.push(thread);
        }
        drop(ready);
        for _ in 0..self.mailboxes.len() {
            started.recv().map_err(|_| StartError::ShardStopped)?;
        }
        Ok(())
    }

    pub fn mailbox(&self, shard: ShardId) -> &Mailbox {
        &self.mailboxes[usize::from(shard.0)]
    }

    /// A client in this process, which need not log in.
    pub fn handle(&self) -> Handle {
        let options = ClientOptions {
            login: Login::Trusted,
            ..ClientOptions::default()
        };
        Handle::open(self.door.clone(), &options)
    }

    /// For threads outside the node.
    pub fn operator(&self) -> Operator {
        Operator::new(self.mailboxes.clone())
    }

    /// Syncs the log, flushes the memtables and ends the threads. Its listeners are closed by then.
    pub fn stop(self) {
        self.end(Ending::Flush);
    }

    /// As [`Node::stop`], as fast as it goes: clients wait for another process that is to open the data folder.
    pub fn stop_awaited(self) {
        self.end(Ending::FlushAwaited);
    }

    /// Ends the threads and leaves the disk as it is.
    pub fn abandon(self) {
        self.end(Ending::Abandon);
    }

    fn end(self, ending: Ending) {
        let at_once = match ending {
            Ending::FlushAwaited => self.threads.len(),
            _ => self.threads.len().div_ceil(ENDINGS),
        };
        let mut threads = self.threads.into_iter();
        for mailboxes in self.mailboxes.chunks(at_once.max(1)) {
            for mailbox in mailboxes {
                mailbox.stop_shard(ending);
            }
            for thread in threads.by_ref().take(mailboxes.len()) {
                // The panic hook has reported and counted it.
                let _panicked = thread.join();
            }
        }
        if let Some(passwords) = self.passwords {
            passwords.stop();
        }
    }
}

/// A node that was opened and does not run yet. [`Node::start`] gives each shard a thread; a simulation runs all of them
/// on one.
pub struct AssembledNode {
    pub mailboxes: Arc<[Mailbox]>,
    pub shards: Vec<AssembledShard>,
    door: Arc<Door>,
    passwords: Option<Arc<PasswordThreads>>,
}

/// A shard with everything it needs.
pub struct AssembledShard {
    parts: ShardParts,
    inbox: Inbox,
}

impl AssembledNode {
    /// Opens the data folder and replays the log on the calling thread.
    pub fn open(options: NodeOptions) -> Result<AssembledNode, StartError> {
        let opened = if options.in_memory {
            Opened::in_memory(&options)?
        } else {
            Opened::on_disk(&options)?
        };
        Self::of(&Arc::new(options), opened)
    }

    fn of(options: &Arc<NodeOptions>, opened: Opened) -> Result<AssembledNode, StartError> {
        let (mailboxes, inboxes): (Vec<Mailbox>, Vec<Inbox>) = (0..options.shard_count)
            .map(|_| mailbox(request_memory_of(options)))
            .unzip();
        let mailboxes: Arc<[Mailbox]> = mailboxes.into();
        let threads = &*options.threads;
        let passwords = match options.authenticator {
            Authenticator::AllowAll => None,
            Authenticator::Password => Some(PasswordThreads::start().map_err(StartError::Thread)?),
        };
        let snapshots = match options.in_memory {
            true => None,
            false => Some(SnapshotWorker::start(threads).map_err(StartError::Thread)?),
        };
        let (door, announcing) = Door::new(options, mailboxes.clone());
        let mut announcing = Some(announcing);
        let mut schema_owner = Some(SchemaOwnerParts {
            worker: SchemaWorker::start(threads).map_err(StartError::Thread)?,
            keeper: opened.schema_keeper,
            snapshots,
            default_role: opened.default_role,
        });
        let schema_version = schema_version(&opened.schema);
        let mut shards = Vec::new();
        for ((id, inbox), (store, log_writer)) in (0..).map(ShardId).zip(inboxes).zip(opened.stores) {
            let mailbox = &mailboxes[usize::from(id.0)];
            let log = log_writer.map(|writer| LogThread::start(threads, id.0, writer, mailbox.clone()));
            let parts = ShardParts {
                id,
                options: options.clone(),
                mailboxes: mailboxes.clone(),
                store,
                schema: opened.schema.clone(),
                schema_version,
                schema_owner: schema_owner.take(),
                announcing: announcing.take(),
                host_id: opened.host_id,
                log: log.transpose().map_err(StartError::Thread)?,
                resolved: opened.resolved.clone(),
                passwords: passwords.clone(),
                background: BackgroundThreads::start(threads, id.0, mailbox).map_err(StartError::Thread)?,
                planner: Planner::start(threads, id.0, mailbox, &opened.schema)
                    .map_err(StartError::Thread)?,
            };
            shards.push(AssembledShard { parts, inbox });
        }
        Ok(AssembledNode {
            mailboxes,
            shards,
            door,
            passwords,
        })
    }
}

impl AssembledShard {
    pub fn id(&self) -> ShardId {
        self.parts.id
    }

    pub fn events(&self) -> Events {
        self.parts.options.events.clone()
    }

    /// From now on messages reach the shard as much later as `delay` says, a turn's worth at a time, in their order. The
    /// future hands them on and belongs on the shard's thread; it ends with the shard.
    pub fn delay_messages(
        &mut self,
        delay: impl FnMut() -> Duration + 'static,
    ) -> impl Future<Output = ()> + 'static {
        let (mailbox, inbox) = mailbox(request_memory_of(&self.parts.options));
        let delayed = std::mem::replace(&mut self.inbox, inbox);
        delayed.hand_on(mailbox, delay)
    }

    /// Runs the shard until it is stopped, in a runtime that is the calling thread's own. `opened` sees it before its
    /// first message; `has_slept` is set by the runtime whenever it has waited for events.
    pub async fn run(self, has_slept: Arc<AtomicBool>, opened: impl FnOnce(&Rc<Shard>)) -> io::Result<()> {
        let AssembledShard { mut parts, inbox } = self;
        let announcing = parts.announcing.take();
        let mailbox = &parts.mailboxes[usize::from(parts.id.0)];
        let disk_reads = DiskReads::start(&parts.options, mailbox)?;
        let shard = Shard::new(parts, inbox, disk_reads, has_slept);
        shard.announce_changes(announcing);
        opened(&shard);
        shard.run().await;
        shard.close();
        Ok(())
    }
}

/// A node's shards end in so many turns. Each flushes, which takes a core for some milliseconds: with a shard a core, half
/// of the cores stay with the other processes, which serve what this one did.
const ENDINGS: usize = 2;

/// Runs the part of a start that comes before any shard runs: reading schema, SSTables and log. Other processes may serve
/// on these cores meanwhile, so it gives way to them, unless clients wait for this start; on a thread of its own, because
/// shards inherit how the one who starts them runs.
fn beside_those_who_serve<T: Send>(
    is_awaited: bool,
    work: impl FnOnce() -> Result<T, StartError> + Send,
) -> Result<T, StartError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("start".to_owned())
            .stack_size(SHARD_STACK_BYTES)
            .spawn_scoped(scope, || {
                if !is_awaited {
                    helenus_scheduling::give_way();
                }
                work()
            })
            .map_err(StartError::Thread)?;
        thread
            .join()
            .unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    })
}

/// State read from the data folder, or that an in-memory node starts with.
struct Opened {
    stores: Vec<(ShardStore, Option<LogWriter>)>,
    resolved: Arc<ResolvedWriteSets>,
    schema: Arc<Schema>,
    schema_keeper: Option<SchemaKeeper>,
    default_role: DefaultRole,
    host_id: Uuid,
}

/// Divisor of the memory budget for the part that memtables may take; the rest is for caches.
const MEMTABLE_SHARE: u64 = 2;

/// Bytes of a shard's memory that are left to compactions, to the program itself and to what an allocator loses; of a small memory a
/// part (decision 35).
const WORK_BYTES_MAX: u64 = 20 << 20;
const WORK_SHARE: u64 = 7;

/// Divisor of the memory budget for what compactions have asked for of their inputs, all of them together.
const COMPACTION_READ_SHARE: u64 = 64;

/// Divisor of the caches' bytes for the part that the row cache may take; the rest is for chunks of SSTables. A row that is
/// read again is cheapest there, a neighbour of one in its chunk.
const ROW_CACHE_SHARE: u64 = 2;

/// Divisor of the memory for pages for the part that indexes of vectors may take of it.
const VECTOR_SHARE: u64 = 2;

impl Opened {
    fn in_memory(options: &NodeOptions) -> Result<Opened, StartError> {
        let schema = with_system_keyspaces(Schema::default())?;
        let stores = (0..options.shard_count)
            .map(|_| (ShardStore::in_memory(store_options(options, None), &schema), None))
            .collect();
        Ok(Opened {
            stores,
            resolved: ResolvedWriteSets::new(0, options.shard_count),
            schema,
            schema_keeper: None,
            default_role: DefaultRole::in_memory(),
            host_id: new_host_id(&*options.random),
        })
    }

    fn on_disk(options: &NodeOptions) -> Result<Opened, StartError> {
        let folder = DataFolder::open_telling(
            options.disk.clone(),
            options.clock.clone(),
            &options.data_folder,
            options.events.clone(),
        )?;
        let host_id =
            host_id::load_or_create(&*options.disk, &*options.random, folder.root()).map_err(|source| {
                StartError::HostId {
                    file: folder.root().join(host_id::FILE),
                    source,
                }
            })?;
        let default_role =
            DefaultRole::of_folder(options.disk.clone(), folder.root().to_owned()).map_err(|source| {
                StartError::DefaultRole {
                    root: folder.root().to_owned(),
                    source,
                }
            })?;
        let schema_store = SchemaStore::new(options.disk.clone(), folder.root().to_owned());
        let schema = with_system_keyspaces(schema_store.load()?)?;
        for place in types_beyond_bounds(&schema) {
            options.events.event(&Event::TypeTooLarge { place: &place });
        }
        // A disk that does not tell is taken for a large one.
        let free_bytes = options.disk.free_bytes(folder.root()).ok();
        let store_options = store_options(options, free_bytes);
        let opened = folder.open_shards(&store_options, options.shard_count, &schema)?;
        for refused in folder.refused_sstables() {
            options.events.event(&Event::SsTableRefused {
                keyspace: &refused.keyspace,
                table: &refused.table,
                reason: &refused.reason,
            });
        }
        if opened.write_sets_undone > 0 {
            let count = opened.write_sets_undone;
            options.events.event(&Event::WriteSetsUndone { count });
        }
        let resolved = opened.resolved;
        let stores = opened
            .shards
            .into_iter()
            .map(|(store, writer)| (store, Some(writer)))
            .collect();
        Ok(Opened {
            stores,
            resolved,
            schema,
            schema_keeper: Some(SchemaKeeper { folder, schema_store }),
            default_role,
            host_id,
        })
    }
}

fn with_system_keyspaces(mut schema: Schema) -> Result<Arc<Schema>, StartError> {
    add_system_keyspaces(&mut schema).map_err(|error| StartError::SystemKeyspaces(error.to_string()))?;
    Ok(Arc::new(schema))
}

/// Bytes of all shards' logs together before memtables are flushed for it: Cassandra's `commitlog_total_space`.
const LOG_BYTES_MAX: u64 = 8 << 30;

/// Divisor of the disk's free bytes at the start for the part that the logs may take, where that is less; Cassandra's, of
/// the whole disk.
const LOG_SHARE_OF_DISK: u64 = 4;

/// Below, a shard would flush for every segment.
const LOG_SEGMENTS_MIN: u64 = 4;

/// The bound of one shard's log.
fn log_bytes_max(options: &NodeOptions, free_bytes: Option<u64>) -> u64 {
    let bytes = LOG_BYTES_MAX.min(free_bytes.unwrap_or(u64::MAX) / LOG_SHARE_OF_DISK);
    let of_shard = bytes / u64::from(options.shard_count.max(1));
    of_shard.max(LOG_SEGMENTS_MIN * u64::from(options.commitlog_segment_bytes))
}

/// A shard's part of the node's memory that is for requests and answers; without a bound where nothing is refused.
fn request_memory_of(options: &NodeOptions) -> Arc<RequestMemory> {
    let shard_bytes = options.memory_bytes / u64::from(options.shard_count.max(1));
    RequestMemory::of_shard(shard_bytes, options.admission)
}

/// Compactions that run at once, of all shards.
pub(crate) fn concurrent_compactors(options: &NodeOptions) -> usize {
    options
        .compaction
        .concurrent_compactors
        .unwrap_or_else(|| usize::from(options.shard_count).clamp(2, 8))
}

/// `free_bytes` of the disk, if there is one.
pub(crate) fn store_options(options: &NodeOptions, free_bytes: Option<u64>) -> StoreOptions {
    let shard_bytes = options.memory_bytes / u64::from(options.shard_count.max(1));
    let memtable_bytes = shard_bytes / MEMTABLE_SHARE;
    let compactors = concurrent_compactors(options);
    let compaction_read_bytes = options.memory_bytes / COMPACTION_READ_SHARE / compactors.max(1) as u64;
    let work_bytes = WORK_BYTES_MAX.min(shard_bytes / WORK_SHARE);
    let cache_bytes = shard_bytes - memtable_bytes - shard_bytes / REQUEST_SHARE - work_bytes;
    let row_cache_bytes = if options.row_cache {
        cache_bytes / ROW_CACHE_SHARE
    } else {
        0
    };
    let as_usize = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    StoreOptions {
        memtable_bytes_max: as_usize(if options.in_memory {
            shard_bytes
        } else {
            memtable_bytes
        }),
        column_index_bytes: options.column_index_bytes,
        sstable_format: options.sstable_format,
        partition_guardrails: PartitionGuardrails {
            collection_size: options.guardrails.values.collection_size,
            items_per_collection: options.guardrails.values.items_per_collection,
            ..options.guardrails.partition
        },
        compaction: CompactionLimits::new(
            options.compaction.bytes_per_s_max,
            compactors,
            as_usize(compaction_read_bytes),
        ),
        chunk_cache_bytes_max: as_usize(cache_bytes - row_cache_bytes),
        row_cache_bytes_max: as_usize(row_cache_bytes),
        lent_bytes_max: as_usize(if options.in_memory { 0 } else { memtable_bytes }),
        vector_bytes_max: as_usize((cache_bytes - row_cache_bytes) / VECTOR_SHARE),
        walks_small_graphs: options.walks_small_graphs,
        read_step_units_max: options.read_step_units_max,
        log: LogOptions {
            segment_bytes: options.commitlog_segment_bytes,
            ..LogOptions::default()
        },
        log_bytes_max: log_bytes_max(options, free_bytes),
    }
}

/// How many tasks run before the event loop looks at the sockets again. Admission shares 5 ms among the turns between
/// two looks: with the runtime's 61, sixteen busy connections get four turns each, and each turn pays for its own read
/// and write. A look is one system call, and a shard that is not overloaded makes it whenever it has nothing to do.
const TASKS_PER_LOOK_AT_EVENTS: u32 = 16;

fn run_shard(shard: AssembledShard, open_doors: &OpenDoors, ready: &mpsc::Sender<()>) {
    let id = shard.id().0;
    let events = shard.events();
    // Before the threads that read for it are started: they do what a request waits for, too.
    let has_short_slices = helenus_scheduling::answer_soon();
    let has_slept = Arc::new(AtomicBool::new(true));
    let woken = has_slept.clone();
    let runtime = match Builder::new_current_thread()
        .enable_all()
        .event_interval(TASKS_PER_LOOK_AT_EVENTS)
        .on_thread_unpark(move || woken.store(true, Ordering::Relaxed))
        .build_local(LocalOptions::default())
    {
        Ok(runtime) => runtime,
        Err(error) => {
            events.event(&Event::ShardNotStarted {
                shard: id,
                error: &error,
            });
            return;
        }
    };
    let ran = runtime.block_on(shard.run(has_slept, |shard| {
        if id == 0 {
            shard.context.options.events.event(&Event::Started {
                disk_reads: shard.reader.disk_reads.borrow().name(),
                has_short_slices,
            });
        }
        open_doors(shard);
        // The starter waits for every shard, so it is still there.
        let _starting = ready.send(());
    }));
    if let Err(error) = ran {
        events.event(&Event::ShardNotStarted {
            shard: id,
            error: &error,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound was each shard's: 16 shards filled a disk of 100 GiB with segments that a table written rarely had pinned.
    #[test]
    fn the_bound_of_the_log_is_the_node_s_and_the_disk_s() {
        const GIB: u64 = 1 << 30;
        let bytes_max = |shard_count, free_bytes| {
            let options = NodeOptions {
                shard_count,
                ..NodeOptions::new(PathBuf::new())
            };
            log_bytes_max(&options, free_bytes)
        };
        assert_eq!(bytes_max(1, None), 8 * GIB);
        assert_eq!(bytes_max(16, Some(1000 * GIB)), GIB / 2);
        assert_eq!(bytes_max(4, Some(16 * GIB)), GIB);
        assert_eq!(bytes_max(16, Some(GIB)), 128 << 20, "some segments each");
    }
}
