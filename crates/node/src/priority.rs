//! The scheduling priority of background threads.

/// The niceness of flushes and compactions: the default of `nice(1)`, about a tenth of a normal thread's share where
/// both want the processor, all of it where nobody else does.
const BACKGROUND_NICENESS: libc::c_int = 10;

/// Requests come first: the calling thread runs when no shard wants the core. Best effort, because a container may
/// forbid it and nothing depends on it.
pub fn lower_this_thread() {
    // SAFETY: setpriority reads its three integer arguments and touches no memory of ours; on Linux, PRIO_PROCESS
    // with id 0 means the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, BACKGROUND_NICENESS);
    }
}
