//! Clients that set registers by comparing, beside those that write plainly.

use helenus_protocol::{Consistency, ErrorCode};
use helenus_test_node::{Answer, Execution, Rows};
use tokio::task::JoinHandle;

use super::{Held, LATE_MAX, Outcome, READ_TIMEOUT, READ_TRIES, UNDER_WAY_MAX, WRITE_TIMEOUT, World};
use crate::node::SimulatedNode;
use crate::registers::{Attempt, REGISTERS, text};

/// One partition for each.
pub(super) const CREATE: &str = "CREATE TABLE k.registers (p int PRIMARY KEY, n int)";

pub(super) struct RegisterUnderWay {
    attempt: Attempt,
    text: String,
    is_read: bool,
    answer: JoinHandle<Held<Answer>>,
}

impl World {
    /// Sends a comparison or a SERIAL read, and settles some of those under way.
    pub(super) async fn use_register(&mut self, node: &SimulatedNode) -> Held<()> {
        while self.registers_under_way.len() as u64 > self.below(UNDER_WAY_MAX) {
            let index = self.below(self.registers_under_way.len() as u64) as usize;
            let sent = self.registers_under_way.swap_remove(index);
            self.settle_register(sent).await?;
        }
        let register = self.below(REGISTERS) as i32;
        let is_read = self.below(4) == 0;
        let (attempt, text, limit) = if is_read {
            let attempt = self.registers.read(register);
            let text = format!("SELECT n FROM k.registers WHERE p = {register}");
            (attempt, text, READ_TIMEOUT)
        } else {
            let stale = (self.below(4) == 0).then(|| self.below(1_000));
            let value = self.report.statements as i32;
            let attempt = self.registers.attempt(register, value, stale);
            (attempt, text(&attempt), WRITE_TIMEOUT)
        };
        let execution = Execution {
            consistency: is_read.then_some(Consistency::Serial),
            ..Execution::default()
        };
        let answer = self.submit(node, &text, execution, limit + LATE_MAX);
        self.registers_under_way.push(RegisterUnderWay {
            attempt,
            text,
            is_read,
            answer,
        });
        Ok(())
    }

    pub(super) async fn settle_registers(&mut self) -> Held<()> {
        for sent in std::mem::take(&mut self.registers_under_way) {
            self.settle_register(sent).await?;
        }
        Ok(())
    }

    async fn settle_register(&mut self, sent: RegisterUnderWay) -> Held<()> {
        let answer = sent.answer.await.map_err(|error| error.to_string())??;
        let Answer::Rows(rows) = &answer else {
            // A clock that was set back by more than a day leaves rows that are too new to follow.
            let is_too_new = matches!(&answer, Answer::Error { code: ErrorCode::Invalid, message } if message.contains("in the future"));
            let is_refused = is_too_new || matches!(self.outcome(&answer, &sent.text)?, Outcome::Refused);
            if is_refused && !sent.is_read {
                self.registers.refused(sent.attempt);
            }
            return Ok(());
        };
        self.report.acknowledged += 1;
        let checked = if sent.is_read {
            self.report.reads_checked += 1;
            self.registers.found(sent.attempt, value_of(rows, "n"))
        } else if rows.rows.first().and_then(|row| row.first()) == Some(&Some(vec![1])) {
            self.registers.applied(sent.attempt)
        } else {
            self.registers.not_applied(sent.attempt, value_of(rows, "n"))
        };
        checked.map_err(|error| format!("{}: {error}", sent.text))
    }

    /// After a start: what was answered by earlier lives is there.
    pub(super) async fn check_registers(&mut self, node: &SimulatedNode) -> Held<()> {
        for register in 0..REGISTERS as i32 {
            let text = format!("SELECT n FROM k.registers WHERE p = {register}");
            let mut tries = 0;
            let rows = loop {
                let answer = self.submit(node, &text, Execution::default(), READ_TIMEOUT + LATE_MAX);
                match answer.await.map_err(|error| error.to_string())?? {
                    Answer::Rows(rows) => break rows,
                    Answer::Error { message, .. } if message.contains("does not exist") => return Ok(()),
                    Answer::Error {
                        code: ErrorCode::Overloaded | ErrorCode::ReadTimeout,
                        ..
                    } if tries < READ_TRIES => tries += 1,
                    other => return Err(format!("{text}: {other:?}")),
                }
            };
            let read = self.registers.read(register);
            self.registers.found(read, value_of(&rows, "n"))?;
        }
        Ok(())
    }
}

pub(super) fn value_of(rows: &Rows, name: &str) -> Option<i32> {
    let place = rows.columns.iter().position(|column| column.name == name)?;
    let value = rows.rows.first()?.get(place)?.as_deref()?;
    value.try_into().ok().map(i32::from_be_bytes)
}
