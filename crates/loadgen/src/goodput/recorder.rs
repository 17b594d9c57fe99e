//! Outcomes of requests, by when they were to be sent.

use hdrhistogram::Histogram;

use super::line::AnswerKind;
use super::wire::WireError;
use crate::quiet::SLICE_US;

/// The length of a window, in microseconds: how finely recovery is seen.
pub const WINDOW_US: u32 = 10_000;

/// Latencies above this count as this: a minute, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// Requests that were to be sent within one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Answered in time.
    pub good: u32,
    /// Served, but later than the deadline, or never answered.
    pub late: u32,
    pub refused: u32,
    pub failed: u32,
    /// Not sent.
    pub unsent: u32,
}

impl Window {
    pub fn bad(&self) -> u32 {
        self.late + self.refused + self.failed + self.unsent
    }
}

/// Sums over the requests that were to be sent in some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    pub sent: u64,
    pub good: u64,
    /// Served, but later than the deadline; those that were never answered are among them.
    pub late: u64,
    /// Not answered by the end of the load, nor in a second after it.
    pub unanswered: u64,
    pub refused: u64,
    /// Answered with another error than OVERLOADED.
    pub failed: u64,
    /// Not sent, because the connection had as many requests in flight as it may.
    pub held_back: u64,
    /// Not sent in time, because this process was too slow.
    pub not_generated: u64,
}

/// Outcomes of the requests that were to be sent in some time.
pub struct Tally {
    pub sums: Sums,
    /// Latencies of served requests, in time or not; of those that were never answered, how long that was known.
    pub served_us: Histogram<u32>,
    /// Latencies of the control connection.
    pub control_us: Histogram<u32>,
}

impl Tally {
    pub fn new() -> Result<Self, WireError> {
        Ok(Tally {
            sums: Sums::default(),
            served_us: histogram()?,
            control_us: histogram()?,
        })
    }

    pub fn add(&mut self, other: &Tally) -> Result<(), WireError> {
        let (sums, others) = (&mut self.sums, &other.sums);
        sums.sent += others.sent;
        sums.good += others.good;
        sums.late += others.late;
        sums.unanswered += others.unanswered;
        sums.refused += others.refused;
        sums.failed += others.failed;
        sums.held_back += others.held_back;
        sums.not_generated += others.not_generated;
        self.served_us
            .add(&other.served_us)
            .map_err(WireError::protocol)?;
        self.control_us
            .add(&other.control_us)
            .map_err(WireError::protocol)
    }
}

pub struct Recorder {
    from_us: u32,
    deadline_us: u32,
    pub windows: Vec<Window>,
    /// By [`SLICE_US`] from the beginning on; none where only the windows are asked for.
    slices: Vec<Tally>,
}

impl Recorder {
    /// For requests from `from_us` until `until_us`, in slices.
    pub(crate) fn in_slices(from_us: u32, until_us: u32, deadline_us: u32) -> Result<Self, WireError> {
        let slices = until_us.saturating_sub(from_us).div_ceil(SLICE_US);
        Ok(Recorder {
            slices: (0..slices).map(|_| Tally::new()).collect::<Result<_, _>>()?,
            ..Recorder::in_windows(from_us, until_us, deadline_us)
        })
    }

    /// For requests from `from_us` until `until_us`, in windows only.
    pub(crate) fn in_windows(from_us: u32, until_us: u32, deadline_us: u32) -> Self {
        let windows = until_us.saturating_sub(from_us) / WINDOW_US + 1;
        Recorder {
            from_us,
            deadline_us,
            windows: vec![Window::default(); windows as usize],
            slices: Vec::new(),
        }
    }

    /// Sums up the outcomes of the requests of some slices.
    pub fn total(&self, slices: &[usize]) -> Result<Tally, WireError> {
        let mut total = Tally::new()?;
        for slice in slices.iter().filter_map(|slice| self.slices.get(*slice)) {
            total.add(slice)?;
        }
        Ok(total)
    }

    #[inline]
    fn slice(&mut self, due_us: u32) -> Option<&mut Tally> {
        let index = due_us.checked_sub(self.from_us)? / SLICE_US;
        self.slices.get_mut(index as usize)
    }

    #[inline]
    fn window(&mut self, due_us: u32) -> Option<&mut Window> {
        let index = due_us.checked_sub(self.from_us)? / WINDOW_US;
        self.windows.get_mut(index as usize)
    }

    #[inline]
    pub fn sent(&mut self, due_us: u32) {
        if let Some(slice) = self.slice(due_us) {
            slice.sums.sent += 1;
        }
    }

    /// A request is not sent: its connection has as many in flight as it may, or this process was too slow.
    pub fn unsent(&mut self, due_us: u32, is_held_back: bool) {
        if let Some(window) = self.window(due_us) {
            window.unsent += 1;
        }
        if let Some(slice) = self.slice(due_us) {
            slice.sums.held_back += u64::from(is_held_back);
            slice.sums.not_generated += u64::from(!is_held_back);
        }
    }

    #[inline]
    pub fn answered(&mut self, due_us: u32, now_us: u32, kind: AnswerKind) {
        let latency_us = now_us.saturating_sub(due_us);
        let is_good = kind == AnswerKind::Done && latency_us <= self.deadline_us;
        if let Some(window) = self.window(due_us) {
            match kind {
                AnswerKind::Done if is_good => window.good += 1,
                AnswerKind::Done => window.late += 1,
                AnswerKind::Refused => window.refused += 1,
                AnswerKind::Failed => window.failed += 1,
            }
        }
        let Some(slice) = self.slice(due_us) else {
            return;
        };
        match kind {
            AnswerKind::Done => {
                slice.served_us.saturating_record(u64::from(latency_us));
                slice.sums.good += u64::from(is_good);
                slice.sums.late += u64::from(!is_good);
            }
            AnswerKind::Refused => slice.sums.refused += 1,
            AnswerKind::Failed => slice.sums.failed += 1,
        }
    }

    /// A request that was sent has no answer, and none is waited for any more.
    pub fn unanswered(&mut self, due_us: u32, now_us: u32) {
        if let Some(window) = self.window(due_us) {
            window.late += 1;
        }
        if let Some(slice) = self.slice(due_us) {
            slice.sums.late += 1;
            slice.sums.unanswered += 1;
            slice
                .served_us
                .saturating_record(u64::from(now_us.saturating_sub(due_us)));
        }
    }

    pub(crate) fn control_answered(&mut self, due_us: u32, now_us: u32) {
        if let Some(slice) = self.slice(due_us) {
            slice
                .control_us
                .saturating_record(u64::from(now_us.saturating_sub(due_us)));
        }
    }
}

/// To a hundredth: there are some hundred of them.
fn histogram() -> Result<Histogram<u32>, WireError> {
    Histogram::new_with_max(LATENCY_US_MAX, 2).map_err(WireError::protocol)
}

/// Milliseconds from `at` until windows are clean again, and stay so for five of them; `None` if they never are.
pub fn recovery_ms(windows: &[Window], at: usize) -> Option<u32> {
    /// One clean window may be luck.
    const CLEAN: usize = 5;
    let after = windows.get(at..)?;
    let first = after
        .windows(CLEAN)
        .position(|some| some.iter().all(|window| window.bad() == 0 && window.good > 0))?;
    Some(first as u32 * WINDOW_US / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(good: u32, late: u32) -> Window {
        Window {
            good,
            late,
            ..Window::default()
        }
    }

    #[test]
    fn a_request_counts_for_when_it_was_to_be_sent() {
        let mut recorder = Recorder::in_slices(1_000, 301_000, 10_000).unwrap();
        recorder.answered(5_000, 6_000, AnswerKind::Done);
        recorder.answered(110_000, 119_000, AnswerKind::Done);
        recorder.answered(110_000, 121_000, AnswerKind::Done);
        recorder.answered(120_000, 121_000, AnswerKind::Refused);
        recorder.unsent(130_000, true);
        recorder.answered(250_000, 251_000, AnswerKind::Done);
        recorder.unanswered(150_000, 1_150_000);
        let Tally { sums, served_us, .. } = recorder.total(&[1]).unwrap();
        assert_eq!((sums.good, sums.late, sums.refused, sums.held_back), (1, 2, 1, 1));
        assert_eq!((sums.unanswered, served_us.len()), (1, 3));
        assert!(served_us.max() >= 990_000);
        assert_eq!(recorder.total(&[0, 2]).unwrap().sums.good, 2);
        assert_eq!(recorder.windows[0], window(1, 0));
        assert_eq!(recorder.windows[10], window(1, 1));
    }

    #[test]
    fn recovery_is_until_windows_stay_clean() {
        let (clean, bad) = (window(1, 0), window(1, 1));
        let mut windows = vec![bad, bad, clean, bad];
        windows.extend([clean; 5]);
        assert_eq!(recovery_ms(&windows, 1), Some(30));
        assert_eq!(recovery_ms(&windows, 4), Some(0));
        assert_eq!(recovery_ms(&windows, 6), None);
        assert_eq!(recovery_ms(&windows, 60), None);
    }
}
