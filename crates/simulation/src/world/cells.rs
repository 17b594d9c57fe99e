//! Cells that clients compare, set and read at SERIAL, with plain writes between: what they see of each must fit one order
//! ([`crate::linearizable`]).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use helenus_protocol::{Consistency, ErrorCode};
use helenus_test_node::{Answer, Execution};
use tokio::task::JoinHandle;

use super::registers::value_of;
use super::{Held, LATE_MAX, Outcome, READ_TIMEOUT, WRITE_TIMEOUT, World};
use crate::linearizable::{Change, OPERATIONS_MAX, Operation, Seen, Value, last_values};
use crate::node::SimulatedNode;

/// One partition for each.
pub(super) const CREATE: &str = "CREATE TABLE k.cells (p int PRIMARY KEY, n int)";

const CELLS: u64 = 2;

/// Requests about one cell at the same time.
const UNDER_WAY_MAX: usize = 6;

/// Before a plain write: no shard has given out timestamps so far ahead of its clock.
const CLOCK_PAUSE: Duration = Duration::from_millis(1);

/// Known state of a cell.
pub(super) struct KnownCell {
    /// When this life began.
    first: BTreeSet<Value>,
    history: Vec<Operation>,
    under_way: Vec<CellUnderWay>,
    /// A plain write may still come, with a timestamp of before: in this life nobody can tell what is seen from now on.
    is_left_alone: bool,
}

struct CellUnderWay {
    place: usize,
    text: String,
    answer: JoinHandle<(u64, Held<Answer>)>,
}

/// All cells of a run.
pub(super) struct Cells {
    cells: Vec<KnownCell>,
    /// Requests and answers so far.
    ticks: Rc<Cell<u64>>,
}

impl Default for Cells {
    fn default() -> Self {
        let cell = |_| KnownCell {
            first: BTreeSet::from([None]),
            history: Vec::new(),
            under_way: Vec::new(),
            is_left_alone: false,
        };
        Cells {
            cells: (0..CELLS).map(cell).collect(),
            ticks: Rc::default(),
        }
    }
}

fn tick(ticks: &Cell<u64>) -> u64 {
    ticks.set(ticks.get() + 1);
    ticks.get()
}

impl Cells {
    /// Checks that what was seen in a life that has ended fits some order; keeps the values with which the next may begin.
    pub fn end_life(&mut self) -> Held<()> {
        for (p, cell) in self.cells.iter_mut().enumerate() {
            cell.under_way.clear();
            cell.is_left_alone = false;
            let history = std::mem::take(&mut cell.history);
            let last = last_values(&cell.first, &history);
            if last.is_empty() {
                return Err(format!(
                    "cell {p}: nothing that begins with {:?} explains {history:?}",
                    cell.first
                ));
            }
            cell.first = last;
        }
        Ok(())
    }
}

impl World {
    /// Sends a comparison, a read or a plain write, and settles some of those under way.
    pub(super) async fn use_cell(&mut self, node: &SimulatedNode) -> Held<()> {
        let p = self.below(CELLS) as usize;
        while self.cells.cells[p].under_way.len() as u64 > self.below(UNDER_WAY_MAX as u64) {
            let index = self.below(self.cells.cells[p].under_way.len() as u64) as usize;
            self.settle_cell(p, index).await?;
        }
        if self.cells.cells[p].is_left_alone || self.cells.cells[p].history.len() >= OPERATIONS_MAX {
            return Ok(());
        }
        let value = self.report.statements as i32;
        let change = match self.below(6) {
            0 | 1 => Change::Read,
            2 if !self.has_jumps => Change::Write(value),
            _ => Change::Compare {
                expected: self.expected(p),
                value,
            },
        };
        let is_plain = matches!(change, Change::Write(_));
        if is_plain {
            // Plain writes are ordered by their timestamps: beside others they may come too late.
            self.settle_cells_of(p).await?;
            tokio::time::sleep(CLOCK_PAUSE).await;
        }
        self.send_cell(node, p, change);
        if is_plain {
            self.settle_cells_of(p).await?;
        }
        Ok(())
    }

    /// A value that some request has proposed lately, or none.
    fn expected(&mut self, p: usize) -> Value {
        let history = &self.cells.cells[p].history;
        let proposed =
            history
                .iter()
                .rev()
                .filter_map(|operation| match (operation.change, operation.seen) {
                    (_, Seen::Found(found)) => Some(found),
                    (Change::Write(value) | Change::Compare { value, .. }, _) => Some(Some(value)),
                    (Change::Read, _) => None,
                });
        let lately: Vec<Value> = proposed.take(3).collect();
        let first = self.cells.cells[p].first.iter().next().copied().flatten();
        match lately.len() {
            0 => first,
            count => lately[self.below(count as u64) as usize],
        }
    }

    fn send_cell(&mut self, node: &SimulatedNode, p: usize, change: Change) {
        let text = match change {
            Change::Read => format!("SELECT n FROM k.cells WHERE p = {p}"),
            Change::Write(value) => format!("INSERT INTO k.cells (p, n) VALUES ({p}, {value})"),
            Change::Compare {
                expected: None,
                value,
            } => {
                format!("INSERT INTO k.cells (p, n) VALUES ({p}, {value}) IF NOT EXISTS")
            }
            Change::Compare {
                expected: Some(expected),
                value,
            } => format!("UPDATE k.cells SET n = {value} WHERE p = {p} IF n = {expected}"),
        };
        let execution = Execution {
            consistency: matches!(change, Change::Read).then_some(Consistency::Serial),
            ..Execution::default()
        };
        let ticks = self.cells.ticks.clone();
        let sent = tick(&ticks);
        let limit = match change {
            Change::Read => READ_TIMEOUT,
            Change::Write(_) | Change::Compare { .. } => WRITE_TIMEOUT,
        };
        let answer = self.submit(node, &text, execution, limit + LATE_MAX);
        let answer = tokio::task::spawn_local(async move {
            let answer = answer.await.map_err(|error| error.to_string());
            (tick(&ticks), answer.and_then(|answer| answer))
        });
        let cell = &mut self.cells.cells[p];
        cell.history.push(Operation {
            change,
            seen: Seen::Unknown,
            sent,
            answered: u64::MAX,
        });
        cell.under_way.push(CellUnderWay {
            place: cell.history.len() - 1,
            text,
            answer,
        });
    }

    pub(super) async fn settle_cells(&mut self) -> Held<()> {
        for p in 0..CELLS as usize {
            self.settle_cells_of(p).await?;
        }
        Ok(())
    }

    async fn settle_cells_of(&mut self, p: usize) -> Held<()> {
        while !self.cells.cells[p].under_way.is_empty() {
            self.settle_cell(p, 0).await?;
        }
        Ok(())
    }

    async fn settle_cell(&mut self, p: usize, index: usize) -> Held<()> {
        let sent = self.cells.cells[p].under_way.swap_remove(index);
        let (answered, answer) = sent.answer.await.map_err(|error| error.to_string())?;
        let answer = answer?;
        let is_too_new = matches!(&answer, Answer::Error { code: ErrorCode::Invalid, message } if message.contains("in the future"));
        let outcome = match is_too_new {
            true => Outcome::Refused,
            false => self.outcome(&answer, &sent.text)?,
        };
        let operation = &mut self.cells.cells[p].history[sent.place];
        match (outcome, &answer) {
            (Outcome::Acknowledged, Answer::Rows(rows)) => {
                operation.answered = answered;
                let is_applied = rows.rows.first().and_then(|row| row.first()) == Some(&Some(vec![1]));
                operation.seen = match operation.change {
                    Change::Compare { .. } if is_applied => Seen::Done,
                    _ => Seen::Found(value_of(rows, "n")),
                };
            }
            (Outcome::Acknowledged, _) => {
                operation.answered = answered;
                operation.seen = Seen::Done;
            }
            // As if nobody had asked.
            (Outcome::Refused, _) => {
                operation.change = Change::Read;
                operation.seen = Seen::Unknown;
            }
            (Outcome::Unknown, _) => {
                let is_plain = matches!(operation.change, Change::Write(_));
                self.cells.cells[p].is_left_alone |= is_plain;
            }
        }
        Ok(())
    }
}
