//! A native protocol client of any version that sends what it is told, whole, damaged or by half.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_protocol::frame::{EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer};
use helenus_protocol::request::{
    BindValues, QueryParameters, write_auth_response, write_prepare, write_query, write_startup,
};
use helenus_protocol::wire::WireReader;
use helenus_protocol::{Consistency, Direction, Opcode, ProtocolVersion};

/// Longer than any timeout of a request.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The body of a QUERY without values.
pub fn query(out: &mut Vec<u8>, version: ProtocolVersion, text: &str) {
    let parameters = QueryParameters::new(Consistency::One);
    write_query(out, version, text, &parameters, BindValues::NONE);
}

/// The peer has ended the connection.
pub fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
    )
}

pub struct Prepared {
    pub id: Vec<u8>,
    /// v5 only.
    pub metadata_id: Vec<u8>,
}

/// A connection after STARTUP.
pub struct Client {
    pub stream: TcpStream,
    version: ProtocolVersion,
    writer: FrameWriter,
    reader: FrameReader,
    received: ReceiveBuffer,
}

impl Client {
    pub fn connect(address: SocketAddr, version: ProtocolVersion) -> io::Result<Client> {
        Self::connect_as(address, version, None)
    }

    /// With a name and a password, where the server asks for them.
    pub fn connect_as(
        address: SocketAddr,
        version: ProtocolVersion,
        account: Option<(&str, &str)>,
    ) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, SILENCE_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let mut client = Client {
            stream,
            version,
            writer: FrameWriter::new(),
            reader: FrameReader::new(Direction::Response, FrameLimits::default()),
            received: ReceiveBuffer::new(),
        };
        client.ask(Opcode::Startup, |out| {
            write_startup(out, &[("CQL_VERSION", "3.0.0")]);
        })?;
        client.writer.startup_answered(version, None);
        client.reader.startup_answered(version, None);
        if let Some((name, password)) = account {
            // SASL PLAIN (RFC 4616).
            let token = [b"\0", name.as_bytes(), b"\0", password.as_bytes()].concat();
            client.ask(Opcode::AuthResponse, |out| write_auth_response(out, &token))?;
        }
        client.reader.ready();
        Ok(client)
    }

    /// Executes a statement without values; its answer's body.
    pub fn query(&mut self, text: &str) -> io::Result<Vec<u8>> {
        let version = self.version;
        self.ask(Opcode::Query, |out| query(out, version, text))
    }

    /// Sends a message and reads nothing.
    pub fn send(&mut self, opcode: Opcode, body: &[u8]) -> io::Result<()> {
        let frame = self.framed(opcode, body)?;
        self.stream.write_all(&frame)
    }

    pub fn framed(&mut self, opcode: Opcode, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mark = self
            .writer
            .begin(&mut bytes, self.version, EnvelopeFlags::NONE, 1, opcode);
        bytes.extend_from_slice(body);
        self.writer.finish(&mut bytes, mark).map_err(io::Error::other)?;
        self.writer.flush(&mut bytes);
        Ok(bytes)
    }

    /// The body of the answer, which must not be an error.
    pub fn ask(&mut self, opcode: Opcode, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        write(&mut body);
        let frame = self.framed(opcode, &body)?;
        self.stream.write_all(&frame)?;
        match self.answer()? {
            (Opcode::Error, body) => Err(io::Error::other(format!(
                "{opcode} was answered {}",
                String::from_utf8_lossy(&body)
            ))),
            (_, body) => Ok(body),
        }
    }

    pub fn prepare(&mut self, text: &str) -> io::Result<Prepared> {
        let version = self.version;
        let body = self.ask(Opcode::Prepare, |out| write_prepare(out, version, text, None))?;
        // The kind, then the ids.
        let mut reader = WireReader::new(body.get(4..).unwrap_or_default());
        let mut id = || reader.short_bytes().map(<[u8]>::to_vec).map_err(io::Error::other);
        Ok(Prepared {
            id: id()?,
            metadata_id: if version == ProtocolVersion::V5 {
                id()?
            } else {
                Vec::new()
            },
        })
    }

    /// Reads until the server closes.
    pub fn drain(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_closed(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    pub fn answer(&mut self) -> io::Result<(Opcode, Vec<u8>)> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let envelope = self
                .reader
                .next_envelope(&mut self.received)
                .map_err(io::Error::other)?;
            if let Some(envelope) = envelope {
                return Ok((envelope.header.opcode, envelope.body.to_vec()));
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.feed(&chunk[..count]),
            }
        }
    }
}
