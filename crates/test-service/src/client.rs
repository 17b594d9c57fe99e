//! A client that says exactly what it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_protocol::frame::{
    Envelope, EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer,
};
use helenus_protocol::request::{
    BindValues, QueryParameters, Value, write_auth_response, write_execute, write_prepare, write_query,
    write_startup,
};
use helenus_protocol::response::{ReceivedPrelude, ReceivedResult, Response};
use helenus_protocol::{Consistency, Direction, ErrorCode, Opcode, ProtocolVersion};

/// Longer than any answer takes on a busy machine; a test that reaches it hangs for another reason.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One connection, blocking.
pub struct Client {
    pub stream: TcpStream,
    version: ProtocolVersion,
    reader: FrameReader,
    received: ReceiveBuffer,
    writer: FrameWriter,
}

/// Reply of the server, or the end of the connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Message(Opcode),
    Error(ErrorCode, String),
    Closed,
}

impl Client {
    pub fn connect(address: SocketAddr, version: ProtocolVersion) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            stream,
            version,
            reader: FrameReader::new(Direction::Response, FrameLimits::default()),
            received: ReceiveBuffer::new(),
            writer: FrameWriter::new(),
        }
    }

    pub fn open(address: SocketAddr, version: ProtocolVersion) -> Client {
        Client::open_with(address, version, &[])
    }

    /// `options`: what its STARTUP asks for besides.
    pub fn open_with(address: SocketAddr, version: ProtocolVersion, options: &[(&str, &str)]) -> Client {
        let mut client = Client::begin(address, version, options, Opcode::Ready);
        client.reader.ready();
        client
    }

    /// A client that is asked for its password.
    pub fn start(address: SocketAddr, version: ProtocolVersion) -> Client {
        Client::begin(address, version, &[], Opcode::Authenticate)
    }

    fn begin(
        address: SocketAddr,
        version: ProtocolVersion,
        options: &[(&str, &str)],
        answer: Opcode,
    ) -> Client {
        let mut client = Client::connect(address, version);
        let startup = client.startup_with(options);
        client.send(&startup);
        assert_eq!(client.reply(), Reply::Message(answer));
        client.writer.startup_answered(version, None);
        client.reader.startup_answered(version, None);
        client
    }

    pub fn log_in_as(address: SocketAddr, user: &str, password: &str) -> Client {
        let mut client = Client::start(address, ProtocolVersion::V5);
        assert_eq!(client.log_in(user, password), Reply::Message(Opcode::AuthSuccess));
        client
    }

    pub fn log_in(&mut self, user: &str, password: &str) -> Reply {
        let token = self.auth_response(user, password);
        self.send(&token);
        let reply = self.reply();
        if reply == Reply::Message(Opcode::AuthSuccess) {
            self.reader.ready();
        }
        reply
    }

    pub fn auth_response(&mut self, user: &str, password: &str) -> Vec<u8> {
        let token = format!("\0{user}\0{password}");
        self.message(Opcode::AuthResponse, |out| {
            write_auth_response(out, token.as_bytes())
        })
    }

    pub fn message(&mut self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mark = self
            .writer
            .begin(&mut bytes, self.version, EnvelopeFlags::NONE, 1, opcode);
        body(&mut bytes);
        self.writer.finish(&mut bytes, mark).unwrap();
        self.writer.flush(&mut bytes);
        bytes
    }

    pub fn startup(&mut self) -> Vec<u8> {
        self.startup_with(&[])
    }

    fn startup_with(&mut self, options: &[(&str, &str)]) -> Vec<u8> {
        let options = [&[("CQL_VERSION", "3.0.0")], options].concat();
        self.message(Opcode::Startup, |out| write_startup(out, &options))
    }

    pub fn query(&mut self, text: &str) -> Vec<u8> {
        self.query_with(text, &QueryParameters::new(Consistency::One), BindValues::NONE)
    }

    pub fn query_with(
        &mut self,
        text: &str,
        parameters: &QueryParameters<'_>,
        values: BindValues<'_>,
    ) -> Vec<u8> {
        let version = self.version;
        self.message(Opcode::Query, |out| {
            write_query(out, version, text, parameters, values)
        })
    }

    /// The id of a prepared statement.
    pub fn prepare(&mut self, text: &str) -> Vec<u8> {
        let version = self.version;
        let prepare = self.message(Opcode::Prepare, |out| write_prepare(out, version, text, None));
        self.send(&prepare);
        let id = self.next(|opcode, response| match response {
            Response::Result(ReceivedResult::Prepared(prepared)) => prepared.statement_id.to_vec(),
            other => panic!("{opcode:?}: {other:?}"),
        });
        id.expect("an id and not the end")
    }

    pub fn execute(&mut self, id: &[u8], values: &[Value<'_>]) -> Vec<u8> {
        let version = self.version;
        let parameters = QueryParameters::new(Consistency::One);
        self.message(Opcode::Execute, |out| {
            write_execute(out, version, id, &[], &parameters, BindValues::Positional(values))
        })
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The server may have closed already; the reply tells.
        let _closed = self.stream.write_all(bytes);
    }

    pub fn ask(&mut self, text: &str) -> Reply {
        let query = self.query(text);
        self.send(&query);
        self.reply()
    }

    /// The rows of a statement that must have some, their values as text.
    pub fn ask_rows(&mut self, text: &str) -> Vec<Vec<String>> {
        let query = self.query(text);
        self.send(&query);
        let rows = self.next(|opcode, response| match response {
            Response::Result(ReceivedResult::Rows(rows)) => rows
                .iter()
                .map(|row| {
                    row.map(|value| String::from_utf8_lossy(value.unwrap_or_default()).into_owned())
                        .collect()
                })
                .collect(),
            other => panic!("{opcode:?}: {other:?}"),
        });
        rows.expect("rows and not the end")
    }

    pub fn reply(&mut self) -> Reply {
        let reply = self.next(|opcode, response| match response {
            Response::Error(error) => Reply::Error(error.body.code(), error.message.to_owned()),
            _ => Reply::Message(opcode),
        });
        reply.unwrap_or(Reply::Closed)
    }

    /// The stream of the next response, which has to be a RESULT.
    pub fn answered_stream(&mut self) -> i16 {
        let stream = self.next_envelope(|envelope| {
            assert_eq!(envelope.header.opcode, Opcode::Result);
            envelope.header.stream
        });
        stream.expect("an answer")
    }

    /// The next response as `read` sees it, with its warnings; `None` at the connection's end.
    pub fn received<T>(&mut self, read: impl FnOnce(Response<'_>, &ReceivedPrelude<'_>) -> T) -> Option<T> {
        self.next_envelope(|envelope| {
            let (response, prelude) = Response::decode(envelope).expect("a valid response");
            read(response, &prelude)
        })
    }

    fn next<T>(&mut self, read: impl FnOnce(Opcode, Response<'_>) -> T) -> Option<T> {
        self.next_envelope(|envelope| {
            let (response, _prelude) = Response::decode(envelope).expect("a valid response");
            read(envelope.header.opcode, response)
        })
    }

    fn next_envelope<T>(&mut self, read: impl FnOnce(&Envelope<'_>) -> T) -> Option<T> {
        loop {
            if let Some(envelope) = self
                .reader
                .next_envelope(&mut self.received)
                .expect("a valid frame")
            {
                return Some(read(&envelope));
            }
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.received.feed(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("neither an answer nor the end: {error}"),
            }
        }
    }
}

/// A v4 header for a body of `length` bytes.
pub fn header(version: u8, opcode: u8, length: u32) -> Vec<u8> {
    let mut bytes = vec![version, 0, 0, 1, opcode];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}
