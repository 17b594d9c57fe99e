//! Counters of one thread's connections. Plain integers that only their thread touches.

use std::cell::Cell;

use helenus_protocol::ErrorCode;

/// Why connections never got to send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ConnectionRefusal {
    /// The first message was not STARTUP or OPTIONS of a version that is spoken here.
    Protocol,
    /// More than the limit in all or of one address.
    TooMany,
    /// The handshake did not end in time.
    HandshakeTimeout,
    /// The client left without a word.
    Silent,
    /// Shown out for another: no file descriptor was left, or too many were waiting.
    Crowded,
}

impl ConnectionRefusal {
    /// By their numbers, as they are called where they are shown.
    pub const NAMES: [&str; 5] = ["protocol", "too_many", "handshake_timeout", "silent", "crowded"];
}

/// Counters of connections, and of the errors that the transport answered by itself.
#[derive(Debug, Default)]
pub struct ConnectionMetrics {
    errors: [Cell<u64>; ErrorCode::ALL.len()],
    open: Cell<u64>,
    accepted: Cell<u64>,
    refused: [Cell<u64>; ConnectionRefusal::NAMES.len()],
}

impl ConnectionMetrics {
    /// An error was answered.
    pub fn count_error(&self, code: ErrorCode) {
        self.count_errors(code, 1);
    }

    /// So many errors were answered.
    pub fn count_errors(&self, code: ErrorCode, count: u64) {
        if let Some(index) = ErrorCode::ALL.iter().position(|&known| known == code) {
            add(&self.errors[index], count);
        }
    }

    pub(crate) fn connection_opened(&self) {
        add(&self.open, 1);
        add(&self.accepted, 1);
    }

    pub(crate) fn connection_closed(&self) {
        self.open.set(self.open.get().saturating_sub(1));
    }

    pub(crate) fn connection_refused(&self, why: ConnectionRefusal) {
        add(&self.refused[why as usize], 1);
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.get()
    }

    /// Connections since the start.
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// Connections that never got to send a request, by reason; counted where they were accepted.
    pub fn refused(&self) -> [u64; ConnectionRefusal::NAMES.len()] {
        std::array::from_fn(|index| self.refused[index].get())
    }

    /// Error responses, in the order of [`ErrorCode::ALL`].
    pub fn errors(&self) -> [u64; ErrorCode::ALL.len()] {
        std::array::from_fn(|index| self.errors[index].get())
    }
}

fn add(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get() + amount);
}
