//! A timer that keeps microseconds, on a thread's own event loop.

use std::io;
use std::time::Duration;

#[cfg(target_os = "linux")]
pub(super) use linux::Timer;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{Duration, io};

    /// A timer of the kernel's that the runtime waits for as for a socket.
    #[derive(Debug)]
    pub(in crate::run) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        /// For the runtime that this is called in.
        pub fn new() -> io::Result<Self> {
            // SAFETY: it takes numbers and returns a new descriptor or -1.
            let descriptor = unsafe {
                libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
            };
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: it is open, and nobody else has it.
            let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
            // SAFETY: an `OwnedFd` names one descriptor for all its life, and the `AsyncFd` keeps it open.
            let registered = unsafe { AsyncFd::register_with_interest(owned, Interest::READABLE) };
            Ok(Timer(registered?))
        }

        /// Sleeps for `length`. It may end early; who needs to know looks at the clock.
        pub async fn sleep(&mut self, length: Duration) -> io::Result<()> {
            let zero = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let wanted = libc::itimerspec {
                it_interval: zero,
                it_value: libc::timespec {
                    tv_sec: length.as_secs() as libc::time_t,
                    // Zero would stop the timer.
                    tv_nsec: libc::c_long::from(length.subsec_nanos().max(1).cast_signed()),
                },
            };
            // SAFETY: the descriptor is open, `wanted` outlives the call, and the old value is not asked for.
            let outcome =
                unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &wanted, std::ptr::null_mut()) };
            if outcome < 0 {
                return Err(io::Error::last_os_error());
            }
            // Setting it anew forgets that it has rung, so it is not read.
            self.0.readable().await?.clear_ready();
            Ok(())
        }
    }
}

/// Elsewhere the runtime's timers do, to a millisecond.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(super) struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub fn new() -> io::Result<Self> {
        Ok(Timer)
    }

    pub async fn sleep(&mut self, length: Duration) -> io::Result<()> {
        tokio::time::sleep(length).await;
        Ok(())
    }
}
