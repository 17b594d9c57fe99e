//! Many reads at once that each take several shards: more than a shard has places for, on each of them, waiting for each other.

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution};
use helenus_vfs::Random;

use super::{Held, LATE_MAX, READ_TIMEOUT, World};
use crate::node::SimulatedNode;
use crate::registers::REGISTERS;

/// Steps between two crowds, on average.
const STEPS_PER_CROWD: u64 = 3_000;

/// Reads of a crowd: several times as many as each of four shards begins at once.
const CROWD: usize = 600;

impl World {
    /// Now and then sends a crowd of reads and waits for all answers. Unless messages hang, few of them are late.
    pub(super) async fn crowd_now_and_then(&mut self, node: &SimulatedNode) -> Held<()> {
        match self.later_random.below(STEPS_PER_CROWD) {
            0 => self.send_crowd(node).await,
            _ => Ok(()),
        }
    }

    async fn send_crowd(&mut self, node: &SimulatedNode) -> Held<()> {
        let keys: Vec<String> = (0..REGISTERS).map(|key| key.to_string()).collect();
        let text = format!("SELECT n FROM k.registers WHERE p IN ({})", keys.join(", "));
        self.note(format_args!("{CROWD} times {text}"));
        self.report.statements += CROWD as u64;
        let send = |_| {
            let shard = self.later_random.below(8) as usize;
            let answer = node.execute(shard, text.clone(), Execution::default());
            self.answered(answer, text.clone(), READ_TIMEOUT + LATE_MAX)
        };
        let sent: Vec<_> = (0..CROWD).map(send).collect();
        let mut timed_out = 0;
        for answer in sent {
            let answer = answer.await.map_err(|error| error.to_string())??;
            timed_out += usize::from(matches!(
                answer,
                Answer::Error {
                    code: ErrorCode::ReadTimeout,
                    ..
                }
            ));
            if !matches!(answer, Answer::Rows(_)) {
                self.outcome(&answer, &text)?;
            }
        }
        let is_calm = self.weather.messages_are_calm() && !self.has_faults && !self.disk.is_power_off();
        match timed_out > CROWD / 4 && is_calm {
            true => Err(format!("{timed_out} of {CROWD} reads at once timed out: {text}")),
            false => Ok(()),
        }
    }
}
