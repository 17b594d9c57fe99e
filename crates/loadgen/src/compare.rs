//! Two reports side by side: what has changed, and whether that is noise.
//!
//! The figures are those that the reports give of their whole runs. Whether they differ is told by their seconds, which are
//! samples: two means of seconds differ by more than noise if Welch's t-test says so at 1%; a tail percentile of a second is
//! a sample of its own.

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
    FIGURES
        .iter()
        .map(|figure| {
            let (whole_before, whole_after) = ((figure.whole)(before), (figure.whole)(after));
            let samples = figure.second.map(|second| {
                let of = |report: &Report| whole_seconds(report).iter().map(second).collect::<Vec<_>>();
                (of(before), of(after))
            });
            Difference {
                figure: figure.name,
                unit: figure.unit,
                before: whole_before,
                after: whole_after,
                change: (whole_after - whole_before) / whole_before.abs().max(1e-9),
                verdict: match samples {
                    _ if whole_before == whole_after => Verdict::Noise,
                    Some((before, after)) => verdict(figure.is_more_better, &before, &after),
                    None => Verdict::Unknown,
                },
            }
        })
        .collect()
}

/// Figure that two reports are compared by.
struct Figure {
    name: &'static str,
    unit: &'static str,
    is_more_better: bool,
    /// Value over the whole run, as the report prints it.
    whole: fn(&Report) -> f64,
    /// Value in one second.
    second: Option<fn(&ReportSecond) -> f64>,
}

const FIGURES: [Figure; 6] = [
    Figure {
        name: "throughput",
        unit: "ops/s",
        is_more_better: true,
        whole: |report| report.ops_per_s,
        second: Some(|second| second.ops_per_s),
    },
    Figure {
        name: "p50",
        unit: "us",
        is_more_better: false,
        whole: |report| report.latency_us.p50 as f64,
        second: Some(|second| second.p50_us as f64),
    },
    Figure {
        name: "p99",
        unit: "us",
        is_more_better: false,
        whole: |report| report.latency_us.p99 as f64,
        second: Some(|second| second.p99_us as f64),
    },
    Figure {
        name: "p99.9",
        unit: "us",
        is_more_better: false,
        whole: |report| report.latency_us.p999 as f64,
        second: Some(|second| second.p999_us as f64),
    },
    Figure {
        name: "errors",
        unit: "in all",
        is_more_better: false,
        whole: |report| report.errors as f64,
        second: Some(|second| second.errors as f64),
    },
    Figure {
        name: "client CPU",
        unit: "us/op",
        is_more_better: false,
        whole: |report| report.client_cpu_us_per_op,
        second: None,
    },
];

/// The last second is cut short by the end.
fn whole_seconds(report: &Report) -> &[ReportSecond] {
    let seconds = &report.seconds[..];
    seconds.split_last().map_or(seconds, |(_, whole)| whole)
}

/// Judges the difference between two runs by the values of their seconds.
fn verdict(is_more_better: bool, before: &[f64], after: &[f64]) -> Verdict {
    let (mean_before, variance_before) = mean_and_variance(before);
    let (mean_after, variance_after) = mean_and_variance(after);
    let gain = mean_after - mean_before;
    if gain == 0.0 {
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
        let verdict = |before: &[f64], after: &[f64]| verdict(true, before, after);
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

    /// The mean of the seconds' p99 was printed as the run's p99.
    #[test]
    fn the_figures_are_those_of_the_reports() {
        let report = |p99: u64, ops_per_s: f64| {
            let second = ReportSecond {
                ops_per_s: 1.0,
                p99_us: 1,
                ..ReportSecond::default()
            };
            let mut report: Report = serde_json::from_str(EMPTY).unwrap();
            report.latency_us.p99 = p99;
            report.ops_per_s = ops_per_s;
            report.seconds = vec![second; 20];
            report
        };
        let differences = compare(&report(500, 10.0), &report(600, 20.0));
        let told: Vec<_> = differences
            .iter()
            .map(|difference| (difference.figure, difference.before, difference.after))
            .filter(|(figure, ..)| ["throughput", "p99"].contains(figure))
            .collect();
        assert_eq!(told, [("throughput", 10.0, 20.0), ("p99", 500.0, 600.0)]);
    }

    const EMPTY: &str = r#"{"workload": "w", "mode": "m", "workers": 1, "threads": 1, "elapsed_s": 1.0, "ops": 0,
        "errors": 0, "errors_by_kind": {}, "error_samples": {}, "unsent": 0, "ops_per_s": 0.0,
        "latency_us": {"mean": 0.0, "p50": 0, "p90": 0, "p95": 0, "p99": 0, "p999": 0, "max": 0}, "spectrum": [],
        "client_cpu_s": 0.0, "client_cpu_us_per_op": 0.0, "generator_us_per_op": 0.0, "client_resident_bytes_max": 0,
        "sent_again": 0, "retried": 0, "refused": 0, "seconds": []}"#;
}
