//! Deadlines on a shard's clock, and the end of requests that are late.

use std::rc::Rc;

use helenus_transport::deadline::LATE_LOOK_INTERVAL;

use crate::shard::Shard;

impl Shard {
    /// Answers requests whose time was over while they waited for another shard, the disk or the log.
    pub(crate) async fn give_up_late_requests(self: Rc<Self>) {
        loop {
            self.context.transport.pause(LATE_LOOK_INTERVAL).await;
            let now_ns = self.context.clock.monotonic_ns();
            self.context.transport.admission.timer_went_off(now_ns);
            self.planner.free_retired();
            self.reader.tell_of_refused_reads();
            // What background work waits for may come without a word: the logs of other shards, a compactor that another
            // shard gives back, the time after a failure, the age of tombstones.
            if self.store.borrow().may_have_work(now_ns) {
                self.persistence.schedule_turn();
            }
            let forwards = self.forwards.borrow_mut().take_late(now_ns);
            for waiting in forwards {
                let error = waiting.deadline.timed_out();
                self.context
                    .answer_write_later(&waiting.session, waiting.stream, Err(error));
            }
            let reads = self.reader.disk_reads.borrow_mut().take_late(now_ns);
            for read in reads {
                let (execution, is_of_other_shard) = (&read.execution, read.asker.is_shard());
                self.context.note_query(
                    &execution.prepared,
                    execution.received_ns,
                    now_ns,
                    is_of_other_shard,
                );
                self.context
                    .answer_asker(&read.asker, Err(read.deadline().timed_out()));
            }
            self.reader.refuse_late_misses(now_ns);
            self.reader.refuse_late_reads(now_ns);
            let writes = self.persistence.take_late_writes(now_ns);
            for (acknowledgement, deadline) in writes {
                self.acknowledge(acknowledgement, Err(deadline.timed_out()));
            }
        }
    }
}
