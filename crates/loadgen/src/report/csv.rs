//! The seconds of a run as CSV.

use std::fmt::Write as _;

use super::Report;

pub fn to_csv(report: &Report) -> String {
    let mut csv = "at_s,ops_per_s,errors,p50_us,p99_us,p999_us,throttle_limit,in_flight,waiting\n".to_owned();
    for second in &report.seconds {
        let limit = second
            .throttle_limit
            .map_or(String::new(), |limit| limit.to_string());
        let _infallible = writeln!(
            csv,
            "{:.1},{:.0},{},{},{},{},{limit},{},{}",
            second.at_s,
            second.ops_per_s,
            second.errors,
            second.p50_us,
            second.p99_us,
            second.p999_us,
            second.in_flight,
            second.waiting
        );
    }
    csv
}
