//! The life of one node: statements from a seed, one after the other, so that what happened was done by the last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helenus_node::Stalls;
use helenus_protocol::ErrorCode;
use helenus_protocol::request::BatchKind;
use helenus_schema::Schema;
use helenus_storage_model::Chance;
use helenus_test_node::{Answer, BatchMember, Execution, TestNode, options};
use helenus_vfs::{MemoryDisk, SystemClock};

use crate::grammar::{Grammar, KEYSPACES, bound_value, first_statements};
use crate::judge::{Bounds, Cost, Failure, Judge, resident_bytes};
use crate::large::large;
use crate::mutate::mutate;
use crate::script::{How, Script, Step};

/// One in so many statements is large: they take a thousand times as long as others.
const LARGE_ONE_IN: u64 = 2_000;

/// Bytes of the statements of one request: half of what a frame may be, the rest is for values.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// How often the process's memory is looked at, in statements.
const MEMORY_INTERVAL: usize = 256;

/// How often a step is run again before it is said to stall or to be late each time.
const AGAIN: usize = 2;

/// Characters of a refusal's message that tell it from others.
const REFUSAL_CHARACTERS: usize = 24;

/// Holds that are worth to be told of.
const HOLD_MIN: Duration = Duration::from_micros(500);

/// Characters of a statement that tell its kind from others.
const HOLD_CHARACTERS: usize = 34;

/// The memory of the node.
const MEMORY_BYTES: u64 = 128 << 20;

/// So many statements from one seed.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub seed: u64,
    pub statements: usize,
}

/// Results of all rounds.
#[derive(Debug, Default)]
pub struct Totals {
    pub statements: u64,
    pub answered: u64,
    pub refused: u64,
    /// Stalls and late answers that were not there when the statement was run again.
    pub unrepeated: u64,
    pub longest: Duration,
    pub latest: Duration,
    pub memory_bytes_max: u64,
    /// By the beginnings of their messages, without names and numbers.
    pub refusals: BTreeMap<String, u64>,
    /// By message: what the node says is its own fault.
    pub server_errors: BTreeMap<String, u64>,
    /// By what held a shard and the statement's beginning: how long the longest of each did, and how long its text is.
    pub holds: BTreeMap<String, (Duration, usize)>,
}

/// How a round ended.
pub struct Outcome {
    /// History that it has sent, up to what failed.
    pub script: Script,
    pub failure: Option<Failure>,
}

/// A node with who judges it.
struct Subject {
    node: TestNode,
    judge: Judge,
    schema: Arc<Schema>,
}

impl Round {
    pub fn run(&self, bounds: &Bounds, totals: &mut Totals) -> Outcome {
        let mut subject = Subject::new(self.seed, bounds);
        let mut script = Script {
            seed: self.seed,
            steps: Vec::new(),
        };
        let chance = Chance::new(self.seed);
        let first = first_statements();
        let mut last_text = String::new();
        for number in 0..self.statements {
            let step = match first.get(number) {
                Some(text) => Step {
                    how: How::Query,
                    seed: 0,
                    keyspace: None,
                    texts: vec![text.clone()],
                },
                None => step(&chance, &subject.schema, &last_text),
            };
            last_text.clone_from(&step.texts[0]);
            script.steps.push(step);
            let failure = subject.try_step(&script.steps[number], totals);
            let is_looked_at = number % MEMORY_INTERVAL == 0 || last_text.len() > 1 << 16;
            let failure = failure.or_else(|| is_looked_at.then(|| subject.judge.memory()).flatten());
            totals.memory_bytes_max = match is_looked_at {
                true => totals.memory_bytes_max.max(resident_bytes()),
                false => totals.memory_bytes_max,
            };
            if failure.is_some() {
                return Outcome { script, failure };
            }
        }
        Outcome {
            script,
            failure: None,
        }
    }
}

/// Runs a history again.
pub fn replay(script: &Script, bounds: &Bounds) -> Outcome {
    let mut subject = Subject::new(script.seed, bounds);
    let mut totals = Totals::default();
    for (number, step) in script.steps.iter().enumerate() {
        let failure = subject
            .try_step(step, &mut totals)
            .or_else(|| subject.judge.memory());
        if failure.is_some() {
            let script = Script {
                seed: script.seed,
                steps: script.steps[..=number].to_vec(),
            };
            return Outcome { script, failure };
        }
    }
    Outcome {
        script: script.clone(),
        failure: None,
    }
}

fn step(chance: &Chance, schema: &Schema, last_text: &str) -> Step {
    let grammar = Grammar::new(chance, schema);
    let how = match chance.below(20) {
        0..12 => How::Query,
        12..19 => How::Prepared,
        _ => How::Batch,
    };
    let statement = || {
        if chance.one_in(LARGE_ONE_IN) {
            return large(chance);
        }
        let text = if how == How::Batch {
            grammar.modification()
        } else {
            grammar.statement()
        };
        if chance.one_in(8) {
            mutate(chance, &text, last_text)
        } else {
            text
        }
    };
    let count = if how == How::Batch { 1 + chance.count(8) } else { 1 };
    Step {
        how,
        seed: chance.bits(),
        keyspace: (!chance.one_in(3)).then(|| (*chance.pick(&KEYSPACES)).to_owned()),
        texts: (0..count).map(|_| within_request(statement(), count)).collect(),
    }
}

/// So that all fit a request.
fn within_request(mut text: String, count: usize) -> String {
    let bytes_max = TEXT_BYTES_MAX / count;
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}

impl Subject {
    fn new(seed: u64, bounds: &Bounds) -> Self {
        let stalls = Stalls::over(bounds.stall.unwrap_or(Duration::MAX));
        let mut options = options(
            1 + (seed % 2) as u16,
            Arc::new(MemoryDisk::new()),
            Arc::new(SystemClock::new()),
        );
        options.in_memory = seed % 4 < 2;
        options.memory_bytes = MEMORY_BYTES;
        options.read_request_timeout = bounds.timeout;
        options.range_request_timeout = bounds.timeout;
        options.write_request_timeout = bounds.timeout;
        options.stalls = Some(stalls.clone());
        let node = TestNode::start(options).expect("an empty disk in memory can be opened");
        let schema = node.schema();
        Subject {
            node,
            judge: Judge::new(*bounds, stalls),
            schema,
        }
    }

    /// A step that was slow is run again: what the machine did to it once says nothing.
    fn try_step(&mut self, step: &Step, totals: &mut Totals) -> Option<Failure> {
        let cost = self.run_step(step, totals);
        totals.statements += 1;
        totals.longest = totals.longest.max(cost.held);
        totals.latest = totals.latest.max(cost.request);
        totals.note_hold(&cost, step);
        let mut failure = self.judge.verdict(&cost)?;
        for _ in 0..AGAIN {
            if !matches!(failure, Failure::Stall { .. } | Failure::Late { .. }) {
                break;
            }
            let cost = self.run_step(step, totals);
            let Some(again) = self.judge.verdict(&cost) else {
                totals.unrepeated += 1;
                return None;
            };
            failure = again;
        }
        Some(failure)
    }

    fn run_step(&mut self, step: &Step, totals: &mut Totals) -> Cost {
        let chance = Chance::new(step.seed);
        let execution = Execution {
            page_size: *chance.pick(&[None, Some(1), Some(10), Some(5_000), Some(-1)]),
            keyspace: step.keyspace.clone(),
            shard: (step.seed % 2) as u16 * self.node.shard_count().saturating_sub(1),
            ..Execution::default()
        };
        match step.how {
            How::Query => self.query(&chance, &step.texts[0], execution, totals),
            How::Prepared => self.prepared(&chance, &step.texts[0], execution, totals),
            How::Batch => self.batch(&chance, &step.texts, &execution, totals),
        }
        self.judge.take_cost()
    }

    fn query(&mut self, chance: &Chance, text: &str, mut execution: Execution, totals: &mut Totals) {
        if text.contains(['?', ':'])
            && let Some((_, types)) = self.prepare(text, &execution, totals)
        {
            execution.values = types.iter().map(|marker| bound_value(chance, marker)).collect();
        }
        let answer = self.judge.ask(|| self.node.submit(text, &execution).wait());
        self.note(answer, totals);
    }

    fn prepared(&mut self, chance: &Chance, text: &str, mut execution: Execution, totals: &mut Totals) {
        let Some((id, types)) = self.prepare(text, &execution, totals) else {
            return;
        };
        for _ in 0..1 + chance.count(2) {
            execution.values = types.iter().map(|marker| bound_value(chance, marker)).collect();
            if chance.one_in(40) {
                execution.values.pop();
            }
            let answer = self
                .judge
                .ask(|| self.node.submit_prepared(&id, &execution).wait());
            execution.paging_state = match &answer {
                Some(Answer::Rows(rows)) => rows.paging_state.clone(),
                _ => None,
            };
            self.note(answer, totals);
        }
    }

    fn batch(&mut self, chance: &Chance, texts: &[String], execution: &Execution, totals: &mut Totals) {
        let mut members = Vec::new();
        for text in texts {
            let prepared = self.prepare(text, execution, totals);
            let (id, types) = prepared.unzip();
            let values = types
                .iter()
                .flatten()
                .map(|marker| bound_value(chance, marker))
                .collect();
            members.push(match id {
                Some(id) if chance.one_in(2) => BatchMember::Prepared(id, values),
                _ => BatchMember::Text(text.clone(), values),
            });
        }
        let kind = *chance.pick(&[
            BatchKind::Logged,
            BatchKind::Unlogged,
            BatchKind::Unlogged,
            BatchKind::Counter,
        ]);
        let answer = self
            .judge
            .ask(|| self.node.submit_batch(kind, members, execution).wait());
        self.note(answer, totals);
    }

    fn prepare(
        &mut self,
        text: &str,
        execution: &Execution,
        totals: &mut Totals,
    ) -> Option<(Vec<u8>, Vec<helenus_types::CqlType>)> {
        let answer = self
            .judge
            .ask(|| self.node.submit_prepare(text, execution).wait());
        let prepared = match &answer {
            Some(Answer::Prepared { id, markers, .. }) => {
                let types = markers.iter().map(|marker| marker.cql_type.clone());
                Some((id.clone(), types.collect()))
            }
            _ => None,
        };
        self.note(answer, totals);
        prepared
    }

    fn note(&mut self, answer: Option<Answer>, totals: &mut Totals) {
        match answer {
            Some(Answer::Error { code, message }) => {
                totals.refused += 1;
                totals.note_refusal(&message);
                if code == ErrorCode::ServerError {
                    let beginning: String = message.chars().take(80).collect();
                    *totals.server_errors.entry(beginning).or_default() += 1;
                }
            }
            Some(Answer::SchemaChange) => {
                totals.answered += 1;
                self.schema = self.node.schema();
            }
            Some(_) => totals.answered += 1,
            None => {}
        }
    }
}

impl Totals {
    fn note_hold(&mut self, cost: &Cost, step: &Step) {
        if cost.held < HOLD_MIN {
            return;
        }
        let beginning: String = step.texts[0].chars().take(HOLD_CHARACTERS).collect();
        let hold = (cost.held, step.texts.iter().map(String::len).sum());
        let kind = format!("{}, {}: {beginning}", cost.what, step.how.name());
        let longest = self.holds.entry(kind).or_default();
        *longest = hold.max(*longest);
    }

    fn note_refusal(&mut self, message: &str) {
        let plain = message
            .chars()
            .filter(|character| character.is_ascii_alphabetic() || *character == ' ');
        let beginning: String = plain.take(REFUSAL_CHARACTERS).collect();
        *self.refusals.entry(beginning).or_default() += 1;
    }
}
