//! Trace of a run: each slice and each slow request, to be laid beside what happened when.
//!
//! One line each: `slice,END,LENGTH_US,COUNTS,OPS,P99_US,LIMIT`, then the requests that ended in it,
//! `request,INTENDED,LATE_US,LATENCY_US,NODE`. Points in time are microseconds since 1970.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::RunError;
use super::recorder::Recorder;

#[derive(Clone, Debug)]
pub struct TraceOptions {
    pub file: PathBuf,
    /// Only requests that take longer are told of.
    pub over: Duration,
}

/// A request that took long.
#[derive(Clone, Debug)]
pub(super) struct TracedRequest {
    pub intended: Instant,
    /// How late it was sent, in µs.
    pub late_us: u64,
    pub latency_us: u64,
    /// Node that answered it.
    pub node: SocketAddr,
}

/// Requests of one slice that are kept to be told of, by each thread: ten times what a thread sends in a slice at
/// 100,000 requests a second.
pub(super) const TRACED_MAX: usize = 100_000;

pub(super) struct Trace {
    file: BufWriter<File>,
    /// One point of time, by both clocks.
    now: Instant,
    now_us: u64,
}

impl Trace {
    pub fn create(options: &TraceOptions) -> Result<Trace, RunError> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Trace {
            file: BufWriter::new(File::create(&options.file).map_err(RunError::Trace)?),
            now: Instant::now(),
            now_us: since_1970.as_micros() as u64,
        })
    }

    fn unix_us(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.now).as_micros() as u64;
        let before = self.now.saturating_duration_since(at).as_micros() as u64;
        self.now_us + since - before.min(self.now_us)
    }

    /// A slice that ends now. A trace whose disk is full ends there; the run does not.
    /// `limit` is the one that stood in for the adaptive one.
    pub fn slice(&mut self, length: Duration, counts: bool, limit: Option<usize>, slice: &Recorder) {
        let end = self.unix_us(Instant::now());
        let _best_effort = writeln!(
            self.file,
            "slice,{end},{},{},{},{},{}",
            length.as_micros(),
            u8::from(counts),
            slice.ops,
            slice.latencies().p99,
            limit.map_or("adaptive".to_owned(), |limit| limit.to_string())
        );
        for request in &slice.traced {
            let intended = self.unix_us(request.intended);
            let _best_effort = writeln!(
                self.file,
                "request,{intended},{},{},{}",
                request.late_us, request.latency_us, request.node
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_tells_of_slices_and_of_the_requests_that_ended_in_them() {
        let file = std::env::temp_dir().join(format!("helenus-trace-{}", std::process::id()));
        let options = TraceOptions {
            file: file.clone(),
            over: Duration::from_millis(1),
        };
        let mut trace = Trace::create(&options).unwrap();
        let mut slice = Recorder::new();
        slice.answered(Duration::from_micros(1500));
        slice.trace(TracedRequest {
            intended: trace.now + Duration::from_micros(250),
            late_us: 20,
            latency_us: 1500,
            node: SocketAddr::from(([127, 0, 0, 1], 9042)),
        });
        trace.slice(Duration::from_millis(100), true, Some(64), &slice);
        let intended = trace.now_us + 250;
        drop(trace);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("slice,")
                && lines[0].contains(",100000,1,1,15")
                && lines[0].ends_with(",64")
        );
        assert_eq!(lines[1], format!("request,{intended},20,1500,127.0.0.1:9042"));
        assert_eq!(lines.len(), 2);
    }
}
