//! `helenus-perf wire`: the same closed-loop load on any CQL server, over loopback.
//!
//! A table of five 34-byte blobs, prepared point reads or inserts, a fixed number of connections with a fixed number
//! of requests in flight on each. Against a shard-aware server each connection goes to a shard and sends it only the
//! keys that the shard owns, as shard-aware drivers do.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use helenus_protocol::request::{BindValues, QueryParameters, Value, write_execute};
use helenus_protocol::{Consistency, Opcode, ProtocolVersion};
use helenus_types::{shard_of, token_of};
use serde::Serialize;
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::JoinHandle;

use crate::cpu_time::{process_cpu_seconds, process_resident_bytes};
use crate::wire_client::{ServerShards, WireClient};
use crate::workload::{COLUMNS, VALUE_BYTES, create_statements, insert_statement, select_statement};

#[derive(Clone, Debug)]
pub struct WireOptions {
    pub address: SocketAddr,
    /// The server's process, for its processor time; none is measured without it.
    pub server_pid: Option<u32>,
    pub connections: u16,
    pub in_flight: u16,
    pub write: bool,
    pub keys: u32,
    pub warm_up: Duration,
    pub duration: Duration,
    /// Instead of both: each connection sends so many times all of its requests at once, and the next ones when it has all
    /// answers. However fast the server is, it finds the same requests in each read.
    pub batches: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct WireReport {
    pub workload: &'static str,
    pub connections: u16,
    pub in_flight: u16,
    pub shards: u16,
    pub ops: u64,
    pub errors: u64,
    pub ops_per_s: f64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
    pub latency_us_max: u64,
    pub server_cpu_us_per_op: Option<f64>,
    pub server_resident_bytes: Option<u64>,
}

/// Runs the load on the calling thread.
pub fn run(options: &WireOptions) -> io::Result<WireReport> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(load(options))
}

struct Load {
    keys_by_shard: Vec<Vec<[u8; 8]>>,
    statement_id: Vec<u8>,
    write: bool,
    batches: Option<u64>,
    measuring: Cell<bool>,
    stopping: Cell<bool>,
    operations: Cell<u64>,
    errors: Cell<u64>,
    latencies_us: RefCell<Histogram<u64>>,
}

async fn load(options: &WireOptions) -> io::Result<WireReport> {
    let mut control = WireClient::connect(options.address, None).await?;
    let shards = control.shards().await?;
    prepare_table(&mut control, options.keys).await?;
    let statement = if options.write {
        insert_statement()
    } else {
        select_statement()
    };
    let statement_id = control.prepare(&statement).await?;

    let load = Rc::new(Load {
        keys_by_shard: keys_by_shard(options.keys, shards.count),
        statement_id,
        write: options.write,
        batches: options.batches,
        measuring: Cell::new(options.batches.is_some()),
        stopping: Cell::new(false),
        operations: Cell::new(0),
        errors: Cell::new(0),
        latencies_us: RefCell::new(new_histogram()?),
    });
    let mut workers = Vec::new();
    for index in 0..options.connections {
        let shard = index % shards.count;
        let client = connect(options.address, shards, shard).await?;
        workers.push(tokio::task::spawn_local(work(
            load.clone(),
            client,
            shard,
            options.in_flight,
        )));
    }

    let is_timed = options.batches.is_none();
    if is_timed {
        tokio::time::sleep(options.warm_up).await;
    }
    let cpu_before = options.server_pid.map(process_cpu_seconds).transpose()?;
    let started = Instant::now();
    if is_timed {
        load.measuring.set(true);
        tokio::time::sleep(options.duration).await;
        load.measuring.set(false);
        load.stopping.set(true);
    } else {
        wait_for_all(&mut workers).await?;
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    let cpu_after = options.server_pid.map(process_cpu_seconds).transpose()?;
    wait_for_all(&mut workers).await?;

    let server_cpu_s = cpu_before.zip(cpu_after).map(|(before, after)| after - before);
    load.report(options, shards.count, elapsed_s, server_cpu_s)
}

impl Load {
    fn report(
        &self,
        options: &WireOptions,
        shards: u16,
        elapsed_s: f64,
        server_cpu_s: Option<f64>,
    ) -> io::Result<WireReport> {
        let operations = self.operations.get();
        let latencies_us = self.latencies_us.borrow();
        Ok(WireReport {
            workload: if options.write { "write" } else { "read" },
            connections: options.connections,
            in_flight: options.in_flight,
            shards,
            ops: operations,
            errors: self.errors.get(),
            ops_per_s: operations as f64 / elapsed_s,
            latency_us_p50: latencies_us.value_at_quantile(0.5),
            latency_us_p99: latencies_us.value_at_quantile(0.99),
            latency_us_max: latencies_us.max(),
            server_cpu_us_per_op: server_cpu_s.map(|seconds| seconds * 1e6 / operations.max(1) as f64),
            server_resident_bytes: options.server_pid.map(process_resident_bytes).transpose()?,
        })
    }
}

async fn wait_for_all(workers: &mut Vec<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    for worker in workers.drain(..) {
        worker.await.map_err(io::Error::other)??;
    }
    Ok(())
}

/// Microseconds up to a minute, to three digits.
pub(crate) fn new_histogram() -> io::Result<Histogram<u64>> {
    Histogram::new_with_max(60_000_000, 3).map_err(io::Error::other)
}

async fn connect(address: SocketAddr, shards: ServerShards, shard: u16) -> io::Result<WireClient> {
    match shards.shard_aware_port {
        Some(port) if shards.count > 1 => {
            WireClient::connect(SocketAddr::new(address.ip(), port), Some((shard, shards.count))).await
        }
        _ => WireClient::connect(address, None).await,
    }
}

/// The table and its rows, unless they are there: every row is written, whatever was there before.
async fn prepare_table(client: &mut WireClient, keys: u32) -> io::Result<()> {
    for statement in create_statements(None) {
        client.query(&statement).await?;
    }
    let statement_id = client.prepare(&insert_statement()).await?;
    /// Requests sent before their answers are read while the table is filled.
    const FILL_IN_FLIGHT: u32 = 256;
    let mut next = 0;
    while next < keys {
        let count = FILL_IN_FLIGHT.min(keys - next);
        for key in next..next + count {
            push_request(client, 0, true, &statement_id, &u64::from(key).to_be_bytes())?;
        }
        client.receive_results(count as usize).await?;
        next += count;
    }
    Ok(())
}

fn keys_by_shard(keys: u32, shards: u16) -> Vec<Vec<[u8; 8]>> {
    let mut by_shard = vec![Vec::new(); usize::from(shards)];
    for key in 0..keys {
        let key = u64::from(key).to_be_bytes();
        by_shard[usize::from(shard_of(token_of(&key), shards).0)].push(key);
    }
    by_shard
}

async fn work(load: Rc<Load>, mut client: WireClient, shard: u16, in_flight: u16) -> io::Result<()> {
    let keys = &load.keys_by_shard[usize::from(shard)];
    let mut sent_at = vec![Instant::now(); usize::from(in_flight)];
    let mut next_key = usize::from(in_flight) * 7919 % keys.len();
    let mut answered: Vec<i16> = (0..in_flight as i16).collect();
    let mut outstanding = 0;
    let mut batches = 0;
    loop {
        let may_send = match load.batches {
            Some(count) => outstanding == 0 && batches < count,
            None => !load.stopping.get(),
        };
        if may_send {
            batches += 1;
            let now = Instant::now();
            for &stream in &answered {
                // A stride prime to the number of keys visits all of them, and no cache line twice in a row.
                next_key = (next_key + 4_999) % keys.len();
                push_request(
                    &mut client,
                    stream,
                    load.write,
                    &load.statement_id,
                    &keys[next_key],
                )?;
                sent_at[stream as usize] = now;
            }
            outstanding += answered.len();
            answered.clear();
            client.send().await?;
        }
        if outstanding == 0 {
            return Ok(());
        }
        let answered_before = answered.len();
        client
            .receive(|stream, opcode, _| {
                answered.push(stream);
                if opcode != Opcode::Result && load.measuring.get() {
                    load.errors.set(load.errors.get() + 1);
                }
            })
            .await?;
        let now_answered = &answered[answered_before..];
        outstanding -= now_answered.len();
        if load.measuring.get() {
            let now = Instant::now();
            load.operations
                .set(load.operations.get() + now_answered.len() as u64);
            let mut latencies = load.latencies_us.borrow_mut();
            for &stream in now_answered {
                latencies.saturating_record((now - sent_at[stream as usize]).as_micros() as u64);
            }
        }
    }
}

fn push_request(
    client: &mut WireClient,
    stream: i16,
    write: bool,
    statement_id: &[u8],
    key: &[u8; 8],
) -> io::Result<()> {
    const BLOB: [u8; VALUE_BYTES] = [0xa5; VALUE_BYTES];
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.skip_metadata = true;
    let mut values = [Value::Bytes(&BLOB); COLUMNS + 1];
    values[0] = Value::Bytes(key);
    let count = if write { COLUMNS + 1 } else { 1 };
    client.push(stream, Opcode::Execute, |out| {
        let values = BindValues::Positional(&values[..count]);
        write_execute(out, ProtocolVersion::V4, statement_id, &[], &parameters, values);
    })
}

impl fmt::Display for WireReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}, {} connections x {} in flight, {} shards: {:.0} ops/s, {} errors, p50 {} us, p99 {} us",
            self.workload,
            self.connections,
            self.in_flight,
            self.shards,
            self.ops_per_s,
            self.errors,
            self.latency_us_p50,
            self.latency_us_p99
        )?;
        if let Some(cpu_us) = self.server_cpu_us_per_op {
            write!(formatter, ", server CPU {cpu_us:.2} us/op")?;
        }
        if let Some(bytes) = self.server_resident_bytes {
            write!(formatter, ", resident {} MiB", bytes >> 20)?;
        }
        Ok(())
    }
}
