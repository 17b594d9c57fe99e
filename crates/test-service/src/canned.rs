//! The service: canned rows, whatever the statement selects.

use std::rc::Rc;
use std::time::Duration;

use helenus_protocol::extensions::Sharding;
use helenus_protocol::frame::{Envelope, EnvelopeFlags, ResponseTooBig};
use helenus_protocol::request::Request;
use helenus_protocol::response::{
    BindMetadata, ColumnSpec, ErrorBody, MetadataForm, ResultMetadata, RowsWriter, SchemaChange, WireError,
    write_auth_success, write_error, write_prepared, write_void,
};
use helenus_protocol::wire::DecodeError;
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_transport::{
    Conversation, RequestContext, Service, Session, TransportContext, UNDER_WAY_AT_BUSY_MAX,
};
use helenus_types::CqlType;

/// Cells of the answer to a statement that selects from a keyspace of its own, and bytes of each: 400 KB.
const LARGE_CELLS: usize = 20;
const LARGE_CELL_BYTES: usize = 20_000;

/// Text that is answered later, and put back where as many as may be under way at a busy thread are.
pub const PUT_BACK: &str = "PUT BACK";

/// Text for which there is nothing left, however short it has waited.
pub const BEYOND_RATE: &str = "BEYOND RATE";

/// Answers QUERY, EXECUTE and BATCH of anything: a SELECT with rows, `USE` with an error as no keyspace is known, the others
/// with nothing.
pub struct Canned {
    transport: Rc<TransportContext>,
    thread: u16,
    threads: u16,
    authenticator: Option<&'static str>,
    /// The bodies of its two answers with rows.
    row: Box<[u8]>,
    large_rows: Box<[u8]>,
}

/// It remembers nothing of its clients.
#[derive(Default)]
pub struct Nothing;

/// The only errors that it has.
#[derive(Debug)]
pub enum CannedError {
    TooBig(ResponseTooBig),
    NoKeyspace,
    WrongPassword,
}

impl From<ResponseTooBig> for CannedError {
    fn from(too_big: ResponseTooBig) -> Self {
        CannedError::TooBig(too_big)
    }
}

impl CannedError {
    fn body(&self) -> ErrorBody<'static> {
        match self {
            CannedError::TooBig(_) | CannedError::NoKeyspace => ErrorBody::Invalid,
            CannedError::WrongPassword => ErrorBody::BadCredentials,
        }
    }
}

impl WireError for CannedError {
    fn code(&self) -> ErrorCode {
        self.body().code()
    }

    fn write(&self, out: &mut Vec<u8>, version: ProtocolVersion, _knows_rate_limit_error: bool) {
        let text = match self {
            CannedError::TooBig(too_big) => {
                write_error(out, version, &self.body(), too_big);
                return;
            }
            CannedError::NoKeyspace => "There are no keyspaces here",
            CannedError::WrongPassword => "The password is wrong",
        };
        write_error(out, version, &self.body(), text);
    }
}

impl Conversation for Nothing {
    type Error = CannedError;
}

/// Kind of answer to a text.
enum Answer {
    Rows,
    LargeRows,
    Void,
}

fn answer_to(text: &str) -> Result<Answer, CannedError> {
    match text.trim_start().get(..4) {
        Some("SELE") if text.contains("FROM k.") => Ok(Answer::LargeRows),
        Some("SELE") => Ok(Answer::Rows),
        Some("USE ") => Err(CannedError::NoKeyspace),
        _ => Ok(Answer::Void),
    }
}

/// A RESULT of so many rows of one text each.
fn rows(count: usize, cell: &[u8]) -> Box<[u8]> {
    let columns = [ColumnSpec {
        keyspace: "canned",
        table: "rows",
        name: "value",
        data_type: &CqlType::Text,
    }];
    let metadata = ResultMetadata::new(ProtocolVersion::V4, &columns);
    let mut body = Vec::new();
    let mut rows = RowsWriter::begin(&mut body, &metadata, MetadataForm::Full);
    for _ in 0..count {
        rows.value(&mut body, Some(cell));
        rows.end_row();
    }
    rows.finish(&mut body, None);
    body.into()
}

impl Canned {
    pub(crate) fn new(
        transport: Rc<TransportContext>,
        thread: u16,
        threads: u16,
        authenticator: Option<&'static str>,
    ) -> Rc<Self> {
        Rc::new(Canned {
            transport,
            thread,
            threads,
            authenticator,
            row: rows(1, b"canned"),
            large_rows: rows(LARGE_CELLS, &[b'x'; LARGE_CELL_BYTES]),
        })
    }

    /// As for a thread that is busy: with as many of the client's under way as there may be then, this one is put back.
    fn answer_or_put_back(&self, request: RequestContext<'_, Nothing>) {
        let RequestContext { session, stream, .. } = request;
        let under_way = session.outbox().in_flight();
        assert!(under_way <= UNDER_WAY_AT_BUSY_MAX, "{under_way}");
        if under_way == UNDER_WAY_AT_BUSY_MAX {
            assert!(request.may_be_put_back);
            return self.transport.put_back();
        }
        session.expect_answer();
        let (session, row) = (session.clone(), self.row.clone());
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_micros(100)).await;
            session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                out.extend_from_slice(&row);
                Ok::<(), CannedError>(())
            });
        });
    }

    fn respond(&self, request: RequestContext<'_, Nothing>, answer: &Answer) {
        let respond = |body: &[u8]| {
            request
                .session
                .respond(request.stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                    out.extend_from_slice(body);
                    Ok(())
                });
        };
        match answer {
            Answer::Rows => respond(&self.row),
            Answer::LargeRows => respond(&self.large_rows),
            Answer::Void => request
                .session
                .respond_with(request.stream, Opcode::Result, write_void),
        }
    }
}

impl Service for Canned {
    type Conversation = Nothing;

    fn transport(&self) -> &Rc<TransportContext> {
        &self.transport
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        tokio::task::spawn_local(task);
    }

    fn handle(
        self: &Rc<Self>,
        request: RequestContext<'_, Nothing>,
        envelope: &Envelope<'_>,
    ) -> Result<(), DecodeError> {
        let (message, _payload) = Request::decode(envelope)?;
        let answer = match message {
            Request::Query(query) if query.text == PUT_BACK => {
                self.answer_or_put_back(request);
                return Ok(());
            }
            Request::Query(query) => answer_to(query.text),
            Request::Execute(_) => Ok(Answer::Rows),
            Request::Batch(_) => Ok(Answer::Void),
            Request::Prepare(_) => {
                let version = envelope.header.version;
                let (markers, none) = (BindMetadata::new(version, &[], &[]), ResultMetadata::none());
                request
                    .session
                    .respond_with(request.stream, Opcode::Result, |out| {
                        write_prepared(out, version, &[0; 16], &[0; 16], &markers, &none);
                    });
                return Ok(());
            }
            _ => return Err(DecodeError::UnexpectedMessage(envelope.header.opcode)),
        };
        match answer {
            Ok(answer) => self.respond(request, &answer),
            Err(error) => request.session.respond_error(request.stream, &error),
        }
        Ok(())
    }

    fn is_beyond_rate(&self, envelope: &Envelope<'_>) -> bool {
        let mut beginnings = envelope.body.windows(BEYOND_RATE.len());
        beginnings.any(|bytes| bytes == BEYOND_RATE.as_bytes())
    }

    fn authenticator(&self) -> Option<&'static str> {
        self.authenticator
    }

    /// Lets in whoever sends a token that ends in the password `cassandra`, a little later.
    fn log_in(self: &Rc<Self>, session: &Rc<Session<Nothing>>, stream: i16, token: &[u8]) {
        session.expect_answer();
        let (session, is_right) = (session.clone(), token.ends_with(b"\0cassandra"));
        self.spawn(async move {
            tokio::task::yield_now().await;
            if is_right {
                session.set_user("cassandra".into());
            }
            session.respond_later(stream, EnvelopeFlags::NONE, Opcode::AuthSuccess, |out| {
                if !is_right {
                    return Err(CannedError::WrongPassword);
                }
                write_auth_success(out, None);
                Ok(())
            });
        });
    }

    fn sharding(&self, shard_aware_port: Option<u16>) -> Option<Sharding> {
        Some(Sharding {
            shard: u32::from(self.thread),
            shards: u32::from(self.threads),
            shard_aware_port,
        })
    }

    /// Its schema does not change.
    fn on_schema_change(&self, _listener: Box<dyn Fn(&SchemaChange<'_>)>) {}
}
