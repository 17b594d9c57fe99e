//! Long reads on their shard: queued by what they cost, run in slices between other work.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::executor::{ReadFuture, Started};
use super::lane::Lane;
use helenus_engine::error::PreparedId;
use helenus_engine::{CqlError, Plan, Prepared};
use helenus_storage::read_state::ReadState;
use helenus_transport::aged_queue::Wait;
use helenus_transport::fair_share::{ClientId, Offer, Turn};
use helenus_transport::request_memory::{Account, Held, NoMemory};
use helenus_types::ShardId;
use tokio::sync::oneshot;

use super::{
    COST_UNKNOWN_NS, LongRead, LongWork, SLICE_NS, SLICE_STEPS_MAX, TRIED_AT_ONCE_NS_MAX, Tag, WAITING_BYTES,
    WholeRead, WholeTag,
};
use crate::deadline::{Deadline, no_memory, not_begun_in_time};
use crate::forward::OwnedExecution;
use crate::panic_boundary::{catch, catch_async};
use crate::rate_limit::RateLimits;
use crate::read::READ_TASK_BYTES;
use crate::shard::deferred_read::DeferredRead;
use crate::shard::{LearnedCost, Shard};
use crate::suspended_read::Asker;

struct PartOf<W, T> {
    work: W,
    sender: oneshot::Sender<Result<T, CqlError>>,
}

impl<T, F, W> DeferredRead for PartOf<W, T>
where
    T: 'static,
    F: Future<Output = Result<T, CqlError>> + 'static,
    W: FnOnce(Rc<Shard>) -> F + 'static,
{
    fn begin(self: Box<Self>, shard: &Rc<Shard>) -> ReadFuture {
        let PartOf { work, mut sender } = *self;
        let work = work(shard.clone());
        Box::pin(async move {
            let result = tokio::select! {
                biased;
                () = sender.closed() => return,
                result = catch_async(work) => result.unwrap_or_else(|panicked| Err(panicked.error())),
            };
            let _gone = sender.send(result);
        })
    }

    fn refuse(self: Box<Self>, error: CqlError) {
        let _gone = self.sender.send(Err(error));
    }
}

/// Whether what a read took says something of the next one of its statement. What turned out to be long when it was tried, of one
/// partition, and gives the row that its clustering names, is long by what that row has gone through. What was not tried is of several
/// partitions, and names a row of each.
fn tells_of_others(was_tried: bool, names_one_row: bool) -> bool {
    !(was_tried && names_one_row)
}

fn is_of_one_row(prepared: &Prepared) -> bool {
    matches!(&prepared.plan, Plan::Select(plan) if plan.names_one_row())
}

impl Shard {
    /// What a statement costs the shard by what it did before.
    pub(super) fn learned_cost(&self, statement: &PreparedId) -> Option<LearnedCost> {
        self.prepared.borrow().learned_cost(statement)
    }

    pub(super) fn cost_ns_of(&self, statement: &PreparedId) -> u64 {
        self.learned_cost(statement)
            .map_or(COST_UNKNOWN_NS, |cost| cost.cost_ns)
    }

    /// Whether a read is to wait for its turn before anything of it is tried.
    #[inline]
    pub(crate) fn takes_its_turn(&self, statement: &Prepared) -> bool {
        self.long_reads.is_busy() && self.is_known_as_long(&statement.id)
    }

    #[cold]
    fn is_known_as_long(&self, statement: &PreparedId) -> bool {
        self.learned_cost(statement)
            .is_some_and(|cost| cost.cost_ns > TRIED_AT_ONCE_NS_MAX)
    }

    /// Any SELECT, on as many shards as it takes, when its turn comes. `begun` has what was brought already for a read of one
    /// partition of this shard.
    pub(crate) fn queue_read(
        self: &Rc<Self>,
        execution: OwnedExecution,
        asker: Asker,
        rate_limits: RateLimits,
        begun: Option<ReadState>,
    ) {
        let account = self.account_of(&asker);
        let now_ns = self.last_looked_ns();
        let offer = self.offer_of(&execution, &account);
        if execution.throws_on_overload && self.has_no_time_for(&offer, now_ns) {
            return self.answer_asker(&asker, Err(not_begun_in_time()));
        }
        let held = match self.room_for(&account, &offer) {
            Ok(held) => held,
            Err(error) => return self.answer_asker(&asker, Err(error)),
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

    fn offer_of(&self, execution: &OwnedExecution, account: &Arc<Account>) -> Offer {
        let cost_ns = self.cost_ns_of(&execution.prepared.id);
        Offer {
            asker: ClientId::of(account),
            wait: self.wait_of(execution, cost_ns),
            cost_ns,
        }
    }

    /// How long a read may wait to be begun: half of its time, so that the other half is left for the work.
    fn wait_of(&self, execution: &OwnedExecution, cost_ns: u64) -> Wait {
        let time_ns = execution.deadline_ns().saturating_sub(execution.received_ns);
        let wait_ns_max = match execution.throws_on_overload {
            _ if !self.options.admission => time_ns,
            true => (time_ns / 2).min(self.lane_delay_ns_max(cost_ns)),
            false => time_ns / 2,
        };
        Wait {
            received_ns: execution.received_ns,
            wait_ns_max,
        }
    }

    /// What a read that waits takes is charged to its client. Where that has no room, the one of its reads that has waited
    /// longest goes, which is the first to be late.
    fn room_for(self: &Rc<Self>, account: &Arc<Account>, offer: &Offer) -> Result<Held, CqlError> {
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

    fn refuse_read(&self, read: LongRead, error: CqlError) {
        match read.work {
            LongWork::Whole(whole) => self.answer_asker(&whole.asker, Err(error)),
            LongWork::Part(part) => part.refuse(error),
        }
    }

    /// Does a part of the work of a read, on another shard in its turn. Given up when the caller is no longer there.
    pub(crate) async fn call_in_turn<T, F>(
        self: &Rc<Self>,
        shard: ShardId,
        execution: &Arc<OwnedExecution>,
        account: &Arc<Account>,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, CqlError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CqlError>> + 'static,
    {
        if shard == self.id {
            return work(self.clone()).await;
        }
        let (sender, receiver) = oneshot::channel();
        let (execution, account) = (execution.clone(), account.clone());
        self.mailbox(shard).run(move |shard| {
            let offer = Offer {
                // It was begun: half of its time is not the bound any more.
                wait: Wait {
                    received_ns: execution.received_ns,
                    wait_ns_max: execution.deadline_ns().saturating_sub(execution.received_ns),
                },
                ..shard.offer_of(&execution, &account)
            };
            let read = LongRead {
                work: LongWork::Part(Box::new(PartOf { work, sender })),
                cost_ns: offer.cost_ns,
                _held: Held::nothing_of(&account),
            };
            shard.long_reads.push(&offer, read, shard.last_looked_ns());
        });
        receiver.await.unwrap_or_else(|_| Err(self.no_answer_from(shard)))
    }

    /// Runs the lanes, a slice at a time. For ever.
    pub(crate) async fn run_long_reads(self: Rc<Self>) {
        loop {
            self.long_reads.work.notified().await;
            while self.run_slice() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Whether there is more to do at once.
    fn run_slice(self: &Rc<Self>) -> bool {
        let began_ns = self.look_at_clock();
        let (mut now_ns, mut steps) = (began_ns, 0);
        let is_over =
            |now_ns: u64, steps: u32| now_ns.saturating_sub(began_ns) >= SLICE_NS || steps >= SLICE_STEPS_MAX;
        for lane in self.long_reads.next_lanes() {
            let lane_began_ns = now_ns;
            while !is_over(now_ns, steps) {
                steps += 1;
                if !self.step_of(lane, now_ns) {
                    break;
                }
                now_ns = self.look_at_clock();
            }
            lane.borrow_mut().worked(lane_began_ns, now_ns);
        }
        let lanes = self.long_reads.lanes();
        self.long_reads
            .is_busy
            .set(lanes.iter().any(|lane| !lane.borrow().is_empty()));
        lanes.iter().any(|lane| lane.borrow().can_go_on())
    }

    /// A step of the oldest read that can go on, or the first of the next one; false if there is none.
    fn step_of(self: &Rc<Self>, lane: &RefCell<Lane>, now_ns: u64) -> bool {
        let ready = lane.borrow_mut().take_ready();
        let Some((place, waker, mut started)) = ready else {
            return self.begin_next(lane, now_ns);
        };
        let has_ended = self.watching_stalls("a step of a read", || started.step(&waker));
        started.took_ns += self.clock.monotonic_ns().saturating_sub(now_ns);
        if has_ended {
            lane.borrow_mut().ended(place);
            self.learn_cost(&started);
        } else {
            lane.borrow_mut().put_back(place, started);
        }
        true
    }

    fn learn_cost(&self, started: &Started<Tag>) {
        if let Some(whole) = &started.tag.whole
            && whole.tells_of_others
        {
            let mut prepared = self.prepared.borrow_mut();
            let cost = LearnedCost {
                cost_ns: started.took_ns,
                was_tried: whole.was_tried,
            };
            prepared.learn_cost(&whole.statement, cost);
        }
    }

    fn begin_next(self: &Rc<Self>, lane: &RefCell<Lane>, now_ns: u64) -> bool {
        let next = lane.borrow_mut().next(now_ns);
        let read = match next {
            None => return false,
            Some(Turn::TooLate(read)) => {
                self.refuse_read(read, not_begun_in_time());
                return true;
            }
            Some(Turn::Begin(read)) => read,
        };
        let cost_ns = read.cost_ns;
        match read.work {
            LongWork::Whole(whole) => {
                let tag = WholeTag {
                    statement: whole.execution.prepared.id,
                    was_tried: whole.begun.is_some(),
                    tells_of_others: tells_of_others(
                        whole.begun.is_some(),
                        is_of_one_row(&whole.execution.prepared),
                    ),
                    asker: whole.asker.clone(),
                    deadline: Deadline::of_read(&whole.execution.options()),
                };
                if let Some(future) = self.begin_whole(*whole) {
                    let whole = Some(tag);
                    lane.borrow_mut().start(future, Tag { cost_ns, whole });
                }
            }
            LongWork::Part(part) => {
                let shard = self.clone();
                if let Ok(future) = catch(move || part.begin(&shard)) {
                    lane.borrow_mut().start(future, Tag { cost_ns, whole: None });
                }
            }
        }
        true
    }

    /// What a read takes before it has a row is charged to its client.
    fn hold_read(&self, asker: &Asker) -> Result<Held, CqlError> {
        let held = Held::nothing_of(&self.account_of(asker));
        held.try_set(READ_TASK_BYTES).map_err(no_memory)?;
        Ok(held)
    }

    /// `None` if it was answered.
    fn begin_whole(self: &Rc<Self>, whole: WholeRead) -> Option<ReadFuture> {
        let WholeRead {
            execution,
            asker,
            rate_limits,
            begun,
        } = whole;
        let held = match self.hold_read(&asker) {
            Ok(held) => held,
            Err(error) => {
                self.answer_asker(&asker, Err(error));
                return None;
            }
        };
        let shard = self.clone();
        Some(Box::pin(async move {
            let reading = catch_async(shard.select_everywhere(execution, rate_limits, begun, held));
            let result = tokio::task::unconstrained(reading).await;
            shard.look_at_clock();
            shard.answer_asker(&asker, result.unwrap_or_else(|panicked| Err(panicked.error())));
        }))
    }

    /// Refuses reads that were not begun in time, and ends those whose time is over.
    pub(crate) fn refuse_late_reads(self: &Rc<Self>, now_ns: u64) {
        for lane in self.long_reads.lanes() {
            loop {
                let late = lane.borrow_mut().pop_late(now_ns);
                let Some(late) = late else { break };
                self.refuse_read(late, not_begun_in_time());
            }
            let over = lane.borrow_mut().take_over(now_ns);
            for started in over {
                if let Some(whole) = &started.tag.whole {
                    self.answer_asker(&whole.asker, Err(whole.deadline.timed_out()));
                }
            }
        }
        if self.long_reads.is_busy() {
            self.long_reads.work.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tells_of_others;

    /// An IN of nine partitions that names a row of each was never learned, and taken to cost twelve times what it does: of 256 in
    /// flight most were refused.
    #[test]
    fn a_read_of_a_row_of_several_partitions_tells_what_the_next_one_costs() {
        assert!(tells_of_others(false, true));
        assert!(tells_of_others(true, false) && tells_of_others(false, false));
        assert!(!tells_of_others(true, true));
    }
}
