//! One session of the `scylla` driver shared by many tasks, each reading the same row again and again.
//!
//! The session is configured as the driver comes: only the host is set, and its connections where CLIENT_CONNECTIONS
//! says how many. Prints one line of JSON.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::PoolSize;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;

const KEY: &str = "the only row";
const DRIVER: &str = "scylla 1.9.0";

#[derive(Default)]
struct Measured {
    latencies_us: Vec<u64>,
    errors: BTreeMap<String, u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, workers, queries] = &arguments[..] else {
        return Err("usage: CQL_HOST=.. CQL_PORT=.. program WORKERS QUERIES".into());
    };
    let (workers, queries) = (workers.parse()?, queries.parse()?);
    let mut builder = SessionBuilder::new().known_node(format!("{}:{}", env::var("CQL_HOST")?, env::var("CQL_PORT")?));
    if let Ok(connections) = env::var("CLIENT_CONNECTIONS") {
        let connections: NonZeroUsize = connections.parse()?;
        builder = builder.pool_size(PoolSize::PerHost(connections));
    }
    let session = Arc::new(builder.build().await?);
    prepare_data(&session).await?;
    let select = Arc::new(session.prepare("SELECT v FROM concurrent_client.rows WHERE k = ?").await?);
    let (start, start_cpu) = (Instant::now(), process_cpu());
    let tasks: Vec<_> = (0..workers)
        .map(|_| tokio::spawn(work(session.clone(), select.clone(), queries)))
        .collect();
    let mut all = Measured::default();
    for task in tasks {
        let measured = task.await?;
        all.latencies_us.extend(measured.latencies_us);
        for (kind, count) in measured.errors {
            *all.errors.entry(kind).or_default() += count;
        }
    }
    let (elapsed, cpu) = (start.elapsed(), process_cpu() - start_cpu);
    println!("{}", report(workers, queries, all, elapsed, cpu));
    Ok(())
}

async fn prepare_data(session: &Session) -> Result<(), Box<dyn Error>> {
    for statement in [
        "CREATE KEYSPACE IF NOT EXISTS concurrent_client WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS concurrent_client.rows (k text PRIMARY KEY, v text)",
        "INSERT INTO concurrent_client.rows (k, v) VALUES ('the only row', 'its value')",
    ] {
        session.query_unpaged(statement, ()).await?;
    }
    Ok(())
}

async fn work(session: Arc<Session>, select: Arc<PreparedStatement>, queries: usize) -> Measured {
    let mut measured = Measured::default();
    measured.latencies_us.reserve(queries);
    for _ in 0..queries {
        let start = Instant::now();
        match read(&session, &select).await {
            Ok(()) => measured.latencies_us.push(start.elapsed().as_micros() as u64),
            Err(error) => *measured.errors.entry(error).or_default() += 1,
        }
    }
    measured
}

async fn read(session: &Session, select: &PreparedStatement) -> Result<(), String> {
    let text = |error: &dyn Error| error.to_string();
    let result = session.execute_unpaged(select, (KEY,)).await.map_err(|error| text(&error))?;
    let rows = result.into_rows_result().map_err(|error| text(&error))?;
    rows.first_row::<(String,)>().map_err(|error| text(&error))?;
    Ok(())
}

/// Returns the processor time of the process so far, in the kernel too.
fn process_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame, which the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn report(workers: usize, queries: usize, mut all: Measured, elapsed: Duration, cpu: Duration) -> serde_json::Value {
    all.latencies_us.sort_unstable();
    let latencies = &all.latencies_us;
    let quantile = |share: f64| {
        let index = (latencies.len() as f64 * share) as usize;
        latencies.get(index).or(latencies.last()).copied().unwrap_or(0)
    };
    serde_json::json!({
        "client": DRIVER,
        "workers": workers,
        "queries": queries,
        "elapsed_s": elapsed.as_secs_f64(),
        "ok": latencies.len(),
        "errors": all.errors,
        "ops_per_s": latencies.len() as f64 / elapsed.as_secs_f64(),
        "latency_us_p50": quantile(0.5),
        "latency_us_p99": quantile(0.99),
        "latency_us_p999": quantile(0.999),
        "cpu_us_per_op": cpu.as_secs_f64() * 1e6 / latencies.len().max(1) as f64,
    })
}
