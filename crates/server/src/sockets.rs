//! The sockets that a server listens on.

use std::io;
use std::net::{SocketAddr, TcpListener};

use helenus_events::Events;

use crate::doors;
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
        let mut open =
            |kind, address, bind: fn(SocketAddr) -> Result<TcpListener, ServeError>| match inherited
                .take(kind, address)
            {
                Some(listener) => Ok(listener),
                None => bind(address),
            };
        let plain = open(DoorKind::Cql, options.listen, listen)?;
        let shard_aware = options
            .shard_aware
            .map(|address| open(DoorKind::ShardAwareCql, address, listen));
        let metrics = options
            .metrics
            .map(|address| open(DoorKind::Metrics, address, bind));
        Ok(Sockets {
            plain,
            shard_aware: shard_aware.transpose()?,
            metrics: metrics.transpose()?,
            doors: open_doors(options, inherited, &options.node.events)?,
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

fn open_doors(
    options: &ServeOptions,
    inherited: &mut ListeningSockets,
    events: &Events,
) -> Result<Option<TcpListener>, ServeError> {
    match &options.doors {
        Some(settings) => doors::listen(settings, inherited, events),
        None => Ok(None),
    }
}

pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        // The library's own backlog is short.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(listener)
    });
    bound.map_err(|source| ServeError::Listen { address, source })
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    helenus_transport::listen(address).map_err(|source| ServeError::Listen { address, source })
}

/// Where a socket is that was asked for there.
pub(crate) fn local_address(listener: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, ServeError> {
    let failed = |source: io::Error| ServeError::Listen {
        address: asked,
        source,
    };
    listener.local_addr().map_err(failed)
}

/// The same of one that may not be there.
pub(crate) fn local_address_of(
    listener: Option<&TcpListener>,
    asked: Option<SocketAddr>,
) -> Result<Option<SocketAddr>, ServeError> {
    match (listener, asked) {
        (Some(listener), Some(asked)) => local_address(listener, asked).map(Some),
        _ => Ok(None),
    }
}
