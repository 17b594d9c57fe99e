//! The successor's side.

use std::path::{Path, PathBuf};
use std::time::Duration;

use helenus_handover::{Channel, HandoverError, Kind};

use super::connections::Connections;
use super::door::ListeningSockets;

/// A running node answers at once, unless it talks to another successor.
const LISTENERS_TIMEOUT: Duration = Duration::from_secs(70);

/// Longest time for a running node to flush what it has in memory, to answer what it was asked, and to close its files.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(600);

/// A node cannot be replaced.
#[derive(Debug, thiserror::Error)]
#[error(
    "the node on {} cannot be replaced: {source}. It goes on serving; stop it and start without --replace to do without a handover",
    data_folder.display()
)]
pub struct ReplaceError {
    data_folder: PathBuf,
    source: HandoverError,
}

/// A running node whose place is to be taken.
pub(crate) struct Succession {
    channel: Channel,
    data_folder: PathBuf,
}

impl Succession {
    /// Asks the node that runs on the data folder, if there is one, for its listening sockets.
    pub fn begin(data_folder: &Path) -> Result<Option<(Succession, ListeningSockets)>, ReplaceError> {
        let failed = |source| ReplaceError {
            data_folder: data_folder.to_owned(),
            source,
        };
        let Some(channel) = helenus_handover::connect(data_folder).map_err(failed)? else {
            return Ok(None);
        };
        let asked = || {
            channel.send(Kind::Hello, env!("CARGO_PKG_VERSION").as_bytes(), &[])?;
            channel.expect(Kind::Listeners, LISTENERS_TIMEOUT)
        };
        let message = asked().map_err(failed)?;
        let sockets = ListeningSockets::received(&message.payload, message.descriptors);
        let succession = Succession {
            channel,
            data_folder: data_folder.to_owned(),
        };
        Ok(Some((succession, sockets)))
    }

    /// Has the node give up its connections and its data folder. One that dies meanwhile has given up both.
    pub fn take(&self) -> Result<Connections, ReplaceError> {
        let taken = self.try_take();
        taken.map_err(|source| ReplaceError {
            data_folder: self.data_folder.clone(),
            source,
        })
    }

    fn try_take(&self) -> Result<Connections, HandoverError> {
        self.channel.send(Kind::Take, &[Kind::Tokens as u8], &[])?;
        let mut connections = Connections::default();
        loop {
            let message = match self.channel.receive(RELEASE_TIMEOUT) {
                Err(HandoverError::Gone) => return Ok(connections),
                received => received?,
            };
            match message.kind {
                Kind::Connections => connections.receive(message)?,
                Kind::Tokens => connections.receive_tokens(&message.payload),
                Kind::Released => return Ok(connections),
                other => return Err(HandoverError::Unexpected(other)),
            }
        }
    }

    /// Clients are served here: the other process may end.
    pub fn serving(&self) {
        // Who has gone need not know.
        let _gone = self.channel.send(Kind::Serving, &[], &[]);
    }

    /// The other process has to go on: this one cannot.
    pub fn fail(&self, why: &dyn std::fmt::Display) {
        self.channel.fail(&format!("the successor: {why}"));
    }
}
