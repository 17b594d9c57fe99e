//! Disturbances of a server that does four fifths of what it can: nothing, a stop of its process, or a burst of requests.

use std::ops::ControlFlow;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::load::{Load, Phase};
use super::measure::closed;
use super::recorder::{Recorder, WINDOW_US, Window};
use super::report::{Disturbance, DisturbanceKind, DisturbedWindow};
use super::wire::WireError;
use super::workload::GoodputWorkload;
use super::{Doing, GoodputOptions};
use crate::quiet::{SLICE_US, Watch};

/// Load before and after, as a share of the capacity.
const LOAD: f64 = 0.8;

/// How long the process is stopped.
const STALL: Duration = Duration::from_millis(200);

/// Load of a burst, as a share of the capacity, and its length.
const BURST_LOAD: f64 = 1.4;
const BURST: Duration = Duration::from_secs(1);

/// Looked at before something happens, behind the warm-up, ...
const BEFORE: Duration = Duration::from_secs(1);

/// ... and after it.
const AFTER: Duration = Duration::from_secs(3);

/// Windows of the result.
const SHOWN_MS: u32 = 100;

/// Windows of the result of a load to which nothing happens.
const SHOWN_STEADY_MS: u32 = 1_000;

/// So many looks in which the hypervisor disturbed something are made again.
const STOLEN_LOOKS_MAX: u32 = 10;

/// When what happens.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    phases: [(f64, Duration); 3],
    /// Which part of the middle phase's time the process is stopped.
    is_stopped: bool,
    /// Length of the load's beginning, which is not looked at.
    warm_up: Duration,
    shown_ms: u32,
}

impl Plan {
    fn of(kind: DisturbanceKind, options: &GoodputOptions) -> Plan {
        let (before, warm_up) = (options.warm_up + BEFORE, options.warm_up);
        match kind {
            DisturbanceKind::Steady => Plan {
                phases: [(LOAD, warm_up), (LOAD, Duration::ZERO), (LOAD, options.steady)],
                is_stopped: false,
                warm_up,
                shown_ms: SHOWN_STEADY_MS,
            },
            DisturbanceKind::Stall => Plan {
                phases: [(LOAD, before), (LOAD, STALL), (LOAD, AFTER)],
                is_stopped: true,
                warm_up,
                shown_ms: SHOWN_MS,
            },
            DisturbanceKind::Burst => Plan {
                phases: [(LOAD, before), (BURST_LOAD, BURST), (LOAD, AFTER)],
                is_stopped: false,
                warm_up,
                shown_ms: SHOWN_MS,
            },
        }
    }

    fn begins_us(&self) -> u32 {
        self.phases[0].1.as_micros() as u32
    }

    fn ends_us(&self) -> u32 {
        self.begins_us() + self.phases[1].1.as_micros() as u32
    }

    fn whole_us(&self) -> u32 {
        self.ends_us() + self.phases[2].1.as_micros() as u32
    }
}

/// A process that goes on at the latest when this is dropped.
struct Stopper {
    process: Pid,
    is_stopped: bool,
}

impl Stopper {
    fn of(process_id: Option<u32>) -> Result<Self, WireError> {
        let process = process_id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let process = process.ok_or(WireError::NoProcess)?;
        Ok(Stopper {
            process,
            is_stopped: false,
        })
    }

    fn set(&mut self, is_stopped: bool) {
        if self.is_stopped != is_stopped {
            let signal = if is_stopped { Signal::Stop } else { Signal::Cont };
            // A process that is gone is noticed by its connections.
            let _gone = kill_process(self.process, signal);
            self.is_stopped = is_stopped;
        }
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Makes each of these happen as often as is asked for, by one capacity.
pub fn disturb_all(
    options: &GoodputOptions,
    workload: GoodputWorkload,
    load: &mut Load,
    doing: &mut Doing<'_>,
) -> Result<Vec<Disturbance>, WireError> {
    doing(&format!("{}: capacity", workload.name()), 0.05);
    let capacity_per_s = match options.capacity_per_s {
        Some(per_s) => per_s.max(1.0),
        None => closed(options, load)?,
    };
    let kinds = options.disturbances.iter();
    kinds
        .map(|kind| disturb(options, workload, *kind, capacity_per_s, load, doing))
        .collect()
}

fn disturb(
    options: &GoodputOptions,
    workload: GoodputWorkload,
    kind: DisturbanceKind,
    capacity_per_s: f64,
    load: &mut Load,
    doing: &mut Doing<'_>,
) -> Result<Disturbance, WireError> {
    let name = workload.name();
    let plan = Plan::of(kind, options);
    let looks_wanted = if kind == DisturbanceKind::Steady {
        1
    } else {
        options.looks.max(1)
    };
    let (mut quiet, mut stolen) = (Vec::new(), Vec::new());
    while quiet.len() < looks_wanted as usize && stolen.len() < STOLEN_LOOKS_MAX as usize {
        let share = quiet.len() as f64 / f64::from(looks_wanted);
        doing(
            &format!("{name}: {kind:?}, {capacity_per_s:.0}/s"),
            0.1 + 0.9 * share,
        );
        let (windows, is_quiet) = look(options, plan, capacity_per_s, load)?;
        if is_quiet || kind == DisturbanceKind::Steady {
            quiet.push(windows);
        } else {
            stolen.push(windows);
        }
    }
    let looks_stolen = stolen.len() as u32;
    let looks = if quiet.is_empty() { stolen } else { quiet };
    Ok(Disturbance {
        workload,
        kind,
        capacity_per_s,
        load: LOAD,
        meanwhile: if plan.is_stopped { 0.0 } else { plan.phases[1].0 },
        length_ms: plan.phases[1].1.as_millis() as u32,
        window_ms: plan.shown_ms,
        windows: shown(&looks, plan),
        unrefused_from_ms: unrefused_from_ms(&looks, plan),
        refused_until_ms: until_ms(&looks, plan, |window| window.refused > 0),
        bad_until_ms: until_ms(&looks, plan, |window| window.bad() > 0),
        looks_stolen,
    })
}

/// The windows of one look, and whether the hypervisor left the machine alone from the disturbance on.
fn look(
    options: &GoodputOptions,
    plan: Plan,
    capacity_per_s: f64,
    load: &mut Load,
) -> Result<(Vec<Window>, bool), WireError> {
    let phases = plan.phases.map(|(multiple, length)| Phase {
        per_s: vec![multiple * capacity_per_s],
        length,
    });
    let mut stopper = match plan.is_stopped {
        true => Some(Stopper::of(options.server_pid)?),
        false => None,
    };
    let from_us = load.now_us();
    let deadline_us = options.deadline.as_micros() as u32;
    let mut recorder = Recorder::in_windows(from_us, from_us + plan.whole_us(), deadline_us);
    let mut watch = Watch::new(None, from_us, 0, usize::MAX);
    load.open(&phases, std::slice::from_mut(&mut recorder), |now_us| {
        let at_us = now_us - from_us;
        if let Some(stopper) = &mut stopper {
            stopper.set((plan.begins_us()..plan.ends_us()).contains(&at_us));
        }
        let _never_enough: ControlFlow<()> = watch.look(now_us);
        ControlFlow::Continue(())
    })?;
    let slices = plan.begins_us() / SLICE_US..plan.whole_us() / SLICE_US - 1;
    let is_quiet = slices.into_iter().all(|slice| watch.is_quiet(slice as usize));
    Ok((recorder.windows, is_quiet))
}

/// All looks together, in windows that are wide enough to be read.
fn shown(looks: &[Vec<Window>], plan: Plan) -> Vec<DisturbedWindow> {
    let per_shown = (plan.shown_ms * 1_000 / WINDOW_US) as usize;
    let first = (plan.warm_up.as_micros() as u32 / WINDOW_US) as usize;
    let last = (plan.whole_us() / WINDOW_US) as usize;
    let end = i64::from(plan.ends_us() / WINDOW_US);
    let starts = (first..last).step_by(per_shown);
    starts
        .map(|start| {
            let from_ms = (start as i64 - end) * i64::from(WINDOW_US / 1_000);
            let mut shown = DisturbedWindow {
                from_ms: from_ms as i32,
                ..DisturbedWindow::default()
            };
            let of_looks = looks.iter().filter_map(|look| look.get(start..));
            for window in of_looks.flat_map(|look| look.iter().take(per_shown.min(last - start))) {
                shown.good += u64::from(window.good);
                shown.late += u64::from(window.late);
                shown.refused += u64::from(window.refused);
                shown.failed += u64::from(window.failed);
                shown.unsent += u64::from(window.unsent);
            }
            shown
        })
        .collect()
}

/// How long after the disturbance so much time without a refusal began that it is shown as a window.
fn unrefused_from_ms(looks: &[Vec<Window>], plan: Plan) -> Vec<Option<u32>> {
    let (end, last) = (plan.ends_us() / WINDOW_US, plan.whole_us() / WINDOW_US);
    let from = |look: &Vec<Window>| {
        let mut after = look
            .get(end as usize..last as usize)?
            .windows((SLICE_US / WINDOW_US) as usize);
        let first = after.position(|some| some.iter().all(|window| window.refused == 0))?;
        Some(first as u32 * WINDOW_US / 1_000)
    };
    sorted(looks.iter().map(from).collect())
}

fn sorted(mut all: Vec<Option<u32>>) -> Vec<Option<u32>> {
    all.sort_by_key(|ms| ms.unwrap_or(u32::MAX));
    all
}

/// How long after the disturbance there were such windows; `None` where the last tenth of a second that was looked at still has one.
fn until_ms(looks: &[Vec<Window>], plan: Plan, is_such: fn(&Window) -> bool) -> Vec<Option<u32>> {
    let (end, last) = (plan.ends_us() / WINDOW_US, plan.whole_us() / WINDOW_US);
    let until = |look: &Vec<Window>| {
        let after = look.get(end as usize..last as usize)?;
        let count = after.iter().rposition(is_such).map_or(0, |place| place + 1);
        let is_over = after.len() - count >= (SLICE_US / WINDOW_US) as usize;
        is_over.then_some(count as u32 * WINDOW_US / 1_000)
    };
    sorted(looks.iter().map(until).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            phases: [
                (LOAD, Duration::from_millis(300)),
                (LOAD, STALL),
                (LOAD, Duration::from_millis(500)),
            ],
            is_stopped: true,
            warm_up: Duration::from_millis(100),
            shown_ms: SHOWN_MS,
        }
    }

    /// Refused so many windows long after the stall of [`plan`].
    fn windows(refused: usize) -> Vec<Window> {
        let mut windows = vec![
            Window {
                good: 10,
                ..Window::default()
            };
            101
        ];
        for window in &mut windows[30..50] {
            *window = Window {
                late: 10,
                ..Window::default()
            };
        }
        for window in &mut windows[50..50 + refused] {
            *window = Window {
                refused: 1,
                good: 9,
                ..Window::default()
            };
        }
        windows
    }

    #[test]
    fn windows_are_counted_from_the_end_of_the_disturbance_without_the_warm_up() {
        let shown = shown(&[windows(5), windows(0)], plan());
        let starts: Vec<i32> = shown.iter().map(|window| window.from_ms).collect();
        assert_eq!(starts, [-400, -300, -200, -100, 0, 100, 200, 300, 400]);
        assert!(shown.iter().all(|window| window.due() == 200));
        assert_eq!(shown[2].share(shown[2].late), 1.0);
        assert_eq!(shown[4].share(shown[4].refused), 0.025);
        assert_eq!(shown[5].refused, 0);
    }

    #[test]
    fn refusals_end_with_the_last_one() {
        let mut relapsed = windows(0);
        relapsed[70].refused = 1;
        let mut endless = windows(0);
        endless[95].refused = 1;
        let looks = [windows(5), endless, relapsed, windows(0)];
        let until = until_ms(&looks, plan(), |window| window.refused > 0);
        assert_eq!(until, [Some(0), Some(50), Some(210), None]);
        let mut refusing = windows(0);
        refusing[50..]
            .iter_mut()
            .step_by(9)
            .for_each(|window| window.refused = 1);
        let looks = [windows(5), windows(0), refusing];
        assert_eq!(unrefused_from_ms(&looks, plan()), [Some(0), Some(50), None]);
        // What was late during the stall was due before its end.
        let bad = until_ms(&looks[..1], plan(), |window| window.bad() > 0);
        assert_eq!(bad, [Some(50)]);
    }

    #[test]
    fn what_happens_to_the_server_begins_after_the_warm_up_and_a_second() {
        let options = GoodputOptions {
            warm_up: Duration::from_secs(1),
            ..GoodputOptions::default()
        };
        let burst = Plan::of(DisturbanceKind::Burst, &options);
        assert_eq!((burst.begins_us(), burst.ends_us()), (2_000_000, 3_000_000));
        assert_eq!(burst.whole_us(), 6_000_000);
        let steady = Plan::of(DisturbanceKind::Steady, &options);
        assert_eq!(
            steady.whole_us() - steady.ends_us(),
            options.steady.as_micros() as u32
        );
    }
}
