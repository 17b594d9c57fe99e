//! Where a running node is found by its successor: a socket in the data folder that only the node's user may use.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::channel::Channel;
use crate::message::HandoverError;

/// The socket's name in the data folder.
pub const SOCKET: &str = "handover.sock";

/// Opens it. The data folder is locked by this process, so a socket that is there is a dead one's. It gets its name when nobody else
/// may use it any more.
pub fn bind(data_folder: &Path) -> io::Result<UnixListener> {
    let path = data_folder.join(SOCKET);
    let new = path.with_extension("new");
    for stale in [&path, &new] {
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

/// Reaches the node that runs on a data folder; `None` if there is none.
pub fn connect(data_folder: &Path) -> Result<Option<Channel>, HandoverError> {
    match UnixStream::connect(data_folder.join(SOCKET)) {
        Ok(stream) => Ok(Some(Channel::new(stream)?)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(HandoverError::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nodes_user_may_connect_and_a_dead_nodes_socket_is_nobody() {
        let folder = std::env::temp_dir().join(format!("helenus-handover-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(connect(&folder).unwrap().is_none());
        let listener = bind(&folder).unwrap();
        let mode = fs::metadata(folder.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(connect(&folder).unwrap().is_some());
        drop(listener);
        assert!(connect(&folder).unwrap().is_none());
        let _again = bind(&folder).unwrap();
        assert!(connect(&folder).unwrap().is_some());
        fs::remove_dir_all(&folder).unwrap();
    }
}
