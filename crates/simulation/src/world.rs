//! One seed: the lives of a node, and what its clients know of its tables.

mod accounts;
mod cells;
mod change_logs;
mod check;
mod counters;
mod crowds;
mod damage;
mod health;
mod indexes;
mod journal;
mod options;
mod registers;
mod tables;
mod vectors;
mod views;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_node::SsTableFormat;
use helenus_node::metrics::PANICS;
use helenus_protocol::ErrorCode;
use helenus_storage::commitlog::SEGMENT_BYTES_DEFAULT;
use helenus_storage::read_state::STEP_UNITS_MAX;
use helenus_test_node::{Answer, Complaints, Execution};
use helenus_vfs::{Random, SeededRandom, SimulatedDisk};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::SimulatedClock;
use crate::model::{Effect, Partition, Sent, Table};
use crate::node::SimulatedNode;
use crate::registers::Registers;
use crate::weather::Weather;
use crate::workload::{self, statement_text};
use crate::{Failure, Report};
use check::Uncertain;
use counters::Counters;
use journal::{Journal, brief, shortened};

/// How long after its deadline a request may be answered: twice the interval at which shards look for late ones, and the
/// millisecond in which timers are counted.
pub const LATE_MAX: Duration = Duration::from_millis(11);

const LIVES: u64 = 5;
const STATEMENTS_PER_LIFE: u64 = 300;
const READ_TIMEOUT: Duration = Duration::from_millis(300);
const RANGE_TIMEOUT: Duration = Duration::from_millis(600);
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);
const TRUNCATE_TIMEOUT: Duration = Duration::from_secs(5);
/// For schema changes, which have no deadline: many times the longest hang.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Statements that may be under way together.
const UNDER_WAY_MAX: u64 = 8;
/// Statements of a table that nobody knows the end of, at most: a life ends before the model has too many to try.
const UNCERTAIN_MAX: usize = 9;
/// Between two of which a copy of the disk is damaged.
const LIVES_PER_DAMAGE: u64 = 3;
/// A read that the weather held up is sent again so often.
const READ_TRIES: u32 = 200;
/// Bytes of a shard's memtables and caches beyond their budget, at most: what requests in flight were promised, of 16 KB at
/// most each here.
const MEMORY_BYTES_BEYOND: u64 = 128 << 10;
/// Table whose writes are not in the log, while those beside it are.
const NOT_DURABLE: &str = "v.t";
/// Clocks are set by at most a day.
const JUMP_US_MAX: u64 = 86_400_000_000;

/// Result of a part of a run: an error if something does not hold.
type Held<T> = Result<T, String>;

struct World {
    random: Arc<SeededRandom>,
    /// Randomness of what was added later: what else happens in a seed goes on as it did.
    later_random: SeededRandom,
    /// Lives may end with their process only.
    outlives_processes: bool,
    disk: Arc<SimulatedDisk>,
    clock: Arc<SimulatedClock>,
    weather: Arc<Weather>,
    format: SsTableFormat,
    row_cache: bool,
    walks_small_graphs: bool,
    read_step_units_max: u32,
    commitlog_segment_bytes: u32,
    tries_all_at_once: bool,
    memory_bytes_per_shard: u64,
    has_jumps: bool,
    tables: BTreeMap<String, Table>,
    tables_made: u64,
    under_way: Vec<UnderWay>,
    registers: Registers,
    registers_under_way: Vec<registers::RegisterUnderWay>,
    viewed_under_way: Vec<views::ViewedWrite>,
    /// Statements that make and drop indexes.
    indexes_under_way: Vec<JoinHandle<Held<Answer>>>,
    accounts_under_way: Vec<accounts::AccountUnderWay>,
    cells: cells::Cells,
    uncertain: Uncertain,
    counters: Counters,
    vectors: vectors::Vectors,
    /// Something was broken on purpose in this life.
    has_faults: bool,
    /// And works again since.
    is_healed: bool,
    complaints: Arc<Complaints>,
    journal: Rc<RefCell<Journal>>,
    report: Report,
}

struct UnderWay {
    table: String,
    statement: usize,
    text: String,
    answer: JoinHandle<Held<Answer>>,
}

enum Outcome {
    Acknowledged,
    Refused,
    Unknown,
}

/// Runs one seed.
pub fn run(seed: u64) -> Result<Report, Failure> {
    run_with_trace(seed).0
}

/// The last of what happens in a seed, oldest first.
pub fn trace(seed: u64) -> Vec<String> {
    run_with_trace(seed).1
}

fn run_with_trace(seed: u64) -> (Result<Report, Failure>, Vec<String>) {
    let mut world = World::new(seed);
    let panics_before = PANICS.load(Ordering::Relaxed);
    let mut held = Ok(());
    for life in 0..LIVES {
        held = world.live(life);
        if held.is_ok() && PANICS.load(Ordering::Relaxed) != panics_before {
            held = Err("something panicked".to_owned());
        }
        if held.is_err() {
            break;
        }
    }
    let journal = world.journal.borrow();
    let mut report = world.report;
    report.simulated = world.clock.elapsed();
    report.fingerprint = journal.fingerprint();
    let trace = journal.trace();
    let outcome = held.map(|()| report).map_err(|what| Failure {
        seed,
        what,
        trace: trace.clone(),
    });
    (outcome, trace)
}

fn runtime() -> LocalRuntime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default())
        .expect("a runtime without sockets needs nothing of the machine")
}

impl World {
    fn new(seed: u64) -> Self {
        let random = Arc::new(SeededRandom::new(seed));
        let formats = [
            SsTableFormat::Nb,
            SsTableFormat::Oa,
            SsTableFormat::Me,
            SsTableFormat::Da,
        ];
        let clock = Arc::new(SimulatedClock::default());
        let disk = SimulatedDisk::new(random.next_u64());
        disk.set_half_resident((seed / 16).is_multiple_of(2));
        World {
            disk: Arc::new(disk),
            clock: clock.clone(),
            weather: Arc::new(Weather::of_seed(random.clone())),
            format: formats[random.below(4) as usize],
            row_cache: random.below(2) == 0,
            walks_small_graphs: seed % 4 < 2,
            tries_all_at_once: (seed / 32).is_multiple_of(2),
            read_step_units_max: [STEP_UNITS_MAX, STEP_UNITS_MAX, 16, 1][(seed / 8 % 4) as usize],
            commitlog_segment_bytes: [SEGMENT_BYTES_DEFAULT, 256 << 10][(seed / 64 % 2) as usize],
            memory_bytes_per_shard: [128, 192, 1_024][random.below(3) as usize] << 10,
            has_jumps: random.below(4) == 0,
            random,
            later_random: SeededRandom::new(!seed),
            outlives_processes: matches!(seed % 8, 3 | 4),
            tables: BTreeMap::new(),
            tables_made: 0,
            under_way: Vec::new(),
            registers: Registers::default(),
            registers_under_way: Vec::new(),
            accounts_under_way: Vec::new(),
            cells: cells::Cells::default(),
            viewed_under_way: Vec::new(),
            indexes_under_way: Vec::new(),
            uncertain: Uncertain::Nothing,
            counters: Counters::of_seed(seed),
            vectors: vectors::Vectors::of_seed(seed),
            has_faults: false,
            is_healed: false,
            complaints: Arc::default(),
            journal: Rc::new(RefCell::new(Journal::new(clock.clone()))),
            report: Report::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn note(&self, what: impl Display) {
        self.journal.borrow_mut().note(what);
    }

    /// From a start to a crash or a stop.
    fn live(&mut self, life: u64) -> Held<()> {
        self.disk.set_free_bytes(None);
        if life > 0 && self.later_random.below(LIVES_PER_DAMAGE) == 0 {
            self.live_damaged()?;
        }
        // Several failures of the power in a row, while the log is replayed.
        while life > 0 && self.below(4) == 0 {
            self.disk.fail_power(self.below(60));
            let runtime = runtime();
            let clock = self.clock.clone();
            runtime.block_on(async {
                clock.life_begins();
                let started = SimulatedNode::start(self.options(), &self.weather).await;
                clock.life_ends();
                match started {
                    Err(error) if !self.disk.is_power_off() => {
                        Err(format!("the node does not start: {error}"))
                    }
                    _ => Ok(()),
                }
            })?;
            self.note("the power fails during a start");
            drop(runtime);
            self.disk.crash();
        }
        let runtime = runtime();
        let clock = self.clock.clone();
        let held = runtime.block_on(async {
            clock.life_begins();
            let held = self.live_inside(life).await;
            clock.life_ends();
            held
        });
        self.under_way.clear();
        self.counters.forget_answers();
        self.vectors.forget_answers();
        self.registers_under_way.clear();
        self.accounts_under_way.clear();
        self.viewed_under_way.clear();
        self.indexes_under_way.clear();
        drop(runtime);
        self.end_process();
        held?;
        self.cells.end_life()
    }

    async fn live_inside(&mut self, life: u64) -> Held<()> {
        let options = self.options();
        self.note(format_args!("start with {} shards", options.shard_count));
        self.report.starts += 1;
        let node = SimulatedNode::start(options, &self.weather).await;
        let node = node.map_err(|error| format!("the node does not start: {error}"))?;
        (self.has_faults, self.is_healed) = (false, false);
        let _of_the_last_life = self.complaints.take();
        self.check(&node).await?;
        if life == 0 {
            self.create_schema(&node).await?;
        }
        if self.below(4) > 0 {
            self.disk.fail_power(5 + self.below(250));
        } else if self.below(3) == 0 {
            self.break_disk();
        }
        for _ in 0..STATEMENTS_PER_LIFE {
            if self.disk.is_power_off()
                || !matches!(self.uncertain, Uncertain::Nothing)
                || self.is_too_uncertain()
            {
                break;
            }
            self.step(&node).await?;
            if self.counters.are_next() {
                self.step_counters(&node).await?;
            }
            if self.vectors.are_next() {
                self.step_vectors(&node).await?;
            }
            self.crowd_now_and_then(&node).await?;
        }
        if self.has_faults && !self.disk.is_power_off() && self.below(2) == 0 {
            self.heal(&node).await?;
        }
        let is_stopped = self.below(3) == 0 && matches!(self.uncertain, Uncertain::Nothing);
        if is_stopped {
            self.settle_all().await?;
            self.check_before_stop(&node).await?;
        }
        if is_stopped && !self.disk.is_power_off() {
            self.note("stop");
            let stopped = tokio::time::timeout(ANSWER_TIMEOUT, node.stop()).await;
            stopped.map_err(|_| "the node does not stop".to_owned())?;
        } else {
            self.note("crash");
            // What has been answered counts; what has not may be there or not.
            if self.below(2) == 0 {
                self.has_faults = true;
                self.disk.fail_power(0);
                self.settle_all().await?;
            }
        }
        Ok(())
    }

    /// Creates the schema that the first life begins with.
    async fn create_schema(&mut self, node: &SimulatedNode) -> Held<()> {
        self.create_counters(node).await?;
        let text =
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        self.change_schema(node, text).await?;
        for _ in 0..2 {
            self.create_table(node).await?;
        }
        self.change_schema(node, registers::CREATE).await?;
        self.change_schema(node, accounts::CREATE).await?;
        self.change_schema(node, cells::CREATE).await?;
        for text in views::CREATE {
            self.change_schema(node, text).await?;
        }
        self.change_schema(node, change_logs::CREATE).await?;
        self.create_vectors(node).await?;
        let text = "CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} \
                    AND durable_writes = false";
        self.change_schema(node, text).await?;
        let text = format!("CREATE TABLE {NOT_DURABLE} (p int PRIMARY KEY, w int)");
        self.change_schema(node, &text).await?;
        Ok(())
    }

    async fn step(&mut self, node: &SimulatedNode) -> Held<()> {
        self.check_complaints()?;
        if self.has_jumps && self.below(50) == 0 {
            let jump_us = self.below(2 * JUMP_US_MAX) as i64 - JUMP_US_MAX as i64;
            self.note(format_args!("the wall clock jumps by {jump_us} us"));
            self.clock.jump_wall_us(jump_us);
        }
        let pause_us = match self.below(100) {
            0..40 => 0,
            40..60 => 100,
            60..80 => 3_000,
            80..99 => 50_000,
            // Nobody asks for anything, and what is due all the same is done.
            _ => 300_000,
        };
        if pause_us > 0 {
            tokio::time::sleep(Duration::from_micros(self.below(pause_us))).await;
        }
        if let Some((shard, bytes)) = node.fullest() {
            let bytes_max = self.memory_bytes_per_shard + MEMORY_BYTES_BEYOND;
            if bytes > bytes_max {
                return Err(format!(
                    "shard {shard} holds {bytes} bytes of memtables and caches, of {bytes_max}"
                ));
            }
        }
        match self.below(84) {
            0 => self.create_table(node).await,
            1 => self.drop_table(node).await,
            2 | 3 => self.truncate(node).await,
            4 => self.add_column(node).await,
            5 => self.add_column_beside_prepares(node).await,
            6 => self.compact(node).await,
            7..26 => self.read(node).await,
            26..30 => self.use_register(node).await,
            30..40 => self.use_cell(node).await,
            40..50 => self.use_accounts(node).await,
            50 if self.below(3) == 0 => {
                self.change_index(node);
                Ok(())
            }
            50..60 => self.write_viewed(node).await,
            60..64 => self.write_logged(node).await,
            _ => self.write(node).await,
        }
    }

    /// Sends a statement that must be answered within `limit`.
    fn submit(
        &mut self,
        node: &SimulatedNode,
        text: &str,
        execution: Execution,
        limit: Duration,
    ) -> JoinHandle<Held<Answer>> {
        self.report.statements += 1;
        self.note(text);
        let shard = self.below(8) as usize;
        let answer = node.execute(shard, text.to_owned(), execution);
        self.answered(answer, shortened(text).to_owned(), limit)
    }

    /// Notes an answer, and fails where it is not in time.
    fn answered(
        &self,
        answer: impl Future<Output = Answer> + 'static,
        text: String,
        limit: Duration,
    ) -> JoinHandle<Held<Answer>> {
        let journal = self.journal.clone();
        tokio::task::spawn_local(async move {
            let sent = Instant::now();
            let answer = tokio::time::timeout(limit + Duration::from_secs(5), answer).await;
            let took = sent.elapsed();
            match answer {
                Ok(answer) if took <= limit => {
                    journal
                        .borrow_mut()
                        .note(format_args!("{text}: {}", brief(&answer)));
                    Ok(answer)
                }
                Ok(answer) => Err(format!("{text} was answered after {took:?} with {answer:?}")),
                Err(_) => Err(format!("{text} is not answered after {took:?}")),
            }
        })
    }

    /// Tells by an answer whether a statement was done; an error that it may not give is a failure.
    fn outcome(&mut self, answer: &Answer, text: &str) -> Held<Outcome> {
        let Answer::Error { code, message } = answer else {
            self.report.acknowledged += 1;
            return Ok(Outcome::Acknowledged);
        };
        match code {
            ErrorCode::Overloaded => {
                self.report.refused += 1;
                Ok(Outcome::Refused)
            }
            ErrorCode::WriteTimeout | ErrorCode::ReadTimeout | ErrorCode::CasWriteUnknown => {
                self.report.timed_out += 1;
                Ok(Outcome::Unknown)
            }
            _ if self.may_be_refused(message) => Ok(Outcome::Unknown),
            _ => Err(format!("{}: {code:?}: {message}", shortened(text))),
        }
    }

    async fn write(&mut self, node: &SimulatedNode) -> Held<()> {
        while self.under_way.len() as u64 > self.below(UNDER_WAY_MAX) {
            let index = self.below(self.under_way.len() as u64) as usize;
            let sent = self.under_way.swap_remove(index);
            self.settle(sent).await?;
        }
        let Some(name) = self.any_table() else {
            return Ok(());
        };
        let statement = self.report.statements as usize;
        let parts = if self.below(4) == 0 {
            workload::effects_of_batch(&self.random)
        } else {
            vec![workload::effect(&self.random)]
        };
        let is_whole = self.below(3) > 0;
        let not_durable = (self.below(8) == 0).then(|| {
            let p = self.below(workload::PARTITIONS);
            format!("INSERT INTO {NOT_DURABLE} (p, w) VALUES ({p}, {statement})")
        });
        let text = statement_text(&name, statement, &parts, is_whole, not_durable.as_deref());
        let mut by_partition: BTreeMap<i32, Vec<Effect>> = BTreeMap::new();
        for (partition, effect) in parts {
            by_partition.entry(partition).or_default().push(effect);
        }
        if let Some(table) = self.tables.get_mut(&name) {
            table
                .sent
                .extend(by_partition.into_iter().map(|(partition, effects)| Sent {
                    statement,
                    partition,
                    effects,
                    is_acknowledged: false,
                    is_whole,
                }));
        }
        let answer = self.submit(node, &text, Execution::default(), WRITE_TIMEOUT + LATE_MAX);
        self.under_way.push(UnderWay {
            table: name,
            statement,
            text,
            answer,
        });
        Ok(())
    }

    async fn settle(&mut self, sent: UnderWay) -> Held<()> {
        let answer = sent.answer.await.map_err(|error| error.to_string())??;
        let outcome = self.outcome(&answer, &sent.text)?;
        if let Some(table) = self.tables.get_mut(&sent.table) {
            match outcome {
                Outcome::Acknowledged => table.acknowledge(sent.statement),
                Outcome::Refused => table.refuse(sent.statement),
                Outcome::Unknown => {}
            }
        }
        Ok(())
    }

    async fn settle_all(&mut self) -> Held<()> {
        self.settle_counters().await?;
        self.settle_vectors().await?;
        for sent in std::mem::take(&mut self.under_way) {
            self.settle(sent).await?;
        }
        self.settle_registers().await?;
        self.settle_accounts().await?;
        self.settle_cells().await?;
        self.settle_all_viewed().await
    }

    fn is_too_uncertain(&self) -> bool {
        self.tables
            .values()
            .any(|table| table.uncertain() >= UNCERTAIN_MAX)
    }

    fn any_table(&self) -> Option<String> {
        let count = self.tables.len() as u64;
        let index = (count > 0).then(|| self.below(count) as usize)?;
        self.tables.keys().nth(index).cloned()
    }

    /// One partition, which must hold what was acknowledged before.
    async fn read(&mut self, node: &SimulatedNode) -> Held<()> {
        let Some(name) = self.any_table() else {
            return Ok(());
        };
        let partition = self.below(workload::PARTITIONS) as i32;
        let acknowledged: BTreeSet<usize> = self.tables[&name].acknowledged();
        let text = format!("SELECT p, c, v, w FROM k.{name} WHERE p = {partition}");
        let answer = self.submit(node, &text, Execution::default(), READ_TIMEOUT + LATE_MAX);
        let answer = answer.await.map_err(|error| error.to_string())??;
        let Answer::Rows(rows) = &answer else {
            self.outcome(&answer, &text)?;
            return Ok(());
        };
        let mut found: BTreeMap<i32, Partition> = BTreeMap::new();
        workload::collect_rows(rows, &mut found)?;
        self.report.reads_checked += 1;
        self.tables[&name]
            .explain_read(
                partition,
                &found.remove(&partition).unwrap_or_default(),
                &acknowledged,
            )
            .map_err(|error| format!("{text}: {error}"))
    }
}
