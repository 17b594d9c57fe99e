//! How far work that nobody waits for stands back: as far as it may, as long as it gets on.
//!
//! A scheduler that shares by weight lets one who wakes wait where the one who runs has a share that is worth counting: of niceness 10
//! up to 3 ms. At the greatest niceness nobody waits for it; but where others want all of the processor it hardly runs. So it
//! comes forward, to [`GIVING_WAY`], for some time when that happens; and further, as far as it is told,
//! when it is urgent: halfway to those that answer, so that others that give way, which it may need, are not left without.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::thread;

use crate::{GIVING_WAY, niceness, set_niceness};

/// The file in which Linux tells how long a thread has run and waited.
const SCHEDULE: &str = "/proc/thread-self/schedstat";
/// The greatest niceness there is.
const STANDING_BACK: libc::c_int = 19;
/// It hardly runs when it gets less than this part of the time that it wants to run, over a window of so many nanoseconds.
const PART_MIN: u64 = 10;
const WINDOW_NS: u64 = 100_000_000;
/// How long it then stays forward, in nanoseconds that it wants to run: twice as long each time that it was of no use to stand back again.
const FORWARD_NS_MIN: u64 = 1_000_000_000;
const FORWARD_NS_MAX: u64 = 16_000_000_000;

/// One piece of work, on the thread that does it.
#[derive(Debug)]
pub struct StandingBack {
    schedule: File,
    /// The niceness that the thread had.
    before: libc::c_int,
    state: State,
}

/// How long a thread has run, and has waited for a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    ran_ns: u64,
    waited_ns: u64,
}

#[derive(Debug)]
struct State {
    /// The least that it comes forward to.
    urgent: libc::c_int,
    niceness: libc::c_int,
    since: Times,
    forward_ns: u64,
}

impl StandingBack {
    /// The calling thread stands back from now on, until this is dropped. `None` if it has not given way, or could not come forward
    /// again: that takes the right to a niceness of 10 (`RLIMIT_NICE`, `CAP_SYS_NICE`), and a process that was not started with a greater one.
    pub fn begin() -> Option<Self> {
        let before = niceness(0);
        if before < GIVING_WAY {
            return None;
        }
        // Before niceness is tried: where there is no such file it may be that of the whole process.
        let schedule = File::open(SCHEDULE).ok()?;
        if !may_come_forward() {
            return None;
        }
        let since = times(&schedule).ok()?;
        set_niceness(STANDING_BACK);
        let state = State {
            urgent: i32::midpoint(niceness(std::process::id()), GIVING_WAY),
            niceness: STANDING_BACK,
            since,
            forward_ns: FORWARD_NS_MIN,
        };
        Some(StandingBack {
            schedule,
            before,
            state,
        })
    }

    /// Looks how the thread gets on; to be asked every few milliseconds of work.
    /// The more urgent the work is, from 0 to 1, the further it comes forward, up to halfway to those that answer.
    pub fn look(&mut self, urgency: f64) {
        let Ok(now) = times(&self.schedule) else {
            return;
        };
        if let Some(niceness) = self.state.look(now, urgency) {
            // The right to come so far may be missing.
            set_niceness(niceness.max(GIVING_WAY));
            set_niceness(niceness);
        }
    }
}

impl Drop for StandingBack {
    fn drop(&mut self) {
        set_niceness(self.before);
    }
}

impl State {
    /// Returns its niceness from now on, if that changes.
    fn look(&mut self, now: Times, urgency: f64) -> Option<libc::c_int> {
        let before = self.niceness;
        if urgency > 0.0 {
            let steps = f64::from(GIVING_WAY - self.urgent) * urgency.min(1.0);
            self.niceness = GIVING_WAY - steps.round() as libc::c_int;
            self.since = now;
        } else if before < GIVING_WAY {
            self.niceness = STANDING_BACK;
            self.since = now;
        } else {
            self.look_at_progress(now);
        }
        (self.niceness != before).then_some(self.niceness)
    }

    fn look_at_progress(&mut self, now: Times) {
        let is_back = self.niceness == STANDING_BACK;
        let ran_ns = now.ran_ns.saturating_sub(self.since.ran_ns);
        let wanted_ns = ran_ns + now.waited_ns.saturating_sub(self.since.waited_ns);
        if wanted_ns < if is_back { WINDOW_NS } else { self.forward_ns } {
            return;
        }
        self.since = now;
        if !is_back {
            self.forward_ns = (2 * self.forward_ns).min(FORWARD_NS_MAX);
            self.niceness = STANDING_BACK;
        } else if ran_ns < wanted_ns / PART_MIN {
            self.niceness = GIVING_WAY;
        } else {
            self.forward_ns = FORWARD_NS_MIN;
        }
    }
}

fn times(schedule: &File) -> io::Result<Times> {
    let mut text = [0; 64];
    let length = schedule.read_at(&mut text, 0)?;
    let text = std::str::from_utf8(&text[..length]).map_err(io::Error::other)?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(ran_ns), Some(waited_ns)) => Ok(Times { ran_ns, waited_ns }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Tried once, by a thread that is there for it.
fn may_come_forward() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let tried = thread::spawn(|| {
            set_niceness(STANDING_BACK);
            set_niceness(GIVING_WAY);
            niceness(0) == GIVING_WAY
        });
        niceness(std::process::id()) <= GIVING_WAY && tried.join().unwrap_or(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            urgent: 5,
            niceness: STANDING_BACK,
            since: Times::default(),
            forward_ns: FORWARD_NS_MIN,
        }
    }

    /// Runs `part` in a hundred of the time that it wants to for so long, and looks every 10 ms.
    fn run(state: &mut State, now: &mut Times, part: u64, wanted_ns: u64) -> Vec<libc::c_int> {
        const STEP_NS: u64 = 10_000_000;
        let changes = (0..wanted_ns / STEP_NS).filter_map(|_| {
            now.ran_ns += STEP_NS * part / 100;
            now.waited_ns += STEP_NS * (100 - part) / 100;
            state.look(*now, 0.0)
        });
        changes.collect()
    }

    #[test]
    fn it_stands_back_as_long_as_it_gets_on() {
        let (mut state, mut now) = (state(), Times::default());
        assert_eq!(run(&mut state, &mut now, 15, 10_000_000_000), []);
        assert_eq!(run(&mut state, &mut now, 100, 10_000_000_000), []);
    }

    #[test]
    fn it_comes_forward_where_it_hardly_runs_and_ever_longer() {
        let (mut state, mut now) = (state(), Times::default());
        assert_eq!(run(&mut state, &mut now, 1, 100_000_000), [GIVING_WAY]);
        assert_eq!(run(&mut state, &mut now, 1, 990_000_000), []);
        assert_eq!(run(&mut state, &mut now, 1, 10_000_000), [STANDING_BACK]);
        assert_eq!(run(&mut state, &mut now, 1, 100_000_000), [GIVING_WAY]);
        assert_eq!(run(&mut state, &mut now, 1, 1_990_000_000), []);
        assert_eq!(run(&mut state, &mut now, 1, 10_000_000), [STANDING_BACK]);
        let changes = run(&mut state, &mut now, 1, 100_000_000_000);
        assert_eq!(changes.len(), 15, "4, 8 and 16 s, and a tenth between them");
        run(&mut state, &mut now, 100, 20_000_000_000);
        assert_eq!(
            (state.niceness, state.forward_ns),
            (STANDING_BACK, FORWARD_NS_MIN)
        );
    }

    #[test]
    fn the_more_urgent_it_is_the_further_it_comes() {
        let (mut state, now) = (state(), Times::default());
        let looks = [0.1, 0.5, 0.5, 1.0, 7.0, 0.02, 0.0, 0.0].map(|urgency| state.look(now, urgency));
        let expected = [Some(9), Some(7), None, Some(5), None, Some(10), None, None];
        assert_eq!(looks, expected);
        state.look(now, 0.5);
        assert_eq!(state.look(now, 0.0), Some(STANDING_BACK));
        state.urgent = GIVING_WAY;
        assert_eq!(state.look(now, 1.0), Some(10), "the process itself gives way");
    }

    #[test]
    fn a_thread_that_answers_does_not_stand_back() {
        let began = thread::spawn(|| {
            let before = niceness(0);
            let began = StandingBack::begin().is_some();
            (before, began, niceness(0))
        });
        let (before, began, after) = began.join().unwrap();
        assert!(before >= GIVING_WAY || !began && before == after);
    }

    #[test]
    fn a_thread_that_gives_way_stands_back_where_it_can_come_forward() {
        let stood = thread::spawn(|| {
            crate::give_way();
            let before = niceness(0);
            match StandingBack::begin() {
                None => niceness(0) == before && !(File::open(SCHEDULE).is_ok() && may_come_forward()),
                Some(mut standing) => {
                    standing.look(0.0);
                    let during = niceness(0);
                    drop(standing);
                    (during, niceness(0)) == (STANDING_BACK, before)
                }
            }
        });
        assert!(stood.join().unwrap());
    }
}
