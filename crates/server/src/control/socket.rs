//! Listening, and giving each connection a thread.

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use helenus_node::Operator;
use helenus_tools::control::SOCKET;

use super::conversation;
use super::places::{PLACES_PER_KIND, Places};
use crate::private_socket;

/// Connections at the same time: all that may be served, and as many that are still to say what they want, for which they
/// have ten seconds. More are told to come back.
const CONNECTIONS_MAX: usize = 4 * PLACES_PER_KIND;

#[derive(Debug, thiserror::Error)]
#[error("no control socket at {}: {source}; snapshots, imports and compactions cannot be asked for", path.display())]
pub struct ControlError {
    path: PathBuf,
    source: io::Error,
}

/// An open door; closed by [`ControlSocket::close`], not by dropping it.
pub struct ControlSocket {
    path: PathBuf,
    is_closing: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl ControlSocket {
    /// The data folder is locked by this process, so a socket that is there is a dead one's.
    pub fn open(data_folder: &Path, operator: Operator, places: Places) -> Result<Self, ControlError> {
        let path = data_folder.join(SOCKET);
        let failed = |source| ControlError {
            path: path.clone(),
            source,
        };
        let listener = private_socket::listen(&path).map_err(failed)?;
        let is_closing = Arc::new(AtomicBool::new(false));
        let closing = Arc::clone(&is_closing);
        let thread = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || accept(&listener, &operator, &places, &closing))
            .map_err(failed)?;
        Ok(ControlSocket {
            path,
            is_closing,
            thread,
        })
    }

    /// Takes no more requests; those under way end with the node.
    pub fn close(self) {
        self.is_closing.store(true, Ordering::Release);
        // Wakes the thread; if that fails it ends with the process.
        if UnixStream::connect(&self.path).is_ok() {
            // The panic hook has reported and counted it.
            let _panicked = self.thread.join();
        }
        // What is left is replaced at the next start.
        let _gone = fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, operator: &Operator, places: &Places, is_closing: &AtomicBool) {
    let connections = Arc::new(AtomicUsize::new(0));
    while let Some(stream) = private_socket::next_connection(listener, is_closing) {
        let place = Place::take(&connections);
        if place.number > CONNECTIONS_MAX {
            conversation::refuse(stream);
            continue;
        }
        let (operator, places) = (operator.clone(), places.clone());
        // Without a thread the connection is closed, which the asker sees.
        let _refused = thread::Builder::new()
            .name("control-request".to_owned())
            .spawn(move || {
                let _given_back_at_the_end = place;
                conversation::hold(stream, &operator, &places);
            });
    }
}

/// A connection's place in the count; given back however the connection ends.
struct Place {
    connections: Arc<AtomicUsize>,
    number: usize,
}

impl Place {
    fn take(connections: &Arc<AtomicUsize>) -> Self {
        Place {
            number: connections.fetch_add(1, Ordering::AcqRel) + 1,
            connections: Arc::clone(connections),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::AcqRel);
    }
}
