//! Services of the operating system: counting a thread's instructions, and forgetting cached files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Makes the operating system forget what it has cached of a file. The file must have been synced: what is not on disk
/// yet stays.
pub fn forget_cached(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: the descriptor is open for the length of the call, which takes no memory.
    let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

/// Counts the instructions of this thread, outside of the kernel.
#[derive(Debug)]
pub struct InstructionCounter {
    counter: File,
}

/// `struct perf_event_attr` of linux/perf_event.h, as its first version was; kernels read missing fields as zeros.
#[repr(C)]
struct PerfEventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_COUNT_HW_INSTRUCTIONS: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

impl InstructionCounter {
    /// `None` where the processor or the kernel's settings do not let this thread count.
    pub fn start() -> Option<Self> {
        let attributes = PerfEventAttributes {
            kind: PERF_TYPE_HARDWARE,
            size: size_of::<PerfEventAttributes>() as u32,
            config: PERF_COUNT_HW_INSTRUCTIONS,
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            wakeup_events: 0,
            breakpoint_type: 0,
            config1: 0,
        };
        let (this_thread, any_processor, no_group, no_flags) = (0, -1, -1, 0);
        // SAFETY: the attributes live for the length of the call, and their size is in them.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_processor,
                no_group,
                no_flags,
            )
        };
        let descriptor = i32::try_from(descriptor)
            .ok()
            .filter(|descriptor| *descriptor >= 0)?;
        // SAFETY: the kernel has just given this descriptor to this process and nothing else owns it.
        let counter = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        let mut counter = InstructionCounter { counter };
        // Some virtual machines open a counter that never counts.
        let before = counter.count()?;
        (counter.count()? > before).then_some(counter)
    }

    /// Instructions so far.
    pub fn count(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.counter.read_exact(&mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}
