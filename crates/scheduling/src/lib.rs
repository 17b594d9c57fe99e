//! Requests of a thread to the operating system's scheduler. All are best effort: an older kernel or a container may refuse, and
//! nothing depends on them but latency.
//!
//! Two kinds of threads share the processors. Those that answer ask for short slices ([`answer_soon`]): they run when they
//! have something to do, rather than after whoever runs now has had its 3 ms. Those whose work nobody waits for ask for a
//! small share ([`give_way`]), and those that do long work for the least there is as long as they get on ([`StandingBack`]).

mod standing_back;

use std::sync::atomic::{AtomicUsize, Ordering};

pub use standing_back::StandingBack;

/// The slice of a thread that answers, in ns: the shortest that Linux grants (6.12 and later). A thread that asks for less
/// at a time gets it sooner, and not less of the processor in all.
pub const SLICE_NS: u64 = 100_000;

/// The niceness of work that nobody waits for: the default of `nice(1)`, about a tenth of a normal thread's share where
/// both want the processor, all of it where nobody else does.
const GIVING_WAY: libc::c_int = 10;

/// Threads of this process that have asked for short slices and got them.
static SHORT_SLICES: AtomicUsize = AtomicUsize::new(0);

/// Asks for short slices for the calling thread, and those that it starts. Whether the kernel knows them.
pub fn answer_soon() -> bool {
    let granted = imp::ask_for_slices(SLICE_NS);
    SHORT_SLICES.fetch_add(usize::from(granted), Ordering::Relaxed);
    granted
}

/// How many threads have got short slices by [`answer_soon`].
pub fn short_slices() -> usize {
    SHORT_SLICES.load(Ordering::Relaxed)
}

/// Lets the calling thread, and those that it starts, run where others leave the processor to them, in the usual slices.
/// A thread cannot take this back, so it is for threads that answer no more.
pub fn give_way() {
    imp::ask_for_slices(0);
    set_niceness(GIVING_WAY);
}

/// Changes the niceness of the calling thread.
fn set_niceness(niceness: libc::c_int) {
    // SAFETY: setpriority reads its three integer arguments and touches no memory of ours; on Linux, PRIO_PROCESS
    // with id 0 means the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, niceness);
    }
}

/// The niceness of a thread of this process by its number: 0 is the calling one, the process's own number the one that it began with.
fn niceness(thread: libc::id_t) -> libc::c_int {
    // SAFETY: it takes and returns integers.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread) }
}

#[cfg(target_os = "linux")]
mod imp {
    const ATTRIBUTES_BYTES: u32 = size_of::<libc::sched_attr>() as u32;

    /// The calling thread's attributes as they are, with another slice; 0 for the usual one. What is not the ordinary
    /// class is left alone, and a kernel that does not know slices forgets ours, so it is asked again.
    pub fn ask_for_slices(slice_ns: u64) -> bool {
        let Some(mut attributes) = attributes() else {
            return false;
        };
        if attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
            return false;
        }
        attributes.sched_runtime = slice_ns;
        // SAFETY: id 0 is the calling thread; the kernel reads as many bytes behind the pointer as the size in them says,
        // which is the structure's, and keeps nothing of it.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        self::attributes().is_some_and(|taken| taken.sched_runtime == slice_ns)
    }

    fn attributes() -> Option<libc::sched_attr> {
        let mut attributes = libc::sched_attr {
            size: ATTRIBUTES_BYTES,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: id 0 is the calling thread; the kernel writes at most as many bytes as it is told, which is the
        // structure's size, and any bytes are a valid value of its integers.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                0,
                &raw mut attributes,
                ATTRIBUTES_BYTES,
                0,
            )
        };
        (outcome == 0).then_some(attributes)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    pub fn ask_for_slices(_slice_ns: u64) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn slices_leave_the_niceness_alone_and_are_counted_where_they_are_granted() {
        let taken = thread::spawn(|| {
            let before = niceness(0);
            let first = answer_soon();
            give_way();
            assert_eq!(niceness(0), before.max(GIVING_WAY));
            let second = answer_soon();
            assert_eq!(first, second);
            assert_eq!(niceness(0), before.max(GIVING_WAY));
            usize::from(first) + usize::from(second)
        });
        let taken = taken.join().unwrap();
        assert_eq!(short_slices(), taken);
    }
}
