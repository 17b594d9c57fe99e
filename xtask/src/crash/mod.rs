//! `cargo xtask crash`: SIGKILL under write load, again and again, on the same data.
//!
//! Writers on connections of their own keep a ledger of what the server acknowledged. After each
//! restart every ledger is compared with what the server answers: an acknowledged write that is
//! missing, a batch of which one half is there, or a row that nobody wrote is a failure. The ledger
//! lives in this process, which the kill does not touch. With `--transfers` the load is [a bank's](bank).

mod bank;
mod ledger;
mod schema_writer;
mod writer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::TaskError;
use crate::native::{Connection, NativeError};
use crate::node::{Node, Target};
use crate::program::Tally;
use crate::test::Context;
use schema_writer::SchemaWriter;
use writer::Writer;

const WRITERS: u32 = 12;
/// A request that takes longer counts as not acknowledged.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The load runs this long before a kill, plus up to as much again, so that kills meet all states.
const LOAD_BASE: Duration = Duration::from_millis(400);
/// Commit log modes that promise an acknowledged write to survive; used in turns.
const SYNC_MODES: &[&str] = &["group", "batch"];

#[derive(Args)]
pub struct Arguments {
    /// How many times to kill the server
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Start of the random sequences of the writers and of the moments of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Instead of writes: so many transfers between accounts, by transactions, between one kill and the next
    #[arg(long)]
    transfers: Option<u64>,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let target = Target::from_environment()?;
    let tally = kill_repeatedly(&target, arguments)?;
    println!("{} checks passed, {} failed", tally.passed, tally.failed);
    if tally.failed == 0 {
        Ok(())
    } else {
        Err(TaskError::Failures { count: tally.failed })
    }
}

/// The form that is short enough for the test command.
pub fn short(context: &Context) -> Result<Tally, TaskError> {
    let writes = Arguments {
        kills: 5,
        seed: 1,
        transfers: None,
    };
    let mut tally = kill_repeatedly(&context.target, &writes)?;
    let transfers = Arguments {
        kills: 2,
        transfers: Some(2_000),
        ..writes
    };
    tally.add(&kill_repeatedly(&context.target, &transfers)?);
    Ok(tally)
}

fn kill_repeatedly(target: &Target, arguments: &Arguments) -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    if matches!(target, Target::External(_)) {
        println!("  skip crash: the node under test is not ours to kill");
        tally.skipped += 1;
        return Ok(tally);
    }
    if let Some(transfers) = arguments.transfers {
        return bank::kill_repeatedly(target, arguments, transfers);
    }
    let mut node = Node::start(target, "crash", &options(0))?;
    create_schema(node.address())?;
    let mut random = Random::new(arguments.seed);
    let mut writers: Vec<Writer> = (0..WRITERS).map(|id| Writer::new(id, random.next())).collect();
    let mut schema_writer = SchemaWriter::default();
    for round in 1..=arguments.kills {
        let pause = LOAD_BASE + LOAD_BASE.mul_f64(random.fraction());
        (writers, schema_writer) = load_until_killed(&mut node, writers, schema_writer, pause)?;
        let restart = Instant::now();
        node.start_again(&options(round))?;
        let restart_ms = restart.elapsed().as_millis();
        let failed_before = tally.failed;
        verify(
            node.address(),
            &mut writers,
            &mut schema_writer,
            round,
            &mut tally,
        )?;
        let acknowledged: u64 = writers.iter().map(Writer::acknowledged).sum();
        println!(
            "  kill {round} of {}: {acknowledged} writes acknowledged so far, restart {restart_ms} ms, {} wrong",
            arguments.kills,
            tally.failed - failed_before
        );
    }
    tally.check("no panic in the server", node.check_panics());
    tally.check("clean stop after the kills", node.stop());
    Ok(tally)
}

fn options(round: u32) -> [&'static str; 2] {
    let mode = SYNC_MODES
        .get(round as usize % SYNC_MODES.len())
        .copied()
        .unwrap_or("group");
    ["--commitlog-sync", mode]
}

fn create_schema(address: SocketAddr) -> Result<(), NativeError> {
    let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
    connection.query(
        "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    connection
        .query("CREATE TABLE crash.register (part int, key int, value bigint, PRIMARY KEY (part, key))")?;
    connection
        .query("CREATE TABLE crash.counts (part int, key int, value counter, PRIMARY KEY (part, key))")?;
    connection.query(
        "CREATE TABLE crash.journal (part int, sequence bigint, body text, PRIMARY KEY (part, sequence))",
    )?;
    Ok(())
}

/// Lets everybody write for `pause`, then kills the server under them.
fn load_until_killed(
    node: &mut Node,
    writers: Vec<Writer>,
    schema_writer: SchemaWriter,
    pause: Duration,
) -> Result<(Vec<Writer>, SchemaWriter), NativeError> {
    let address = node.address();
    let killed = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            let killed = Arc::clone(&killed);
            thread::spawn(move || {
                let outcome = writer.write_until(address, &killed);
                (writer, outcome)
            })
        })
        .collect();
    let schema_thread = {
        let (mut schema_writer, killed) = (schema_writer, Arc::clone(&killed));
        thread::spawn(move || {
            let outcome = schema_writer.write_until(address, &killed);
            (schema_writer, outcome)
        })
    };
    thread::sleep(pause);
    node.kill();
    killed.store(true, Ordering::SeqCst);
    let mut back = Vec::new();
    for thread in threads {
        let (writer, outcome) = join(thread);
        outcome?;
        back.push(writer);
    }
    let (schema_writer, outcome) = join(schema_thread);
    outcome?;
    Ok((back, schema_writer))
}

/// Outcome of a load until the server was killed: an error counts only before. The kill is flagged right after it is done, so a
/// connection may break slightly earlier.
fn unless_killed(outcome: Result<(), NativeError>, killed: &AtomicBool) -> Result<(), NativeError> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    while !killed.load(Ordering::SeqCst) && Instant::now() < deadline {
        if matches!(
            outcome,
            Err(NativeError::Server { .. } | NativeError::Malformed(_))
        ) {
            break;
        }
        thread::sleep(crate::process::POLL_INTERVAL);
    }
    if killed.load(Ordering::SeqCst) {
        Ok(())
    } else {
        outcome
    }
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    match thread.join() {
        Ok(value) => value,
        // A writer that panicked is a bug in this test: let it end the run as it ended the writer.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn verify(
    address: SocketAddr,
    writers: &mut [Writer],
    schema_writer: &mut SchemaWriter,
    round: u32,
    tally: &mut Tally,
) -> Result<(), NativeError> {
    let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
    for writer in writers {
        let wrong = writer.verify(&mut connection)?;
        report(
            &format!("writer {} after kill {round}", writer.id()),
            &wrong,
            tally,
        );
    }
    let wrong = schema_writer.verify(&mut connection)?;
    report(&format!("tables after kill {round}"), &wrong, tally);
    Ok(())
}

fn report(name: &str, wrong: &[String], tally: &mut Tally) {
    let outcome = match wrong {
        [] => Ok(()),
        [first, ..] => Err(format!("{} differences, the first: {first}", wrong.len())),
    };
    tally.check(name, outcome);
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough to choose what to write.
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is small enough for the modulo's bias not to matter here.
    pub fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }

    /// A number from 0 up to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
