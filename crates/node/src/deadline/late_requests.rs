//! Deadlines on a shard's clock, and the end of requests that are late.

use std::rc::Rc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_transport::deadline::{LATE_LOOK_INTERVAL, nanoseconds};

use super::{Deadline, not_begun_in_time};
use crate::session::RequestContext;
use crate::shard::Shard;

impl Shard {
    /// Looks at the clock once for everything that happens until the next look.
    pub fn look_at_clock(&self) -> u64 {
        self.transport.look_at_clock()
    }

    /// What the clock said when it was last looked at: at most one turn of a connection ago.
    #[inline]
    pub(crate) fn last_looked_ns(&self) -> u64 {
        self.transport.last_looked_ns()
    }

    pub(crate) fn deadline_after(&self, timeout: Duration) -> u64 {
        self.clock.monotonic_ns().saturating_add(nanoseconds(timeout))
    }

    /// When a request must be answered; an error if that was before it could be begun.
    #[inline]
    pub(crate) fn deadline_of(&self, request: &RequestContext<'_>, timeout_ns: u64) -> Result<u64, CqlError> {
        let deadline_ns = request
            .received_ns
            .saturating_add(timeout_ns)
            .min(request.latest_ns);
        if self.last_looked_ns() > deadline_ns {
            return Err(not_begun_in_time());
        }
        Ok(deadline_ns)
    }

    /// Gives `work` up where its shards have not said themselves in time that it is late.
    pub(crate) async fn in_time<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<T, CqlError>>,
    ) -> Result<T, CqlError> {
        let left = deadline.left(self.clock.monotonic_ns()) + 2 * LATE_LOOK_INTERVAL;
        let done = tokio::time::timeout(left, work).await;
        done.unwrap_or_else(|_| Err(deadline.timed_out()))
    }

    /// Answers requests whose time was over while they waited for another shard, the disk or the log.
    pub(crate) async fn give_up_late_requests(self: Rc<Self>) {
        loop {
            tokio::time::sleep(LATE_LOOK_INTERVAL).await;
            let now_ns = self.clock.monotonic_ns();
            self.transport.admission.timer_went_off(now_ns);
            self.planner.free_retired();
            self.tell_of_refused_reads();
            // What background work waits for may come without a word: the logs of other shards, a compactor that another
            // shard gives back, the time after a failure, the age of tombstones.
            if self.store.borrow().may_have_work(now_ns) {
                self.schedule_turn();
            }
            let forwards = self.forwards.borrow_mut().take_late(now_ns);
            for waiting in forwards {
                let error = waiting.deadline.timed_out();
                self.answer_write_later(&waiting.session, waiting.stream, Err(error));
            }
            let reads = self.disk_reads.borrow_mut().take_late(now_ns);
            for read in reads {
                self.answer_asker(&read.asker, Err(read.deadline().timed_out()));
            }
            self.refuse_late_misses(now_ns);
            self.refuse_late_reads(now_ns);
            let writes = self.take_late_writes(now_ns);
            for (acknowledgement, deadline) in writes {
                self.acknowledge(acknowledgement, Err(deadline.timed_out()));
            }
        }
    }
}
