//! Reads of one row each on other shards, made before it is their turn: an IN of nine partitions takes one trip to each shard that has some
//! of them, all at the same time, and not one for each partition after the other.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_engine::select::{SelectExecution, ShardRead, ShardRows, TargetIndex};
use helenus_transport::request_memory::{Account, Held};
use helenus_types::ShardId;
use tokio::sync::oneshot;

use crate::forward::OwnedExecution;
use crate::long_reads::executor::step_ended;
use crate::rate_limit::RateLimits;
use crate::shard::Shard;

/// Partitions that are read ahead together: what they bring waits in memory until it is their turn.
const AHEAD_MAX: usize = 32;

/// Rows of a read, charged to the client that asked.
pub(crate) type HeldRows = (ShardRows, Held);

/// Answers to the reads of one shard, in their order, up to the first that failed.
type Answers = Vec<Result<HeldRows, CqlError>>;

/// Reads that have been asked ahead for one SELECT, and the answers that came before their turn.
#[derive(Default)]
pub(crate) struct ReadsAhead {
    asked: Vec<AskedShard>,
    answered: Vec<(TargetIndex, Result<HeldRows, CqlError>)>,
    /// The last target that was looked at.
    last: Option<TargetIndex>,
}

struct AskedShard {
    shard: ShardId,
    targets: Vec<TargetIndex>,
    answers: oneshot::Receiver<Result<Answers, CqlError>>,
}

impl ReadsAhead {
    /// Returns whether a target comes after all that have been looked at.
    pub fn is_behind(&self, target: TargetIndex) -> bool {
        self.last.is_none_or(|last| last < target)
    }

    /// Returns whether the target's read has been made ahead.
    pub fn has(&self, target: TargetIndex) -> bool {
        self.asked.iter().any(|asked| asked.targets.contains(&target))
            || self.answered.iter().any(|(answered, _)| *answered == target)
    }

    /// The answer to `read`, of a target whose turn it is; none where it has to be made.
    pub async fn take(
        &mut self,
        shard: &Shard,
        target: TargetIndex,
        read: &ShardRead,
    ) -> Result<Option<HeldRows>, CqlError> {
        if let Some(place) = self
            .asked
            .iter()
            .position(|asked| asked.targets.contains(&target))
        {
            let AskedShard {
                shard: other,
                targets,
                answers,
            } = self.asked.swap_remove(place);
            let answers = answers.await;
            let answers = answers.unwrap_or_else(|_| Err(shard.context.no_answer_from(other)))?;
            self.answered.extend(targets.into_iter().zip(answers));
        }
        let Some(place) = self.answered.iter().position(|(answered, _)| *answered == target) else {
            return Ok(None);
        };
        let rows = self.answered.swap_remove(place).1?;
        Ok(Some(rows).filter(|(rows, _)| rows.is_whole(read)))
    }
}

impl Shard {
    /// Asks other shards for the next partitions of a SELECT. None of them refuses it for what it has to do: this shard has its own part of
    /// the work, which would be done for nothing.
    pub(crate) fn read_ahead(
        &self,
        execution: &mut SelectExecution<'_>,
        owned: &Arc<OwnedExecution>,
        rate_limits: RateLimits,
        account: &Arc<Account>,
    ) -> ReadsAhead {
        let reads = execution.reads_ahead(AHEAD_MAX);
        let mut ahead = ReadsAhead {
            last: reads.last().map(|(target, _)| *target),
            ..ReadsAhead::default()
        };
        if reads.len() < 2 {
            return ahead;
        }
        let mut by_shard: BTreeMap<ShardId, (Vec<TargetIndex>, Vec<ShardRead>)> = BTreeMap::new();
        for (target, read) in reads {
            if read.shard != self.context.id {
                let (targets, reads) = by_shard.entry(read.shard).or_default();
                targets.push(target);
                reads.push(read);
            }
        }
        for (shard, (targets, reads)) in by_shard {
            let (execution, account_of_rows) = (owned.clone(), account.clone());
            let answers = self.ask_in_turn((shard, false), owned, account, move |shard| {
                shard.read_all_here(reads, execution, rate_limits, account_of_rows)
            });
            ahead.asked.push(AskedShard {
                shard,
                targets,
                answers,
            });
        }
        ahead
    }

    async fn read_all_here(
        self: Rc<Self>,
        reads: Vec<ShardRead>,
        execution: Arc<OwnedExecution>,
        rate_limits: RateLimits,
        account: Arc<Account>,
    ) -> Result<Answers, CqlError> {
        let mut answers = Vec::with_capacity(reads.len());
        for read in reads {
            let held = Held::nothing_of(&account);
            let rows = self.read_here(read, &execution, rate_limits, None, &held).await;
            let has_failed = rows.is_err();
            answers.push(rows.map(|rows| (rows, held)));
            if has_failed {
                break;
            }
            step_ended().await;
        }
        Ok(answers)
    }
}
