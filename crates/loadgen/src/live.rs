//! Progress of a run while it runs: a live view on a terminal, lines elsewhere.

use std::io::{self, IsTerminal, Stderr};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};
use ratatui::{Frame, TerminalOptions, Viewport};

use crate::chart::short_number;
use crate::report::duration;
use crate::run::{Measurement, Progress, Second};

/// Lines of the live view.
const HEIGHT: u16 = 16;

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
    terminal: Terminal<CrosstermBackend<Stderr>>,
    doing: String,
    share: f64,
    drawn: Instant,
    is_stopped: bool,
}

/// Between two drawings of a progress bar.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

impl LiveView {
    fn start() -> io::Result<Self> {
        enable_raw_mode()?;
        let options = TerminalOptions {
            viewport: Viewport::Inline(HEIGHT),
        };
        let terminal = Terminal::with_options(CrosstermBackend::new(io::stderr()), options);
        if terminal.is_err() {
            let _restored = disable_raw_mode();
        }
        Ok(LiveView {
            terminal: terminal?,
            doing: String::new(),
            share: 0.0,
            drawn: Instant::now(),
            is_stopped: false,
        })
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        // What is printed next goes below the last drawing. The terminal may be gone; there is nobody left to tell.
        let view = self.terminal.get_frame().area();
        let _below = self
            .terminal
            .set_cursor_position((0, view.bottom().saturating_sub(1)));
        let _shown = self.terminal.show_cursor();
        let _restored = disable_raw_mode();
        eprintln!();
    }
}

impl Progress for LiveView {
    fn doing(&mut self, what: &str, share: f64) {
        let is_new = self.doing != what;
        what.clone_into(&mut self.doing);
        self.share = share.clamp(0.0, 1.0);
        if is_new || self.drawn.elapsed() > DRAW_INTERVAL {
            self.drawn = Instant::now();
            let (doing, share) = (self.doing.clone(), self.share);
            // A frame that cannot be drawn is no reason to stop a run.
            let _drawn = self.terminal.draw(|frame| {
                let [top, _] =
                    Layout::vertical([Constraint::Length(3), Constraint::Min(0)]).areas(frame.area());
                let gauge = Gauge::default()
                    .block(Block::bordered().title(doing))
                    .gauge_style(Style::default().fg(Color::Blue))
                    .ratio(share);
                frame.render_widget(gauge, top);
            });
        }
    }

    fn second(&mut self, second: &Second, measured: &Measurement) {
        let _drawn = self.terminal.draw(|frame| draw(frame, second, measured));
    }

    fn is_stopped(&mut self) -> bool {
        while !self.is_stopped && event::poll(Duration::ZERO).unwrap_or(false) {
            if let Ok(Event::Key(key)) = event::read() {
                let is_interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                self.is_stopped = is_interrupt || key.code == KeyCode::Char('q');
            }
        }
        self.is_stopped
    }
}

/// Draws one second of a run.
pub fn draw(frame: &mut Frame<'_>, second: &Second, measured: &Measurement) {
    let [head, charts, body] =
        Layout::vertical([Constraint::Length(3), Constraint::Length(6), Constraint::Min(0)])
            .areas(frame.area());
    let state = if second.at_s < 0.0 {
        format!("warming up, {:.0} s to go", -second.at_s)
    } else {
        format!("{:.0} s", second.at_s)
    };
    let title = format!(" {}  {state}  (q ends) ", measured.workload);
    let summary = Line::from(format!(
        "{} ops/s   under way {}   waiting {}{}   sent again {}   refused {}",
        short_number(second.ops as f64 / second.length_s.max(1e-9)),
        second.in_flight,
        second.waiting,
        limit_of(second),
        measured.sent_again,
        measured.refused
    ))
    .style(Style::default().add_modifier(Modifier::BOLD));
    frame.render_widget(
        Paragraph::new(summary).block(Block::bordered().title(title)),
        head,
    );
    let [left, right] = Layout::horizontal([Constraint::Percentage(50); 2]).areas(charts);
    draw_series(frame, left, " throughput ", Color::Blue, measured, |second| {
        (second.ops as f64 / second.length_s.max(1e-9)) as u64
    });
    draw_series(frame, right, " p99 ", Color::Red, measured, |second| {
        second.latencies.p99
    });
    let [left, right] = Layout::horizontal([Constraint::Percentage(50); 2]).areas(body);
    let latencies = &second.latencies;
    let rows = [
        ("p50", latencies.p50),
        ("p90", latencies.p90),
        ("p99", latencies.p99),
        ("p99.9", latencies.p999),
        ("max", latencies.max),
    ];
    let lines: Vec<Line<'_>> = rows
        .into_iter()
        .map(|(name, us)| Line::from(format!("{name:<7}{:>12}", duration(us))))
        .collect();
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(" latency ")),
        left,
    );
    let errors = &measured.totals.errors_by_kind;
    let lines: Vec<Line<'_>> = if errors.is_empty() {
        vec![Line::from("none")]
    } else {
        errors
            .iter()
            .map(|(kind, count)| Line::from(format!("{count:>9}  {kind}")))
            .collect()
    };
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(" errors ")),
        right,
    );
}

fn draw_series(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    color: Color,
    measured: &Measurement,
    value: impl Fn(&Second) -> u64,
) {
    let room = usize::from(area.width.saturating_sub(2));
    let newest = measured.seconds.len().saturating_sub(room);
    let values: Vec<u64> = measured.seconds.iter().skip(newest).map(value).collect();
    let sparkline = Sparkline::default()
        .block(Block::bordered().title(title.to_owned()))
        .style(Style::default().fg(color))
        .data(&values);
    frame.render_widget(sparkline, area);
}
