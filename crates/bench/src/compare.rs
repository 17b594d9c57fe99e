//! Two reports side by side: what has changed, and whether that is noise.
//!
//! Seconds of a run are its samples. Two means differ by more than noise if Welch's t-test says so at 1%; a tail
//! percentile of a second is a sample of its own.

use std::fmt::Write as _;

use serde::Serialize;

use crate::report::{Report, ReportSecond};

/// One figure of two runs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub figure: &'static str,
    pub unit: &'static str,
    pub before: f64,
    pub after: f64,
    /// Relative to before.
    pub change: f64,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Noise,
    Better,
    Worse,
    /// Too few seconds to tell, or a figure without a series.
    Unknown,
}

/// Fewer seconds than this tell nothing of their spread.
const SECONDS_MIN: usize = 5;

pub fn compare(before: &Report, after: &Report) -> Vec<Difference> {
    let series = |figure, unit, is_more_better, value: fn(&ReportSecond) -> f64| {
        let of = |report: &Report| whole_seconds(report).iter().map(value).collect::<Vec<_>>();
        difference(figure, unit, is_more_better, &of(before), &of(after))
    };
    let single = |figure, unit, before: f64, after: f64| Difference {
        figure,
        unit,
        before,
        after,
        change: (after - before) / before.abs().max(1e-9),
        verdict: if before == after {
            Verdict::Noise
        } else {
            Verdict::Unknown
        },
    };
    vec![
        series("throughput", "ops/s", true, |second| second.ops_per_s),
        series("p50", "us", false, |second| second.p50_us as f64),
        series("p99", "us", false, |second| second.p99_us as f64),
        series("p99.9", "us", false, |second| second.p999_us as f64),
        series("errors", "/s", false, |second| second.errors as f64),
        single(
            "client CPU",
            "us/op",
            before.client_cpu_us_per_op,
            after.client_cpu_us_per_op,
        ),
    ]
}

/// The last second is cut short by the end.
fn whole_seconds(report: &Report) -> &[ReportSecond] {
    let seconds = &report.seconds[..];
    seconds.split_last().map_or(seconds, |(_, whole)| whole)
}

fn difference(
    figure: &'static str,
    unit: &'static str,
    is_more_better: bool,
    before: &[f64],
    after: &[f64],
) -> Difference {
    let (mean_before, variance_before) = mean_and_variance(before);
    let (mean_after, variance_after) = mean_and_variance(after);
    let gain = mean_after - mean_before;
    let verdict = if gain == 0.0 {
        Verdict::Noise
    } else if before.len() < SECONDS_MIN || after.len() < SECONDS_MIN {
        Verdict::Unknown
    } else if !differs(
        gain,
        variance_before / before.len() as f64,
        variance_after / after.len() as f64,
        before.len(),
        after.len(),
    ) {
        Verdict::Noise
    } else if (gain > 0.0) == is_more_better {
        Verdict::Better
    } else {
        Verdict::Worse
    };
    Difference {
        figure,
        unit,
        before: mean_before,
        after: mean_after,
        change: gain / mean_before.abs().max(1e-9),
        verdict,
    }
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0).max(1.0))
}

/// Welch's test at 1%, two-sided. `a` and `b` are the variances of the means.
fn differs(gain: f64, a: f64, b: f64, count_a: usize, count_b: usize) -> bool {
    let error = (a + b).sqrt();
    if error == 0.0 {
        return true;
    }
    let freedom = (a + b).powi(2)
        / (a * a / (count_a as f64 - 1.0) + b * b / (count_b as f64 - 1.0)).max(f64::MIN_POSITIVE);
    gain.abs() / error > critical_t(freedom)
}

/// Student's t at 0.5% a side, after Cornish and Fisher's expansion about the normal quantile.
fn critical_t(freedom: f64) -> f64 {
    const NORMAL: f64 = 2.575_829_3;
    let freedom = freedom.max(3.0);
    let cube = NORMAL.powi(3);
    let fifth = NORMAL.powi(5);
    NORMAL
        + (cube + NORMAL) / (4.0 * freedom)
        + (5.0 * fifth + 16.0 * cube + 3.0 * NORMAL) / (96.0 * freedom * freedom)
}

pub fn to_text(differences: &[Difference]) -> String {
    let mut text = format!(
        "{:<12}{:>14}{:>14}{:>10}  verdict\n",
        "", "before", "after", "change"
    );
    for difference in differences {
        let verdict = match difference.verdict {
            Verdict::Noise => "noise",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Unknown => "not enough seconds to tell",
        };
        let _infallible = writeln!(
            text,
            "{:<12}{:>14.1}{:>14.1}{:>+9.1}%  {verdict}  ({})",
            difference.figure,
            difference.before,
            difference.after,
            100.0 * difference.change,
            difference.unit
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(mean: f64, spread: f64, seed: u64) -> Vec<f64> {
        let mut random = crate::workload::Random::new(seed);
        (0..30)
            .map(|_| mean + spread * (random.fraction() + random.fraction() - 1.0))
            .collect()
    }

    #[test]
    fn noise_is_told_from_change() {
        let verdict = |before: &[f64], after: &[f64]| difference("x", "", true, before, after).verdict;
        let base = samples(1000.0, 50.0, 1);
        assert_eq!(verdict(&base, &samples(1000.0, 50.0, 2)), Verdict::Noise);
        assert_eq!(verdict(&base, &samples(1100.0, 50.0, 3)), Verdict::Better);
        assert_eq!(verdict(&base, &samples(900.0, 50.0, 4)), Verdict::Worse);
        assert_eq!(verdict(&base, &samples(1000.0, 900.0, 5)), Verdict::Noise);
        assert_eq!(verdict(&base[..3], &samples(2000.0, 1.0, 6)), Verdict::Unknown);
        assert_eq!(verdict(&base, &base), Verdict::Noise);
    }

    #[test]
    fn critical_values_are_students() {
        // Tables: 3.169 for 10 degrees of freedom, 2.750 for 30.
        assert!((critical_t(10.0) - 3.169).abs() < 0.02);
        assert!((critical_t(30.0) - 2.750).abs() < 0.005);
    }
}
