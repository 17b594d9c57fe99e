//! The running node's side: who connects to the socket in its data folder is given its listening sockets, and its place when it says
//! that it is ready.

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use helenus_handover::{Channel, HandoverError, Kind, SOCKET};
use helenus_node::Operator;
use helenus_tools::host::Host;
use tokio::sync::oneshot;

use super::connections::Connections;
use super::door::Kept;
use crate::private_socket;

/// A successor says at once that it is there.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time for a successor to make itself ready: others wait for it.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a successor may take until it serves: reading a large schema and many SSTables, on a busy disk.
const SERVING_TIMEOUT: Duration = Duration::from_secs(600);

/// A successor that is ready to take the place of this node.
pub struct Takeover {
    channel: Channel,
    process: i32,
    /// Kinds of messages that the successor understands beside those of every release.
    understood: Vec<u8>,
}

/// The socket that successors connect to; closed by [`Offer::close`], not by dropping it.
pub(crate) struct Offer {
    path: PathBuf,
    is_closing: Arc<AtomicBool>,
    takeover: Option<oneshot::Receiver<Takeover>>,
}

/// Parts of the node that a successor is offered.
pub(crate) struct OfferParts {
    pub sockets: Kept,
    pub operator: Operator,
}

impl Offer {
    /// In a data folder that this process has locked.
    pub fn open(data_folder: &Path, parts: OfferParts) -> io::Result<Offer> {
        let path = data_folder.join(SOCKET);
        let listener = private_socket::listen(&path)?;
        let is_closing = Arc::new(AtomicBool::new(false));
        let closing = is_closing.clone();
        let (taking, takeover) = oneshot::channel();
        // Not waited for: while it talks to a successor it may be silent for a while.
        let _thread = thread::Builder::new()
            .name("handover".to_owned())
            .spawn(move || {
                if let Some(successor) = await_successor(&listener, &parts, &closing) {
                    // Who has stopped meanwhile has nothing to give; the successor sees that it has gone.
                    let _stopped = taking.send(successor);
                }
            })?;
        Ok(Offer {
            path,
            is_closing,
            takeover: Some(takeover),
        })
    }

    /// Waits until a successor is ready; for ever, if none comes.
    pub async fn takeover(&mut self) -> Takeover {
        if let Some(takeover) = &mut self.takeover
            && let Ok(takeover) = takeover.await
        {
            return takeover;
        }
        // The thread has ended without one.
        self.takeover = None;
        std::future::pending().await
    }

    /// Nobody can connect any more.
    pub fn close(self) {
        self.is_closing.store(true, Ordering::Release);
        // Wakes the thread.
        let _woken = UnixStream::connect(&self.path);
        // What is left is replaced at the next start.
        let _gone = fs::remove_file(&self.path);
    }
}

/// The next process that has done all that is asked of a successor; `None` once the offer is closed.
fn await_successor(listener: &UnixListener, parts: &OfferParts, is_closing: &AtomicBool) -> Option<Takeover> {
    loop {
        let stream = private_socket::next_connection(listener, is_closing)?;
        let Ok(channel) = Channel::new(stream) else {
            continue;
        };
        match converse(&channel, parts) {
            Ok((process, understood)) if !is_closing.load(Ordering::Acquire) => {
                return Some(Takeover {
                    channel,
                    process,
                    understood,
                });
            }
            Ok(_) => return None,
            Err(error) => channel.fail(&format!("{error}; this node goes on serving")),
        }
    }
}

/// Until the successor is ready and what is in memory is on the disk: what was written until then need not be when nobody serves. Returns its
/// process id, and the kinds of messages that it understands beside those of every release.
fn converse(channel: &Channel, parts: &OfferParts) -> Result<(i32, Vec<u8>), HandoverError> {
    let (user, process) = channel.peer()?;
    let own = rustix::process::geteuid().as_raw();
    if user != own {
        let text = format!("user {user} may not replace a node of user {own}");
        return Err(HandoverError::Refused(text));
    }
    channel.expect(Kind::Hello, HELLO_TIMEOUT)?;
    {
        let sockets = parts.sockets.sockets();
        let (kinds, descriptors) = sockets.to_send();
        channel.send(Kind::Listeners, &kinds, &descriptors)?;
    }
    let take = channel.expect(Kind::Take, READY_TIMEOUT)?;
    // What cannot be flushed is in the log, for the successor as for every next start.
    let _not_all = parts.operator.flush(None);
    Ok((process, take.payload))
}

/// The successor may open the data folder.
pub(crate) struct Released {
    channel: Channel,
}

impl Takeover {
    /// The successor's process id.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// Gives the connections away, and the data folder, which nobody here has open any more.
    pub(crate) fn release(self, connections: &Connections) -> Result<Released, HandoverError> {
        connections.send(&self.channel)?;
        if self.understood.contains(&(Kind::Tokens as u8)) {
            connections.send_tokens(&self.channel)?;
        }
        self.channel.send(Kind::Released, &[], &[])?;
        Ok(Released {
            channel: self.channel,
        })
    }
}

impl Released {
    /// For who has to end [`Released::wait_until_served`].
    pub fn duplicate(&self) -> io::Result<Channel> {
        self.channel.duplicate()
    }

    /// An error if the successor serves nobody, and will not.
    pub fn wait_until_served(&self) -> Result<(), HandoverError> {
        self.channel.expect(Kind::Serving, SERVING_TIMEOUT).map(drop)
    }
}
