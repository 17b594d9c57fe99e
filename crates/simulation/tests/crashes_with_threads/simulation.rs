//! One seed: a workload, crashes in the middle of it, and the check after each start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helenus_node::NodeOptions;
use helenus_test_node::{Answer, Execution, Pending, TestNode, options};
use helenus_vfs::{Disk, Random, SeededRandom, SimulatedDisk, SystemClock};

use helenus_simulation::model::{Effect, Partition, Sent, Table};
use helenus_simulation::workload::{self, statement_text};

const ROUNDS: u64 = 4;
/// Statements that may be under way when the power fails.
const UNDER_WAY_MAX: usize = 8;
/// Small enough that a round flushes some memtables of each shard, and compactions follow.
const MEMORY_BYTES_PER_SHARD: u64 = 192 << 10;

pub struct Simulation {
    random: SeededRandom,
    disk: Arc<SimulatedDisk>,
    node: Option<TestNode>,
    shard_count: u16,
    tables: BTreeMap<String, Table>,
    tables_made: u64,
    statements: usize,
    under_way: Vec<(String, usize, Pending)>,
    sstables_seen: u64,
    /// The node was told to end, so that its last answers may be errors.
    is_ending: bool,
}

/// A statement that is not yet known to have happened, and is alone on its way.
enum Uncertain {
    Nothing,
    Create(String),
    Drop(String),
    Truncate(String),
    AddColumn,
}

/// Runs one seed; how many SSTables were seen.
pub fn run(seed: u64) -> u64 {
    let mut simulation = Simulation::new(seed);
    simulation.start();
    simulation
        .run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    for _ in 0..2 {
        simulation.create_table();
    }
    for _ in 0..ROUNDS {
        let uncertain = simulation.round();
        simulation.crash_and_start();
        simulation.check(uncertain);
    }
    simulation.sstables_seen
}

impl Simulation {
    fn new(seed: u64) -> Self {
        Simulation {
            random: SeededRandom::new(seed),
            disk: Arc::new(SimulatedDisk::new(seed)),
            node: None,
            shard_count: 1,
            tables: BTreeMap::new(),
            tables_made: 0,
            statements: 0,
            under_way: Vec::new(),
            sstables_seen: 0,
            is_ending: false,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn options(&self) -> NodeOptions {
        let mut options = options(self.shard_count, self.disk.clone(), Arc::new(SystemClock::new()));
        options.memory_bytes = MEMORY_BYTES_PER_SHARD * u64::from(self.shard_count);
        options.write_request_timeout = Duration::from_millis(200);
        options
    }

    fn start(&mut self) {
        self.shard_count = 1 + self.below(3) as u16;
        self.trace(&format!("start with {} shards", self.shard_count));
        let node = TestNode::start(self.options());
        self.node = Some(node.unwrap_or_else(|error| panic!("the node does not start: {error}")));
    }

    /// Shown when the seed fails.
    fn trace(&self, what: &str) {
        eprintln!("{}", what.get(..200).unwrap_or(what));
    }

    fn node(&self) -> &TestNode {
        self.node.as_ref().expect("started")
    }

    fn run(&self, text: &str) {
        self.node().run(text);
    }

    /// On a connection of any shard.
    fn submit(&self, text: &str) -> Pending {
        self.trace(text);
        let shard = self.below(u64::from(self.shard_count)) as u16;
        let execution = Execution {
            shard,
            ..Execution::default()
        };
        self.node().submit(text, &execution)
    }

    /// Returns whether it was acknowledged; a statement may only fail because the power did.
    fn is_acknowledged(&self, pending: Pending, text: &str) -> bool {
        match pending.wait() {
            Some(Answer::Error { code, message }) => {
                let may_fail = self.is_ending || self.disk.is_power_off();
                assert!(may_fail, "{text}: {code:?}: {message}");
                false
            }
            Some(_) => {
                self.trace(&format!("acknowledged: {text}"));
                true
            }
            None => false,
        }
    }

    /// Statements until the power fails; what is uncertain besides the writes under way.
    fn round(&mut self) -> Uncertain {
        self.disk.fail_power(5 + self.below(150));
        for _ in 0..400 {
            if self.disk.is_power_off() {
                break;
            }
            let uncertain = match self.below(60) {
                0 => self.create_table(),
                1 => self.drop_table(),
                2 | 3 => self.truncate(),
                4 => self.add_column(),
                _ => {
                    self.write();
                    Uncertain::Nothing
                }
            };
            if !matches!(uncertain, Uncertain::Nothing) {
                return uncertain;
            }
        }
        Uncertain::Nothing
    }

    fn write(&mut self) {
        while self.under_way.len() >= UNDER_WAY_MAX {
            let index = self.below(self.under_way.len() as u64) as usize;
            let (table, statement, pending) = self.under_way.swap_remove(index);
            self.settle(&table, statement, pending);
        }
        let Some(name) = self.any_table() else { return };
        self.statements += 1;
        let parts = if self.below(4) == 0 {
            workload::effects_of_batch(&self.random)
        } else {
            vec![workload::effect(&self.random)]
        };
        let timestamp = self.statements;
        let is_whole = self.below(3) > 0;
        let text = statement_text(&name, timestamp, &parts, is_whole, None);
        let mut by_partition: BTreeMap<i32, Vec<Effect>> = BTreeMap::new();
        for (partition, effect) in parts {
            by_partition.entry(partition).or_default().push(effect);
        }
        let table = self.tables.get_mut(&name).expect("chosen from the map");
        table
            .sent
            .extend(by_partition.into_iter().map(|(partition, effects)| Sent {
                statement: timestamp,
                partition,
                effects,
                is_acknowledged: false,
                is_whole,
            }));
        let pending = self.submit(&text);
        self.under_way.push((name, timestamp, pending));
    }

    fn settle(&mut self, table: &str, statement: usize, pending: Pending) {
        if self.is_acknowledged(pending, &format!("write {statement}"))
            && let Some(table) = self.tables.get_mut(table)
        {
            table.acknowledge(statement);
        }
    }

    fn settle_all(&mut self) {
        for (table, statement, pending) in std::mem::take(&mut self.under_way) {
            self.settle(&table, statement, pending);
        }
    }

    fn any_table(&self) -> Option<String> {
        let count = self.tables.len() as u64;
        let index = (count > 0).then(|| self.below(count) as usize)?;
        self.tables.keys().nth(index).cloned()
    }

    fn create_table(&mut self) -> Uncertain {
        let name = format!("t{}", self.tables_made);
        self.tables_made += 1;
        let text = format!(
            "CREATE TABLE k.{name} (p int, c int, v text, w int, PRIMARY KEY (p, c)) WITH gc_grace_seconds = 0"
        );
        let pending = self.submit(&text);
        if !self.is_acknowledged(pending, &text) {
            return Uncertain::Create(name);
        }
        self.tables.insert(name, Table::default());
        Uncertain::Nothing
    }

    fn drop_table(&mut self) -> Uncertain {
        if self.tables.len() < 3 {
            return Uncertain::Nothing;
        }
        self.settle_all();
        let Some(name) = self.any_table() else {
            return Uncertain::Nothing;
        };
        let text = format!("DROP TABLE k.{name}");
        let pending = self.submit(&text);
        if !self.is_acknowledged(pending, &text) {
            return Uncertain::Drop(name);
        }
        self.tables.remove(&name);
        Uncertain::Nothing
    }

    fn truncate(&mut self) -> Uncertain {
        self.settle_all();
        let Some(name) = self.any_table().filter(|name| self.tables[name].is_certain()) else {
            return Uncertain::Nothing;
        };
        self.tables.entry(name.clone()).or_default().make_certain();
        let text = format!("TRUNCATE k.{name}");
        let pending = self.submit(&text);
        if !self.is_acknowledged(pending, &text) {
            return Uncertain::Truncate(name);
        }
        self.tables.insert(name, Table::default());
        Uncertain::Nothing
    }

    fn add_column(&mut self) -> Uncertain {
        let Some(name) = self.any_table() else {
            return Uncertain::Nothing;
        };
        self.statements += 1;
        let text = format!("ALTER TABLE k.{name} ADD x{} int", self.statements);
        let pending = self.submit(&text);
        if self.is_acknowledged(pending, &text) {
            Uncertain::Nothing
        } else {
            Uncertain::AddColumn
        }
    }

    fn crash_and_start(&mut self) {
        if self.below(3) > 0 {
            self.disk.fail_power(0);
        }
        self.is_ending = true;
        self.node = None;
        self.settle_all();
        self.is_ending = false;
        self.disk.crash();
        // The power fails again while the log is replayed, now and then several times.
        while self.below(3) == 0 {
            self.disk.fail_power(self.below(40));
            self.shard_count = 1 + self.below(3) as u16;
            match TestNode::start(self.options()) {
                Ok(mut node) => node.crash(),
                Err(error) => assert!(self.disk.is_power_off(), "the node does not start: {error}"),
            }
            self.disk.crash();
        }
        self.start();
    }

    fn check(&mut self, uncertain: Uncertain) {
        match uncertain {
            Uncertain::Nothing | Uncertain::AddColumn => {}
            Uncertain::Create(name) => {
                if self.rows_of(&name).is_some() {
                    self.tables.insert(name, Table::default());
                }
            }
            Uncertain::Drop(name) => {
                if self.rows_of(&name).is_none() {
                    self.tables.remove(&name);
                }
            }
            Uncertain::Truncate(name) => {
                let found = self.rows_of(&name).expect("a truncated table is there");
                let table = self.tables.get_mut(&name).expect("chosen from the map");
                table
                    .explain_truncated(&found)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
        let names: Vec<String> = self.tables.keys().cloned().collect();
        for name in names {
            let found = self
                .rows_of(&name)
                .unwrap_or_else(|| panic!("table {name} is lost"));
            self.explain(&name, &found);
        }
        self.sstables_seen += self.count_sstables();
    }

    fn explain(&mut self, name: &str, found: &BTreeMap<i32, Partition>) {
        let table = self.tables.get_mut(name).expect("chosen from the map");
        table
            .explain(found)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// In pages; `None` if there is no such table.
    fn rows_of(&self, name: &str) -> Option<BTreeMap<i32, Partition>> {
        let mut partitions: BTreeMap<i32, Partition> = BTreeMap::new();
        let mut execution = Execution {
            page_size: Some(7),
            ..Execution::default()
        };
        loop {
            let answer = self
                .node()
                .execute_with(&format!("SELECT p, c, v, w FROM k.{name}"), &execution);
            let page = match answer {
                Answer::Rows(page) => page,
                Answer::Error { message, .. } if message.contains("does not exist") => return None,
                other => panic!("{name}: {other:?}"),
            };
            workload::collect_rows(&page, &mut partitions).unwrap_or_else(|error| panic!("{name}: {error}"));
            execution.paging_state = page.paging_state;
            if execution.paging_state.is_none() {
                return Some(partitions);
            }
        }
    }

    fn count_sstables(&self) -> u64 {
        let keyspace = self.node().data_folder().join("data").join("k");
        let tables = self.disk.list(&keyspace).unwrap_or_default();
        let files = tables
            .iter()
            .flat_map(|table| self.disk.list(&keyspace.join(&table.name)).unwrap_or_default());
        files.filter(|file| file.name.ends_with("-TOC.txt")).count() as u64
    }
}
