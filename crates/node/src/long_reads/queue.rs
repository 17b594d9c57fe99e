//! The queues of long reads: who gets a place, by what a read is known to cost.

use std::sync::Arc;

use helenus_engine::error::PreparedId;
use helenus_engine::{CqlError, Prepared};
use helenus_storage::read_state::ReadState;
use helenus_transport::aged_queue::Wait;
use helenus_transport::fair_share::{ClientId, Offer};
use helenus_transport::request_memory::{Account, Held, NoMemory};

use super::executor::Started;
use super::{
    COST_UNKNOWN_NS, LongRead, LongWork, TRIED_AT_ONCE_NS_MAX, TRIED_IN_VAIN_NS, Tag, WAITING_BYTES,
    WholeRead,
};
use crate::deadline::{no_memory, not_begun_in_time};
use crate::forward::OwnedExecution;
use crate::rate_limit::RateLimits;
use crate::reader::{READ_TASK_BYTES, Reader};
use crate::shard::LearnedCost;
use crate::suspended_read::Asker;

impl Reader {
    /// Cost of a statement to the shard, by what it did before.
    pub(super) fn learned_cost(&self, statement: &PreparedId) -> Option<LearnedCost> {
        self.prepared.borrow().learned_cost(statement)
    }

    pub(super) fn cost_ns_of(&self, statement: &PreparedId) -> u64 {
        self.learned_cost(statement)
            .map_or(COST_UNKNOWN_NS, |cost| cost.cost_ns)
    }

    /// Returns whether a read is to wait for its turn before anything of it is tried.
    #[inline]
    pub(crate) fn takes_its_turn(&self, statement: &Prepared) -> bool {
        self.long_reads.is_busy() && self.is_known_as_long(&statement.id)
    }

    #[cold]
    fn is_known_as_long(&self, statement: &PreparedId) -> bool {
        self.learned_cost(statement)
            .is_some_and(|cost| cost.cost_ns > TRIED_AT_ONCE_NS_MAX)
    }

    /// Returns whether a read has been so short that it may be tried before others have their turns.
    pub(crate) fn is_known_as_short(&self, statement: &PreparedId) -> bool {
        self.learned_cost(statement)
            .is_some_and(|cost| cost.cost_ns <= TRIED_AT_ONCE_NS_MAX)
    }

    /// A read was answered before others had their turns: if that takes long by now, the next ones have theirs.
    pub(crate) fn learn_answered_at_once(&self, statement: &PreparedId, cost_ns: u64) {
        let cost = LearnedCost {
            cost_ns,
            was_tried: true,
        };
        self.prepared.borrow_mut().learn_cost(statement, cost);
    }

    /// A read that was tried before others had their turns has not come to its end: too many such are not tried.
    pub(crate) fn learn_tried_in_vain(&self, statement: &PreparedId) {
        let cost = LearnedCost {
            cost_ns: TRIED_IN_VAIN_NS,
            was_tried: true,
        };
        self.prepared.borrow_mut().learn_cost(statement, cost);
    }

    /// Any SELECT, on as many shards as it takes, when its turn comes. `begun` has what was brought already for a read of one
    /// partition of this shard.
    pub(crate) fn queue_read(
        &self,
        execution: OwnedExecution,
        asker: Asker,
        rate_limits: RateLimits,
        begun: Option<ReadState>,
    ) {
        let account = self.context.account_of(&asker);
        let now_ns = self.context.last_looked_ns();
        let offer = self.offer_of(&execution, &account);
        if execution.throws_on_overload
            && self.has_no_time_for(&self.long_reads.wholes, &offer, asker.is_shard(), now_ns)
        {
            return self.context.answer_asker(&asker, Err(not_begun_in_time()));
        }
        let held = match self.room_for(&account, &offer) {
            Ok(held) => held,
            Err(error) => return self.context.answer_asker(&asker, Err(error)),
        };
        let read = LongRead {
            work: LongWork::Whole(Box::new(WholeRead {
                execution,
                asker,
                rate_limits,
                begun,
            })),
            cost_ns: offer.cost_ns,
            _held: held,
        };
        self.long_reads.push(&offer, read, now_ns);
    }

    pub(super) fn offer_of(&self, execution: &OwnedExecution, account: &Arc<Account>) -> Offer {
        let cost_ns = self.cost_ns_of(&execution.prepared.id);
        Offer {
            asker: ClientId::of(account),
            kept_requests: account.kept_requests(),
            wait: self.wait_of(execution, cost_ns),
            cost_ns,
        }
    }

    /// How long a read may wait to be begun: half of its time, so that the other half is left for the work.
    fn wait_of(&self, execution: &OwnedExecution, cost_ns: u64) -> Wait {
        let time_ns = execution.deadline_ns().saturating_sub(execution.received_ns);
        let wait_ns_max = match execution.throws_on_overload {
            _ if !self.context.options.admission => time_ns,
            true => (time_ns / 2).min(self.lane_delay_ns_max(cost_ns)),
            false => time_ns / 2,
        };
        Wait {
            received_ns: execution.received_ns,
            wait_ns_max,
        }
    }

    /// Charges a waiting read to its client. Where that has no room, the one of its reads that has waited longest goes,
    /// which is the first to be late.
    fn room_for(&self, account: &Arc<Account>, offer: &Offer) -> Result<Held, CqlError> {
        let held = Held::nothing_of(account);
        if held.try_set(WAITING_BYTES).is_ok() {
            return Ok(held);
        }
        let oldest = self
            .long_reads
            .lane_of(offer.cost_ns)
            .borrow_mut()
            .take_oldest_of(offer.asker);
        match oldest {
            Some(oldest) if !account.is_closed() => {
                self.refuse_read(oldest, no_memory(NoMemory));
                Ok(held)
            }
            _ => Err(no_memory(NoMemory)),
        }
    }

    pub(super) fn refuse_read(&self, read: LongRead, error: CqlError) {
        match read.work {
            LongWork::Whole(whole) => self.context.answer_asker(&whole.asker, Err(error)),
            LongWork::Part(part) => part.refuse(error),
        }
    }

    pub(super) fn learn_cost(&self, started: &Started<Tag>) {
        if let Some(whole) = &started.tag.whole
            && whole.tells_of_others
        {
            let mut prepared = self.prepared.borrow_mut();
            let cost = LearnedCost {
                cost_ns: started.took_ns,
                was_tried: whole.was_tried,
            };
            prepared.learn_cost(&whole.prepared.id, cost);
        }
    }

    /// A read has ended at `now_ns`, or was given up.
    pub(super) fn note_ended(&self, tag: &Tag, now_ns: u64) {
        if let Some(whole) = &tag.whole {
            let is_of_other_shard = whole.asker.is_shard();
            self.context
                .note_query(&whole.prepared, whole.received_ns, now_ns, is_of_other_shard);
        }
    }

    /// Charges to a client what its read takes before it has a row.
    pub(super) fn hold_read(&self, asker: &Asker) -> Result<Held, CqlError> {
        let held = Held::nothing_of(&self.context.account_of(asker));
        held.try_set(READ_TASK_BYTES).map_err(no_memory)?;
        Ok(held)
    }

    /// Refuses reads that were not begun in time, and ends those whose time is over.
    pub(crate) fn refuse_late_reads(&self, now_ns: u64) {
        for lane in self.long_reads.lanes() {
            loop {
                let late = lane.borrow_mut().pop_late(now_ns);
                let Some(late) = late else { break };
                self.refuse_read(late, not_begun_in_time());
            }
            let over = lane.borrow_mut().take_over(now_ns);
            for started in over {
                self.note_ended(&started.tag, now_ns);
                if let Some(whole) = &started.tag.whole {
                    self.context
                        .answer_asker(&whole.asker, Err(whole.deadline.timed_out()));
                }
            }
        }
        if self.long_reads.is_busy() {
            self.long_reads.work.notify_one();
        }
    }
}
