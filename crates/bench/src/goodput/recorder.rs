//! What came of each request, by when it was to be sent.

use hdrhistogram::Histogram;

use super::line::AnswerKind;
use super::wire::WireError;

/// The length of a window, in microseconds: how finely recovery is seen.
pub const WINDOW_US: u32 = 10_000;

/// Latencies above this count as this: a minute, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// Requests that were to be sent within one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Answered in time.
    pub good: u32,
    /// Everything else.
    pub bad: u32,
}

/// Sums over the requests that were to be sent in the time that counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    pub sent: u64,
    pub good: u64,
    /// Served, but later than the deadline.
    pub late: u64,
    pub refused: u64,
    /// Answered with another error than OVERLOADED.
    pub failed: u64,
    /// Given up unsent, because the server did not read the connection.
    pub held_back: u64,
    /// Not sent in time, because this process was too slow.
    pub not_generated: u64,
}

pub struct Recorder {
    from_us: u32,
    /// What counts in `sums`.
    counted_us: std::ops::Range<u32>,
    deadline_us: u32,
    pub windows: Vec<Window>,
    pub sums: Sums,
    /// Of served requests, whether in time or not.
    pub served_us: Histogram<u64>,
    /// Of the control connection.
    pub control_us: Histogram<u64>,
}

impl Recorder {
    /// For requests from `from_us` on, of which those within `counted_us` make the sums.
    pub fn new(from_us: u32, counted_us: std::ops::Range<u32>, deadline_us: u32) -> Result<Self, WireError> {
        let windows = counted_us.end.saturating_sub(from_us) / WINDOW_US + 1;
        Ok(Recorder {
            from_us,
            counted_us,
            deadline_us,
            windows: vec![Window::default(); windows as usize],
            sums: Sums::default(),
            served_us: histogram()?,
            control_us: histogram()?,
        })
    }

    #[inline]
    fn counts(&self, intended_us: u32) -> bool {
        self.counted_us.contains(&intended_us)
    }

    #[inline]
    fn window(&mut self, intended_us: u32) -> Option<&mut Window> {
        let index = intended_us.checked_sub(self.from_us)? / WINDOW_US;
        self.windows.get_mut(index as usize)
    }

    #[inline]
    pub fn sent(&mut self, intended_us: u32) {
        self.sums.sent += u64::from(self.counts(intended_us));
    }

    /// A request was not sent after all: it may be later, or it is given up.
    pub fn taken_back(&mut self, intended_us: u32) {
        self.sums.sent = self.sums.sent.saturating_sub(u64::from(self.counts(intended_us)));
    }

    /// A request was given up before it was sent.
    pub fn unsent(&mut self, intended_us: u32, is_held_back: bool) {
        if let Some(window) = self.window(intended_us) {
            window.bad += 1;
        }
        if self.counts(intended_us) {
            self.sums.held_back += u64::from(is_held_back);
            self.sums.not_generated += u64::from(!is_held_back);
        }
    }

    #[inline]
    pub fn answered(&mut self, intended_us: u32, now_us: u32, kind: AnswerKind) {
        let latency_us = now_us.saturating_sub(intended_us);
        let is_good = kind == AnswerKind::Done && latency_us <= self.deadline_us;
        if let Some(window) = self.window(intended_us) {
            window.good += u32::from(is_good);
            window.bad += u32::from(!is_good);
        }
        if !self.counts(intended_us) {
            return;
        }
        match kind {
            AnswerKind::Done => {
                self.served_us.saturating_record(u64::from(latency_us));
                self.sums.good += u64::from(is_good);
                self.sums.late += u64::from(!is_good);
            }
            AnswerKind::Refused => self.sums.refused += 1,
            AnswerKind::Failed => self.sums.failed += 1,
        }
    }

    pub fn control_answered(&mut self, intended_us: u32, now_us: u32) {
        if self.counts(intended_us) {
            self.control_us
                .saturating_record(u64::from(now_us.saturating_sub(intended_us)));
        }
    }
}

fn histogram() -> Result<Histogram<u64>, WireError> {
    Histogram::new_with_max(LATENCY_US_MAX, 3).map_err(WireError::protocol)
}

/// Milliseconds from `at` until windows are clean again, and stay so for five of them; `None` if they never are.
pub fn recovery_ms(windows: &[Window], at: usize) -> Option<u32> {
    /// One clean window may be luck.
    const CLEAN: usize = 5;
    let after = windows.get(at..)?;
    let first = after
        .windows(CLEAN)
        .position(|some| some.iter().all(|window| window.bad == 0 && window.good > 0))?;
    Some(first as u32 * WINDOW_US / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_for_when_it_was_to_be_sent() {
        let mut recorder = Recorder::new(1_000, 21_000..101_000, 10_000).unwrap();
        recorder.answered(5_000, 6_000, AnswerKind::Done);
        assert_eq!(recorder.sums.good, 0);
        recorder.answered(30_000, 39_000, AnswerKind::Done);
        recorder.answered(30_000, 41_000, AnswerKind::Done);
        recorder.answered(40_000, 41_000, AnswerKind::Refused);
        recorder.unsent(50_000, true);
        let Sums {
            good,
            late,
            refused,
            held_back,
            ..
        } = recorder.sums;
        assert_eq!((good, late, refused, held_back), (1, 1, 1, 1));
        assert_eq!(recorder.windows[0], Window { good: 1, bad: 0 });
        assert_eq!(recorder.windows[2], Window { good: 1, bad: 1 });
    }

    #[test]
    fn recovery_is_until_windows_stay_clean() {
        let clean = Window { good: 1, bad: 0 };
        let bad = Window { good: 1, bad: 1 };
        let mut windows = vec![bad, bad, clean, bad];
        windows.extend([clean; 5]);
        assert_eq!(recovery_ms(&windows, 1), Some(30));
        assert_eq!(recovery_ms(&windows, 4), Some(0));
        assert_eq!(recovery_ms(&windows, 6), None);
        assert_eq!(recovery_ms(&windows, 60), None);
    }
}
