//! One node of a run, under one configuration.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::mem;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use helenus_node::{Operator, SsTableFormat, TombstoneLimits};
use helenus_protocol::ErrorCode;
use helenus_schema::Schema;
use helenus_test_node::{Answer, Complaints, Execution, Pending, TestNode, options};
use helenus_tools::host::Host as _;
use helenus_vfs::{Disk, Fault, FaultKind, MemoryDisk, Operation, SimulatedDisk};

use crate::clock::HistoryClock;
use crate::configuration::{Configuration, Home};
use crate::events;
use crate::failure::{Difference, FailureKind, Trouble};
use crate::generate::without_indexes;
use crate::script::{Event, Statement};
use crate::seen::Seen;

/// Shards, one count after the other, so that every restart with another count splits or joins what is there.
const SHARD_COUNTS: [u16; 4] = [1, 2, 3, 5];
/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A node builds a view of a few rows in less.
const BUILT_ASKED_AFTER: Duration = Duration::from_millis(2);
/// No statement of a history fails for being late; one that is never answered is found by [`PATIENCE`].
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// More pages than any table of a history has rows.
pub const PAGES_MAX: usize = 100_000;

pub struct Instance {
    configuration: Configuration,
    disk: Option<Arc<SimulatedDisk>>,
    clock: Arc<HistoryClock>,
    complaints: Arc<Complaints>,
    /// There but within an event, or after one that failed.
    node: Option<TestNode>,
    /// Rows that were written to see what a failed sync does.
    probes: i32,
    /// By their texts, of the node that runs.
    prepared: HashMap<String, Vec<u8>>,
    /// How many reads had gone by an index when it was last looked at.
    index_reads: u64,
}

const FILTERING: &str = " ALLOW FILTERING";
/// A node builds an index of a few rows in less.
const INDEX_ASKED_AFTER: Duration = Duration::from_millis(1);

/// Statement that a node without indexes gets instead.
const NO_INDEX: &str = "DROP INDEX IF EXISTS interchange.none";

/// Returns whether a statement was refused because an index that it needs is not built yet, by a node or Cassandra.
pub fn is_being_built(code: ErrorCode, message: &str) -> bool {
    code == ErrorCode::ReadFailure && message.contains("INDEX_NOT_AVAILABLE")
}

fn is_about_indexes(text: &str) -> bool {
    text.starts_with("CREATE INDEX ") || text.starts_with("DROP INDEX ")
}

/// A statement on its way to one node.
pub struct UnderWay {
    execution: Execution,
    pending: Pending,
}

impl Instance {
    pub fn start(configuration: Configuration, clock: Arc<HistoryClock>) -> Result<Instance, Trouble> {
        let disk = (configuration.home == Home::Disk).then(|| Arc::new(SimulatedDisk::new(1)));
        if let Some(disk) = &disk {
            disk.set_half_resident(configuration.resident);
        }
        let mut instance = Instance {
            configuration,
            disk,
            clock,
            complaints: Arc::default(),
            node: None,
            probes: 0,
            prepared: HashMap::new(),
            index_reads: 0,
        };
        instance.start_node()?;
        Ok(instance)
    }

    fn start_node(&mut self) -> Result<(), Trouble> {
        let disk: Arc<dyn Disk> = match &self.disk {
            Some(disk) => disk.clone(),
            None => Arc::new(MemoryDisk::new()),
        };
        let mut options = options(self.configuration.shard_count, disk, self.clock.clone());
        options.events = self.complaints.clone();
        options.in_memory = self.configuration.home == Home::Memory;
        options.memory_bytes = self.configuration.memory_mib << 20;
        options.row_cache = self.configuration.row_cache;
        options.walks_small_graphs = self.configuration.walks;
        options.tries_all_at_once = self.configuration.at_once;
        options.read_step_units_max = self.configuration.step_units;
        options.commitlog_segment_bytes = self.configuration.segment_mib << 20;
        options.admission = false;
        // How many tombstones a page meets depends on its rows and on what was compacted.
        options.tombstones = TombstoneLimits::NONE;
        options.column_index_bytes = self.configuration.column_index_kib << 10;
        options.sstable_format = self.configuration.format;
        options.read_request_timeout = REQUEST_TIMEOUT;
        options.range_request_timeout = REQUEST_TIMEOUT;
        options.write_request_timeout = REQUEST_TIMEOUT;
        options.truncate_request_timeout = REQUEST_TIMEOUT;
        let node =
            TestNode::start(options).map_err(|error| Trouble::broken("the node does not start", error))?;
        self.node = Some(node);
        self.prepared.clear();
        Ok(())
    }

    /// `turn` chooses the shard whose connection it comes in on.
    pub fn submit(&mut self, statement: &Statement, turn: usize) -> UnderWay {
        let shard_count = usize::from(self.configuration.shard_count);
        let execution = Execution {
            values: statement
                .values
                .iter()
                .map(|value| value.as_ref().map(crate::value::Value::bytes))
                .collect(),
            page_size: self.configuration.page_rows,
            shard: (turn % shard_count) as u16,
            ..Execution::default()
        };
        let pending = self.send(&self.told(statement), &execution);
        UnderWay { execution, pending }
    }

    /// Returns the text of a statement as the node gets it.
    fn told<'s>(&self, statement: &'s Statement) -> Cow<'s, str> {
        let text = &statement.text;
        let filters = self.configuration.filtering && text.starts_with("SELECT ") && text.contains(" WHERE ");
        match self.is_told(statement) {
            false => Cow::Borrowed(NO_INDEX),
            true if filters => {
                let text = without_indexes(text);
                match text.ends_with(FILTERING) {
                    true => Cow::Owned(text),
                    false => Cow::Owned(format!("{text}{FILTERING}")),
                }
            }
            true => Cow::Borrowed(text),
        }
    }

    /// Returns whether the node sees the statement, and its answer is one to it.
    pub fn is_told(&self, statement: &Statement) -> bool {
        self.configuration.indexes || !is_about_indexes(&statement.text)
    }

    /// Executes what was prepared, also long ago, or the text.
    fn send(&mut self, text: &str, execution: &Execution) -> Pending {
        match self.prepared_id(text, execution) {
            Some(id) => self.node().submit_prepared(&id, execution),
            None => self.node().submit(text, execution),
        }
    }

    /// `None` for what is not prepared here, or refused, which is then seen in the same way as where nothing is.
    fn prepared_id(&mut self, text: &str, execution: &Execution) -> Option<Vec<u8>> {
        let is_prepared = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "BEGIN "]
            .iter()
            .any(|start| text.starts_with(start));
        if !self.configuration.prepared || !is_prepared {
            return None;
        }
        if let Some(id) = self.prepared.get(text) {
            return Some(id.clone());
        }
        let Some(Answer::Prepared { id, .. }) =
            self.node().submit_prepare(text, execution).wait_for(PATIENCE)
        else {
            return None;
        };
        self.prepared.insert(text.to_owned(), id.clone());
        Some(id)
    }

    /// Waits for the answer, and asks for the pages after the first.
    pub fn finish(&mut self, statement: &Statement, under_way: UnderWay) -> Result<Seen, Trouble> {
        let UnderWay {
            mut execution,
            mut pending,
        } = under_way;
        let told = self.told(statement);
        let began = Instant::now();
        let mut all: Option<Seen> = None;
        for _ in 0..PAGES_MAX {
            let Some(answer) = pending.wait_for(PATIENCE) else {
                self.give_up();
                return Err(Trouble {
                    kind: FailureKind::Hang,
                    text: format!("no answer within {PATIENCE:?}"),
                });
            };
            if let Answer::Error { code, message } = &answer
                && self.is_to_be_sent_again(*code, message, began)
            {
                self.prepared.remove(&*told);
                pending = self.send(&told, &execution);
                continue;
            }
            let Answer::Rows(mut page) = answer else {
                return Ok(Seen::of(answer));
            };
            execution.paging_state = page.paging_state.take();
            Seen::add_page(&mut all, page);
            if execution.paging_state.is_none() {
                return Ok(all.unwrap_or(Seen::Done));
            }
            pending = self.send(&told, &execution);
        }
        Err(Trouble {
            kind: FailureKind::Hang,
            text: format!("more than {PAGES_MAX} pages"),
        })
    }

    /// As drivers do with what is no longer prepared, and patient clients with what an index will answer.
    fn is_to_be_sent_again(&self, code: ErrorCode, message: &str, began: Instant) -> bool {
        let is_being_built = is_being_built(code, message);
        if is_being_built {
            std::thread::sleep(INDEX_ASKED_AFTER);
        }
        code == ErrorCode::Unprepared || is_being_built && began.elapsed() < PATIENCE
    }

    /// Returns whether any read has gone by a secondary index since this was asked before, or since the last event.
    pub fn has_read_by_index(&mut self) -> bool {
        let now = self.count_index_reads();
        now > mem::replace(&mut self.index_reads, now)
    }

    fn count_index_reads(&self) -> u64 {
        let Some(node) = self.node.as_ref().filter(|_| self.configuration.indexes) else {
            return 0;
        };
        let counts = (0..node.shard_count())
            .map(|shard| node.on_shard(shard, |shard| shard.metrics_snapshot().index_reads));
        counts.sum()
    }

    /// Waits until all views are built: what a node does for itself is given timestamps as statements are, which conditional
    /// ones show.
    pub fn wait_until_built(&mut self) -> Result<(), Trouble> {
        let schema = self.schema();
        let views = schema.keyspaces.values().map(|keyspace| keyspace.views.len());
        let views: usize = views.sum();
        let began = Instant::now();
        while views > 0 && self.node().rows("SELECT view_name FROM system.built_views").len() < views {
            if began.elapsed() > PATIENCE {
                return Err(Trouble {
                    kind: FailureKind::Hang,
                    text: format!("a view is not built after {PATIENCE:?}"),
                });
            }
            std::thread::sleep(BUILT_ASKED_AFTER);
        }
        Ok(())
    }

    pub fn schema(&self) -> Arc<Schema> {
        let node = self
            .node
            .as_ref()
            .expect("a run ends with the first event that fails");
        node.operator().schema().expect("a running node has a schema")
    }

    pub fn happen(&mut self, event: Event) -> Result<(), Trouble> {
        self.take_place(event)?;
        if event.breaks_something() {
            let _expected = self.complaints.take();
        }
        self.index_reads = self.count_index_reads();
        Ok(())
    }

    /// A node in which nothing is broken tells its operator of no fault.
    pub fn check_complaints(&self) -> Result<(), Trouble> {
        match self.complaints.take() {
            None => Ok(()),
            Some(told) => Err(Trouble::broken(
                "nothing was broken, and the operator is told",
                told,
            )),
        }
    }

    fn take_place(&mut self, event: Event) -> Result<(), Trouble> {
        let Some(disk) = self.disk.clone() else {
            return Ok(());
        };
        match event {
            Event::Clock { .. } => Ok(()),
            Event::Flush => self.operate("flush", |operator| {
                operator.flush(None).map_err(|error| error.to_string())
            }),
            Event::Compact => self.operate("compact", events::compact),
            Event::Restore => self.operate("restore", events::restore),
            Event::Interchange => {
                let format = next(&SsTableFormat::ALL, &self.configuration.format);
                self.operate("interchange", move |operator| {
                    events::interchange(operator, format)
                })
            }
            Event::FullDisk => self.fill_disk(&disk),
            Event::FailedSync { after } => self.fail_sync(&disk, after),
            Event::FlippedBit { place } => self.flip_bit(&disk, place),
            Event::Restart => self.restart(),
            Event::Kill => self.fail_power(&disk),
            Event::Replace => self.replace(),
            Event::Reshard => {
                self.configuration.shard_count = next(&SHARD_COUNTS, &self.configuration.shard_count);
                self.restart()
            }
            Event::Reformat => {
                self.configuration.format = next(&SsTableFormat::ALL, &self.configuration.format);
                self.restart()
            }
        }
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.node().stop();
        self.node = None;
        self.start_node()
    }

    /// All that reaches a shard of a replacement: its sockets are not seen here.
    fn replace(&mut self) -> Result<(), Trouble> {
        self.operate("flush of a node that is replaced", |operator| {
            operator.flush(None).map_err(|error| error.to_string())
        })?;
        let before = events::contents(self.node());
        let begun = events::begin_pages(self.node());
        let counting = events::begin_counting(self.node());
        self.node().stop();
        self.node = None;
        // Clients know nothing of it.
        let prepared = mem::take(&mut self.prepared);
        self.start_node()?;
        self.prepared = prepared;
        let failed = |error| Trouble::broken("replacement", error);
        counting.check(self.node()).map_err(failed)?;
        events::finish_pages(self.node(), begun, &before).map_err(failed)
    }

    fn fail_power(&mut self, disk: &SimulatedDisk) -> Result<(), Trouble> {
        self.node().crash();
        self.node = None;
        disk.crash();
        self.start_node()
    }

    fn fill_disk(&mut self, disk: &SimulatedDisk) -> Result<(), Trouble> {
        disk.set_free_bytes(Some(0));
        // Whether it could be flushed is nobody's concern, as long as it ends.
        let ended = self.operate("flush on a full disk", |operator| {
            let _not_flushed = operator.flush(None);
            Ok(())
        });
        disk.set_free_bytes(None);
        ended?;
        self.restart()
    }

    fn fail_sync(&mut self, disk: &SimulatedDisk, after: u64) -> Result<(), Trouble> {
        let first = self.probes;
        self.probes += events::PROBES;
        events::make_probe_table(self.node());
        disk.inject(Fault {
            operation: Operation::Sync,
            after,
            kind: FaultKind::Error,
        });
        let acknowledged = events::write_probes(self.node(), first);
        let acknowledged = acknowledged.map_err(|error| Trouble::broken("failed sync", error))?;
        self.fail_power(disk)?;
        events::check_probes(self.node(), &acknowledged)
            .map_err(|error| Trouble::broken("failed sync", error))
    }

    fn flip_bit(&mut self, disk: &SimulatedDisk, place: u64) -> Result<(), Trouble> {
        let failed = |error: &dyn Display| Trouble::broken("flipped bit", error);
        // Nothing of the folder is kept: the next start locks it.
        let folder = self
            .node()
            .operator()
            .data_folder()
            .map(|data| data.data_folder());
        let folder = folder.map_err(|error| failed(&error))?;
        let before = events::contents(self.node());
        self.node().stop();
        self.node = None;
        let files = events::sstable_files(disk, &folder).map_err(|error| failed(&error))?;
        let count = files.len() as u64;
        let chosen = place
            .checked_rem(count)
            .and_then(|index| files.get(index as usize));
        let Some((path, length)) = chosen else {
            return self.start_node();
        };
        let bit = place / count % (length * 8);
        let what = format!("bit {bit} of {} flipped", path.display());
        disk.flip_bit(path, bit).map_err(|error| failed(&error))?;
        self.start_node()?;
        let incomplete =
            events::incomplete_tables(&self.node().operator()).map_err(|error| failed(&error))?;
        for ((name, before), (_, after)) in before.iter().zip(events::contents(self.node())) {
            // An error is right, too, and the node names the SSTables that it does without.
            if after.is_some() && *before != after && !incomplete.contains(name) {
                return Err(Trouble {
                    kind: FailureKind::Disagreement(Difference::Rows),
                    text: format!("{what}: {name} has other rows"),
                });
            }
        }
        self.node().stop();
        self.node = None;
        // It may have been compacted away.
        let _gone = disk.flip_bit(path, bit);
        self.start_node()
    }

    /// On a thread of its own, since what hangs can not be told to end.
    fn operate(
        &mut self,
        what: &str,
        work: impl FnOnce(&Operator) -> Result<(), String> + Send + 'static,
    ) -> Result<(), Trouble> {
        let operator = self.node().operator();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // Nobody listens any more where it took too long.
            let _gone = sender.send(work(&operator));
        });
        match receiver.recv_timeout(PATIENCE) {
            Ok(outcome) => outcome.map_err(|error| Trouble::broken(what, error)),
            Err(_) => {
                self.give_up();
                Err(Trouble {
                    kind: FailureKind::Hang,
                    text: format!("{what} did not end within {PATIENCE:?}"),
                })
            }
        }
    }

    /// Abandons the node, whose end would hang too: its threads stay until the process ends.
    fn give_up(&mut self) {
        std::mem::forget(self.node.take());
    }

    fn node(&mut self) -> &mut TestNode {
        self.node
            .as_mut()
            .expect("a run ends with the first event that fails")
    }
}

fn next<T: Clone + PartialEq>(cycle: &[T], now: &T) -> T {
    let place = cycle.iter().position(|one| one == now).unwrap_or(0);
    cycle[(place + 1) % cycle.len()].clone()
}
