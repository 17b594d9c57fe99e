//! The bytes of a connection that have arrived and are not yet read.

/// A connection's receive buffer: one read from the socket appends to it, [`FrameReader`] reads from its front.
///
/// It grows by what actually arrives, never by what a header promises. Owned by the connection.
///
/// [`FrameReader`]: super::FrameReader
#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    bytes: Vec<u8>,
    read: usize,
}

/// The room a read is offered at least: a 16 KiB read takes dozens of small requests in one system call.
const READ_BYTES_MIN: usize = 16 * 1024;

/// The most an empty buffer keeps after a large message: two segments, so that common large reads do not reallocate.
const KEPT_BYTES_MAX: usize = 256 * 1024;

impl ReceiveBuffer {
    pub fn new() -> Self {
        Self::default()
    }

    /// The buffer to append to, with at least 16 KiB of spare room: read into its spare capacity (`read_buf`).
    /// What was there must stay there.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        if self.read == self.bytes.len() {
            self.bytes.clear();
            self.read = 0;
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        } else if self.read > 0 && self.bytes.capacity() - self.bytes.len() < READ_BYTES_MIN {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.reserve(READ_BYTES_MIN);
        &mut self.bytes
    }

    /// Appends bytes that were received elsewhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.tail().extend_from_slice(bytes);
    }

    /// Gives the buffer memory, if it has none; `memory` must be empty.
    #[inline]
    pub fn lend(&mut self, memory: Vec<u8>) {
        if self.bytes.capacity() == 0 && memory.is_empty() {
            self.bytes = memory;
            self.read = 0;
        }
    }

    /// The buffer's memory, if nothing in it is unread; the buffer has none then.
    #[inline]
    pub fn take_memory(&mut self) -> Option<Vec<u8>> {
        if self.read < self.bytes.len() {
            return None;
        }
        self.read = 0;
        let mut memory = std::mem::take(&mut self.bytes);
        memory.clear();
        Some(memory)
    }

    /// The memory that the buffer holds.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// Throws away everything that has arrived.
    pub fn discard_all(&mut self) {
        self.read = self.bytes.len();
    }

    /// How far the front has moved: positions handed to [`Self::slice`] count from the buffer's start.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.read
    }

    #[inline]
    pub(super) fn slice(&self, from: usize, bytes: usize) -> &[u8] {
        &self.bytes[from..from + bytes]
    }

    /// Marks bytes of [`Self::unread`] as read.
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        debug_assert!(
            bytes <= self.bytes.len() - self.read,
            "consumed more than has arrived"
        );
        self.read += bytes;
    }
}
