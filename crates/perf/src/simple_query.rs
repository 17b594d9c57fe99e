//! `helenus-perf simple-query`: what one prepared statement costs a shard, without sockets.
//!
//! Frames of EXECUTE requests go in, frames of RESULT responses come out, on the shard's own thread: decoding, the
//! plan's look-up, the memtable, the commit log's buffer (periodic mode) and encoding are all in it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use helenus_node::{CommitlogSync, Node, NodeOptions, RequestContext, Session, Shard};
use helenus_protocol::frame::{EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer};
use helenus_protocol::request::{
    BindValues, QueryParameters, Value, write_execute, write_prepare, write_query,
};
use helenus_protocol::response::{ReceivedResult, Response};
use helenus_protocol::{Consistency, Direction, Opcode, ProtocolVersion};
use helenus_transport::{ClientState, overloaded_template};
use helenus_types::{ShardId, shard_of, token_of};
use helenus_vfs::MemoryDisk;
use serde::Serialize;

use crate::requests::Asked;
use crate::workload::{
    COLUMNS, INSERT_ACCOUNT, Logged, TRANSFER, VALUE_BYTES, View, conditional_statement, count_statement,
    create_statements, insert_statement, other_column_statement, select_statement,
};

#[derive(Clone, Copy, Debug)]
pub struct SimpleQueryOptions {
    pub write: bool,
    /// Counters are incremented.
    pub counters: bool,
    /// Rows are written under a condition.
    pub condition: Option<Condition>,
    /// Writes change a materialized view.
    pub view: Option<View>,
    /// Writes are logged.
    pub logged: Option<Logged>,
    /// Transactions move an amount from a row of one shard to a row of another.
    pub transfer: bool,
    pub asked: Asked,
    pub rows_in: RowsIn,
    pub operations: u64,
    pub partitions: u32,
    /// Requests handed to the shard at once.
    pub concurrency: u16,
}

impl Default for SimpleQueryOptions {
    fn default() -> Self {
        SimpleQueryOptions {
            write: false,
            counters: false,
            condition: None,
            view: None,
            logged: None,
            transfer: false,
            asked: Asked::Execute,
            rows_in: RowsIn::Memtable,
            operations: 0,
            partitions: 0,
            concurrency: 1,
        }
    }
}

/// Outcome of the condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Condition {
    Met,
    Unmet,
}

/// Source of the rows that reads return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsIn {
    Memtable,
    /// SSTables whose pages are in memory.
    SsTables,
    /// The row cache, in front of SSTables.
    RowCache,
    /// SSTables, and no page of them is in memory as a batch of requests begins.
    ColdSsTables,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimpleQueryReport {
    pub tps: f64,
    pub allocations_per_op: f64,
    pub tasks_per_op: f64,
    pub errors: u64,
}

/// Counts the process's allocations between start and stop.
pub trait AllocationCounter: Sync {
    fn start(&self);
    fn stop(&self) -> u64;
}

pub(crate) const VERSION: ProtocolVersion = ProtocolVersion::V4;

/// Where answers wait for other threads: a batch of requests takes as long.
const ANSWERS_LOOKED_FOR_AFTER: Duration = Duration::from_micros(500);

/// Batches between two looks at the shard's other tasks, as its event loop would have them.
const BATCHES_PER_TURN: u64 = 16;

pub fn run(
    options: &SimpleQueryOptions,
    counter: &'static dyn AllocationCounter,
) -> io::Result<SimpleQueryReport> {
    let node = Node::start(node_options(options), Arc::new(|_| {})).map_err(io::Error::other)?;
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

pub(crate) fn node_options(options: &SimpleQueryOptions) -> NodeOptions {
    let defaults = NodeOptions::new(PathBuf::from("/data"));
    NodeOptions {
        memory_bytes: 1 << 30,
        row_cache: options.rows_in == RowsIn::RowCache,
        shard_count: if options.transfer { 2 } else { 1 },
        commitlog_sync: CommitlogSync::Periodic {
            period: Duration::from_secs(10),
        },
        // Without patience every request comes too late.
        read_request_timeout: match options.asked {
            Asked::TimedOut => Duration::ZERO,
            _ => defaults.read_request_timeout,
        },
        auto_snapshot: false,
        disk: Arc::new(MemoryDisk::new()),
        ..defaults
    }
}

/// A connection without a socket.
pub(crate) struct Line {
    session: Rc<Session>,
    reader: FrameReader,
    received: ReceiveBuffer,
    output: Vec<u8>,
    /// True if each batch begins with empty caches.
    is_cold: bool,
    /// True if answers wait for other threads, which have nothing of a thread that looks for them all the time.
    sleeps: bool,
    asked: Asked,
}

async fn measure(
    shard: &Rc<Shard>,
    options: &SimpleQueryOptions,
    counter: &dyn AllocationCounter,
) -> io::Result<SimpleQueryReport> {
    let mut line = Line::new(shard);
    let log = options.logged.map(Logged::statement);
    for statement in create_statements(options.view).into_iter().chain(log) {
        let parameters = QueryParameters::new(Consistency::One);
        let query = frame(Opcode::Query, |out| {
            write_query(out, VERSION, &statement, &parameters, BindValues::NONE)
        })?;
        line.ask(shard, &query).await?;
    }
    let insert = match options.counters {
        true => count_statement(),
        false => insert_statement(),
    };
    let insert = line.prepare(shard, &insert).await?;
    for key in 0..options.partitions {
        let fill = execute_frame(&insert, !options.counters, key)?;
        line.ask(shard, &fill).await?;
    }
    if options.transfer {
        line.sleeps = true;
        let insert = line.prepare(shard, INSERT_ACCOUNT).await?;
        for key in 0..options.partitions {
            line.ask(shard, &keys_frame(&insert, &[key])?).await?;
        }
    }
    if options.rows_in != RowsIn::Memtable && !shard.persistence.flush(None).await {
        return Err(io::Error::other("the rows could not be flushed"));
    }
    let measured = match options.condition {
        Some(condition) => {
            let text = conditional_statement(condition == Condition::Met);
            line.prepare(shard, &text).await?
        }
        None if options.transfer => line.prepare(shard, TRANSFER).await?,
        None if options.view == Some(View::OtherColumn) => {
            line.prepare(shard, &other_column_statement()).await?
        }
        None if options.write || options.counters || options.view.is_some() => insert,
        None => line.prepare(shard, &select_statement()).await?,
    };

    let batches = batches(options, &measured)?;
    line.asked = options.asked;
    let errors = line.warm_up(shard, &batches, options).await?;
    line.is_cold = options.rows_in == RowsIn::ColdSsTables;

    let tasks_before = shard.context.tasks_spawned();
    counter.start();
    let started = Instant::now();
    line.run(shard, &batches, options.operations, options.concurrency)
        .await?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let allocations = counter.stop();
    let operations = options.operations as f64;
    Ok(SimpleQueryReport {
        tps: operations / elapsed_s,
        allocations_per_op: allocations as f64 / operations,
        tasks_per_op: (shard.context.tasks_spawned() - tasks_before) as f64 / operations,
        errors,
    })
}

/// Requests that are handed over together: each partition once, none beside its neighbours.
fn batches(options: &SimpleQueryOptions, measured: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    if options.transfer {
        return transfers(options, measured);
    }
    let writes = options.write || matches!(options.view, Some(View::Moved | View::SameKey));
    // A row moves each time if it is written with two values in turn.
    let values: &[u8] = match options.view {
        Some(View::Moved) => &[1, 2],
        _ => &[0],
    };
    let mut batches = Vec::new();
    let mut key = 0;
    for value in values {
        for _ in 0..options.partitions.div_ceil(u32::from(options.concurrency)) {
            let mut batch = Vec::new();
            for _ in 0..options.concurrency {
                key = (key + 4_999) % options.partitions;
                let frame = match options.view {
                    Some(View::Moved) => execute_frame_with(measured, true, key, &moved_value(key, *value)),
                    _ => options.asked.frame(measured, writes, key),
                };
                batch.extend_from_slice(&frame?);
            }
            batches.push(batch);
        }
    }
    Ok(batches)
}

/// No two keys have the same, so that partitions of the view have a row each.
fn moved_value(key: u32, value: u8) -> [u8; VALUE_BYTES] {
    let mut bytes = [value; VALUE_BYTES];
    bytes[..4].copy_from_slice(&key.to_be_bytes());
    bytes
}

/// From an account of the one shard to one of the other; each is in one transfer of its batch.
fn transfers(options: &SimpleQueryOptions, measured: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let is_of_first = |key: &u32| shard_of(token_of(&u64::from(*key).to_be_bytes()), 2) == ShardId(0);
    let (here, there): (Vec<u32>, Vec<u32>) = (0..options.partitions).partition(is_of_first);
    let pairs: Vec<(u32, u32)> = here.into_iter().zip(there).collect();
    let batch = |pairs: &[(u32, u32)]| {
        let mut batch = Vec::new();
        for (from, to) in pairs {
            batch.extend_from_slice(&keys_frame(measured, &[*from, *to, *from, *to])?);
        }
        Ok(batch)
    };
    pairs
        .chunks_exact(usize::from(options.concurrency))
        .map(batch)
        .collect()
}

impl Line {
    /// Once through all batches; the number of errors. Nobody shall measure how fast errors are that nobody asked for.
    async fn warm_up(
        &mut self,
        shard: &Rc<Shard>,
        batches: &[Vec<u8>],
        options: &SimpleQueryOptions,
    ) -> io::Result<u64> {
        let mut errors = 0;
        for batch in batches {
            self.round(shard, batch).await?;
            errors += error_count(&self.output)?;
        }
        let asked = batches.len() as u64 * u64::from(options.concurrency);
        let is_as_asked = errors == if options.asked.is_error() { asked } else { 0 };
        if options.asked != Asked::Execute && !is_as_asked {
            let text = format!("{errors} of {asked} answers to {:?} are errors", options.asked);
            return Err(io::Error::other(text));
        }
        Ok(errors)
    }

    pub(crate) fn new(shard: &Rc<Shard>) -> Self {
        // As a connection has it.
        let session = Session::of_connection(
            ClientState::in_process(VERSION),
            &shard.context.transport.buffers,
            shard.context.request_memory(),
        );
        Line {
            session: Rc::new(session),
            reader: FrameReader::new(Direction::Request, FrameLimits::default()),
            received: ReceiveBuffer::new(),
            output: Vec::new(),
            is_cold: false,
            sleeps: false,
            asked: Asked::Execute,
        }
    }

    async fn run(
        &mut self,
        shard: &Rc<Shard>,
        batches: &[Vec<u8>],
        operations: u64,
        concurrency: u16,
    ) -> io::Result<()> {
        let rounds = operations.div_ceil(u64::from(concurrency));
        for (round, batch) in (0..rounds).zip(batches.iter().cycle()) {
            self.round(shard, batch).await?;
            if round % BATCHES_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Hands one batch over and takes all its answers.
    async fn round(&mut self, shard: &Rc<Shard>, batch: &[u8]) -> io::Result<()> {
        if self.is_cold {
            shard.clear_caches();
        }
        self.hand_over(shard, batch)?;
        while self.session.outbox().in_flight() > 0 {
            match self.sleeps {
                true => tokio::time::sleep(ANSWERS_LOOKED_FOR_AFTER).await,
                false => tokio::task::yield_now().await,
            }
        }
        self.output.clear();
        self.session.outbox().take(&mut self.output);
        Ok(())
    }

    fn hand_over(&mut self, shard: &Rc<Shard>, frames: &[u8]) -> io::Result<()> {
        self.received.feed(frames);
        let received_ns = shard.context.look_at_clock();
        while let Some(envelope) = self
            .reader
            .next_envelope(&mut self.received)
            .map_err(io::Error::other)?
        {
            let stream = envelope.header.stream;
            if self.asked == Asked::Refused {
                let template = overloaded_template(VERSION);
                self.session.respond_template(stream, template);
                continue;
            }
            if self.asked == Asked::TimedOut {
                // Time passes between the bytes and their turn.
                while shard.context.look_at_clock() == received_ns {}
            }
            let context = RequestContext {
                session: &self.session,
                stream,
                received_ns,
                latest_ns: u64::MAX,
                may_be_put_back: false,
            };
            // As a connection answers what it cannot decode.
            if let Err(error) = shard.handle(context, &envelope) {
                self.session.respond_protocol_error(stream, &error);
            }
        }
        Ok(())
    }

    /// Sends one request and returns its answer's bytes, which must not be an error.
    pub(crate) async fn ask(&mut self, shard: &Rc<Shard>, request: &[u8]) -> io::Result<Vec<u8>> {
        self.hand_over(shard, request)?;
        while !self.session.outbox().has_output() {
            tokio::task::yield_now().await;
        }
        let mut answer = Vec::new();
        self.session.outbox().take(&mut answer);
        Ok(answer)
    }

    pub(crate) async fn prepare(&mut self, shard: &Rc<Shard>, text: &str) -> io::Result<Vec<u8>> {
        let request = frame(Opcode::Prepare, |out| write_prepare(out, VERSION, text, None))?;
        let answer = self.ask(shard, &request).await?;
        let mut received = ReceiveBuffer::new();
        received.feed(&answer);
        let mut reader = FrameReader::new(Direction::Response, FrameLimits::default());
        let envelope = reader.next_envelope(&mut received).map_err(io::Error::other)?;
        let envelope = envelope.ok_or(io::ErrorKind::UnexpectedEof)?;
        match Response::decode(&envelope).map_err(io::Error::other)?.0 {
            Response::Result(ReceivedResult::Prepared(prepared)) => Ok(prepared.statement_id.to_vec()),
            other => Err(io::Error::other(format!("PREPARE was answered with {other:?}"))),
        }
    }
}

/// How many of the answers are errors.
fn error_count(answers: &[u8]) -> io::Result<u64> {
    let mut received = ReceiveBuffer::new();
    received.feed(answers);
    let mut reader = FrameReader::new(Direction::Response, FrameLimits::default());
    let mut errors = 0;
    while let Some(envelope) = reader.next_envelope(&mut received).map_err(io::Error::other)? {
        errors += u64::from(envelope.header.opcode == Opcode::Error);
    }
    Ok(errors)
}

pub(crate) fn frame(opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> io::Result<Vec<u8>> {
    let mut writer = FrameWriter::new();
    let mut bytes = Vec::new();
    let mark = writer.begin(&mut bytes, VERSION, EnvelopeFlags::NONE, 0, opcode);
    body(&mut bytes);
    writer.finish(&mut bytes, mark).map_err(io::Error::other)?;
    Ok(bytes)
}

pub(crate) fn execute_frame(statement_id: &[u8], write: bool, key: u32) -> io::Result<Vec<u8>> {
    execute_frame_with(statement_id, write, key, &[0xa5; VALUE_BYTES])
}

fn execute_frame_with(
    statement_id: &[u8],
    write: bool,
    key: u32,
    blob: &[u8; VALUE_BYTES],
) -> io::Result<Vec<u8>> {
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.skip_metadata = true;
    let key = u64::from(key).to_be_bytes();
    let mut values = [Value::Bytes(blob); COLUMNS + 1];
    values[0] = Value::Bytes(&key);
    let count = if write { COLUMNS + 1 } else { 1 };
    frame(Opcode::Execute, |out| {
        write_execute(
            out,
            VERSION,
            statement_id,
            &[],
            &parameters,
            BindValues::Positional(&values[..count]),
        );
    })
}

/// An EXECUTE whose values are keys.
fn keys_frame(statement_id: &[u8], keys: &[u32]) -> io::Result<Vec<u8>> {
    let keys: Vec<[u8; 8]> = keys.iter().map(|key| u64::from(*key).to_be_bytes()).collect();
    let values: Vec<Value<'_>> = keys.iter().map(|key| Value::Bytes(key)).collect();
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.skip_metadata = true;
    frame(Opcode::Execute, |out| {
        let values = BindValues::Positional(&values);
        write_execute(out, VERSION, statement_id, &[], &parameters, values);
    })
}

impl fmt::Display for SimpleQueryReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} tps ({:.2} allocs/op, {:.2} tasks/op), {} errors",
            self.tps, self.allocations_per_op, self.tasks_per_op, self.errors
        )
    }
}
