//! Long reads on their shard: queued by what they cost, run in slices between other work.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::executor::ReadFuture;
use super::lane::Lane;
use helenus_engine::{CqlError, Plan, Prepared};
use helenus_transport::aged_queue::Wait;
use helenus_transport::fair_share::{Offer, Turn};
use helenus_transport::request_memory::{Account, Held};
use helenus_types::ShardId;
use tokio::sync::oneshot;

use super::{LongRead, LongWork, SLICE_STEPS_MAX, Tag, WholeRead, WholeTag};
use crate::deadline::{Deadline, not_begun_in_time};
use crate::forward::OwnedExecution;
use crate::panic_boundary::{catch, catch_async};
use crate::shard::Shard;
use crate::shard::deferred_read::DeferredRead;

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

/// Returns whether the cost of a read says something of the next one of its statement. What turned out to be long when it
/// was tried, of one partition, and gives the row that its clustering names, is long by what that row has gone through.
/// What was not tried is of several partitions, and names a row of each.
fn tells_of_others(was_tried: bool, names_one_row: bool) -> bool {
    !(was_tried && names_one_row)
}

fn is_of_one_row(prepared: &Prepared) -> bool {
    matches!(&prepared.plan, Plan::Select(plan) if plan.names_one_row())
}

impl Shard {
    /// Does a part of the work of a read, on another shard in its turn. Given up when the caller is no longer there. The
    /// first of a read is refused as the read would be there; what comes after it would be work done for nothing.
    pub(crate) async fn call_in_turn<T, F>(
        self: &Rc<Self>,
        (shard, is_first): (ShardId, bool),
        execution: &Arc<OwnedExecution>,
        account: &Arc<Account>,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, CqlError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CqlError>> + 'static,
    {
        if shard == self.context.id {
            return work(self.clone()).await;
        }
        let asked = self.ask_in_turn((shard, is_first), execution, account, work);
        asked
            .await
            .unwrap_or_else(|_| Err(self.context.no_answer_from(shard)))
    }

    /// As [`Shard::call_in_turn`], of another shard, while the caller does something else. No answer means that the shard has
    /// stopped, or the work panicked.
    pub(crate) fn ask_in_turn<T, F>(
        &self,
        (shard, is_first): (ShardId, bool),
        execution: &Arc<OwnedExecution>,
        account: &Arc<Account>,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> oneshot::Receiver<Result<T, CqlError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CqlError>> + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let (execution, account) = (execution.clone(), account.clone());
        self.context.mailbox(shard).run(move |shard| {
            let reader = &shard.reader;
            let offer = Offer {
                // It was begun: half of its time is not the bound any more.
                wait: Wait {
                    received_ns: execution.received_ns,
                    wait_ns_max: execution.deadline_ns().saturating_sub(execution.received_ns),
                },
                ..reader.offer_of(&execution, &account)
            };
            let now_ns = shard.context.last_looked_ns();
            if is_first
                && execution.throws_on_overload
                && reader.has_no_time_for(&reader.long_reads.parts, &offer, false, now_ns)
            {
                let _gone = sender.send(Err(not_begun_in_time()));
                return;
            }
            let read = LongRead {
                work: LongWork::Part(Box::new(PartOf { work, sender })),
                cost_ns: offer.cost_ns,
                _held: Held::nothing_of(&account),
            };
            reader.long_reads.push(&offer, read, now_ns);
        });
        receiver
    }

    /// Runs the lanes, a slice at a time. For ever.
    pub(crate) async fn run_long_reads(self: Rc<Self>) {
        loop {
            self.reader.long_reads.work.notified().await;
            while self.run_slice() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Runs a slice of the lanes, and returns whether there is more to do at once.
    fn run_slice(self: &Rc<Self>) -> bool {
        self.serve_begun();
        let began_ns = self.context.look_at_clock();
        let long_reads = &self.reader.long_reads;
        let slice_ns = long_reads.slice_ns(began_ns);
        let (mut now_ns, mut steps) = (began_ns, 0);
        let is_over =
            |now_ns: u64, steps: u32| now_ns.saturating_sub(began_ns) >= slice_ns || steps >= SLICE_STEPS_MAX;
        for lane in long_reads.next_lanes() {
            let lane_began_ns = now_ns;
            while !is_over(now_ns, steps) {
                steps += 1;
                if !self.step_of(lane, now_ns) {
                    break;
                }
                now_ns = self.context.look_at_clock();
            }
            lane.borrow_mut().worked(lane_began_ns, now_ns);
        }
        long_reads.slice_ended(now_ns);
        if self.context.options.shard_count > 1 {
            self.reader.tell_others();
        }
        long_reads.lanes().iter().any(|lane| lane.borrow().can_go_on())
    }

    /// A step of the oldest read that can go on, or the first of the next one; false if there is none.
    fn step_of(self: &Rc<Self>, lane: &RefCell<Lane>, now_ns: u64) -> bool {
        let ready = lane.borrow_mut().take_ready();
        let Some((place, waker, mut started)) = ready else {
            return self.begin_next(lane, now_ns);
        };
        let has_ended = self
            .context
            .watching_stalls("a step of a read", || started.step(&waker));
        started.step_took(self.context.clock.monotonic_ns().saturating_sub(now_ns));
        if has_ended {
            lane.borrow_mut().ended(place, now_ns);
            self.reader.learn_cost(&started);
            self.reader
                .note_ended(&started.tag, self.context.last_looked_ns());
        } else {
            lane.borrow_mut().put_back(place, started);
        }
        true
    }

    fn begin_next(self: &Rc<Self>, lane: &RefCell<Lane>, now_ns: u64) -> bool {
        let next = lane.borrow_mut().next(now_ns);
        let read = match next {
            None => return false,
            Some(Turn::TooLate(read)) => {
                self.reader.refuse_read(read, not_begun_in_time());
                return true;
            }
            Some(Turn::Begin(read)) => read,
        };
        let cost_ns = read.cost_ns;
        match read.work {
            LongWork::Whole(whole) => {
                let tag = WholeTag {
                    prepared: whole.execution.prepared.clone(),
                    received_ns: whole.execution.received_ns,
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

    /// `None` if it was answered.
    fn begin_whole(self: &Rc<Self>, whole: WholeRead) -> Option<ReadFuture> {
        let WholeRead {
            execution,
            asker,
            rate_limits,
            begun,
        } = whole;
        let held = match self.reader.hold_read(&asker) {
            Ok(held) => held,
            Err(error) => {
                self.context.answer_asker(&asker, Err(error));
                return None;
            }
        };
        let shard = self.clone();
        Some(Box::pin(async move {
            let reading = catch_async(shard.select_everywhere(execution, rate_limits, begun, held));
            let result = tokio::task::unconstrained(reading).await;
            shard.context.look_at_clock();
            shard
                .context
                .answer_asker(&asker, result.unwrap_or_else(|panicked| Err(panicked.error())));
        }))
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
