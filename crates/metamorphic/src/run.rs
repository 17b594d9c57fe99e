//! A history on all of its configurations at once.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_vfs::Clock as _;

use crate::clock::HistoryClock;
use crate::instance::{Instance, Seen, Trouble, UnderWay};
use crate::model::{Expected, Model};
use crate::script::{Event, Script, Statement, Step};
use crate::value::Value;

/// Between two statements, so that elements of lists are of different times.
const STATEMENT_US: i64 = 1_000;
/// An event takes more, so that no node has given out timestamps after it.
const EVENT_US: i64 = 1_000_000;
/// Characters of a row or a text that reports show at most.
const SHOWN_CHARACTERS_MAX: usize = 400;

#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Statements and events that were gone through.
    pub steps: usize,
    /// Statements that were answered with an error, by all alike.
    pub refused: usize,
    /// And those whose rows the model knew.
    pub modelled: usize,
    /// And those that a node answered by a secondary index.
    pub by_index: usize,
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// Counted from 0; the number of steps if it was found after the last, `None` before the first.
    pub step: Option<usize>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Two nodes answered differently.
    Disagreement(Difference),
    /// All nodes answered what CQL does not say.
    Model,
    /// An answer that says that the node failed, which is never the statement's fault.
    Refused,
    /// An event that must succeed did not.
    Broken,
    /// Something did not end.
    Hang,
    Panic,
}

/// In what two answers differ. A history that shrinks keeps it: others are other faults, or none where what they need is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// One is an error, or has no rows where the other has.
    Kind,
    Error,
    Columns,
    Warnings,
    Rows,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(out, "{:?} at step {}: {}", self.kind, step + 1, self.text),
            None => write!(out, "{:?} at the start: {}", self.kind, self.text),
        }
    }
}

/// Serialized values, `None` for null.
type Row = Vec<Option<Vec<u8>>>;

struct Run {
    clock: Arc<HistoryClock>,
    instances: Vec<Instance>,
    model: Model,
    report: Report,
}

/// Runs a script from its first step to its last or to the first failure.
pub fn run(script: &Script) -> Report {
    let mut run = Run {
        clock: Arc::new(HistoryClock::new()),
        instances: Vec::new(),
        model: Model::default(),
        report: Report::default(),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| run.go_through(script)));
    let trouble = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(trouble)) => Some(trouble),
        Err(panic) => Some(Trouble {
            kind: FailureKind::Panic,
            text: panic_text(&*panic),
        }),
    };
    let mut report = run.report;
    report.failure = trouble.map(|trouble| Failure {
        kind: trouble.kind,
        step: report.steps.checked_sub(1),
        text: trouble.text,
    });
    report
}

impl Run {
    fn go_through(&mut self, script: &Script) -> Result<(), Trouble> {
        for configuration in &script.configurations {
            let instance = Instance::start(configuration.clone(), self.clock.clone())
                .map_err(|trouble| trouble.under(configuration))?;
            self.instances.push(instance);
        }
        for step in &script.steps {
            self.report.steps += 1;
            match step {
                Step::Statement(statement) => self.state(script, statement)?,
                Step::Event(event) => self.happen(script, *event)?,
            }
        }
        Ok(())
    }

    fn state(&mut self, script: &Script, statement: &Statement) -> Result<(), Trouble> {
        self.clock.advance_us(STATEMENT_US);
        let turn = self.report.steps;
        let under_way: Vec<UnderWay> = self
            .instances
            .iter_mut()
            .map(|instance| instance.submit(statement, turn))
            .collect();
        let mut first: Option<Seen> = None;
        let places = self
            .instances
            .iter_mut()
            .zip(under_way)
            .zip(&script.configurations);
        for ((instance, under_way), configuration) in places {
            let seen = instance
                .finish(statement, under_way)
                .map_err(|trouble| trouble.under(configuration))?;
            if let Some(text) = refusal(&seen) {
                let kind = FailureKind::Refused;
                return Err(Trouble { kind, text }.under(configuration));
            }
            if !instance.is_told(statement) {
                continue;
            }
            match &first {
                None => first = Some(seen),
                Some(first) if *first == seen => {}
                Some(first) => {
                    let (difference, text) = difference(first, &seen);
                    let kind = FailureKind::Disagreement(difference);
                    return Err(Trouble { kind, text }.under(configuration));
                }
            }
        }
        if statement.text.starts_with("SELECT ") {
            let instances = self.instances.iter_mut();
            let by_index = instances
                .map(Instance::has_read_by_index)
                .filter(|is_by_index| *is_by_index);
            self.report.by_index += usize::from(by_index.count() > 0);
        }
        if statement.text.starts_with("CREATE MATERIALIZED VIEW") {
            self.wait_until_built(script)?;
        }
        match &first {
            Some(seen) => self.compare_with_model(statement, seen),
            None => Ok(()),
        }
    }

    fn wait_until_built(&mut self, script: &Script) -> Result<(), Trouble> {
        for (instance, configuration) in self.instances.iter_mut().zip(&script.configurations) {
            instance
                .wait_until_built()
                .map_err(|trouble| trouble.under(configuration))?;
        }
        Ok(())
    }

    fn compare_with_model(&mut self, statement: &Statement, seen: &Seen) -> Result<(), Trouble> {
        let values: Vec<Option<Vec<u8>>> = statement
            .values
            .iter()
            .map(|value| value.as_ref().map(Value::bytes))
            .collect();
        let now_s = i64::from(self.clock.wall_s());
        let text = &statement.text;
        match seen {
            Seen::Error { .. } => self.report.refused += 1,
            Seen::Done => {
                let instances = &self.instances;
                self.model.apply(text, &values, now_s, &|| instances[0].schema());
            }
            Seen::Rows { rows, .. } => {
                // A transaction answers what was there before it.
                let expected = self.model.expect(text, &values, now_s);
                let instances = &self.instances;
                if !text.starts_with("SELECT ") {
                    self.model.apply(text, &values, now_s, &|| instances[0].schema());
                }
                let Some(expected) = expected else {
                    return Ok(());
                };
                self.report.modelled += 1;
                if let Some(text) = mistake(rows.clone(), expected) {
                    let kind = FailureKind::Model;
                    return Err(Trouble { kind, text });
                }
            }
        }
        Ok(())
    }

    fn happen(&mut self, script: &Script, event: Event) -> Result<(), Trouble> {
        if let Event::Clock { seconds } = event {
            self.clock.advance_us(seconds.saturating_mul(1_000_000));
        }
        for (instance, configuration) in self.instances.iter_mut().zip(&script.configurations) {
            instance
                .happen(event)
                .map_err(|trouble| trouble.under(configuration))?;
        }
        // Nodes that have done different things meanwhile give the next statement the same time.
        self.clock.advance_us(EVENT_US);
        self.wait_until_built(script)
    }
}

impl Trouble {
    fn under(self, configuration: &crate::Configuration) -> Trouble {
        Trouble {
            kind: self.kind,
            text: format!("on {configuration}: {}", self.text),
        }
    }
}

/// The error of a node that failed, or that had no time or memory: a history gives it enough of both.
fn refusal(seen: &Seen) -> Option<String> {
    let Seen::Error { code, message } = seen else {
        return None;
    };
    match code {
        ErrorCode::SyntaxError
        | ErrorCode::Unauthorized
        | ErrorCode::Invalid
        | ErrorCode::ConfigError
        | ErrorCode::AlreadyExists
        | ErrorCode::FunctionFailure => None,
        _ => Some(format!("{code:?}: {message}")),
    }
}

/// The first place where rows are not what the model says.
fn mistake(mut rows: Vec<Row>, mut expected: Expected) -> Option<String> {
    if !expected.is_ordered {
        rows.sort();
        expected.rows.sort();
    }
    (rows != expected.rows).then(|| rows_differ("the model", &expected.rows, &rows))
}

/// The first place where two answers differ.
fn difference(first: &Seen, other: &Seen) -> (Difference, String) {
    let (
        Seen::Rows {
            columns,
            rows,
            warnings,
        },
        Seen::Rows {
            columns: other_columns,
            rows: other_rows,
            warnings: other_warnings,
        },
    ) = (first, other)
    else {
        let difference = match (first, other) {
            (Seen::Error { .. }, Seen::Error { .. }) => Difference::Error,
            _ => Difference::Kind,
        };
        let text = format!("answers {}, the first node {}", summary(other), summary(first));
        return (difference, text);
    };
    if columns != other_columns {
        let text = format!("columns {other_columns:?}, on the first node {columns:?}");
        return (Difference::Columns, text);
    }
    if warnings != other_warnings {
        let text = format!("warnings {other_warnings:?}, on the first node {warnings:?}");
        return (Difference::Warnings, text);
    }
    (Difference::Rows, rows_differ("the first node", rows, other_rows))
}

fn rows_differ(whose: &str, rows: &[Row], other_rows: &[Row]) -> String {
    let place = rows
        .iter()
        .zip(other_rows)
        .position(|(row, other)| row != other)
        .unwrap_or(rows.len().min(other_rows.len()));
    let shown = |rows: &[Row]| rows.get(place).map_or("none".to_owned(), |row| show(row));
    format!(
        "{} rows, of {whose} {}; row {}: {}, of {whose}: {}",
        other_rows.len(),
        rows.len(),
        place + 1,
        shown(other_rows),
        shown(rows)
    )
}

fn summary(seen: &Seen) -> String {
    match seen {
        Seen::Done => "done".to_owned(),
        Seen::Rows { rows, .. } => format!("{} rows", rows.len()),
        Seen::Error { code, message } => shortened(&format!("{code:?}: {message}")),
    }
}

fn show(row: &[Option<Vec<u8>>]) -> String {
    let value = |value: &Option<Vec<u8>>| match value {
        None => "null".to_owned(),
        Some(bytes) => {
            let shown = bytes.get(..24).unwrap_or(bytes);
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            match bytes.len() {
                length @ 25.. => format!("0x{digits}..({length} bytes)"),
                _ => format!("0x{digits}"),
            }
        }
    };
    let values: Vec<String> = row.iter().map(value).collect();
    shortened(&format!("({})", values.join(", ")))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a text")
        .to_owned()
}
