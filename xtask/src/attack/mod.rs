//! `cargo xtask attack`: hostile clients against a running node with small limits.
//!
//! Each attack goes on for some seconds while a polite client asks for a row and writes one every millisecond. None of its
//! requests may fail; its latencies during the attack are compared with those of calm moments in between. Once the
//! attackers are gone the node must be as before: threads, open files, memory within its budget, no panic. At the end it
//! is restarted and must have what the polite client wrote.
//!
//! Server and clients have a core each, and the attackers give way to the polite client on theirs: what it notices is the
//! server's doing.

mod accounts;
mod arena;
mod connections;
mod indexes;
mod schema;
mod statements;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::TaskError;
use crate::bystander::{Bystander, Seen};
use crate::program::Tally;
use arena::{Arena, NodeState};

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Only these attacks
    #[arg(long)]
    only: Vec<String>,
    /// Print the attacks and what each does
    #[arg(long)]
    list: bool,
    /// Seconds of each attack
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// The form of the test command: half a second each at least, and until it has come to something
    #[arg(long)]
    short: bool,
    /// The binary to attack instead of the release build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Results as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask attack --list
  cargo xtask attack --only half-messages --only slow-readers --seconds 10";

/// How attacks are carried out.
#[derive(Clone, Copy)]
struct Form {
    seconds: f64,
    /// A calm part and one of the attack, of which its seconds are divided by this.
    rounds: u32,
    /// True if the polite client's latencies are compared. Timings of a machine that does other things decide nothing.
    judges_latencies: bool,
    /// How much longer an attack goes on where it has come to nothing: what it sends may take seconds to make and to read
    /// on a busy machine.
    more_seconds_max: f64,
}

/// The test command's.
const SHORT: Form = Form {
    seconds: 0.6,
    rounds: 1,
    judges_latencies: false,
    more_seconds_max: 20.0,
};

/// Largest ratio of the polite client's p99 to the calm one's, in the long form. On a machine that does nothing else.
const LATENCY_RATIO_MAX: f64 = 3.0;

/// One way to be hostile.
struct Attack {
    name: &'static str,
    about: &'static str,
    /// Goes on until it is told to stop; counts what it has done. What the server refuses is the attack's business.
    run: fn(&Arena, &Progress),
}

/// Attacks on a node, and what it is started with.
struct Theatre {
    name: &'static str,
    options: &'static [&'static str],
    attacks: &'static [Attack],
}

const THEATRES: [Theatre; 2] = [
    Theatre {
        name: "attack",
        options: &[],
        attacks: &[
            connections::SILENT,
            connections::STORM,
            connections::HALF_MESSAGES,
            connections::TRICKLE,
            connections::LARGE_BEFORE_LOGIN,
            connections::LARGE_THAT_ARE_NO_STATEMENTS,
            connections::BOMBS,
            connections::SLOW_READERS,
            connections::REGISTRATIONS,
            connections::METRICS_PAGE,
            connections::DOORS,
            connections::CONTROL_SOCKET,
            statements::FILTERS,
            statements::SELECTORS,
            statements::DEEP,
            statements::NUMBERS,
            statements::PRODUCTS,
            statements::UNPAGED,
            statements::SCANS,
            statements::BATCHES,
            statements::COLLECTIONS,
            statements::LARGE_TEXTS,
            statements::PREPARES,
            statements::LARGE_PREPARES,
            statements::TRACES,
            statements::FLOOD,
            schema::NESTED_TYPES,
            schema::LARGE_ROWS,
            schema::TRUNCATES,
            schema::TABLES,
            schema::STALE_PLANS,
            indexes::LARGE_TERMS,
            indexes::DISTINCT_TERMS,
            indexes::ONE_TERM,
            indexes::INDEX_CHURN,
            indexes::VECTORS,
        ],
    },
    Theatre {
        name: "attack-accounts",
        options: &["--authenticator", "password"],
        attacks: &[
            accounts::WRONG_PASSWORDS,
            accounts::DEAR_HASHES,
            accounts::GARBAGE,
        ],
    },
];

/// How long an attack is told to go on, and how far it got.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    attempts: AtomicU64,
    /// Service that others were owed meanwhile and did not get.
    owed: Mutex<Option<String>>,
}

impl Progress {
    /// The attack has succeeded.
    fn owes(&self, what: String) {
        if let Ok(mut owed) = self.owed.lock() {
            owed.get_or_insert(what);
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn attempted(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits, but not after the end.
    fn rest(&self, for_long: Duration) {
        let begun = Instant::now();
        while self.goes_on() && begun.elapsed() < for_long {
            thread::sleep(Duration::from_millis(5).min(for_long));
        }
    }
}

/// Result of an attack.
#[derive(Debug, Serialize)]
struct Outcome {
    name: &'static str,
    attempts: u64,
    calm_p99_us: u64,
    attacked_p99_us: u64,
    resident_mib_max: u64,
    recovered_ms: u64,
    failure: Option<String>,
}

impl Outcome {
    fn too_slow(&self) -> Option<String> {
        if self.calm_p99_us == 0 || self.attacked_p99_us == 0 {
            return Some("the machine was never left alone long enough to compare anything".to_owned());
        }
        let ratio = self.attacked_p99_us as f64 / self.calm_p99_us.max(1) as f64;
        (ratio > LATENCY_RATIO_MAX).then(|| format!("p99 is {ratio:.1} times that of calm moments"))
    }
}

/// Rounds of the long form.
const ROUNDS: u32 = 4;

/// The calm half of each round.
const CALM: Duration = Duration::from_millis(250);

/// How long a node may take to be as before: sockets linger for two seconds, and memory is given back lazily.
const RECOVERY_MAX: Duration = Duration::from_secs(20);

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if arguments.list {
        for attack in THEATRES.iter().flat_map(|theatre| theatre.attacks) {
            println!("{:<30} {}", attack.name, attack.about);
        }
        return Ok(());
    }
    let form = if arguments.short {
        SHORT
    } else {
        Form {
            seconds: arguments.seconds,
            rounds: ROUNDS,
            judges_latencies: true,
            more_seconds_max: 0.0,
        }
    };
    let mut tally = Tally::default();
    let outcomes = attack(&arguments.only, arguments.binary.as_deref(), form, &mut tally)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&outcomes).unwrap_or_default());
    }
    println!("{} checks passed, {} failed", tally.passed, tally.failed);
    if tally.failed == 0 {
        Ok(())
    } else {
        Err(TaskError::Failures { count: tally.failed })
    }
}

/// The part of the test command.
pub fn short() -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    attack(&[], None, SHORT, &mut tally)?;
    Ok(tally)
}

fn attack(
    only: &[String],
    binary: Option<&Path>,
    form: Form,
    tally: &mut Tally,
) -> Result<Vec<Outcome>, TaskError> {
    let _given_back = arena::share_cores()?;
    let mut outcomes = Vec::new();
    for theatre in &THEATRES {
        let chosen: Vec<&Attack> = theatre
            .attacks
            .iter()
            .filter(|attack| only.is_empty() || only.iter().any(|name| name == attack.name))
            .collect();
        if chosen.is_empty() {
            continue;
        }
        let start = || Arena::start(theatre.name, theatre.options, form.judges_latencies, binary);
        let mut arena = Arc::new(start()?);
        for attack in chosen {
            let mut outcome = perform(&arena, attack, form);
            if form.judges_latencies && outcome.failure.is_none() {
                outcome.failure = outcome.too_slow();
            }
            println!(
                "{:<30} {:>8} attempts  p99 {:>7} us calm {:>8} us attacked  {:>4} MiB  as before after {:>5} ms",
                outcome.name,
                outcome.attempts,
                outcome.calm_p99_us,
                outcome.attacked_p99_us,
                outcome.resident_mib_max,
                outcome.recovered_ms
            );
            tally.check(attack.name, outcome.failure.clone().map_or(Ok(()), Err));
            outcomes.push(outcome);
            // A node that has died is a failure of its own, and no reason not to try the others.
            if !arena.is_alive() {
                arena = Arc::new(start()?);
            }
        }
        let arena = Arc::into_inner(arena);
        let ended = arena.map_or_else(|| Err("an attacker is left".to_owned()), Arena::restart_and_stop);
        tally.check(&format!("{} restarts with what was written", theatre.name), ended);
    }
    Ok(outcomes)
}

fn perform(arena: &Arc<Arena>, attack: &Attack, form: Form) -> Outcome {
    let mut outcome = Outcome {
        name: attack.name,
        attempts: 0,
        calm_p99_us: 0,
        attacked_p99_us: 0,
        resident_mib_max: 0,
        recovered_ms: 0,
        failure: None,
    };
    let performed = (|| {
        let before = arena.state()?;
        let (mut calm, mut attacked) = (Seen::default(), Seen::default());
        for _ in 0..form.rounds {
            calm.add(polite(arena, CALM)?);
            let (seen, attempts, resident) = attacked_for(arena, attack, form)?;
            attacked.add(seen);
            outcome.attempts += attempts;
            outcome.resident_mib_max = outcome.resident_mib_max.max(resident >> 20);
        }
        outcome.calm_p99_us = calm.p99_us();
        outcome.attacked_p99_us = attacked.p99_us();
        outcome.recovered_ms = recovered(arena, &before)?;
        if outcome.attempts == 0 {
            return Err("it came to nothing".to_owned());
        }
        Ok(())
    })();
    outcome.failure = performed.err();
    outcome
}

fn polite(arena: &Arena, for_long: Duration) -> Result<Seen, String> {
    let polite = Bystander::start(arena.address, arena.account(), arena::POLITE);
    thread::sleep(for_long);
    polite
        .join()
        .map_err(|error| format!("the polite client: {error}"))
}

/// Runs an attack; returns what the polite client saw, the attempts, and the most memory that the node had.
fn attacked_for(arena: &Arc<Arena>, attack: &Attack, form: Form) -> Result<(Seen, u64, u64), String> {
    let for_long = Duration::from_secs_f64(form.seconds / f64::from(form.rounds));
    let at_most = for_long + Duration::from_secs_f64(form.more_seconds_max);

    let progress = Arc::new(Progress::default());
    let attacker = thread::spawn({
        let (arena, progress, run) = (arena.clone(), progress.clone(), attack.run);
        move || {
            arena::give_way();
            run(&arena, &progress);
        }
    });
    let begun = Instant::now();
    let polite = Bystander::start(arena.address, arena.account(), arena::POLITE);
    let mut resident = 0;
    let has_come_to_something = || progress.attempts.load(Ordering::Relaxed) > 0;
    while begun.elapsed() < for_long || (!has_come_to_something() && begun.elapsed() < at_most) {
        thread::sleep(Duration::from_millis(20));
        resident = resident.max(arena.state()?.resident_bytes);
    }
    let seen = polite
        .join()
        .map_err(|error| format!("the polite client: {error}"));
    progress.is_over.store(true, Ordering::Relaxed);
    if attacker.join().is_err() {
        return Err("the attacker panicked".to_owned());
    }
    if resident > arena::RESIDENT_BYTES_MAX {
        return Err(format!(
            "{} MiB resident, more than {} MiB",
            resident >> 20,
            arena::RESIDENT_BYTES_MAX >> 20
        ));
    }
    let owed = progress.owed.lock().ok().and_then(|mut owed| owed.take());
    match owed {
        Some(what) => Err(what),
        None => Ok((seen?, progress.attempts.load(Ordering::Relaxed), resident)),
    }
}

/// Waits until the node is as it was; how many milliseconds that took.
fn recovered(arena: &Arena, before: &NodeState) -> Result<u64, String> {
    let begun = Instant::now();
    loop {
        let differences = arena.state()?.beyond(before);
        if differences.is_empty() {
            break;
        }
        if begun.elapsed() > RECOVERY_MAX {
            return Err(format!("not as before: {}", differences.join(", ")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed().as_millis() as u64;
    polite(arena, CALM)?;
    arena.check_panics()?;
    Ok(took)
}
