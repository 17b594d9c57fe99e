//! How many connections there may be, in all and from one address.

use helenus_events::{Event, Events};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;

/// Bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Cassandra's `native_transport_max_concurrent_connections`; `None` for no bound.
    pub connections_max: Option<usize>,
    /// Cassandra's `native_transport_max_concurrent_connections_per_ip`.
    pub connections_per_address_max: Option<usize>,
    /// From the connect to the answered STARTUP.
    pub handshake_timeout: Duration,
    /// How long a client may take nothing of the answers that wait for it.
    pub answer_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections_max: None,
            connections_per_address_max: None,
            // Drivers give a node 5 s to answer their first message (Java driver 4: connect and init-query timeout).
            handshake_timeout: Duration::from_secs(10),
            // Longer than drivers wait for an answer (Python 10 s): nobody wants what is there by then.
            answer_timeout: Duration::from_secs(15),
        }
    }
}

/// Counts the connections of a server. Touched when one is accepted or ends, never by a request.
pub struct ConnectionCounts {
    limits: ConnectionLimits,
    total: AtomicUsize,
    /// Empty unless there is a bound per address; at most one entry for each open connection.
    by_address: Mutex<HashMap<IpAddr, usize, foldhash::fast::RandomState>>,
    /// Seconds of the process at which the last refusal was reported, plus one.
    reported_s: AtomicU64,
}

/// The place of one connection in the counts; given back when it is dropped.
pub struct ConnectionPermit {
    counts: Arc<ConnectionCounts>,
    /// If connections are counted by address.
    address: Option<IpAddr>,
}

/// Which bound a connection would have exceeded, and how many there would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    #[error(
        "Exceeded maximum native connection limit of {limit} by using {count} connections (see \
         native_transport_max_concurrent_connections)"
    )]
    InAll { limit: usize, count: usize },
    #[error(
        "Exceeded maximum native connection limit per ip of {limit} by using {count} connections (see \
         native_transport_max_concurrent_connections_per_ip)"
    )]
    OfAddress { limit: usize, count: usize },
}

/// A storm of refused connections is one line a minute in the log, as in Cassandra.
const REPORT_INTERVAL_S: u64 = 60;

impl ConnectionCounts {
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(ConnectionCounts {
            limits,
            total: AtomicUsize::new(0),
            by_address: Mutex::new(HashMap::default()),
            reported_s: AtomicU64::new(0),
        })
    }

    pub fn limits(&self) -> &ConnectionLimits {
        &self.limits
    }

    /// Counts a connection, unless there are too many.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionPermit, TooMany> {
        let count = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let mut permit = ConnectionPermit {
            counts: self.clone(),
            address: None,
        };
        if let Some(limit) = self.limits.connections_max.filter(|&limit| count > limit) {
            return Err(TooMany::InAll { limit, count });
        }
        if let Some(limit) = self.limits.connections_per_address_max {
            let mut by_address = self.by_address();
            let count = by_address.get(&address).map_or(1, |known| known + 1);
            if count > limit {
                return Err(TooMany::OfAddress { limit, count });
            }
            by_address.insert(address, count);
            permit.address = Some(address);
        }
        Ok(permit)
    }

    /// Says why connections are refused, at most once a minute; `now_s` on any monotonic clock.
    pub fn report(&self, refused: TooMany, now_s: u64, events: &Events) {
        let last = self.reported_s.load(Ordering::Relaxed);
        if last == 0 || now_s + 1 >= last + REPORT_INTERVAL_S {
            self.reported_s.store(now_s + 1, Ordering::Relaxed);
            events.event(&Event::ConnectionRefused { reason: &refused });
        }
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize, foldhash::fast::RandomState>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.counts.total.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        let mut by_address = self.counts.by_address();
        match by_address.get_mut(&address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn counts(connections_max: Option<usize>, per_address_max: Option<usize>) -> Arc<ConnectionCounts> {
        ConnectionCounts::new(ConnectionLimits {
            connections_max,
            connections_per_address_max: per_address_max,
            ..ConnectionLimits::default()
        })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn the_one_too_many_is_refused_and_a_place_given_back_is_taken_again() {
        let counts = counts(Some(2), None);
        let first = counts.admit(address(1)).unwrap();
        let _second = counts.admit(address(2)).unwrap();
        let refused = counts.admit(address(3)).err();
        assert_eq!(refused, Some(TooMany::InAll { limit: 2, count: 3 }));
        drop(first);
        assert!(counts.admit(address(3)).is_ok());
    }

    #[test]
    fn each_address_has_its_own_bound_and_none_is_remembered_when_all_are_gone() {
        let counts = counts(None, Some(2));
        let held = [1, 1, 2].map(|last| counts.admit(address(last)).unwrap());
        let refused = counts.admit(address(1)).err();
        assert_eq!(refused, Some(TooMany::OfAddress { limit: 2, count: 3 }));
        assert!(counts.admit(address(2)).is_ok());
        drop(held);
        assert!(counts.by_address().is_empty());
        assert_eq!(counts.total.load(Ordering::Relaxed), 0);
    }
}
