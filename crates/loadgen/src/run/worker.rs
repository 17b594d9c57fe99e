//! Threads of a run and their workers.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use helenus_client::values::BoundValues;
use helenus_client::{Prepared, Session};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::options::{Length, Load, RunOptions};
use super::pacer::{Pacer, Schedule, Share};
use super::recorder::Recorder;
use super::timer::Timer;
use super::trace::TracedRequest;
use super::{Joined, Progress, RunError, prepare_all, runtime};
use crate::workload::{Populate, Random, Workload, WorkloadStatement};

/// State that all threads of a run look at.
pub(super) struct Signals {
    phase: AtomicU8,
    started: OnceLock<Instant>,
    is_started: Notify,
    /// Executions of each statement, for its sequences.
    sequences: Vec<AtomicU64>,
    pub workers_wanted: usize,
    pub workers_done: AtomicUsize,
    load: Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    WarmUp = 0,
    Measure = 1,
    Stop = 2,
}

impl Signals {
    pub fn new(options: &RunOptions) -> Self {
        let statements = options.workload.statements.iter();
        Signals {
            phase: AtomicU8::new(Phase::WarmUp as u8),
            started: OnceLock::new(),
            is_started: Notify::new(),
            sequences: statements.map(|_| AtomicU64::new(0)).collect(),
            workers_wanted: options.load.workers(),
            workers_done: AtomicUsize::new(0),
            load: options.load,
        }
    }

    pub fn start(&self) {
        let _only_once = self.started.set(Instant::now());
        self.is_started.notify_waiters();
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Stop as u8
    }

    fn is_measuring(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Measure as u8
    }

    /// The start of the run, once it is known.
    async fn started(&self) -> Instant {
        loop {
            let notified = self.is_started.notified();
            if let Some(started) = self.started.get() {
                return *started;
            }
            notified.await;
        }
    }

    /// Open loop: requests of the measurement whose time came and that nobody sent.
    pub fn unsent(&self, elapsed: Duration, finished: u64) -> u64 {
        let Load::Open { per_second, workers } = self.load else {
            return 0;
        };
        let due = (per_second * elapsed.as_secs_f64()) as u64;
        // Those under way at the end are neither sent in vain nor missing.
        due.saturating_sub(finished + workers as u64)
    }
}

/// One thread of a run.
pub(super) struct Crew {
    index: usize,
    options: RunOptions,
    signals: Arc<Signals>,
}

/// State that the workers of a thread share.
struct Shared {
    session: Session,
    workload: Workload,
    prepared: Vec<Prepared>,
    recorder: Arc<Mutex<Recorder>>,
    signals: Arc<Signals>,
    requests_max: u64,
    /// Requests that take longer are traced.
    traced_over: Option<Duration>,
}

/// Requests whose latency and ending a worker knows.
impl Shared {
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    pub fn new(index: usize, options: RunOptions, signals: Arc<Signals>) -> Self {
        Crew {
            index,
            options,
            signals,
        }
    }

    pub fn run(self, ready: &mpsc::Sender<Result<Joined, RunError>>) {
        // An open loop that waits for the processor is late by itself; the report counts who got it.
        helenus_scheduling::answer_soon();
        let joined = runtime().and_then(|runtime| {
            let (shared, pacing) = runtime.block_on(self.join())?;
            Ok((runtime, shared, pacing))
        });
        match joined {
            // Nobody listens any more if another thread has failed.
            Err(error) => drop(ready.send(Err(error))),
            Ok((runtime, shared, pacing)) => {
                let joined = Joined {
                    session: shared.session.clone(),
                    recorder: shared.recorder.clone(),
                };
                if ready.send(Ok(joined)).is_ok() {
                    runtime.block_on(self.work(Arc::new(shared), pacing));
                }
            }
        }
    }

    async fn join(&self) -> Result<(Shared, Option<Pacing>), RunError> {
        let session = self.options.connect().await.map_err(RunError::Connect)?;
        let prepared = prepare_all(&session, &self.options.workload).await?;
        let pacing = match self.options.load {
            Load::Closed { .. } => None,
            Load::Open { per_second, .. } => Some(Pacing {
                due: Arc::new(Due::new(Share {
                    schedule: Schedule {
                        per_second,
                        ramp: self.options.ramp,
                    },
                    thread: self.index,
                    threads: self.options.threads.max(1),
                })),
                timer: Timer::new().map_err(RunError::Thread)?,
            }),
        };
        let shared = Shared {
            session,
            workload: self.options.workload.clone(),
            prepared,
            recorder: Arc::new(Mutex::new(Recorder::new())),
            signals: self.signals.clone(),
            requests_max: match self.options.length {
                Length::Time(_) => u64::MAX,
                Length::RequestsPerWorker(requests) => requests,
            },
            traced_over: self.options.trace.as_ref().map(|trace| trace.over),
        };
        Ok((shared, pacing))
    }

    /// Runs this thread's share of the workers until the run stops.
    async fn work(&self, shared: Arc<Shared>, pacing: Option<Pacing>) {
        let threads = self.options.threads.max(1);
        let all = self.options.load.workers();
        let started = self.signals.started().await;
        let mut workers = JoinSet::new();
        let due = pacing.as_ref().map(|pacing| pacing.due.clone());
        if let Some(pacing) = pacing {
            workers.spawn(pace(pacing, started));
        }
        for worker in (self.index..all).step_by(threads) {
            let random = Random::new(self.options.seed ^ (worker as u64 + 1).wrapping_mul(0x9e37_79b9));
            match &due {
                None => {
                    let start = started + self.options.ramp.mul_f64(worker as f64 / all.max(1) as f64);
                    workers.spawn(closed_loop(shared.clone(), random, start));
                }
                Some(due) => {
                    workers.spawn(open_loop(shared.clone(), random, started, due.clone()));
                }
            }
        }
        while !self.signals.is_stopped() {
            tokio::time::sleep(super::LOOK).await;
        }
        if let Some(due) = due {
            due.waiting.close();
        }
        // What is under way may end well; what does not end soon is given up.
        let all_ended = async { while workers.join_next().await.is_some() {} };
        let _in_time = tokio::time::timeout(LAST_ANSWERS_WAIT, all_ended).await;
        workers.abort_all();
        shared.session.close();
    }
}

/// How long the end of a run waits for requests under way.
const LAST_ANSWERS_WAIT: Duration = Duration::from_secs(2);

/// Sends the next request when the last one has ended.
async fn closed_loop(shared: Arc<Shared>, mut random: Random, start: Instant) {
    tokio::time::sleep_until(start.into()).await;
    let mut values = BoundValues::new();
    let mut left = shared.requests_max;
    while left > 0 && !shared.signals.is_stopped() {
        left -= 1;
        let sent = Instant::now();
        execute(&shared, &mut random, &mut values, sent, Duration::ZERO).await;
    }
    shared.signals.workers_done.fetch_add(1, Ordering::Release);
}

/// Open loop: the requests of a thread whose time has come, and which of them is next. Whoever is free takes it.
struct Due {
    share: Share,
    /// A permit for each request that is due and not taken; closed at the end of the run.
    waiting: Semaphore,
    taken: AtomicU64,
}

impl Due {
    fn new(share: Share) -> Self {
        Due {
            share,
            waiting: Semaphore::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// Waits for a request to be due; its intended start, from the start of the run. `None` at the run's end.
    async fn next(&self) -> Option<Duration> {
        self.waiting.acquire().await.ok()?.forget();
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        Some(self.share.intended(index))
    }
}

struct Pacing {
    due: Arc<Due>,
    timer: Timer,
}

/// Hands out a thread's requests as they come due.
async fn pace(mut pacing: Pacing, started: Instant) {
    let mut pacer = Pacer::new(pacing.due.share);
    while !pacing.due.waiting.is_closed() {
        let now = started.elapsed();
        pacing.due.waiting.add_permits(pacer.release(now));
        let until = started + pacer.next_look(now);
        let length = until.saturating_duration_since(Instant::now());
        // A timer that fails once is not to end the run: the next look is a little later.
        if pacing.timer.sleep(length).await.is_err() {
            tokio::time::sleep(length).await;
        }
    }
}

/// Takes the next request that is due, and counts from its time.
async fn open_loop(shared: Arc<Shared>, mut random: Random, started: Instant, due: Arc<Due>) {
    let mut values = BoundValues::new();
    let mut left = shared.requests_max;
    while left > 0 && !shared.signals.is_stopped() {
        let Some(intended) = due.next().await else { break };
        left -= 1;
        let intended = started + intended;
        let late = intended.elapsed();
        if shared.signals.is_measuring() {
            shared.recorder().sent_late(late);
        }
        execute(&shared, &mut random, &mut values, intended, late).await;
    }
    shared.signals.workers_done.fetch_add(1, Ordering::Release);
}

/// One request; its latency counts from `from`, and it was sent `late`. The values' buffer is the worker's, used again.
async fn execute(
    shared: &Shared,
    random: &mut Random,
    values: &mut BoundValues,
    from: Instant,
    late: Duration,
) {
    let result = async {
        let index = shared.workload.pick(random);
        let (Some(statement), Some(prepared)) =
            (shared.workload.statements.get(index), shared.prepared.get(index))
        else {
            return Ok(None);
        };
        let sequence = shared.signals.sequences[index].fetch_add(1, Ordering::Relaxed);
        values.clear();
        statement.bind(prepared.marker_types(), random, sequence, values)?;
        shared
            .session
            .execute_bound(prepared, values, None)
            .await
            .map(|answer| Some(answer.address()))
    }
    .await;
    let latency = from.elapsed();
    match result {
        Ok(node) => {
            let mut recorder = shared.recorder();
            recorder.answered(latency);
            if let Some(node) = node
                && shared.traced_over.is_some_and(|over| latency > over)
            {
                recorder.trace(TracedRequest {
                    intended: from,
                    late_us: late.as_micros() as u64,
                    latency_us: latency.as_micros() as u64,
                    node,
                });
            }
        }
        Err(helenus_client::RequestError::Closed) => {}
        Err(error) => shared.recorder().failed(&error),
    }
}

pub(super) async fn prepare(session: &Session, statement: &WorkloadStatement) -> Result<Prepared, RunError> {
    let prepared = session
        .prepare(&statement.cql)
        .await
        .map_err(|source| RunError::Statement {
            cql: statement.cql.clone(),
            source,
        })?;
    let (markers, values) = (prepared.marker_types().len(), statement.values.len());
    if markers != values {
        return Err(RunError::Markers {
            name: statement.name.clone(),
            markers,
            values,
        });
    }
    Ok(if statement.is_idempotent {
        prepared.idempotent()
    } else {
        prepared
    })
}

/// Writers of rows before the measurement; the throttle decides how many of them are at work.
const POPULATING_WORKERS: u64 = 1_000;

/// How many rows a writer takes at once, so that progress can be drawn between.
const POPULATING_STEP: u64 = 100;

pub(super) async fn populate(
    session: &Session,
    populate: &Populate,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    let prepared = Arc::new(prepare(session, &populate.statement).await?);
    let statement = Arc::new(populate.statement.clone());
    let mut writers: JoinSet<Result<u64, helenus_client::RequestError>> = JoinSet::new();
    let (mut begun, mut done) = (0, 0);
    while done < populate.rows {
        while begun < populate.rows && (writers.len() as u64) < POPULATING_WORKERS {
            let rows = begun..(begun + POPULATING_STEP).min(populate.rows);
            begun = rows.end;
            let (session, statement, prepared) = (session.clone(), statement.clone(), prepared.clone());
            writers.spawn(async move {
                let count = rows.end - rows.start;
                let mut values = BoundValues::new();
                for row in rows {
                    let mut random = Random::new(seed ^ row);
                    values.clear();
                    statement.bind(prepared.marker_types(), &mut random, row, &mut values)?;
                    session.execute_bound(&prepared, &values, None).await?;
                }
                Ok(count)
            });
        }
        match writers.join_next().await {
            Some(Ok(Ok(rows))) => done += rows,
            Some(Ok(Err(source))) => return Err(RunError::Populate { rows: done, source }),
            Some(Err(_)) => return Err(RunError::Stopped),
            None => break,
        }
        progress.doing("populating", done as f64 / populate.rows.max(1) as f64);
    }
    Ok(())
}

/// Requests that the generator makes to be timed.
const TIMED_REQUESTS: u32 = 20_000;

/// Measures how long choosing and making the values of a request takes, in ns.
pub(super) fn generator_cost_ns(workload: &Workload, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let types = vec![helenus_types::CqlType::Blob; 64];
    let mut written = 0;
    let mut values = BoundValues::new();
    let start = Instant::now();
    for sequence in 0..TIMED_REQUESTS {
        values.clear();
        if let Some(statement) = workload.statements.get(workload.pick(&mut random)) {
            let bound = statement.bind(&types, &mut random, u64::from(sequence), &mut values);
            written += usize::from(bound.is_ok()) * values.as_bytes().len();
        }
    }
    std::hint::black_box(written);
    start.elapsed().as_nanos() as f64 / f64::from(TIMED_REQUESTS)
}
