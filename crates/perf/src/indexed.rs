//! `helenus-perf indexed`: what a statement costs a shard whose table has indexes, without sockets.
//!
//! As [`simple_query`](crate::simple_query): frames in, frames out, on the shard's own thread, one after the other.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use helenus_node::{Node, NodeOptions, Shard};
use helenus_protocol::request::{BindValues, QueryParameters, write_query};
use helenus_protocol::{Consistency, Opcode};
use helenus_types::ShardId;
use helenus_vfs::{Clock, SystemClock};
use serde::Serialize;

use crate::simple_query::{AllocationCounter, Line, SimpleQueryOptions, VERSION, frame, node_options};
use crate::vectors::execute;

/// Rows that a question of two conditions asks for at most.
const LIMIT: u32 = 100;
/// Operations before those that are counted, and between two looks at the shard's other tasks.
const WARM_UP: u32 = 200;
/// Different questions.
const QUESTIONS: u32 = 1_000;
const OPERATIONS_PER_TURN: u64 = 100;
/// Place of the number of rows in a frame of RESULT without metadata.
const ROW_COUNT_AT: usize = 9 + 12;

/// A hundredth as fast as time: a shard goes by how long a statement takes, which under a counter of instructions is as much longer.
#[derive(Debug)]
struct SlowClock(SystemClock);

impl Clock for SlowClock {
    fn wall_us(&self) -> i64 {
        self.0.wall_us()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns() / 100
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Operation {
    /// A row that was not there is written; the table has no index.
    WriteUnindexed,
    /// The same, and the table has one, of a bigint.
    Write,
    /// A row is looked for by a value that no other has.
    Unique,
    /// A hundred rows of those that match two conditions, each of which a tenth matches.
    Both,
    /// A hundredth of all rows, by a range.
    Range,
    /// A row by a value that no other has, which beside it has to be in a range that all rows are in.
    Driven,
}

#[derive(Clone, Copy, Debug)]
pub struct IndexedOptions {
    pub operation: Operation,
    pub operations: u64,
    pub rows: u32,
    /// Rows and terms lie in an SSTable whose pages are in memory, not in the memtable.
    pub flush: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct IndexedReport {
    pub operations_per_s: f64,
    pub allocations_per_op: f64,
    /// Rows answered to each.
    pub rows_per_op: f64,
}

pub fn run(options: &IndexedOptions, counter: &'static dyn AllocationCounter) -> io::Result<IndexedReport> {
    let node_options = NodeOptions {
        memory_bytes: 8 << 30,
        clock: Arc::new(SlowClock(SystemClock::new())),
        ..node_options(&SimpleQueryOptions::default())
    };
    let node = Node::start(node_options, Arc::new(|_| {})).map_err(io::Error::other)?;
    let (sender, receiver) = mpsc::channel();
    let options = *options;
    node.mailbox(ShardId(0)).run(move |shard| {
        let shard = shard.clone();
        tokio::task::spawn_local(async move {
            let report = measure(&shard, &options, counter).await;
            // The caller waits below.
            let _waiting = sender.send(report);
        });
    });
    let report = receiver.recv().map_err(io::Error::other)?;
    node.abandon();
    report
}

async fn measure(
    shard: &Rc<Shard>,
    options: &IndexedOptions,
    counter: &dyn AllocationCounter,
) -> io::Result<IndexedReport> {
    let mut line = Line::new(shard);
    for statement in options.operation.create_statements() {
        let parameters = QueryParameters::new(Consistency::One);
        let query = frame(Opcode::Query, |out| {
            write_query(out, VERSION, statement, &parameters, BindValues::NONE)
        })?;
        line.ask(shard, &query).await?;
    }
    let insert = line.prepare(shard, INSERT).await?;
    for row in 0..options.rows {
        line.ask(shard, &execute(&insert, &row_values(row))?).await?;
    }
    if options.flush && !shard.persistence.flush(None).await {
        return Err(io::Error::other("the rows could not be flushed"));
    }
    let statement = match options.operation.question() {
        Some(question) => line.prepare(shard, &question).await?,
        None => insert,
    };
    let requests = Requests::new(options, statement)?;
    let mut rows = 0_u64;
    for number in 0..WARM_UP {
        rows += requests.ask(&mut line, shard, number).await?;
    }
    let expected = u64::from(WARM_UP) * options.operation.answered(options.rows);
    if rows != expected {
        return Err(io::Error::other(format!(
            "{rows} rows were answered, not {expected}"
        )));
    }
    counter.start();
    let begun = Instant::now();
    for operation in 0..options.operations {
        let number = WARM_UP.wrapping_add(operation as u32);
        requests.ask(&mut line, shard, number).await?;
        if operation % OPERATIONS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    let elapsed_s = begun.elapsed().as_secs_f64();
    let operations = options.operations as f64;
    Ok(IndexedReport {
        operations_per_s: operations / elapsed_s,
        allocations_per_op: counter.stop() as f64 / operations,
        rows_per_op: rows as f64 / f64::from(WARM_UP),
    })
}

const INSERT: &str = "INSERT INTO perf.indexed (p, u, a, b) VALUES (?, ?, ?, ?)";

fn row_values(row: u32) -> [Vec<u8>; 4] {
    let wide = u64::from(row).to_be_bytes().to_vec();
    let (a, b) = (row % 10, row / 10 % 10);
    [
        wide.clone(),
        wide,
        a.to_be_bytes().to_vec(),
        b.to_be_bytes().to_vec(),
    ]
}

impl Operation {
    fn create_statements(self) -> Vec<&'static str> {
        let mut statements = vec![
            "CREATE KEYSPACE perf WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE perf.indexed (p bigint PRIMARY KEY, u bigint, a int, b int)",
        ];
        let indexes = match self {
            Operation::WriteUnindexed => &[][..],
            Operation::Write | Operation::Unique | Operation::Range => {
                &["CREATE INDEX ON perf.indexed (u) USING 'sai'"]
            }
            Operation::Driven => &[
                "CREATE INDEX ON perf.indexed (u) USING 'sai'",
                "CREATE INDEX ON perf.indexed (a) USING 'sai'",
            ],
            Operation::Both => &[
                "CREATE INDEX ON perf.indexed (a) USING 'sai'",
                "CREATE INDEX ON perf.indexed (b) USING 'sai'",
            ],
        };
        statements.extend_from_slice(indexes);
        statements
    }

    /// `None` for a write.
    fn question(self) -> Option<String> {
        let condition = match self {
            Operation::WriteUnindexed | Operation::Write => return None,
            Operation::Unique => "u = ?".to_owned(),
            Operation::Both => format!("a = ? AND b = ? LIMIT {LIMIT}"),
            Operation::Range => "u >= ? AND u < ?".to_owned(),
            Operation::Driven => "u = ? AND a >= ?".to_owned(),
        };
        Some(format!("SELECT p FROM perf.indexed WHERE {condition}"))
    }

    /// Rows of an answer.
    fn answered(self, rows: u32) -> u64 {
        match self {
            Operation::WriteUnindexed | Operation::Write => 0,
            Operation::Unique | Operation::Driven => 1,
            Operation::Both => u64::from(LIMIT.min(rows / 100)),
            Operation::Range => u64::from(rows / 100),
        }
    }

    fn values(self, rows: u32, number: u32) -> Vec<Vec<u8>> {
        let spread = u64::from(number) * 7_919;
        match self {
            Operation::WriteUnindexed | Operation::Write => row_values(rows + number).into(),
            Operation::Unique => vec![(spread % u64::from(rows)).to_be_bytes().to_vec()],
            Operation::Driven => vec![
                (spread % u64::from(rows)).to_be_bytes().to_vec(),
                0_u32.to_be_bytes().to_vec(),
            ],
            Operation::Both => vec![
                (number % 10).to_be_bytes().to_vec(),
                (number / 10 % 10).to_be_bytes().to_vec(),
            ],
            Operation::Range => {
                let from = spread % u64::from(rows - rows / 100);
                let to = from + u64::from(rows / 100);
                vec![from.to_be_bytes().to_vec(), to.to_be_bytes().to_vec()]
            }
        }
    }
}

/// The frames of an operation.
struct Requests<'o> {
    options: &'o IndexedOptions,
    statement: Vec<u8>,
    /// Questions are asked again and again; of writes there are none, each has a row of its own.
    questions: Vec<Vec<u8>>,
}

impl<'o> Requests<'o> {
    fn new(options: &'o IndexedOptions, statement: Vec<u8>) -> io::Result<Self> {
        let IndexedOptions { operation, rows, .. } = *options;
        let numbers = match operation.question() {
            Some(_) => 0..QUESTIONS,
            None => 0..0,
        };
        let questions = numbers.map(|number| execute(&statement, &operation.values(rows, number)));
        Ok(Requests {
            options,
            questions: questions.collect::<io::Result<_>>()?,
            statement,
        })
    }

    /// Returns how many rows were answered.
    async fn ask(&self, line: &mut Line, shard: &Rc<Shard>, number: u32) -> io::Result<u64> {
        let IndexedOptions { operation, rows, .. } = *self.options;
        if self.questions.is_empty() {
            let write = execute(&self.statement, &operation.values(rows, number))?;
            line.ask(shard, &write).await?;
            return Ok(0);
        }
        let question = &self.questions[number as usize % self.questions.len()];
        let answer = line.ask(shard, question).await?;
        let count = answer.get(ROW_COUNT_AT..).and_then(<[u8]>::first_chunk::<4>);
        Ok(count.map_or(0, |count| u64::from(u32::from_be_bytes(*count))))
    }
}

impl fmt::Display for IndexedReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} operations/s of {} rows ({:.2} allocations each)",
            self.operations_per_s, self.rows_per_op, self.allocations_per_op
        )
    }
}
