//! A handle on a file of the simulated disk.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::names::InodeId;
use super::{FaultKind, Operation, Shared, State, UnsyncedChange};
use crate::disk::File;
use crate::memory_disk::overwrite;
use crate::random::Random;

#[derive(Debug)]
pub(super) struct SimulatedFile {
    shared: Arc<Shared>,
    inode: InodeId,
    run: u64,
    /// Set by the first failed write or sync and never cleared.
    failed: Mutex<bool>,
}

impl SimulatedFile {
    pub(super) fn new(shared: Arc<Shared>, inode: InodeId, run: u64) -> Self {
        SimulatedFile {
            shared,
            inode,
            run,
            failed: Mutex::new(false),
        }
    }

    fn live_state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.shared.state();
        state.check_power()?;
        if state.run == self.run {
            Ok(state)
        } else {
            Err(io::Error::other("the handle died in a crash"))
        }
    }

    fn latch(&self, action: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if *failed {
            return Err(io::Error::other("an earlier write or sync of this file failed"));
        }
        let mut state = self.live_state()?;
        state.check_writable()?;
        action(&mut state).inspect_err(|_| *failed = true)
    }

    fn write(&self, state: &mut State, offset: Option<u64>, bytes: &[u8]) -> io::Result<()> {
        let fault = state.fault(Operation::Write);
        let mut stored = match fault {
            None => bytes.len(),
            Some(FaultKind::Short) => bytes.len() / 2,
            Some(FaultKind::Error | FaultKind::NoSpace | FaultKind::Panic) => 0,
        };
        let mut result = fault.map_or(Ok(()), |kind| Err(kind.error()));
        let length = state.inode(self.inode)?.bytes.len() as u64;
        let offset = offset.unwrap_or(length);
        if let Some(free) = &mut state.free_bytes {
            let growth = (offset + stored as u64).saturating_sub(length);
            if growth > *free {
                stored = stored.saturating_sub((growth - *free) as usize);
                result = Err(FaultKind::NoSpace.error());
            }
            *free = free.saturating_sub(growth);
        }
        let stored = &bytes[..stored];
        let inode = state.inode(self.inode)?;
        overwrite(&mut inode.bytes, offset, stored)?;
        inode.unsynced.push(UnsyncedChange::Write {
            offset,
            bytes: stored.to_vec(),
        });
        result
    }
}

impl File for SimulatedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.live_state()?;
        let asked = match state.fault(Operation::Read) {
            None => buffer.len(),
            Some(FaultKind::Short) => buffer.len().div_ceil(2),
            Some(kind) => return Err(kind.error()),
        };
        let bytes = &state.inode(self.inode)?.bytes;
        let available = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..))
            .unwrap_or(&[]);
        let count = available.len().min(asked);
        buffer[..count].copy_from_slice(&available[..count]);
        self.shared.counters.count_read(count);
        Ok(count)
    }

    fn read_resident_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let is_half_resident = self.live_state()?.is_half_resident;
        match is_half_resident.then(|| self.shared.random.below(8)) {
            Some(0..=3) => self.read_at(offset, buffer),
            Some(4) => {
                let half = buffer.len() / 2;
                self.read_at(offset, buffer.get_mut(..half).unwrap_or_default())
            }
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.shared.counters.count_write(bytes.len());
        self.latch(|state| self.write(state, None, bytes))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.shared.counters.count_write(bytes.len());
        self.latch(|state| self.write(state, Some(offset), bytes))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let resized = usize::try_from(length).map_err(io::Error::other)?;
        self.latch(|state| {
            let inode = state.inode(self.inode)?;
            inode.bytes.resize(resized, 0);
            inode.unsynced.push(UnsyncedChange::SetLength(length));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.counters.count_sync();
        self.latch(|state| {
            let fault = state.fault(Operation::Sync);
            let inode = state.inode(self.inode)?;
            let unsynced = std::mem::take(&mut inode.unsynced);
            if let Some(kind) = fault {
                return Err(kind.error());
            }
            for change in unsynced {
                match change {
                    UnsyncedChange::Write { offset, bytes } => overwrite(&mut inode.synced, offset, &bytes)?,
                    UnsyncedChange::SetLength(length) => inode.synced.resize(length as usize, 0),
                }
            }
            Ok(())
        })
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.live_state()?.inode(self.inode)?.bytes.len() as u64)
    }
}
