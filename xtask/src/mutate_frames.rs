//! `cargo xtask mutate-frames`: valid messages with random damage, on a live node; another connection goes on meanwhile, and
//! what it notices is compared, in turns, with nobody else's messages and with as many that are not damaged.
//!
//! Nothing may panic, hang or go unanswered without its connection being closed. What the damage was is a function of the
//! seed and the mutation's number.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use helenus_protocol::request::{
    BindValues, QueryParameters, Value, write_execute, write_prepare, write_query, write_startup,
};
use helenus_protocol::{Consistency, Opcode, ProtocolVersion};
use helenus_vfs::{Random, SeededRandom};

use crate::TaskError;
use crate::bystander::{Bystander, Seen};
use crate::node::{Node, Target};
use crate::program::Tally;
use crate::wire::{Client, Prepared, is_closed, query};

#[derive(clap::Args)]
pub struct Arguments {
    /// Messages to damage; the long run is 10000000
    #[arg(long, default_value_t = 100_000)]
    mutations: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds in which the other connection's latencies are compared: a second alone, one beside valid messages and one
    /// beside damaged ones, in another order each time. What is left to damage then goes as fast as it can.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Messages a second in those rounds, valid or damaged
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
}

/// Arguments of the test command: some seconds.
const SHORT: Arguments = Arguments {
    mutations: 5_000,
    seed: 1,
    rounds: 0,
    rate: 1.0,
};

/// Damaged messages of one connection: the first whose boundaries are lost ends it.
const PER_CONNECTION_MAX: u64 = 16;

/// Length of a phase, in which messages of one kind are sent beside the connection that goes on.
const PHASE: Duration = Duration::from_secs(1);

/// Kind of messages sent beside the connection that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Valid,
    Damaged,
}

const COMPARED: [Beside; 3] = [Beside::Nothing, Beside::Valid, Beside::Damaged];

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "alone",
            Beside::Valid => "beside valid messages",
            Beside::Damaged => "beside damaged messages",
        }
    }
}

/// Result of the mutations: counts, answers, and the other connection's requests.
#[derive(Debug, Default)]
struct Outcome {
    mutations: u64,
    connections: u64,
    /// By opcode or error, of damaged messages.
    answers: BTreeMap<String, u64>,
    /// The other connection's requests, as of [`COMPARED`].
    compared: [Seen; 3],
    /// While the rest was sent as fast as it could be.
    at_speed: Seen,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let outcome = mutate(arguments)?;
    println!(
        "{} damaged messages (seed {}) over {} connections; no panic, the node serves",
        outcome.mutations, arguments.seed, outcome.connections
    );
    for (kind, count) in &outcome.answers {
        println!("{count:>10} {kind}");
    }
    let alone_us = outcome.compared[0].p99_us().max(1) as f64;
    println!(
        "another connection, {} rounds of {} s each with {} messages a second; slices of 100 ms in which nothing was stolen:",
        arguments.rounds,
        PHASE.as_secs(),
        arguments.rate
    );
    for (beside, seen) in COMPARED.into_iter().zip(&outcome.compared) {
        println!(
            "  {:<24} p50 {} us, p99 {} us, {:.2} of alone; {} requests, none failed",
            beside.name(),
            seen.p50_us(),
            seen.p99_us(),
            seen.p99_us() as f64 / alone_us,
            seen.latencies_us.len()
        );
    }
    println!(
        "  {:<24} p50 {} us, p99 {} us; {} requests, none failed",
        "beside the rest at speed",
        outcome.at_speed.p50_us(),
        outcome.at_speed.p99_us(),
        outcome.at_speed.latencies_us.len()
    );
    Ok(())
}

/// The part of the test command.
pub fn short() -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    let outcome = mutate(&SHORT).map_err(|error| error.to_string());
    tally.check("damaged messages harm nobody", outcome.map(drop));
    Ok(tally)
}

fn mutate(arguments: &Arguments) -> Result<Outcome, TaskError> {
    let node = Node::start(&Target::Helenus, "mutate-frames", &["--shards", "1"])?;
    let address = node.address();
    let failed = |error: io::Error| TaskError::Report {
        text: format!("mutations of seed {}: {error}", arguments.seed),
    };
    let corpora = [ProtocolVersion::V4, ProtocolVersion::V5].map(|version| Corpus::new(address, version));
    let [v4, v5] = corpora;
    let mut sender = Sender {
        address,
        corpora: [v4.map_err(failed)?, v5.map_err(failed)?],
        random: SeededRandom::new(arguments.seed),
        valid_random: SeededRandom::new(arguments.seed ^ 1),
        outcome: Outcome::default(),
    };
    let order = SeededRandom::new(arguments.seed ^ 2);
    let mut kinds = [0, 1, 2];
    for _ in 0..arguments.rounds {
        for last in (1..kinds.len()).rev() {
            kinds.swap(last, order.below(last as u64 + 1) as usize);
        }
        for kind in kinds {
            let seen = sender.compare(COMPARED[kind], arguments.rate).map_err(failed)?;
            sender.outcome.compared[kind].add(seen);
        }
    }
    let bystander = Bystander::start(address, None, &[SELECT]);
    while sender.outcome.mutations < arguments.mutations {
        sender
            .send(Beside::Damaged, arguments.mutations - sender.outcome.mutations)
            .map_err(failed)?;
    }
    sender.outcome.at_speed = bystander.join().map_err(failed)?;
    node.check_panics()?;
    Client::connect(address, ProtocolVersion::V4)
        .and_then(|mut client| client.ask(Opcode::Query, |out| query(out, ProtocolVersion::V4, SELECT)))
        .map_err(failed)?;
    node.stop()?;
    Ok(sender.outcome)
}

struct Sender {
    address: SocketAddr,
    corpora: [Corpus; 2],
    /// Randomness of the damage, a function of its seed alone, whatever is sent in between.
    random: SeededRandom,
    valid_random: SeededRandom,
    outcome: Outcome,
}

impl Sender {
    /// Sends messages for one phase; returns what a bystander saw meanwhile.
    fn compare(&mut self, beside: Beside, per_s: f64) -> io::Result<Seen> {
        let bystander = Bystander::start(self.address, None, &[SELECT]);
        let began = Instant::now();
        let mut sent = 0;
        while began.elapsed() < PHASE {
            let due = match beside {
                Beside::Nothing => PHASE,
                _ => Duration::from_secs_f64(sent as f64 / per_s.max(1.0)).min(PHASE),
            };
            thread::sleep(due.saturating_sub(began.elapsed()));
            if due < PHASE {
                sent += self.send(beside, PER_CONNECTION_MAX)?;
            }
        }
        bystander.join()
    }

    /// A connection's worth of messages; how many.
    fn send(&mut self, beside: Beside, messages_max: u64) -> io::Result<u64> {
        let is_damaged = beside == Beside::Damaged;
        let random = if is_damaged {
            &self.random
        } else {
            &self.valid_random
        };
        // One of four connections has checksums, which most damage does not get past.
        let corpus = &self.corpora[usize::from(random.below(4) == 0)];
        let count = messages_max.min(1 + random.below(PER_CONNECTION_MAX));
        let message = |_| {
            if is_damaged {
                corpus.damaged(random)
            } else {
                corpus.choose(random).to_vec()
            }
        };
        let bytes: Vec<u8> = (0..count).flat_map(message).collect();
        if is_damaged {
            corpus.exchange(self.address, &bytes, &mut self.outcome.answers)?;
            self.outcome.mutations += count;
            self.outcome.connections += 1;
        } else {
            corpus.exchange(self.address, &bytes, &mut BTreeMap::new())?;
        }
        Ok(count)
    }
}

const SELECT: &str = "SELECT v FROM mutations.t WHERE p = 1";

/// Valid messages of one version, as a connection sends them after STARTUP.
struct Corpus {
    version: ProtocolVersion,
    messages: Vec<Vec<u8>>,
}

impl Corpus {
    fn new(address: SocketAddr, version: ProtocolVersion) -> io::Result<Corpus> {
        let mut client = Client::connect(address, version)?;
        for text in [
            "CREATE KEYSPACE IF NOT EXISTS mutations \
             WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE IF NOT EXISTS mutations.t (p int PRIMARY KEY, v blob, m map<text, int>)",
            "INSERT INTO mutations.t (p, v) VALUES (1, 0x01)",
        ] {
            client.ask(Opcode::Query, |out| query(out, version, text))?;
        }
        let insert = client.prepare("INSERT INTO mutations.t (p, v) VALUES (?, ?)")?;
        let select = client.prepare(SELECT)?;
        let parameters = QueryParameters::new(Consistency::One);
        let key = 7_i32.to_be_bytes();
        let values = [Value::Bytes(&key), Value::Bytes(&[0xa5; 64])];
        let execute = |out: &mut Vec<u8>, prepared: &Prepared, values: &[Value<'_>]| {
            let Prepared { id, metadata_id } = prepared;
            write_execute(
                out,
                version,
                id,
                metadata_id,
                &parameters,
                BindValues::Positional(values),
            );
        };
        let mut bodies: Vec<(Opcode, Vec<u8>)> = vec![(Opcode::Options, Vec::new())];
        let mut add = |opcode: Opcode, write: &dyn Fn(&mut Vec<u8>)| {
            let mut body = Vec::new();
            write(&mut body);
            bodies.push((opcode, body));
        };
        add(Opcode::Startup, &|out| {
            write_startup(out, &[("CQL_VERSION", "3.0.0")])
        });
        add(Opcode::Query, &|out| query(out, version, SELECT));
        add(Opcode::Query, &|out| {
            query(
                out,
                version,
                "UPDATE mutations.t SET m = {'a': 1, 'b': 2} WHERE p = 3",
            );
        });
        add(Opcode::Query, &|out| {
            let text = "INSERT INTO mutations.t (p, v) VALUES (?, ?)";
            write_query(out, version, text, &parameters, BindValues::Positional(&values));
        });
        add(Opcode::Prepare, &|out| write_prepare(out, version, SELECT, None));
        add(Opcode::Execute, &|out| execute(out, &insert, &values));
        add(Opcode::Execute, &|out| execute(out, &select, &[]));
        add(Opcode::Batch, &|out| {
            // Unlogged, one prepared statement with two values, consistency ONE, no flags.
            out.extend_from_slice(&[1, 0, 1, 1, 0, insert.id.len() as u8]);
            out.extend_from_slice(&insert.id);
            out.extend_from_slice(&[0, 2, 0, 0, 0, 4]);
            out.extend_from_slice(&key);
            out.extend_from_slice(&[0, 0, 0, 1, 0xa5, 0, 1]);
            let flags: &[u8] = if version == ProtocolVersion::V5 {
                &[0; 4]
            } else {
                &[0]
            };
            out.extend_from_slice(flags);
        });
        add(Opcode::Register, &|out| {
            out.extend_from_slice(&[0, 1, 0, 13]);
            out.extend_from_slice(b"SCHEMA_CHANGE");
        });
        add(Opcode::AuthResponse, &|out| {
            out.extend_from_slice(&[0, 0, 0, 3, 0, b'a', b'b'])
        });
        let messages = bodies.iter().map(|(opcode, body)| client.framed(*opcode, body));
        Ok(Corpus {
            version,
            messages: messages.collect::<io::Result<_>>()?,
        })
    }

    fn choose(&self, random: &SeededRandom) -> &[u8] {
        &self.messages[random.below(self.messages.len() as u64) as usize]
    }

    fn damaged(&self, random: &SeededRandom) -> Vec<u8> {
        damage(self.choose(random).to_vec(), random)
    }

    /// Sends damaged messages on a connection of their own, says that there are no more, and waits until it is closed.
    fn exchange(
        &self,
        address: SocketAddr,
        bytes: &[u8],
        answers: &mut BTreeMap<String, u64>,
    ) -> io::Result<()> {
        let mut client = Client::connect(address, self.version)?;
        // The server may have closed after the first of them.
        let sent = client
            .stream
            .write_all(bytes)
            .and_then(|()| client.stream.shutdown(Shutdown::Write));
        if sent.is_err_and(|error| !is_closed(&error)) {
            return Err(io::Error::other("a connection that cannot be written to"));
        }
        loop {
            match client.answer() {
                Ok((Opcode::Error, body)) => {
                    let code = body.first_chunk().map_or(0, |code| i32::from_be_bytes(*code));
                    *answers.entry(format!("error {code:#06x}")).or_default() += 1;
                }
                Ok((opcode, _)) => *answers.entry(opcode.to_string()).or_default() += 1,
                Err(error) if is_closed(&error) => return Ok(()),
                // Damage to the version is answered in the version to step down to, and is the last answer.
                Err(error) if error.kind() == io::ErrorKind::Other => {
                    *answers.entry("answer in another version".to_owned()).or_default() += 1;
                    return client.drain();
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The bytes of a message with one to four pieces of damage.
pub fn damage(mut bytes: Vec<u8>, random: &SeededRandom) -> Vec<u8> {
    for _ in 0..1 + random.below(4) {
        let length = bytes.len().max(1) as u64;
        // The header is where most is decided.
        let is_in_header = random.below(2) == 0;
        let at = random.below(if is_in_header { length.min(16) } else { length }) as usize;
        match random.below(6) {
            _ if bytes.is_empty() => bytes.push(random.next_u64() as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next_u64() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + 1 + random.below(8) as usize).min(bytes.len()))),
            4 => {
                let inserted = random.next_u64().to_be_bytes();
                bytes.splice(at..at, inserted);
            }
            _ => {
                let extreme = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize];
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill(extreme);
            }
        }
    }
    bytes
}
