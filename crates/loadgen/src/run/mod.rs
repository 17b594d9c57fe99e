//! Executing a workload and measuring it.
//!
//! Each core that the run is given has a thread with a runtime, a session and its share of the workers; they share
//! counters of sequences and the phase, nothing else. In a closed loop a worker sends its next request when the last
//! one is answered. In an open loop requests have intended times, whoever is free takes the next one, and latency
//! counts from the intended time: a server that stalls is charged for all who would have come meanwhile.

mod find_max;
mod machine;
mod options;
mod pacer;
mod recorder;
mod timer;
mod trace;
mod turns;
mod worker;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use helenus_client::{RequestError, Session};
use tokio::runtime::Runtime;

pub use find_max::{FindMax, FoundRate, find_max};
pub use machine::ProcessUsage;
pub(crate) use machine::{process_usage, process_usage_of, stolen_time};
pub use options::{Length, Load, RunOptions};
pub use recorder::{Latencies, Recorder};
pub use trace::TraceOptions;

use crate::quiet::Watch;
use crate::workload::Workload;
use trace::Trace;
use turns::Turns;
use worker::{Crew, Phase, Signals};

/// A run could not take place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error("cannot connect: {0}")]
    Connect(RequestError),
    #[error("{cql}: {source}")]
    Statement { cql: String, source: RequestError },
    #[error("statement {name} has {markers} markers and {values} generators; give one for each marker")]
    Markers {
        name: String,
        markers: usize,
        values: usize,
    },
    #[error("populating failed after {rows} rows: {source}")]
    Populate { rows: u64, source: RequestError },
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("a thread of the run has stopped")]
    Stopped,
    #[error("the trace cannot be written: {0}")]
    Trace(std::io::Error),
}

/// Told how far a run is; draws the live view, or nothing.
pub trait Progress {
    /// Reports what the run does now, and how much of it is done (0.0 to 1.0).
    fn doing(&mut self, what: &str, share: f64);

    /// Another second has passed.
    fn second(&mut self, second: &Second, measured: &Measurement);

    /// Returns whether whoever watches wants the run to end now.
    fn is_stopped(&mut self) -> bool {
        false
    }
}

/// One second of a run.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Since the measurement began; negative while warming up.
    pub at_s: f64,
    pub length_s: f64,
    pub ops: u64,
    pub errors: u64,
    pub latencies: Latencies,
    /// The sum of the nodes' throttle limits; `None` without a limit.
    pub throttle_limit: Option<usize>,
    pub in_flight: usize,
    pub waiting: usize,
    /// The hypervisor took processors away meanwhile, or the generator itself was late to look.
    pub is_disturbed: bool,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub workload: String,
    pub load: Load,
    pub threads: usize,
    pub elapsed: Duration,
    pub totals: Recorder,
    /// Results that count where the machine is shared: of the slices in which it was not disturbed.
    pub undisturbed: Undisturbed,
    pub seconds: Vec<Second>,
    /// Open loop: requests whose time had come and that were never sent.
    pub unsent: u64,
    pub usage: ProcessUsage,
    /// CPU to choose a statement and make its values, in ns a request: the part of the client's cost that is the
    /// generator's own.
    pub generator_ns: f64,
    pub sent_again: u64,
    pub retried: u64,
    pub refused: u64,
}

/// Requests that ended in slices of a tenth of a second in which the hypervisor took no processor away, nor in the slice
/// before.
#[derive(Clone, Debug, Default)]
pub struct Undisturbed {
    pub length: Duration,
    pub totals: Recorder,
}

/// How often the live view and the series of seconds get a new point.
const TICK: Duration = Duration::from_secs(1);

/// How often a run looks whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Connects, sets up the schema, populates, warms up, measures.
pub fn run(options: &RunOptions, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
    let signals = Arc::new(Signals::new(options));
    let mut threads = Vec::new();
    let (ready_sender, ready) = mpsc::channel();
    set_up(options, progress)?;
    for index in 0..options.threads.max(1) {
        let crew = Crew::new(index, options.clone(), signals.clone());
        let ready = ready_sender.clone();
        let handle = thread::Builder::new()
            .name(format!("bench-{index}"))
            .spawn(move || crew.run(&ready))
            .map_err(RunError::Thread)?;
        threads.push(handle);
    }
    drop(ready_sender);
    let result = watch(options, &signals, &ready, progress);
    signals.set_phase(Phase::Stop);
    for handle in threads {
        if handle.join().is_err() {
            return Err(RunError::Stopped);
        }
    }
    result
}

/// Session and recorder that a crew hands to the thread that watches.
struct Joined {
    session: Session,
    recorder: Arc<Mutex<Recorder>>,
}

type Ready = mpsc::Receiver<Result<Joined, RunError>>;

fn watch(
    options: &RunOptions,
    signals: &Signals,
    ready: &Ready,
    progress: &mut dyn Progress,
) -> Result<Measurement, RunError> {
    progress.doing("connecting", 0.0);
    let mut crews = Vec::new();
    for _ in 0..options.threads.max(1) {
        crews.push(ready.recv().map_err(|_| RunError::Stopped)??);
    }
    let generator_ns = worker::generator_cost_ns(&options.workload, options.seed);
    let mut watcher = Watcher {
        crews,
        measured: Measurement {
            workload: options.workload.name.clone(),
            load: options.load,
            threads: options.threads.max(1),
            elapsed: Duration::ZERO,
            totals: Recorder::new(),
            undisturbed: Undisturbed::default(),
            seconds: Vec::new(),
            unsent: 0,
            usage: ProcessUsage::default(),
            generator_ns,
            sent_again: 0,
            retried: 0,
            refused: 0,
        },
        last: Instant::now(),
        gathered: Recorder::new(),
        slice: Recorder::new(),
        spare: Recorder::new(),
        is_disturbed: false,
        slices: Slices::begin(),
        turns: Turns::new(&options.beside),
        trace: options.trace.as_ref().map(Trace::create).transpose()?,
    };
    signals.start();
    if !options.warm_up.is_zero() {
        let end = Instant::now() + options.warm_up;
        watcher.until(progress, -options.warm_up.as_secs_f64(), || Instant::now() >= end);
    }
    watcher.forget();
    signals.set_phase(Phase::Measure);
    let (usage, started) = (process_usage(), Instant::now());
    watcher.last = started;
    watcher.slices = Slices::begin();
    let workers = signals.workers_wanted;
    let is_over = || match options.length {
        Length::Time(time) => started.elapsed() >= time,
        Length::RequestsPerWorker(_) => signals.workers_done.load(Ordering::Acquire) >= workers,
    };
    watcher.until(progress, 0.0, is_over);
    signals.set_phase(Phase::Stop);
    watcher.tick(progress, started.elapsed().as_secs_f64());
    watcher.measured.elapsed = started.elapsed();
    watcher.measured.usage = process_usage().since(&usage);
    watcher.measured.unsent = signals.unsent(watcher.measured.elapsed, watcher.measured.totals.count());
    Ok(watcher.measured)
}

struct Watcher {
    crews: Vec<Joined>,
    measured: Measurement,
    last: Instant,
    /// Since the last tick.
    gathered: Recorder,
    /// Since the last slice.
    slice: Recorder,
    /// Recorder that a crew gets in exchange for the one that it has filled.
    spare: Recorder,
    is_disturbed: bool,
    slices: Slices,
    turns: Turns,
    trace: Option<Trace>,
}

/// The slices of a measurement, and which of them count.
struct Slices {
    watch: Watch,
    begun: Instant,
    last: Instant,
}

/// After so many slices, a watch begins anew: an hour, so that neither its memory nor its clock runs over.
const SLICES_MAX: usize = 36_000;

impl Slices {
    fn begin() -> Self {
        let now = Instant::now();
        let mut watch = Watch::new(None, 0, 0, usize::MAX);
        let _never_enough = watch.look(0);
        Slices {
            watch,
            begun: now,
            last: now,
        }
    }

    /// If a slice has ended since it was last asked: how long ago that was, and whether the slice counts.
    fn ended(&mut self) -> Option<(Duration, bool)> {
        let before = self.watch.ended();
        let _never_enough = self.watch.look(self.begun.elapsed().as_micros() as u32);
        let ended = self.watch.ended();
        if ended == before {
            return None;
        }
        let now = Instant::now();
        let length = now.duration_since(std::mem::replace(&mut self.last, now));
        // Of the first slice nobody knows what came before it.
        let counts = ended > 1 && self.watch.is_quiet(ended - 1);
        if ended >= SLICES_MAX {
            *self = Slices::begin();
        }
        Some((length, counts))
    }
}

impl Watcher {
    /// Ticks until it is over; seconds count from `from_s`.
    fn until(&mut self, progress: &mut dyn Progress, from_s: f64, is_over: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_over() && !progress.is_stopped() {
            thread::sleep(LOOK);
            self.look();
            if self.last.elapsed() >= TICK {
                self.tick(progress, from_s + start.elapsed().as_secs_f64());
            }
        }
    }

    /// Takes what was recorded, if a slice has ended.
    fn look(&mut self) {
        let Some((length, counts)) = self.slices.ended() else {
            return;
        };
        self.gather();
        let slice = std::mem::take(&mut self.slice);
        if counts {
            self.measured.undisturbed.length += length;
            self.measured.undisturbed.totals.add(&slice);
        }
        self.is_disturbed |= !counts;
        if let Some(trace) = &mut self.trace {
            trace.slice(length, counts, self.turns.limit(), &slice);
        }
        if let Some(limit) = self.turns.next() {
            for crew in &self.crews {
                crew.session.stand_in_limit(limit);
            }
        }
    }

    /// Takes what was recorded, which counts for the second and for the slice.
    fn gather(&mut self) {
        for crew in &self.crews {
            self.spare.clear();
            // Only exchanged under the lock: each request of that crew waits for it.
            let mut recorder = crew.recorder.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *recorder, &mut self.spare);
            drop(recorder);
            self.gathered.add(&self.spare);
            self.slice.add(&self.spare);
            self.slice.traced.append(&mut self.spare.traced);
        }
    }

    fn tick(&mut self, progress: &mut dyn Progress, at_s: f64) {
        let length_s = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        self.gather();
        let interval = std::mem::take(&mut self.gathered);
        let mut second = Second {
            at_s,
            length_s,
            ops: interval.ops,
            errors: interval.errors(),
            latencies: interval.latencies(),
            is_disturbed: std::mem::take(&mut self.is_disturbed),
            ..Second::default()
        };
        let (mut sent_again, mut retried, mut refused) = (0, 0, 0);
        for crew in &self.crews {
            let statistics = crew.session.statistics();
            sent_again += statistics.sent_again;
            retried += statistics.retried;
            refused += statistics.refused;
            for (_, status, _) in &statistics.nodes {
                second.in_flight += status.in_flight;
                second.waiting += status.waiting;
                if status.limit != usize::MAX {
                    *second.throttle_limit.get_or_insert(0) += status.limit;
                }
            }
        }
        (
            self.measured.sent_again,
            self.measured.retried,
            self.measured.refused,
        ) = (sent_again, retried, refused);
        self.measured.totals.add(&interval);
        self.measured.elapsed += Duration::from_secs_f64(length_s);
        self.measured.seconds.push(second.clone());
        progress.second(&second, &self.measured);
    }

    /// Discards what was measured so far: it was warming up.
    fn forget(&mut self) {
        for crew in &self.crews {
            crew.recorder
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
        }
        self.gathered.clear();
        self.slice.clear();
        self.measured.totals.clear();
        self.measured.undisturbed = Undisturbed::default();
        self.measured.seconds.clear();
        self.measured.elapsed = Duration::ZERO;
    }
}

/// Schema and rows, from a session of their own.
fn set_up(options: &RunOptions, progress: &mut dyn Progress) -> Result<(), RunError> {
    if !options.sets_up {
        return Ok(());
    }
    let runtime = runtime()?;
    runtime.block_on(async {
        progress.doing("connecting", 0.0);
        let session = options.connect().await.map_err(RunError::Connect)?;
        for cql in &options.workload.schema {
            progress.doing("setting up the schema", 0.0);
            session
                .query(&cql[..], ())
                .await
                .map_err(|source| RunError::Statement {
                    cql: cql.clone(),
                    source,
                })?;
        }
        if let Some(populate) = &options.workload.populate {
            worker::populate(&session, populate, options.seed, progress).await?;
        }
        session.close();
        Ok(())
    })
}

fn runtime() -> Result<Runtime, RunError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Thread)
}

/// The statements of a workload, prepared and checked against their generators.
async fn prepare_all(
    session: &Session,
    workload: &Workload,
) -> Result<Vec<helenus_client::Prepared>, RunError> {
    let mut prepared = Vec::new();
    for statement in &workload.statements {
        prepared.push(worker::prepare(session, statement).await?);
    }
    Ok(prepared)
}
