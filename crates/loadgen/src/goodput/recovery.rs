//! How long an overload is felt once it is over, at half of the capacity.

use std::ops::ControlFlow;
use std::time::Duration;

use super::load::{Load, Phase};
use super::recorder::{Recorder, WINDOW_US, recovery_ms};
use super::report::{Curve, Recovery};
use super::wire::WireError;
use super::{Doing, GoodputOptions};
use crate::quiet::{SLICE_US, Watch};
use crate::run::process_usage_of;

/// Load before and after an overload whose recovery is measured, as a share of the capacity.
const CALM: f64 = 0.5;

/// Windows of the calm second before an overload that are looked at, by index.
const CALM_WINDOWS: std::ops::Range<usize> = 20..100;

/// How often a recovery is looked at without anything that disturbs it ...
const RECOVERIES: usize = 7;

/// ... and how often at most.
const RECOVERY_TRIES: usize = 21;

/// An overload before a recovery, but for the first.
const OVERLOAD_MAX: Duration = Duration::from_secs(2);

/// Between two looks at the server's memory, in microseconds.
const RESIDENT_US: u32 = 250_000;

/// From 1.4 times the capacity for a second, and from ten times for as long as is asked for.
pub fn recover(
    options: &GoodputOptions,
    load: &mut Load,
    curve: &mut Curve,
    doing: &mut Doing<'_>,
) -> Result<(), WireError> {
    for (multiple, length) in [(1.4, Duration::from_secs(1)), (10.0, options.overload)] {
        doing(
            &format!("{}: recovery from {multiple} x", curve.workload.name()),
            0.95,
        );
        recover_from(options, load, curve, multiple, length)?;
    }
    Ok(())
}

/// Measures a recovery some times; what the hypervisor disturbed does not count, unless everything was.
fn recover_from(
    options: &GoodputOptions,
    load: &mut Load,
    curve: &mut Curve,
    multiple: f64,
    length: Duration,
) -> Result<(), WireError> {
    let mut looks: Vec<Recovery> = Vec::new();
    let is_quiet = |look: &Recovery| !look.is_disturbed;
    for number in 0..RECOVERY_TRIES {
        let overload = if number == 0 {
            length
        } else {
            length.min(OVERLOAD_MAX)
        };
        let (look, resident) = recover_once(options, load, curve.capacity_per_s, multiple, overload)?;
        looks.push(look);
        if number == 0 {
            curve.resident = resident;
        }
        if looks.iter().filter(|look| is_quiet(look)).count() >= RECOVERIES {
            break;
        }
    }
    if looks.iter().any(is_quiet) {
        looks.retain(is_quiet);
    }
    curve.recoveries.push(Recovery {
        overload_s: length.as_secs_f64(),
        ..of_all(&looks)
    });
    Ok(())
}

fn recover_once(
    options: &GoodputOptions,
    load: &mut Load,
    capacity_per_s: f64,
    multiple: f64,
    length: Duration,
) -> Result<(Recovery, Vec<(f64, u64)>), WireError> {
    let phase = |multiple: f64, length: Duration| Phase {
        per_s: vec![multiple * capacity_per_s],
        length,
    };
    let calm = Duration::from_secs(1);
    let phases = [phase(CALM, calm), phase(multiple, length), phase(CALM, calm)];
    let from_us = load.now_us();
    let until_us = from_us + (calm * 2 + length).as_micros() as u32;
    let mut recorder = Recorder::in_windows(from_us, until_us, options.deadline.as_micros() as u32);
    let mut watch = Watch::new(None, from_us, 0, usize::MAX);
    let mut resident = Vec::new();
    let mut look_at_us = from_us;
    load.open(&phases, std::slice::from_mut(&mut recorder), |now_us| {
        if let Some(pid) = options.server_pid
            && now_us >= look_at_us
        {
            look_at_us = now_us + RESIDENT_US;
            let at_s = f64::from(now_us - from_us) / 1e6;
            resident.push((at_s, process_usage_of(&pid.to_string()).resident_bytes));
        }
        let _never_enough: ControlFlow<()> = watch.look(now_us);
        ControlFlow::Continue(())
    })?;
    let end_us = (calm + length).as_micros() as u32;
    // It begins as an idle server does.
    let before = recorder.windows.get(CALM_WINDOWS).unwrap_or_default();
    let abnormal = before.iter().filter(|window| window.bad() > 0).count();
    let recovery_ms = recovery_ms(&recorder.windows, (end_us / WINDOW_US) as usize);
    let normal_us = end_us + recovery_ms.map_or(800_000, |ms| ms * 1_000);
    let recovery = Recovery {
        multiple,
        overload_s: length.as_secs_f64(),
        recovery_ms,
        all_ms: vec![recovery_ms],
        abnormal_before: abnormal as f64 / before.len().max(1) as f64,
        is_disturbed: (end_us / SLICE_US..=normal_us / SLICE_US).any(|slice| !watch.is_quiet(slice as usize)),
    };
    Ok((recovery, resident))
}

/// The median of some looks at the same overload; one that never recovered is longer than any.
fn of_all(looks: &[Recovery]) -> Recovery {
    let mut all_ms: Vec<Option<u32>> = looks.iter().map(|look| look.recovery_ms).collect();
    all_ms.sort_by_key(|ms| ms.unwrap_or(u32::MAX));
    let abnormal: f64 = looks.iter().map(|look| look.abnormal_before).sum();
    Recovery {
        multiple: looks.first().map_or(0.0, |look| look.multiple),
        overload_s: looks.first().map_or(0.0, |look| look.overload_s),
        recovery_ms: all_ms.get(all_ms.len() / 2).copied().flatten(),
        abnormal_before: abnormal / looks.len().max(1) as f64,
        is_disturbed: looks.iter().any(|look| look.is_disturbed),
        all_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_told_by_its_median_and_its_worst() {
        let look = |recovery_ms| Recovery {
            multiple: 1.4,
            overload_s: 1.0,
            recovery_ms,
            all_ms: vec![recovery_ms],
            abnormal_before: 0.25,
            is_disturbed: false,
        };
        let of = |looks: &[Option<u32>]| of_all(&looks.iter().map(|ms| look(*ms)).collect::<Vec<_>>());
        let three = of(&[Some(60), Some(0), Some(10)]);
        assert_eq!((three.recovery_ms, three.worst_ms()), (Some(10), Some(60)));
        assert_eq!(three.abnormal_before, 0.25);
        let never = of(&[None, Some(0), Some(10)]);
        assert_eq!((never.recovery_ms, never.worst_ms()), (Some(10), None));
    }
}
