//! Ports for what is started here and has to be told which one is its own.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that Linux gives to the near ends of connections (`ip_local_port_range`, 32,768 and more where nobody has
/// set it): those are taken at any time by whoever connects to something, also between a server's stop and its next start.
const PORTS: Range<u32> = 20_000..32_768;
/// Runs at the same time begin as far from each other as their process IDs times this.
const PORTS_OF_A_PROCESS: u32 = 61;

/// A port of the loopback address where nobody listened a moment ago, handed out once by this process.
pub fn free_port() -> io::Result<u16> {
    static HANDED_OUT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(PORTS_OF_A_PROCESS);
    let count = PORTS.end - PORTS.start;
    for _ in 0..count {
        let next = first.wrapping_add(HANDED_OUT.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + next % count) as u16;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node under test did not start: its port was the near end of somebody's connection by then.
    #[test]
    fn ports_are_none_that_a_connection_is_given() -> io::Result<()> {
        let mut ports = Vec::new();
        for _ in 0..100 {
            ports.push(free_port()?);
        }
        assert!(ports.iter().all(|&port| PORTS.contains(&u32::from(port))));
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
        let lowest = range
            .split_whitespace()
            .next()
            .and_then(|low| low.parse::<u32>().ok());
        assert!(lowest.is_some_and(|lowest| PORTS.end <= lowest), "{range}");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 100, "each is handed out once");
        Ok(())
    }

    #[test]
    fn a_port_that_somebody_listens_at_is_passed_over() -> io::Result<()> {
        let taken = free_port()?;
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, taken + 1))?;
        let port = free_port()?;
        assert_ne!(port, taken + 1);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        Ok(())
    }
}
