//! Steps of a read of one partition: tried, suspended, resumed, answered.

use helenus_engine::select::Direct;
use helenus_engine::{CqlError, Plan};
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_sstable::AbsentPages;
use helenus_storage::read_state::ReadState;
use helenus_vfs::read_queue::FailedRead;

use super::{Asker, SuspendedRead};
use crate::forward::{ForwardedAnswer, OwnedExecution};
use crate::panic_boundary::catch;
use crate::rate_limit::RateLimits;
use crate::reader::Reader;

impl Reader {
    /// Does what a try of the short way has left to be done.
    pub(crate) fn go_on(&self, read: Box<SuspendedRead>, direct: Direct) {
        match direct {
            Direct::Done => {}
            Direct::Absent(absent) => self.bring_in_turn(read, absent),
            Direct::Unsuitable => {
                let SuspendedRead {
                    execution,
                    asker,
                    mut state,
                    ..
                } = *read;
                state.begin_again();
                self.queue_read(execution, asker, RateLimits::Checked, Some(state));
            }
        }
    }

    /// A try of the short way. If it panics, the asker is told.
    pub(crate) fn try_directly(&self, read: Box<SuspendedRead>) {
        self.answering_failures(read, |reader, mut read| {
            let direct = reader.read_directly(&mut read)?;
            if reader.disk_is_busy.get() {
                reader.learn_miss(&read.execution.prepared.id, matches!(direct, Direct::Absent(_)));
            }
            reader.go_on(read, direct);
            Ok(())
        });
    }

    /// The disk has brought what a read lacks, or failed to.
    pub(crate) fn resume(
        &self,
        read: Box<SuspendedRead>,
        absent: &AbsentPages,
        stored: Result<Vec<u8>, FailedRead>,
    ) {
        self.answering_failures(read, |reader, mut read| {
            reader.deliver(&read.state, absent, stored)?;
            read.has_waited = true;
            read.state.begin_again();
            let direct = reader.read_directly(&mut read)?;
            reader.go_on(read, direct);
            Ok(())
        });
    }

    fn answering_failures(
        &self,
        read: Box<SuspendedRead>,
        work: impl FnOnce(&Self, Box<SuspendedRead>) -> Result<(), CqlError>,
    ) {
        let asker = read.asker.clone();
        let result = catch(|| work(self, read));
        if let Err(error) = result.unwrap_or_else(|panicked| Err(panicked.error())) {
            self.context.answer_asker(&asker, Err(error));
        }
    }

    /// Answers if the read is over.
    fn read_directly(&self, read: &mut SuspendedRead) -> Result<Direct, CqlError> {
        let SuspendedRead {
            execution,
            asker,
            state,
            ..
        } = read;
        match asker {
            Asker::Session { session, stream, .. } => {
                let mut direct = Direct::Unsuitable;
                session.try_respond(*stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                    direct = self.execute_directly(execution, state, out)?;
                    Ok(matches!(direct, Direct::Done))
                })?;
                if matches!(direct, Direct::Done) {
                    session.answer_came();
                    self.store.borrow().end_read(state);
                    self.context.note_answered(asker);
                    self.note_query(execution, false);
                }
                Ok(direct)
            }
            Asker::Shard {
                from,
                ticket,
                account,
            } => {
                let mut body = Vec::new();
                let direct = self.execute_directly(execution, state, &mut body)?;
                if matches!(direct, Direct::Done) {
                    self.note_query(execution, true);
                    let answer = Ok(ForwardedAnswer::from(body));
                    self.context
                        .mailbox(*from)
                        .read_answered(*ticket, account, answer);
                }
                Ok(direct)
            }
        }
    }

    fn note_query(&self, execution: &OwnedExecution, is_of_other_shard: bool) {
        let (prepared, now_ns) = (&execution.prepared, self.context.last_looked_ns());
        self.context
            .note_query(prepared, execution.received_ns, now_ns, is_of_other_shard);
    }

    fn execute_directly(
        &self,
        execution: &OwnedExecution,
        state: &mut ReadState,
        out: &mut Vec<u8>,
    ) -> Result<Direct, CqlError> {
        execution.with(|plan, values, options| {
            let Plan::Select(plan) = plan else {
                return Ok(Direct::Unsuitable);
            };
            let scratch = &mut *self.scratch.borrow_mut();
            match plan.direct(values, options, scratch)? {
                Some(read) => self.counted(execution.traced.as_ref(), || {
                    read.execute(&mut self.counting_store(), state, out)
                }),
                None => Ok(Direct::Unsuitable),
            }
        })
    }
}
