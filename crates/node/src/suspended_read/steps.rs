//! Steps of a read of one partition: tried, suspended, resumed, answered.

use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::select::Direct;
use helenus_engine::{CqlError, Plan};
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_sstable::AbsentPages;
use helenus_storage::read_state::ReadState;
use helenus_transport::request_memory::Account;
use helenus_vfs::read_queue::FailedRead;

use super::{Asker, SuspendedRead};
use crate::forward::{ForwardedAnswer, ForwardedResult, OwnedExecution};
use crate::panic_boundary::catch;
use crate::rate_limit::RateLimits;
use crate::read::CountingStore;
use crate::session::Session;
use crate::shard::Shard;

impl Shard {
    /// The session is to be answered later.
    pub(crate) fn asker(&self, session: &Rc<Session>, stream: i16) -> Asker {
        session.expect_answer();
        Asker::Session {
            session: session.clone(),
            stream,
            begun_ns: self.last_looked_ns(),
        }
    }

    pub(crate) fn answer_asker(&self, asker: &Asker, result: ForwardedResult) {
        match asker {
            Asker::Session { session, stream, .. } => {
                self.note_answered(asker);
                self.answer_read(session, *stream, result);
            }
            Asker::Shard {
                from,
                ticket,
                account,
            } => self.mailbox(*from).read_answered(*ticket, account, result),
        }
    }

    /// Whom what is made for the asker is charged to.
    pub(crate) fn account_of(&self, asker: &Asker) -> Arc<Account> {
        match asker {
            Asker::Session { session, .. } => self.account_of_session(session),
            Asker::Shard { account, .. } => account.clone(),
        }
    }

    pub(crate) fn account_of_session(&self, session: &Session) -> Arc<Account> {
        // One that is nobody's connection has what it asks for by itself.
        session
            .account()
            .map_or_else(|| Account::of(self.request_memory()), Arc::clone)
    }

    /// For what sets the pace of compactions.
    fn note_answered(&self, asker: &Asker) {
        if let Asker::Session { begun_ns, .. } = asker {
            let took_ns = self.last_looked_ns().saturating_sub(*begun_ns);
            self.foreground.request_took(took_ns);
        }
    }

    /// Does what a try of the short way has left to be done.
    pub(crate) fn go_on(self: &Rc<Self>, read: Box<SuspendedRead>, direct: Direct) {
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
    pub(crate) fn try_directly(self: &Rc<Self>, read: Box<SuspendedRead>) {
        self.answering_failures(read, |shard, mut read| {
            let direct = shard.read_directly(&mut read)?;
            if shard.disk_is_busy.get() {
                shard.learn_miss(&read.execution.prepared.id, matches!(direct, Direct::Absent(_)));
            }
            shard.go_on(read, direct);
            Ok(())
        });
    }

    /// The disk has brought what a read lacks, or failed to.
    pub(crate) fn resume(
        self: &Rc<Self>,
        read: Box<SuspendedRead>,
        absent: &AbsentPages,
        stored: Result<Vec<u8>, FailedRead>,
    ) {
        self.answering_failures(read, |shard, mut read| {
            shard.deliver(&read.state, absent, stored)?;
            read.has_waited = true;
            read.state.begin_again();
            let direct = shard.read_directly(&mut read)?;
            shard.go_on(read, direct);
            Ok(())
        });
    }

    fn answering_failures(
        self: &Rc<Self>,
        read: Box<SuspendedRead>,
        work: impl FnOnce(&Rc<Self>, Box<SuspendedRead>) -> Result<(), CqlError>,
    ) {
        let asker = read.asker.clone();
        let result = catch(|| work(self, read));
        if let Err(error) = result.unwrap_or_else(|panicked| Err(panicked.error())) {
            self.answer_asker(&asker, Err(error));
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
                    self.note_answered(asker);
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
                    let answer = Ok(ForwardedAnswer::from(body));
                    self.mailbox(*from).read_answered(*ticket, account, answer);
                }
                Ok(direct)
            }
        }
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
                Some(read) => read.execute(&mut CountingStore { shard: self }, state, out),
                None => Ok(Direct::Unsuitable),
            }
        })
    }
}
