//! Sockets in the data folder that only the node's user may connect to.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long accepting pauses when the process has no file descriptor left.
const OUT_OF_FILES_PAUSE: Duration = Duration::from_millis(50);

/// Opens one. The data folder is locked by this process, so a socket that is there is a dead one's. It gets its name when nobody else
/// may use it any more.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    let new = path.with_extension("new");
    for stale in [path, &new] {
        match fs::remove_file(stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

/// The next connection; `None` once `is_closing` is set and one more connect has woken the thread that waits here.
pub(crate) fn next_connection(listener: &UnixListener, is_closing: &AtomicBool) -> Option<UnixStream> {
    loop {
        let accepted = listener.accept();
        if is_closing.load(Ordering::Acquire) {
            return None;
        }
        match accepted {
            Ok((stream, _peer)) => return Some(stream),
            Err(_) => thread::sleep(OUT_OF_FILES_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nodes_user_may_connect_and_what_a_dead_node_left_is_replaced() {
        let folder = std::env::temp_dir().join(format!("helenus-private-socket-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("node.sock");
        fs::write(&path, "").unwrap();
        drop(listen(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err(), "nobody listens");
        let listener = listen(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let is_closing = AtomicBool::new(false);
        let _client = UnixStream::connect(&path).unwrap();
        assert!(next_connection(&listener, &is_closing).is_some());
        is_closing.store(true, Ordering::Release);
        let _waking = UnixStream::connect(&path).unwrap();
        assert!(next_connection(&listener, &is_closing).is_none());
        fs::remove_dir_all(&folder).unwrap();
    }
}
