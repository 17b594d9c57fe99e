//! Notices to a service manager that started the process: the protocol of sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Names the manager's socket: a path, or `@` and an abstract name.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// How long a manager that does not read keeps the node waiting.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Socket of the service manager that started the process, if it wants to hear.
pub struct ServiceManager(Option<UnixDatagram>);

/// Event in the node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It serves.
    Ready,
    /// It answers what it has begun, and ends.
    Stopping,
    /// The process of this id serves in place of this one, which ends now and is not to be missed.
    ReplacedBy(i32),
}

impl ServiceManager {
    /// Hears nothing if the environment names nobody. A socket that is named and cannot be reached is an error: the manager would end
    /// the node after a while, for not having been ready.
    pub fn from_environment() -> io::Result<Self> {
        let Some(name) = std::env::var_os(SOCKET_VARIABLE) else {
            return Ok(ServiceManager(None));
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address(&name)?)?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(ServiceManager(Some(socket)))
    }

    /// Waits for room in the manager's socket, for a second at most. Whether the manager hears is its affair: the node goes on.
    pub fn tell(&self, notice: Notice) {
        if let ServiceManager(Some(socket)) = self {
            let _unheard = socket.send(text(notice).as_bytes());
        }
    }
}

fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(name),
    }
}

fn text(notice: Notice) -> String {
    match notice {
        Notice::Ready => "READY=1".to_owned(),
        Notice::Stopping => "STOPPING=1".to_owned(),
        Notice::ReplacedBy(process) => format!("MAINPID={process}"),
    }
}
