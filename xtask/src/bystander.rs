//! A connection of somebody who does nothing wrong, and what it notices of others.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_loadgen::quiet::{SLICE_US, Watch};
use helenus_protocol::ProtocolVersion;

use crate::wire::Client;

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(1);

/// Slices at the beginning that do not count: it connects, and so do the others.
const WARM_UP_SLICES: usize = 1;

/// Latencies of the requests in slices in which the hypervisor left the machine alone, in microseconds.
#[derive(Debug, Default)]
pub struct Seen {
    pub latencies_us: Vec<u64>,
}

impl Seen {
    pub fn add(&mut self, other: Seen) {
        self.latencies_us.extend(other.latencies_us);
    }

    pub fn p50_us(&self) -> u64 {
        self.percentile_us(50)
    }

    pub fn p99_us(&self) -> u64 {
        self.percentile_us(99)
    }

    fn percentile_us(&self, percent: usize) -> u64 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * percent / 100).copied().unwrap_or(0)
    }
}

pub struct Bystander {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<io::Result<Seen>>,
}

impl Bystander {
    /// Asks `statements` in turns, as somebody with this account where the server asks for one.
    pub fn start(
        address: SocketAddr,
        account: Option<(&'static str, &'static str)>,
        statements: &'static [&'static str],
    ) -> Bystander {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = thread::spawn(move || ask_until(address, account, statements, &is_over));
        Bystander { stop, thread }
    }

    /// Ends it; an error if one of its requests failed.
    pub fn join(self) -> io::Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the other connection's thread panicked")))
    }
}

fn ask_until(
    address: SocketAddr,
    account: Option<(&str, &str)>,
    statements: &[&str],
    is_over: &AtomicBool,
) -> io::Result<Seen> {
    let mut client = Client::connect_as(address, ProtocolVersion::V4, account)?;
    let mut watch = Watch::new(None, 0, WARM_UP_SLICES, usize::MAX);
    let began = Instant::now();
    let mut latencies_us = Vec::new();
    for statement in statements.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let at = Instant::now();
        let at_us = (at - began).as_micros() as u32;
        let _never_enough: ControlFlow<()> = watch.look(at_us);
        client.query(statement)?;
        latencies_us.push(((at_us / SLICE_US) as usize, at.elapsed().as_micros() as u64));
        thread::sleep(PAUSE);
    }
    let quiet = latencies_us
        .into_iter()
        .filter(|(slice, _)| *slice >= WARM_UP_SLICES && watch.is_quiet(*slice));
    Ok(Seen {
        latencies_us: quiet.map(|(_, us)| us).collect(),
    })
}
