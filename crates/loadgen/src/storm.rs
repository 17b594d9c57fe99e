//! `helenus bench storm`: connections that a server can only refuse, as fast as they can be made.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use socket2::{Domain, Socket, Type};

/// Behaviour of each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StormMode {
    /// OPTIONS in a version that nobody speaks; reads the error.
    WrongVersion,
    /// QUERY before STARTUP; reads the error.
    BadFirstFrame,
    /// STARTUP, and where the server asks for a password a wrong one; where it does not, AUTH_RESPONSE all the same.
    /// Reads the error.
    BadLogin,
    /// Says nothing for a while, then leaves.
    Silence,
    /// Says half a header, nothing for a while, then leaves.
    HalfFrame,
}

#[derive(Clone, Copy, Debug)]
pub struct StormOptions {
    pub address: SocketAddr,
    pub mode: StormMode,
    /// In all.
    pub connects: u64,
    pub threads: u16,
    /// Connects a second of all threads together; `None` for as fast as they can.
    pub per_second: Option<f64>,
    /// Connections that each thread holds open at a time, where the client does not wait for an answer.
    pub open: usize,
    /// The server's process, if it runs on this machine: its processor time is reported.
    pub server_pid: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
pub struct StormReport {
    pub mode: StormMode,
    pub connects: u64,
    pub threads: u16,
    pub elapsed_s: f64,
    pub connects_per_s: f64,
    /// Connections that could not be made, or were not answered where an answer was due.
    pub errors: u64,
    /// From the call of connect to the answer or, where none is due, to the established connection.
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
    pub server_cpu_us_per_connect: Option<f64>,
}

/// A client that waits longer counts as not answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after the last connect the server's processor time is read: what it does for the last ones is part of it.
const SETTLE_TIME: Duration = Duration::from_millis(300);

/// STARTUP of v4 with `CQL_VERSION` `3.0.0`.
const STARTUP: &[u8] = b"\x04\0\0\x01\x01\0\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.0.0";

/// AUTH_RESPONSE of v4: the user `cassandra` with a wrong password.
const WRONG_PASSWORD: &[u8] = b"\x04\0\0\x01\x0f\0\0\0\x14\0\0\0\x10\0cassandra\0wrong";

impl StormMode {
    fn first_bytes(self) -> &'static [u8] {
        match self {
            StormMode::WrongVersion => &[66, 0, 0, 1, 5, 0, 0, 0, 0],
            StormMode::BadFirstFrame => &[4, 0, 0, 1, 7, 0, 0, 0, 4, 0, 0, 0, 0],
            StormMode::BadLogin => STARTUP,
            StormMode::Silence => &[],
            StormMode::HalfFrame => &[4, 0, 0, 1],
        }
    }

    fn awaits_answer(self) -> bool {
        !matches!(self, StormMode::Silence | StormMode::HalfFrame)
    }
}

pub fn run(options: &StormOptions) -> io::Result<StormReport> {
    let threads = options.threads.max(1);
    let cpu_before_s = options.server_pid.map(process_cpu_s).transpose()?;
    let next = AtomicU64::new(0);
    let started = Instant::now();
    let outcomes = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| connect_again_and_again(options, &next, started)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
            .collect::<io::Result<Vec<Outcome>>>()
    })?;
    let elapsed_s = started.elapsed().as_secs_f64();
    thread::sleep(SETTLE_TIME);
    let cpu_after_s = options.server_pid.map(process_cpu_s).transpose()?;
    let mut latencies_us = new_histogram()?;
    let mut errors = 0;
    for outcome in &outcomes {
        latencies_us
            .add(&outcome.latencies_us)
            .map_err(io::Error::other)?;
        errors += outcome.errors;
    }
    let connects = options.connects as f64;
    Ok(StormReport {
        mode: options.mode,
        connects: options.connects,
        threads,
        elapsed_s,
        connects_per_s: connects / elapsed_s,
        errors,
        latency_us_p50: latencies_us.value_at_quantile(0.5),
        latency_us_p99: latencies_us.value_at_quantile(0.99),
        server_cpu_us_per_connect: cpu_before_s
            .zip(cpu_after_s)
            .map(|(before, after)| (after - before) * 1e6 / connects),
    })
}

struct Outcome {
    latencies_us: Histogram<u64>,
    errors: u64,
}

fn connect_again_and_again(
    options: &StormOptions,
    next: &AtomicU64,
    started: Instant,
) -> io::Result<Outcome> {
    let mut outcome = Outcome {
        latencies_us: new_histogram()?,
        errors: 0,
    };
    let mut open = VecDeque::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.connects {
            return Ok(outcome);
        }
        if let Some(per_second) = options.per_second {
            let intended = started + Duration::from_secs_f64(number as f64 / per_second);
            thread::sleep(intended.saturating_duration_since(Instant::now()));
        }
        let begun = Instant::now();
        match connect_once(options, number) {
            Ok(stream) => {
                let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                outcome.latencies_us.saturating_record(took_us);
                if !options.mode.awaits_answer() {
                    open.push_back(stream);
                }
                if open.len() > options.open {
                    open.pop_front();
                }
            }
            Err(_) => outcome.errors += 1,
        }
    }
}

fn connect_once(options: &StormOptions, number: u64) -> io::Result<TcpStream> {
    let mut stream = connect(options.address, number)?;
    stream.write_all(options.mode.first_bytes())?;
    if options.mode.awaits_answer() {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        await_answer(&mut stream)?;
    }
    if options.mode == StormMode::BadLogin {
        stream.write_all(WRONG_PASSWORD)?;
        await_answer(&mut stream)?;
    }
    Ok(stream)
}

/// Over loopback, from addresses in turns: a closed connection keeps its port for a minute, and a storm from one address
/// would soon wait for free ones.
fn connect(address: SocketAddr, number: u64) -> io::Result<TcpStream> {
    /// With some 28,000 ports each, 1.8 million connects a minute.
    const SOURCES: u64 = 64;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if matches!(address, SocketAddr::V4(address) if address.ip().is_loopback()) {
        let last = (number % SOURCES) as u8 + 1;
        socket.bind(&SocketAddr::from(([127, 0, 64, last], 0)).into())?;
    }
    socket.connect_timeout(&address.into(), ANSWER_TIMEOUT)?;
    Ok(socket.into())
}

fn await_answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = [0; 1_024];
    match stream.read(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Microseconds up to a minute, to three digits.
fn new_histogram() -> io::Result<Histogram<u64>> {
    Histogram::new_with_max(60_000_000, 3).map_err(io::Error::other)
}

/// User and system time of a process, in seconds.
fn process_cpu_s(pid: u32) -> io::Result<f64> {
    /// `USER_HZ` of every Linux that Rust runs on.
    const TICKS_PER_S: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command's name is in parentheses and may hold spaces; utime and stime are the 12th and 13th field behind it.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Vec<f64> = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    match ticks[..] {
        [user, system] => Ok((user + system) / TICKS_PER_S),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

impl fmt::Display for StormReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = serde_json::to_value(self.mode).unwrap_or_default();
        let cpu = self
            .server_cpu_us_per_connect
            .map_or("-".to_owned(), |us| format!("{us:.1}"));
        writeln!(
            formatter,
            "| mode | connects | threads | elapsed s | connects/s | p50 us | p99 us | errors | server CPU us/connect |"
        )?;
        writeln!(formatter, "|---|---|---|---|---|---|---|---|---|")?;
        write!(
            formatter,
            "| {} | {} | {} | {:.2} | {:.0} | {} | {} | {} | {cpu} |",
            mode.as_str().unwrap_or_default(),
            self.connects,
            self.threads,
            self.elapsed_s,
            self.connects_per_s,
            self.latency_us_p50,
            self.latency_us_p99,
            self.errors
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers `answered` connections and closes the others at once.
    fn serve(listener: TcpListener, answered: usize) {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            if number < answered {
                let mut bytes = [0; 64];
                let _count = stream.read(&mut bytes);
                let _sent = stream.write_all(b"error");
            }
        }
    }

    #[test]
    fn every_connect_is_counted_and_those_without_an_answer_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(listener, 30));
        let options = StormOptions {
            address,
            mode: StormMode::WrongVersion,
            connects: 40,
            threads: 4,
            per_second: None,
            open: 2,
            server_pid: Some(std::process::id()),
        };
        let report = run(&options).unwrap();
        assert_eq!((report.connects, report.errors), (40, 10));
        assert!(report.server_cpu_us_per_connect.is_some());
        let silent = StormOptions {
            mode: StormMode::Silence,
            ..options
        };
        assert_eq!(run(&silent).unwrap().errors, 0);
    }
}
