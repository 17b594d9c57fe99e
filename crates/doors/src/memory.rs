//! Memory of bodies and answers: taken from a connection's part and from that of all doors, given back with the last byte.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::bounds::{
    BODY_BYTES_MAX, BODY_COST, CONNECTION_EIGHTHS, MEMORY_BYTES_MAX, MEMORY_BYTES_MIN, MEMORY_SHARE,
};
use crate::buffers::Buffers;

/// So many bytes, and no more.
#[derive(Debug)]
pub struct Memory {
    bytes_max: usize,
    free_bytes: AtomicUsize,
    /// Memory of which this is a part.
    whole: Option<Arc<Memory>>,
    /// Buffers of all connections.
    buffers: Arc<Buffers>,
}

/// Bytes that somebody has taken.
#[derive(Debug)]
pub struct Taken {
    memory: Arc<Memory>,
    bytes: usize,
}

/// There is no room; what the client sent is not wrong, and may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Memory {
    /// Memory for the doors of a node that has `node_bytes` for everything else.
    pub fn beside(node_bytes: u64, buffers: Buffers) -> Arc<Self> {
        let share = usize::try_from(node_bytes / MEMORY_SHARE).unwrap_or(usize::MAX);
        let bytes_max = share.clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX);
        Memory::new(bytes_max, None, Arc::new(buffers))
    }

    fn new(bytes_max: usize, whole: Option<Arc<Memory>>, buffers: Arc<Buffers>) -> Arc<Self> {
        Arc::new(Memory {
            bytes_max,
            free_bytes: AtomicUsize::new(bytes_max),
            whole,
            buffers,
        })
    }

    /// Part of it that one connection may take.
    pub fn of_connection(self: &Arc<Self>) -> Arc<Self> {
        let bytes_max = self.bytes_max / 8 * CONNECTION_EIGHTHS;
        Memory::new(bytes_max, Some(self.clone()), self.buffers.clone())
    }

    /// An empty buffer with room for so many bytes; [`Taken::charge`] sees to it that it comes back.
    pub fn buffer(&self, bytes: usize) -> Vec<u8> {
        self.buffers.take(bytes)
    }

    /// The same for bytes of a request, which are charged elsewhere.
    pub fn lend(self: &Arc<Self>, bytes: usize) -> Lent {
        Lent {
            bytes: self.buffers.take(bytes),
            memory: self.clone(),
            taken: None,
        }
    }

    /// The same for bytes that nobody has looked at.
    pub fn lend_charged(self: &Arc<Self>, bytes: usize) -> Result<Lent, NoRoom> {
        let taken = self.take(bytes)?;
        let mut lent = self.lend(bytes);
        lent.taken = Some(taken);
        Ok(lent)
    }

    /// The longest body on a connection with this memory: a third of it is left for the answer. More would never have room.
    pub fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX.min(self.bytes_max / 3 * 2 / BODY_COST)
    }

    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Taken, NoRoom> {
        let mut taken = Taken {
            memory: self.clone(),
            bytes: 0,
        };
        taken.grow(bytes)?;
        Ok(taken)
    }

    fn remove(&self, bytes: usize) -> Result<(), NoRoom> {
        let less = |free: usize| free.checked_sub(bytes);
        let own = self
            .free_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        own.map_err(|_| NoRoom)?;
        match self.whole.as_ref().map(|whole| whole.remove(bytes)) {
            Some(Err(no_room)) => {
                self.free_bytes.fetch_add(bytes, Ordering::Relaxed);
                Err(no_room)
            }
            _ => Ok(()),
        }
    }

    fn give_back(&self, bytes: usize) {
        self.free_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }

    #[cfg(test)]
    pub fn free_bytes(&self) -> usize {
        self.free_bytes.load(Ordering::Relaxed)
    }
}

impl Taken {
    pub fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.memory.remove(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// The bytes of an answer, which give the memory back when the last of them is gone, and their buffer to the next answer.
    pub fn charge(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Charged { bytes, taken: self })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

/// A buffer with bytes of a request, which comes back when nobody reads them any more.
#[derive(Debug)]
pub struct Lent {
    bytes: Vec<u8>,
    memory: Arc<Memory>,
    /// Room for them, where it is taken by the bytes as they come.
    taken: Option<Taken>,
}

impl Lent {
    /// Appends some, in a longer buffer if this one is full.
    pub fn extend(&mut self, more: &[u8]) {
        let wanted = self.bytes.len() + more.len();
        if wanted > self.bytes.capacity() {
            let mut longer = self.memory.buffer(wanted.max(2 * self.bytes.capacity()));
            longer.extend_from_slice(&self.bytes);
            self.memory
                .buffers
                .give_back(std::mem::replace(&mut self.bytes, longer));
        }
        self.bytes.extend_from_slice(more);
    }
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.memory.buffers.give_back(std::mem::take(&mut self.bytes));
    }
}

struct Charged {
    bytes: Vec<u8>,
    taken: Taken,
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.taken
            .memory
            .buffers
            .give_back(std::mem::take(&mut self.bytes));
    }
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_of_the_part_and_of_the_whole_and_comes_back_with_the_last_byte() {
        let whole = Memory::new(100, None, Arc::default());
        let part = || Memory::new(80, Some(whole.clone()), Arc::default());
        let (first, second) = (part(), part());
        let taken = first.take(60).unwrap();
        assert_eq!(second.take(60).unwrap_err(), NoRoom);
        assert_eq!(second.free_bytes(), 80);
        let bytes = taken.charge(vec![0; 60]);
        let slice = bytes.slice(1..2);
        drop(bytes);
        assert_eq!(whole.free_bytes(), 40);
        drop(slice);
        assert_eq!((whole.free_bytes(), first.free_bytes()), (100, 80));
    }

    #[test]
    fn doors_stay_below_an_eighth_of_the_node_and_the_longest_body_has_room() {
        for (node_mib, all_mib, body_kib) in [
            (16, 8, 256),
            (256, 32, 1_024),
            (1_024, 128, 4_096),
            (65_536, 128, 4_096),
        ] {
            let memory = Memory::beside(node_mib << 20, Buffers::default());
            assert_eq!(memory.free_bytes(), all_mib << 20, "{node_mib}");
            let connection = memory.of_connection();
            assert_eq!(connection.body_bytes_max(), body_kib << 10, "{node_mib}");
            assert!(connection.take(connection.body_bytes_max() * BODY_COST).is_ok());
        }
    }
}
