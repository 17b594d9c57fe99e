//! Where a running node is found by its successor: a socket in the data folder.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::channel::Channel;
use crate::message::HandoverError;

/// The socket's name in the data folder.
pub const SOCKET: &str = "handover.sock";

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
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_dead_nodes_socket_is_nobody() {
        let folder = std::env::temp_dir().join(format!("helenus-handover-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(connect(&folder).unwrap().is_none());
        let listener = UnixListener::bind(folder.join(SOCKET)).unwrap();
        assert!(connect(&folder).unwrap().is_some());
        drop(listener);
        assert!(connect(&folder).unwrap().is_none());
        fs::remove_dir_all(&folder).unwrap();
    }
}
