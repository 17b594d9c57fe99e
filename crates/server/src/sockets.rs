//! The sockets that a server listens on.

use std::io;
use std::net::{SocketAddr, TcpListener};

use helenus_events::Event;

use crate::handover::{DoorKind, Kept, ListeningSockets};
use crate::serve::{ServeError, ServeOptions};

/// One for each door, and where each is.
pub(crate) struct Sockets {
    pub plain: TcpListener,
    pub shard_aware: Option<TcpListener>,
    pub metrics: Option<TcpListener>,
    pub doors: Option<TcpListener>,
}

/// Connections that the kernel may have completed and nobody has accepted yet, as CQL's: all of them wait while a node is replaced.
const BACKLOG: i32 = 4_096;

impl Sockets {
    /// Takes those that are asked for from another process, as far as it has them, and opens the others.
    pub fn open(options: &ServeOptions, inherited: &mut ListeningSockets) -> Result<Sockets, ServeError> {
        let events = &options.node.events;
        let mut open = |kind, address| match inherited.take(kind, address) {
            Some(listener) => Ok(listener),
            None => bind(kind, address),
        };
        let plain = open(DoorKind::Cql, options.listen)?;
        let shard_aware = options
            .shard_aware
            .map(|address| open(DoorKind::ShardAwareCql, address));
        let shard_aware = shard_aware.transpose()?;
        let metrics = match options.metrics {
            Some(settings) => {
                let opened = open(DoorKind::Metrics, settings.address);
                unless_only_usual(settings.is_asked_for, opened, |address, error| {
                    events.event(&Event::MetricsNotOpened { address, error });
                })?
            }
            None => None,
        };
        let doors = match options.doors {
            Some(settings) => {
                let opened = open(DoorKind::HttpAndGrpc, settings.address);
                unless_only_usual(settings.is_asked_for, opened, |address, error| {
                    events.event(&Event::DoorsNotOpened { address, error });
                })?
            }
            None => None,
        };
        Ok(Sockets {
            plain,
            shard_aware,
            metrics,
            doors,
        })
    }

    /// Each again, for as long as the server runs.
    pub fn kept(&self) -> Kept {
        let kept = Kept::default();
        kept.keep(DoorKind::Cql, &self.plain);
        for (kind, listener) in [
            (DoorKind::ShardAwareCql, &self.shard_aware),
            (DoorKind::Metrics, &self.metrics),
            (DoorKind::HttpAndGrpc, &self.doors),
        ] {
            if let Some(listener) = listener {
                kept.keep(kind, listener);
            }
        }
        kept
    }
}

/// A node goes on without what nobody has asked for at the address that it usually has.
fn unless_only_usual(
    is_asked_for: bool,
    opened: Result<TcpListener, ServeError>,
    event: impl FnOnce(&SocketAddr, &io::Error),
) -> Result<Option<TcpListener>, ServeError> {
    match opened {
        Err(ServeError::Listen { address, source, .. }) if !is_asked_for => {
            event(&address, &source);
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

fn bind(kind: DoorKind, address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bound = match kind {
        DoorKind::Cql | DoorKind::ShardAwareCql => helenus_transport::listen(address),
        DoorKind::Metrics | DoorKind::HttpAndGrpc => TcpListener::bind(address).and_then(|listener| {
            // The library's own backlog is short.
            rustix::net::listen(&listener, BACKLOG)?;
            Ok(listener)
        }),
    };
    bound.map_err(|source| not_opened(kind, address, source))
}

fn not_opened(kind: DoorKind, address: SocketAddr, source: io::Error) -> ServeError {
    let (door, option) = kind.words();
    ServeError::Listen {
        door,
        option,
        address,
        source,
    }
}

/// Where a socket is that was asked for there.
pub(crate) fn local_address(
    kind: DoorKind,
    listener: &TcpListener,
    asked: SocketAddr,
) -> Result<SocketAddr, ServeError> {
    listener
        .local_addr()
        .map_err(|source| not_opened(kind, asked, source))
}

/// The same of one that may not be there.
pub(crate) fn local_address_of(
    kind: DoorKind,
    listener: Option<&TcpListener>,
    asked: Option<SocketAddr>,
) -> Result<Option<SocketAddr>, ServeError> {
    match (listener, asked) {
        (Some(listener), Some(asked)) => local_address(kind, listener, asked).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use helenus_node::NodeOptions;
    use helenus_protocol::frame::FrameLimits;
    use helenus_transport::ConnectionLimits;

    use super::*;
    use crate::doors::DoorSettings;
    use crate::serve::MetricsSettings;

    fn open(listen: SocketAddr, others: SocketAddr, is_asked_for: bool) -> Result<Sockets, ServeError> {
        let options = ServeOptions {
            node: NodeOptions::new(PathBuf::from("/helenus-data")),
            listen,
            shard_aware: None,
            metrics: Some(MetricsSettings {
                address: others,
                is_asked_for,
            }),
            doors: Some(DoorSettings {
                address: others,
                is_asked_for,
                is_read_only: false,
                serves_tests: false,
            }),
            frame_limits: FrameLimits::default(),
            connection_limits: ConnectionLimits::default(),
            drain_timeout: Duration::ZERO,
        };
        Sockets::open(&options, &mut ListeningSockets::default())
    }

    /// Symptom: a second node of a machine, with a `--listen` and a `--data` of its own, did not start: "cannot listen on
    /// 127.0.0.1:9180: Address already in use", without a word of what that port is and which option names it.
    #[test]
    fn a_second_node_of_a_machine_starts_without_what_nobody_has_asked_for() {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let taken = TcpListener::bind(any_port).unwrap();
        let taken_address = taken.local_addr().unwrap();
        let sockets = open(any_port, taken_address, false).unwrap();
        assert!(sockets.metrics.is_none() && sockets.doors.is_none());
        let refusal = |listen, others| open(listen, others, true).err().unwrap().to_string();
        let said = refusal(any_port, taken_address);
        let expected = format!("cannot listen on {taken_address} for metrics: ");
        assert!(
            said.starts_with(&expected) && said.ends_with("; --metrics names another address"),
            "{said}"
        );
        let said = refusal(taken_address, any_port);
        let expected = format!("cannot listen on {taken_address} for CQL: ");
        assert!(
            said.starts_with(&expected) && said.ends_with("; --listen names another address"),
            "{said}"
        );
    }
}
