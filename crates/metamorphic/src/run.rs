//! A history on all of its configurations at once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use helenus_vfs::Clock as _;

use crate::cassandra::{Agreement, Cassandra};
use crate::clock::HistoryClock;
use crate::failure::{Failure, FailureKind, Trouble};
use crate::instance::{Instance, UnderWay};
use crate::model::{Expected, Model};
use crate::script::{Event, Script, Statement, Step};
use crate::seen::{Row, Seen, difference, rows_differ};
use crate::value::Value;

/// Between two statements, so that elements of lists are of different times.
const STATEMENT_US: i64 = 1_000;
/// An event takes more, so that no node has given out timestamps after it.
const EVENT_US: i64 = 1_000_000;
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
    /// And those that Cassandra had no answer to, being asked.
    pub unknown: usize,
    pub failure: Option<Failure>,
}

struct Run<'c> {
    clock: Arc<HistoryClock>,
    instances: Vec<Instance>,
    model: Model,
    report: Report,
    cassandra: Option<&'c mut Cassandra>,
}

/// Runs a script from its first step to its last or to the first failure.
pub fn run(script: &Script) -> Report {
    run_with(script, None)
}

/// As [`run`], beside a Cassandra, whose answers must be the same.
pub fn run_beside(script: &Script, cassandra: &mut Cassandra) -> Report {
    run_with(script, Some(cassandra))
}

fn run_with(script: &Script, cassandra: Option<&mut Cassandra>) -> Report {
    let mut run = Run {
        clock: Arc::new(HistoryClock::new()),
        instances: Vec::new(),
        model: Model::default(),
        report: Report::default(),
        cassandra,
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

impl Run<'_> {
    fn go_through(&mut self, script: &Script) -> Result<(), Trouble> {
        for configuration in &script.configurations {
            let instance = Instance::start(configuration.clone(), self.clock.clone())
                .map_err(|trouble| trouble.under(configuration))?;
            self.instances.push(instance);
        }
        if let Some(cassandra) = &mut self.cassandra {
            cassandra.begin()?;
        }
        for step in &script.steps {
            self.report.steps += 1;
            match step {
                Step::Statement(statement) => self.state(script, statement)?,
                Step::Event(event) => self.happen(script, *event)?,
            }
            for (instance, configuration) in self.instances.iter().zip(&script.configurations) {
                instance
                    .check_complaints()
                    .map_err(|trouble| trouble.under(configuration))?;
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
        if let (Some(cassandra), Some(first)) = (&mut self.cassandra, &first) {
            let agreement = cassandra.compare(statement, first)?;
            self.report.unknown += usize::from(agreement == Agreement::Unknown);
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

/// The error of a node that failed, or that had no time or memory: a history gives it enough of both.
fn refusal(seen: &Seen) -> Option<String> {
    let Seen::Error { code, message } = seen else {
        return None;
    };
    (!code.is_of_statement()).then(|| format!("{code:?}: {message}"))
}

/// The first place where rows are not what the model says.
fn mistake(mut rows: Vec<Row>, mut expected: Expected) -> Option<String> {
    if !expected.is_ordered {
        rows.sort();
        expected.rows.sort();
    }
    (rows != expected.rows).then(|| rows_differ("the model", &expected.rows, &rows))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a text")
        .to_owned()
}
