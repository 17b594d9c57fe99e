//! `helenus-perf indexes`: the same questions to storage-attached indexes of any CQL server, over loopback.
//!
//! Rows and vectors of a seed are written over CQL, each question is asked one at a time until that gets no faster, and then by several
//! connections in a closed loop. How many rows an answer has is checked, of the nearest vectors which.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use helenus_protocol::request::{BindValues, QueryParameters, Value, write_execute};
use helenus_protocol::{Consistency, Opcode, ProtocolVersion};
use helenus_vector::Similarity;
use helenus_vector::sample::Sample;
use serde::Serialize;
use tokio::runtime::{Builder, LocalOptions};

use crate::cpu_time::{process_cpu_seconds, process_resident_bytes};
use crate::wire::new_histogram;
use crate::wire_client::WireClient;

/// Rest after vectors were written: some build their graphs in the background.
const REST: Duration = Duration::from_secs(30);

/// Clusters of the sample.
const CLUSTERS: usize = 1_000;
const SIMILARITY: Similarity = Similarity::Euclidean;
const NEAREST: usize = 10;
/// Rows that a query of two conditions asks for at most.
const LIMIT: usize = 100;
/// Requests sent before their answers are read while a table is filled.
const FILL_IN_FLIGHT: usize = 64;
/// Times that the same questions are asked one at a time at most, until that gets no faster: for compilers, and graphs that are built.
const SETTLING_PASSES_MAX: usize = 200;
/// A pass is faster if it takes less than this part of the last one that was.
const SETTLED_SHARE: f64 = 0.95;
/// Passes that are no faster, one after the other, before it is believed.
const SETTLED_PASSES: usize = 3;

#[derive(Clone, Copy, Debug)]
pub struct IndexesOptions {
    pub address: SocketAddr,
    /// The server's process, for its processor time; none is measured without it.
    pub server_pid: Option<u32>,
    pub rows: u32,
    pub vectors: u32,
    pub dimension: u32,
    /// Different questions of each kind.
    pub questions: u32,
    pub connections: u16,
    pub in_flight: u16,
    pub duration: Duration,
    pub seed: u64,
    /// Beam of searches of vectors, for a server with indexes of `vector_index`; without it by an index of `sai`, as it is.
    pub search_beam: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
pub struct IndexesReport {
    pub rows_written_per_s: f64,
    pub vectors_written_per_s: f64,
    pub server_resident_bytes: Option<u64>,
    pub questions: Vec<QuestionReport>,
}

#[derive(Clone, Debug, Serialize)]
pub struct QuestionReport {
    pub question: &'static str,
    pub answers_per_s: f64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
    pub server_cpu_us_per_answer: Option<f64>,
    /// Answers with an error, or another number of rows than there are.
    pub wrong: u64,
    /// Share of the nearest vectors that was answered.
    pub recall: Option<f64>,
}

/// One kind of question: its statement, the values of each time that it is asked, and the rows that it then has.
struct Question {
    name: &'static str,
    text: String,
    asked: Vec<Vec<Vec<u8>>>,
    rows: usize,
}

/// Fills the tables and asks all questions, on the calling thread.
pub fn run(options: &IndexesOptions) -> io::Result<IndexesReport> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(measure(options))
}

async fn measure(options: &IndexesOptions) -> io::Result<IndexesReport> {
    let mut client = WireClient::connect(options.address, None).await?;
    for statement in create_statements(options) {
        client.query(&statement).await?;
    }
    let insert = "INSERT INTO perf_indexes.rows (p, u, a, b) VALUES (?, ?, ?, ?)";
    let row = |row: u32| {
        let (a, b) = (row % 10, row / 10 % 10);
        let (p, u) = (u64::from(row), u64::from(row));
        vec![
            p.to_be_bytes().to_vec(),
            u.to_be_bytes().to_vec(),
            a.to_be_bytes().to_vec(),
            b.to_be_bytes().to_vec(),
        ]
    };
    let rows_written_per_s = fill(&mut client, insert, options.rows, row).await?;
    let mut reports = Vec::new();
    for question in questions_of_rows(options) {
        reports.push(ask(options, &mut client, question).await?.0);
    }
    // Not before: while their graph is built, other questions would be charged for it.
    let mut sample = Sample::descriptors(options.dimension as usize, CLUSTERS, options.seed);
    let vectors: Vec<Vec<f32>> = (0..options.vectors).map(|_| sample.vector()).collect();
    let insert = "INSERT INTO perf_indexes.vectors (p, v) VALUES (?, ?)";
    let vector = |place: u32| vec![place.to_be_bytes().to_vec(), bytes_of(&vectors[place as usize])];
    let vectors_written_per_s = fill(&mut client, insert, options.vectors, vector).await?;
    tokio::time::sleep(REST).await;
    let asked: Vec<Vec<f32>> = (0..options.questions).map(|_| sample.vector()).collect();
    let nearest = Question {
        name: "the nearest ten",
        text: format!("SELECT p FROM perf_indexes.vectors ORDER BY v ANN OF ? LIMIT {NEAREST}"),
        asked: asked.iter().map(|vector| vec![bytes_of(vector)]).collect(),
        rows: NEAREST.min(vectors.len()),
    };
    let (mut report, answers) = ask(options, &mut client, nearest).await?;
    report.recall = Some(recall(&vectors, &asked, &answers));
    reports.push(report);
    Ok(IndexesReport {
        rows_written_per_s,
        vectors_written_per_s,
        server_resident_bytes: options.server_pid.map(process_resident_bytes).transpose()?,
        questions: reports,
    })
}

fn create_statements(options: &IndexesOptions) -> Vec<String> {
    let dimension = options.dimension;
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let (class, beam) = match options.search_beam {
        None => ("sai", String::new()),
        Some(beam) => ("vector_index", format!(", 'search_beam_width': '{beam}'")),
    };
    let mut statements = vec![
        format!("CREATE KEYSPACE perf_indexes WITH replication = {replication}"),
        "CREATE TABLE perf_indexes.rows (p bigint PRIMARY KEY, u bigint, a int, b int)".to_owned(),
        format!("CREATE TABLE perf_indexes.vectors (p int PRIMARY KEY, v vector<float, {dimension}>)"),
        format!(
            "CREATE INDEX ON perf_indexes.vectors (v) USING '{class}' \
             WITH OPTIONS = {{'similarity_function': 'euclidean'{beam}}}"
        ),
    ];
    let columns = ["u", "a", "b"];
    statements
        .extend(columns.map(|column| format!("CREATE INDEX ON perf_indexes.rows ({column}) USING 'sai'")));
    statements
}

fn questions_of_rows(options: &IndexesOptions) -> Vec<Question> {
    let rows = u64::from(options.rows);
    let spread = |number: u32| u64::from(number) * 7_919;
    let asked = |values: &dyn Fn(u32) -> Vec<Vec<u8>>| (0..options.questions).map(values).collect();
    let a_hundredth = rows / 100;
    vec![
        Question {
            name: "a row by a unique value",
            text: "SELECT p FROM perf_indexes.rows WHERE u = ?".to_owned(),
            asked: asked(&|number| vec![(spread(number) % rows).to_be_bytes().to_vec()]),
            rows: 1,
        },
        Question {
            name: "two conditions of a tenth each, LIMIT 100",
            text: format!("SELECT p FROM perf_indexes.rows WHERE a = ? AND b = ? LIMIT {LIMIT}"),
            asked: asked(&|number| {
                vec![
                    (number % 10).to_be_bytes().to_vec(),
                    (number / 10 % 10).to_be_bytes().to_vec(),
                ]
            }),
            rows: LIMIT.min(a_hundredth as usize),
        },
        Question {
            name: "a range of a hundredth",
            text: "SELECT p FROM perf_indexes.rows WHERE u >= ? AND u < ?".to_owned(),
            asked: asked(&|number| {
                let from = spread(number) % (rows - a_hundredth);
                vec![
                    from.to_be_bytes().to_vec(),
                    (from + a_hundredth).to_be_bytes().to_vec(),
                ]
            }),
            rows: a_hundredth as usize,
        },
    ]
}

fn bytes_of(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|component| component.to_be_bytes())
        .collect()
}

/// Writes rows and returns how many a second.
async fn fill(
    client: &mut WireClient,
    insert: &str,
    count: u32,
    row: impl Fn(u32) -> Vec<Vec<u8>>,
) -> io::Result<f64> {
    let statement = client.prepare(insert).await?;
    let begun = Instant::now();
    let numbers: Vec<u32> = (0..count).collect();
    for numbers in numbers.chunks(FILL_IN_FLIGHT) {
        for number in numbers {
            push(client, 0, &statement, &row(*number))?;
        }
        client.receive_results(numbers.len()).await?;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn push(client: &mut WireClient, stream: i16, statement: &[u8], values: &[Vec<u8>]) -> io::Result<()> {
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.skip_metadata = true;
    let values: Vec<Value<'_>> = values.iter().map(|value| Value::Bytes(value)).collect();
    client.push(stream, Opcode::Execute, |out| {
        let values = BindValues::Positional(&values);
        write_execute(out, ProtocolVersion::V4, statement, &[], &parameters, values);
    })
}

/// Rows of the one column that all questions have; `None` for what is no RESULT of rows without metadata, of one page.
fn rows_of(opcode: Opcode, body: &[u8]) -> Option<Vec<u64>> {
    const ROWS: u32 = 2;
    const HAS_MORE_PAGES: u32 = 2;
    const NO_METADATA: u32 = 4;
    let word = |at: usize| {
        let bytes = body.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let is_one_page = || Some(word(4)? & (NO_METADATA | HAS_MORE_PAGES) == NO_METADATA);
    if opcode != Opcode::Result || word(0)? != ROWS || !is_one_page()? {
        return None;
    }
    let (count, mut at) = (word(12)?, 16);
    let mut rows = Vec::new();
    for _ in 0..count {
        let length = word(at)? as usize;
        let value = body.get(at + 4..at + 4 + length)?;
        rows.push(
            value
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        );
        at += 4 + length;
    }
    Some(rows)
}

/// Rows that were answered to each time that a question was asked; `None` for an error.
type Answers = Vec<Option<Vec<u64>>>;

async fn ask(
    options: &IndexesOptions,
    client: &mut WireClient,
    question: Question,
) -> io::Result<(QuestionReport, Answers)> {
    let statement = client.prepare(&question.text).await?;
    let answers = settle(client, &statement, &question).await?;
    let load = Rc::new(Load {
        statement,
        question,
        stopping: Cell::new(false),
        next: Cell::new(0),
        answered: Cell::new(0),
        wrong: Cell::new(0),
        latencies_us: RefCell::new(new_histogram()?),
    });
    let cpu_before = options.server_pid.map(process_cpu_seconds).transpose()?;
    let begun = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..options.connections {
        let client = WireClient::connect(options.address, None).await?;
        workers.push(tokio::task::spawn_local(
            load.clone().work(client, options.in_flight),
        ));
    }
    tokio::time::sleep(options.duration).await;
    load.stopping.set(true);
    for worker in workers {
        worker.await.map_err(io::Error::other)??;
    }
    let took_s = begun.elapsed().as_secs_f64();
    let cpu_after = options.server_pid.map(process_cpu_seconds).transpose()?;
    let answered = load.answered.get().max(1) as f64;
    let wrong_before = answers
        .iter()
        .filter(|rows| !load.question.is_right(rows))
        .count();
    let latencies_us = load.latencies_us.borrow();
    let cpu_s = cpu_before.zip(cpu_after).map(|(before, after)| after - before);
    let report = QuestionReport {
        question: load.question.name,
        answers_per_s: answered / took_s,
        latency_us_p50: latencies_us.value_at_quantile(0.5),
        latency_us_p99: latencies_us.value_at_quantile(0.99),
        server_cpu_us_per_answer: cpu_s.map(|seconds| seconds * 1e6 / answered),
        wrong: load.wrong.get() + wrong_before as u64,
        recall: None,
    };
    Ok((report, answers))
}

/// Asks one at a time until that gets no faster; the answers of the last pass.
async fn settle(client: &mut WireClient, statement: &[u8], question: &Question) -> io::Result<Answers> {
    let (mut reference_s, mut passes_no_faster) = (f64::INFINITY, 0);
    let mut answers = Answers::new();
    for _ in 0..SETTLING_PASSES_MAX {
        answers.clear();
        let begun = Instant::now();
        for values in &question.asked {
            push(client, 0, statement, values)?;
            client.send().await?;
            let mut answer = None;
            while answer.is_none() {
                client
                    .receive(|_, opcode, body| answer = Some(rows_of(opcode, body)))
                    .await?;
            }
            answers.extend(answer);
        }
        let took_s = begun.elapsed().as_secs_f64();
        // Slow but steady counts: a graph of a million vectors is linked in some twenty passes.
        if took_s < reference_s * SETTLED_SHARE {
            (reference_s, passes_no_faster) = (took_s, 0);
        } else {
            passes_no_faster += 1;
        }
        if passes_no_faster == SETTLED_PASSES {
            break;
        }
    }
    Ok(answers)
}

impl Question {
    fn is_right(&self, rows: &Option<Vec<u64>>) -> bool {
        rows.as_ref().is_some_and(|rows| rows.len() == self.rows)
    }
}

struct Load {
    statement: Vec<u8>,
    question: Question,
    stopping: Cell<bool>,
    next: Cell<usize>,
    answered: Cell<u64>,
    wrong: Cell<u64>,
    latencies_us: RefCell<Histogram<u64>>,
}

impl Load {
    async fn work(self: Rc<Self>, mut client: WireClient, in_flight: u16) -> io::Result<()> {
        let mut sent_at = vec![Instant::now(); usize::from(in_flight)];
        let mut free: Vec<i16> = (0..in_flight as i16).collect();
        loop {
            if !self.stopping.get() && !free.is_empty() {
                for stream in free.drain(..) {
                    let next = self.next.get();
                    self.next.set(next + 1);
                    let asked = &self.question.asked;
                    push(&mut client, stream, &self.statement, &asked[next % asked.len()])?;
                    sent_at[stream as usize] = Instant::now();
                }
                client.send().await?;
            }
            if free.len() == usize::from(in_flight) {
                return Ok(());
            }
            client
                .receive(|stream, opcode, body| {
                    let took = sent_at[stream as usize].elapsed();
                    self.answered.set(self.answered.get() + 1);
                    let is_right = self.question.is_right(&rows_of(opcode, body));
                    self.wrong.set(self.wrong.get() + u64::from(!is_right));
                    self.latencies_us
                        .borrow_mut()
                        .saturating_record(took.as_micros() as u64);
                    free.push(stream);
                })
                .await?;
        }
    }
}

fn recall(vectors: &[Vec<f32>], asked: &[Vec<f32>], answers: &Answers) -> f64 {
    let (mut found, mut wanted) = (0, 0);
    for (query, answer) in asked.iter().zip(answers) {
        let mut exact: Vec<(f32, u64)> = (0..)
            .zip(vectors)
            .map(|(place, vector)| (-SIMILARITY.closeness(query, vector), place))
            .collect();
        let nearest = NEAREST.min(exact.len());
        exact.select_nth_unstable_by(nearest.saturating_sub(1), |left, right| {
            left.0.total_cmp(&right.0)
        });
        let rows: HashSet<u64> = answer.iter().flatten().copied().collect();
        wanted += nearest;
        found += exact
            .iter()
            .take(nearest)
            .filter(|(_, place)| rows.contains(place))
            .count();
    }
    found as f64 / wanted.max(1) as f64
}

impl fmt::Display for IndexesReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} rows/s and {:.0} vectors/s written",
            self.rows_written_per_s, self.vectors_written_per_s
        )?;
        for question in &self.questions {
            write!(
                formatter,
                "\n{}: {:.0} answers/s, p50 {} us, p99 {} us, {} wrong",
                question.question,
                question.answers_per_s,
                question.latency_us_p50,
                question.latency_us_p99,
                question.wrong
            )?;
            if let Some(cpu_us) = question.server_cpu_us_per_answer {
                write!(formatter, ", server CPU {cpu_us:.1} us each")?;
            }
            if let Some(recall) = question.recall {
                write!(formatter, ", recall@{NEAREST} {recall:.4}")?;
            }
        }
        Ok(())
    }
}
