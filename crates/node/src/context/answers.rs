//! Answers that come later than their requests: to clients of this shard, and to other shards.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::{CqlError, Prepared};
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::response::write_void;
use helenus_transport::request_memory::{Account, Held};
use helenus_types::ShardId;

use super::ShardContext;
use crate::deadline::Deadline;
use crate::forward::{ForwardedAnswer, ForwardedResult, Ticket};
use crate::panic_boundary::catch_boxed;
use crate::session::Session;
use crate::suspended_read::Asker;

impl ShardContext {
    pub(crate) fn account_of_session(&self, session: &Session) -> Arc<Account> {
        // One that is nobody's connection has what it asks for by itself.
        session
            .account()
            .map_or_else(|| Account::of(self.request_memory()), Arc::clone)
    }

    /// Whom what is made for the asker is charged to.
    pub(crate) fn account_of(&self, asker: &Asker) -> Arc<Account> {
        match asker {
            Asker::Session { session, .. } => self.account_of_session(session),
            Asker::Shard { account, .. } => account.clone(),
        }
    }

    /// Charges updates that wait for memory, a log or another shard.
    pub(crate) fn waiting(&self, session: &Session, bytes: usize) -> Option<Held> {
        Held::waiting(&self.account_of_session(session), bytes)
    }

    /// Starts the task that answers a request, charged to the client. If it panics, the request is answered with a server
    /// error.
    pub(crate) fn answer_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        task: impl Future<Output = ()> + 'static,
    ) {
        let bytes = size_of_val(&task);
        self.answer_later_boxed(session, stream, bytes, Box::pin(task));
    }

    fn answer_later_boxed(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        bytes: usize,
        task: Pin<Box<dyn Future<Output = ()>>>,
    ) {
        session.expect_answer();
        let held = Held::nothing_of(&self.account_of_session(session));
        held.set(bytes);
        let (context, session) = (self.clone(), session.clone());
        let begun_ns = self.clock.monotonic_ns();
        self.spawn(async move {
            let _charged_to_the_end = held;
            let outcome = catch_boxed(task).await;
            context
                .foreground
                .request_took(context.clock.monotonic_ns().saturating_sub(begun_ns));
            if let Err(panicked) = outcome {
                context.answer_write_later(&session, stream, Err(panicked.error()));
            }
        });
    }

    /// Answers a write once `written` has come to an end or its time is over, warning the client besides.
    pub(crate) fn answer_write(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        warnings: Vec<String>,
        deadline: Deadline,
        written: impl Future<Output = Result<(), CqlError>> + 'static,
    ) {
        let context = self.clone();
        let answered = session.clone();
        self.answer_later(session, stream, async move {
            let result = context.in_time(deadline, written).await;
            context.count_failure(&result);
            let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
            answered.respond_later_warning(stream, Opcode::Result, &warnings, |out| {
                result?;
                write_void(out);
                Ok(())
            });
        });
    }

    pub(crate) fn answer_write_later(
        &self,
        session: &Rc<Session>,
        stream: i16,
        result: Result<(), CqlError>,
    ) {
        self.count_failure(&result);
        session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            result?;
            write_void(out);
            Ok(())
        });
    }

    pub(crate) fn answer_forwarded_write(&self, from: ShardId, ticket: Ticket, result: Result<(), CqlError>) {
        let result = result.map(|()| {
            let mut body = Vec::new();
            write_void(&mut body);
            body.into()
        });
        self.mailbox(from).answered(ticket, result);
    }

    /// Writes an answer that came later.
    pub(crate) fn answer_read(&self, session: &Session, stream: i16, result: ForwardedResult) {
        self.count_failure(&result);
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                return session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error));
            }
        };
        self.answer_with(session, stream, &answer);
    }

    pub(crate) fn answer_with(&self, session: &Session, stream: i16, answer: &ForwardedAnswer) {
        let warnings: Vec<&str> = answer.warnings.iter().map(String::as_str).collect();
        session.pass_on_later(stream, &warnings, &answer.body);
    }

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

    /// A read of a request that came at `received_ns` has ended at `now_ns`, or was given up.
    #[inline]
    pub(crate) fn note_query(
        &self,
        prepared: &Prepared,
        received_ns: u64,
        now_ns: u64,
        is_of_other_shard: bool,
    ) {
        let took_ns = now_ns.saturating_sub(received_ns);
        if self.slow_queries.is_slow(took_ns) {
            let now_us = self.clock.wall_us();
            self.slow_queries
                .note(prepared, took_ns, now_us, is_of_other_shard);
        }
    }

    /// For what sets the pace of compactions.
    pub(crate) fn note_answered(&self, asker: &Asker) {
        if let Asker::Session { begun_ns, .. } = asker {
            let took_ns = self.last_looked_ns().saturating_sub(*begun_ns);
            self.foreground.request_took(took_ns);
        }
    }
}
