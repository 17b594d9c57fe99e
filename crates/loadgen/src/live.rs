//! Progress of a run while it runs: a live view on a terminal, lines elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use helenus_terminal::{Line, Place, Screen, Style, beside, boxed, columns, gauge};

use crate::chart::short_number;
use crate::report::duration;
use crate::run::{Measurement, Progress, Second};

/// Rows of the live view: its head, two charts, latencies and errors.
const HEAD_ROWS: usize = 3;
const CHART_ROWS: usize = 6;
const BODY_ROWS: usize = 7;

/// A live view if standard error is a terminal, lines if it is not.
pub fn for_this_terminal() -> Box<dyn Progress> {
    if io::stderr().is_terminal()
        && let Ok(view) = LiveView::start()
    {
        return Box::new(view);
    }
    Box::new(Lines::default())
}

/// Says nothing.
pub struct Quiet;

impl Progress for Quiet {
    fn doing(&mut self, _: &str, _: f64) {}

    fn second(&mut self, _: &Second, _: &Measurement) {}
}

/// A line for every second, for logs.
#[derive(Debug, Default)]
pub struct Lines {
    last: String,
}

impl Progress for Lines {
    fn doing(&mut self, what: &str, _: f64) {
        if self.last != what {
            eprintln!("{what} ...");
            self.last = what.to_owned();
        }
    }

    fn second(&mut self, second: &Second, _: &Measurement) {
        eprintln!(
            "{:>6.0} s  {:>8} ops/s  p50 {:>9}  p99 {:>9}  errors {}{}",
            second.at_s,
            short_number(second.ops as f64 / second.length_s.max(1e-9)),
            duration(second.latencies.p50),
            duration(second.latencies.p99),
            second.errors,
            limit_of(second)
        );
    }
}

fn limit_of(second: &Second) -> String {
    second
        .throttle_limit
        .map_or(String::new(), |limit| format!("  limit {limit}"))
}

/// Throughput, percentiles, errors by kind and the throttle, drawn anew each second. `q` ends the run.
pub(crate) struct LiveView {
    screen: Screen,
    doing: String,
    drawn: Instant,
    is_stopped: bool,
}

/// Between two drawings of a progress bar.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

impl LiveView {
    fn start() -> io::Result<Self> {
        Ok(LiveView {
            screen: Screen::start(Place::Inline)?,
            doing: String::new(),
            drawn: Instant::now(),
            is_stopped: false,
        })
    }
}

impl Progress for LiveView {
    fn doing(&mut self, what: &str, share: f64) {
        let is_new = self.doing != what;
        what.clone_into(&mut self.doing);
        if is_new || self.drawn.elapsed() > DRAW_INTERVAL {
            self.drawn = Instant::now();
            let (width, _) = self.screen.size();
            let bar = gauge(share, width.saturating_sub(2));
            self.screen.draw(boxed(&self.doing, vec![bar], width, HEAD_ROWS));
        }
    }

    fn second(&mut self, second: &Second, measured: &Measurement) {
        let (width, _) = self.screen.size();
        self.screen.draw(page(second, measured, width));
    }

    fn is_stopped(&mut self) -> bool {
        self.is_stopped |= self.screen.is_quit();
        self.is_stopped
    }
}

/// Lays one second of a run out on a terminal of this width.
fn page(second: &Second, measured: &Measurement, width: usize) -> Vec<Line> {
    let (left, right) = (width / 2, width - width / 2);
    let mut page = head(second, measured, width);
    page.extend(beside(
        series(" throughput ", Style::Blue, left, measured, |second| {
            (second.ops as f64 / second.length_s.max(1e-9)) as u64
        }),
        series(" p99 ", Style::Red, right, measured, |second| {
            second.latencies.p99
        }),
    ));
    page.extend(beside(
        boxed(" latency ", latencies(second), left, BODY_ROWS),
        boxed(" errors ", errors(measured), right, BODY_ROWS),
    ));
    page
}

fn head(second: &Second, measured: &Measurement, width: usize) -> Vec<Line> {
    let state = if second.at_s < 0.0 {
        format!("warming up, {:.0} s to go", -second.at_s)
    } else {
        format!("{:.0} s", second.at_s)
    };
    let title = format!(" {}  {state}  (q ends) ", measured.workload);
    let summary = format!(
        "{} ops/s   under way {}   waiting {}{}   sent again {}   refused {}",
        short_number(second.ops as f64 / second.length_s.max(1e-9)),
        second.in_flight,
        second.waiting,
        limit_of(second),
        measured.sent_again,
        measured.refused
    );
    boxed(&title, vec![Line::new(Style::Bold, summary)], width, HEAD_ROWS)
}

fn latencies(second: &Second) -> Vec<Line> {
    let latencies = &second.latencies;
    let rows = [
        ("p50", latencies.p50),
        ("p90", latencies.p90),
        ("p99", latencies.p99),
        ("p99.9", latencies.p999),
        ("max", latencies.max),
    ];
    rows.into_iter()
        .map(|(name, us)| Line::plain(format!("{name:<7}{:>12}", duration(us))))
        .collect()
}

fn errors(measured: &Measurement) -> Vec<Line> {
    let errors = &measured.totals.errors_by_kind;
    if errors.is_empty() {
        return vec![Line::plain("none")];
    }
    errors
        .iter()
        .map(|(kind, count)| Line::plain(format!("{count:>9}  {kind}")))
        .collect()
}

fn series(
    title: &str,
    style: Style,
    width: usize,
    measured: &Measurement,
    value: impl Fn(&Second) -> u64,
) -> Vec<Line> {
    let values: Vec<u64> = measured.seconds.iter().map(value).collect();
    let chart = columns(&values, style, width.saturating_sub(2), CHART_ROWS - 2);
    boxed(title, chart, width, CHART_ROWS)
}
