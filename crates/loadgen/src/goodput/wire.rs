//! A blocking connection: what sets a load up, and becomes one of its lines.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_protocol::frame::{EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer};
use helenus_protocol::request::{self, BindValues, QueryParameters};
use helenus_protocol::wire::WireReader;
use helenus_protocol::{Consistency, Direction, Opcode, ProtocolVersion, extensions};

/// Every server that this is pointed at speaks v4, whose frames need no checksums.
pub const VERSION: ProtocolVersion = ProtocolVersion::V4;

/// A server that is silent for so long while a load is set up is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Rows written before their answers are read.
const FILL_IN_FLIGHT: usize = 64;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Protocol(String),
    #[error("the server answered {0}")]
    Answer(String),
    #[error("the process of the server is not known: --server-pid")]
    NoProcess,
    #[error("a user to compare with is not known: --login")]
    NoLogin,
    #[error("the server was silent for {} s", SILENCE_MAX.as_secs())]
    Silent,
}

impl WireError {
    pub fn protocol(error: impl std::fmt::Display) -> Self {
        WireError::Protocol(error.to_string())
    }
}

/// Credentials, for a server that asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

pub struct WireClient {
    stream: TcpStream,
    reader: FrameReader,
    received: ReceiveBuffer,
}

impl WireClient {
    /// Connects, completes STARTUP and logs in where that is asked for; `throws_on_overload` asks to be told of overload by an error, as
    /// no driver does by itself.
    pub fn connect(
        address: SocketAddr,
        throws_on_overload: bool,
        login: Option<&Login>,
    ) -> Result<WireClient, WireError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let mut client = WireClient {
            stream,
            reader: FrameReader::new(Direction::Response, FrameLimits::default()),
            received: ReceiveBuffer::new(),
        };
        let options = [
            ("CQL_VERSION", extensions::CQL_VERSION_SPOKEN),
            ("THROW_ON_OVERLOAD", "1"),
        ];
        let options = &options[..1 + usize::from(throws_on_overload)];
        let startup = frame(Opcode::Startup, |out| request::write_startup(out, options))?;
        client.stream.write_all(&startup)?;
        let (answer, _) = client.next_answer()?;
        client.reader.startup_answered(VERSION, None);
        match (answer, login) {
            (Opcode::Ready, _) => {}
            (Opcode::Authenticate, Some(Login { user, password })) => {
                let token = format!("\0{user}\0{password}");
                client.ask(Opcode::AuthResponse, Opcode::AuthSuccess, |out| {
                    request::write_auth_response(out, token.as_bytes());
                })?;
            }
            (other, _) => return Err(WireError::Answer(format!("{other} to STARTUP"))),
        }
        client.reader.ready();
        Ok(client)
    }

    pub fn query(&mut self, text: &str) -> Result<(), WireError> {
        let parameters = QueryParameters::new(Consistency::One);
        self.ask(Opcode::Query, Opcode::Result, |out| {
            request::write_query(out, VERSION, text, &parameters, BindValues::NONE);
        })?;
        Ok(())
    }

    /// The statement's id.
    pub fn prepare(&mut self, text: &str) -> Result<Vec<u8>, WireError> {
        let body = self.ask(Opcode::Prepare, Opcode::Result, |out| {
            request::write_prepare(out, VERSION, text, None);
        })?;
        // The kind, then the id.
        let mut reader = WireReader::new(body.get(4..).unwrap_or_default());
        reader
            .short_bytes()
            .map(<[u8]>::to_vec)
            .map_err(WireError::protocol)
    }

    /// Sends whole frames, some at a time, and wants no error.
    pub fn fill(&mut self, mut frames: impl Iterator<Item = Vec<u8>>) -> Result<(), WireError> {
        loop {
            let batch: Vec<Vec<u8>> = frames.by_ref().take(FILL_IN_FLIGHT).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.stream.write_all(&batch.concat())?;
            for _ in &batch {
                self.answer(Opcode::Result)?;
            }
        }
    }

    fn ask(
        &mut self,
        opcode: Opcode,
        wanted: Opcode,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<u8>, WireError> {
        self.stream.write_all(&frame(opcode, body)?)?;
        self.answer(wanted)
    }

    fn answer(&mut self, wanted: Opcode) -> Result<Vec<u8>, WireError> {
        match self.next_answer()? {
            (opcode, body) if opcode == wanted => Ok(body),
            (opcode, body) => {
                let text = String::from_utf8_lossy(&body);
                Err(WireError::Answer(format!("{opcode} {text}")))
            }
        }
    }

    fn next_answer(&mut self) -> Result<(Opcode, Vec<u8>), WireError> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let envelope = self.reader.next_envelope(&mut self.received);
            if let Some(envelope) = envelope.map_err(WireError::protocol)? {
                return Ok((envelope.header.opcode, envelope.body.to_vec()));
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => self.received.feed(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(WireError::Silent),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The socket, which no longer blocks.
    pub fn into_stream(self) -> io::Result<TcpStream> {
        self.stream.set_nonblocking(true)?;
        Ok(self.stream)
    }
}

/// A whole request on stream 0.
pub fn frame(opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, WireError> {
    let (mut writer, mut bytes) = (FrameWriter::new(), Vec::new());
    let mark = writer.begin(&mut bytes, VERSION, EnvelopeFlags::NONE, 0, opcode);
    body(&mut bytes);
    writer.finish(&mut bytes, mark).map_err(WireError::protocol)?;
    Ok(bytes)
}
