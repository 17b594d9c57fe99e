//! Memory of bodies and answers: taken from a connection's part and from that of all doors, given back with the last byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// So many bytes, and no more.
#[derive(Debug)]
pub struct Memory {
    free_bytes: AtomicUsize,
    /// Of which this is a part.
    whole: Option<Arc<Memory>>,
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
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Memory {
            free_bytes: AtomicUsize::new(bytes),
            whole: None,
        })
    }

    /// At most `bytes` of this one.
    pub fn part(self: &Arc<Self>, bytes: usize) -> Arc<Self> {
        Arc::new(Memory {
            free_bytes: AtomicUsize::new(bytes),
            whole: Some(self.clone()),
        })
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

    /// The bytes of an answer, which give the memory back when the last of them is gone.
    pub fn charge(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Charged { bytes, _taken: self })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

struct Charged {
    bytes: Vec<u8>,
    _taken: Taken,
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
        let whole = Memory::new(100);
        let (first, second) = (whole.part(80), whole.part(80));
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
}
