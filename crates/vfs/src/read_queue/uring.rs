//! Reads through io_uring: one ring of a shard's own, one system call for all reads of a turn, no thread in between.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use io_uring::{IoUring, Probe, opcode, types};

use super::{CompletedRead, FailedRead, QueuedRead, READS_UNDER_WAY_MAX, ReadQueue, read_now};

/// Invariants:
/// 1. A slot that is `Some` belongs to a read that the kernel may be writing to: its buffer and its file are neither
///    moved, freed nor lent out until the read's completion has been taken.
/// 2. A completion's user data is the index of its slot.
/// 3. What was pushed and is not begun is so until the caller's next [`ReadQueue::begin`].
pub(crate) struct UringReads {
    ring: IoUring,
    event: OwnedFd,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Beyond [`READS_UNDER_WAY_MAX`]; as many as the asker's requests in flight.
    waiting: VecDeque<QueuedRead>,
    /// Completed without the ring.
    completed: Vec<CompletedRead>,
    /// The ring has entries that the kernel was not told of.
    has_pushed: bool,
    refusal: Option<io::Error>,
}

struct Slot {
    read: QueuedRead,
    bytes: Vec<u8>,
    /// Bytes that are there already: the kernel may give fewer than it is asked for.
    filled: usize,
}

impl UringReads {
    /// Fails where the kernel does not have io_uring, or does not allow it.
    pub fn start() -> io::Result<Self> {
        let ring = IoUring::new(READS_UNDER_WAY_MAX as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: eventfd takes two integers and touches no memory of ours.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: eventfd has just returned this descriptor, and nobody else knows of it.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        Ok(UringReads {
            ring,
            event,
            slots: (0..READS_UNDER_WAY_MAX).map(|_| None).collect(),
            free: (0..READS_UNDER_WAY_MAX).collect(),
            waiting: VecDeque::new(),
            completed: Vec::new(),
            has_pushed: false,
            refusal: None,
        })
    }

    /// Puts a request for what a slot still lacks into the ring; gives the slot up with an error where that cannot be.
    fn push(&mut self, index: usize) {
        let Some(slot) = self.slots[index].as_mut() else {
            return;
        };
        let Some(descriptor) = slot.read.file.descriptor() else {
            return self.read_without_ring(index);
        };
        let rest = &mut slot.bytes[slot.filled..];
        // One request reads at most this much; what is missing is asked for when it has completed.
        let length = u32::try_from(rest.len()).unwrap_or(1 << 30).min(1 << 30);
        let entry = opcode::Read::new(types::Fd(descriptor.as_raw_fd()), rest.as_mut_ptr(), length)
            .offset(slot.read.offset + slot.filled as u64)
            .build()
            .user_data(index as u64);
        // SAFETY: the descriptor and the buffer belong to the slot, which by invariant 1 stays as it is until the
        // read's completion has been taken; `length` is at most what the buffer has from `filled` on.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        match pushed {
            Ok(()) => self.has_pushed = true,
            // Not to be: the ring has an entry for each slot.
            Err(_) => self.refusal = Some(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn submit_entries(&self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// For a file that is not the operating system's.
    fn read_without_ring(&mut self, index: usize) {
        if let Some(slot) = self.slots[index].take() {
            self.free.push(index);
            self.completed.push(read_now(slot.read));
        }
    }

    /// Takes in what the kernel says of a slot's read; its result once that is known.
    fn take_in(&mut self, index: usize, result: i32) -> Option<CompletedRead> {
        let slot = self.slots.get_mut(index)?.as_mut()?;
        let outcome = match usize::try_from(result) {
            Ok(0) if slot.filled < slot.bytes.len() => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(count) => {
                slot.filled += count;
                slot.read.file.count_read(count);
                Ok(())
            }
            Err(_) if -result == libc::EINTR || -result == libc::EAGAIN => Ok(()),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        if outcome.is_ok() && slot.filled < slot.bytes.len() {
            self.push(index);
            return None;
        }
        let slot = self.slots[index].take()?;
        self.free.push(index);
        Some(CompletedRead {
            id: slot.read.id,
            result: outcome.map(|()| slot.bytes).map_err(FailedRead::Io),
        })
    }

    /// The next completion's slot and result.
    fn next_completion(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.completion().next()?;
        Some((entry.user_data() as usize, entry.result()))
    }
}

impl ReadQueue for UringReads {
    fn submit(&mut self, mut read: QueuedRead) {
        let Some(index) = self.free.pop() else {
            self.waiting.push_back(read);
            return;
        };
        let bytes = read.take_room();
        self.slots[index] = Some(Slot {
            read,
            bytes,
            filled: 0,
        });
        self.push(index);
    }

    fn begin(&mut self) {
        if !std::mem::take(&mut self.has_pushed) {
            return;
        }
        if let Err(error) = self.submit_entries() {
            // The entries may be in the ring still, so the slots must stay: their completions are yet to come. A kernel that
            // refuses entries for good is a broken one, and whoever owns the queue is told.
            self.refusal = Some(error);
            self.has_pushed = true;
        }
    }

    fn take_completed(&mut self, completed: &mut Vec<CompletedRead>) {
        // Only to make the event unreadable again; how often it was signalled does not matter.
        let mut count = [0_u8; 8];
        // SAFETY: `count` is writable memory of the 8 bytes that reading an eventfd fills.
        let _count = unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        while let Some((index, result)) = self.next_completion() {
            completed.extend(self.take_in(index, result));
        }
        while !self.free.is_empty()
            && let Some(read) = self.waiting.pop_front()
        {
            self.submit(read);
        }
        completed.append(&mut self.completed);
        self.begin();
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.as_fd())
    }

    fn take_refusal(&mut self) -> Option<io::Error> {
        self.refusal.take()
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

impl Drop for UringReads {
    /// Waits for the reads under way, whose buffers the kernel may still be writing to.
    fn drop(&mut self) {
        self.waiting.clear();
        while self.slots.iter().any(Option::is_some) {
            if self.ring.submit_and_wait(1).is_err() {
                // Nothing can be known of the reads, so their buffers must outlive the process.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            while let Some((index, _)) = self.next_completion() {
                if let Some(slot) = self.slots.get_mut(index) {
                    *slot = None;
                }
            }
        }
    }
}
