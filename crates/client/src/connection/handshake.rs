//! From an address to an open connection: connect, OPTIONS, STARTUP, log in, register.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use helenus_protocol::extensions;
use helenus_protocol::frame::{
    EnvelopeFlags, FrameError, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer,
};
use helenus_protocol::request::{EventKind, Register, write_auth_response, write_register, write_startup};
use helenus_protocol::response::{Response as Message, Supported};
use helenus_protocol::{Direction, Opcode, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;

use super::io_task::IoTask;
use super::{Connection, ConnectionOptions, EventSender, Peer};
use crate::buffer_pool::BufferPool;
use crate::error::ConnectError;
use crate::response::Response;

/// Byte stream of a connection: TCP, or TLS over it.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Where to, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct ConnectTarget {
    pub address: SocketAddr,
    /// Wanted shard, the server's number of shards and its shard-aware port.
    pub shard: Option<(u16, u16, u16)>,
    /// Events that the connection registers for beside its own graceful disconnect.
    pub events: Option<EventSender>,
    pub changed: Arc<Notify>,
    /// Something between here and the node has swallowed a registration for graceful disconnects: none is sent any more.
    pub swallows_disconnects: Arc<AtomicBool>,
}

/// How long a server may take to answer a REGISTER for an event that a proxy in front of it may not know. A connection
/// does without that event then.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens a connection and starts its task. Steps down to the newest version that the server speaks.
pub(crate) async fn open(
    target: &ConnectTarget,
    options: &ConnectionOptions,
) -> Result<Arc<Connection>, ConnectError> {
    let address = target.address;
    let timeout = options.connect_timeout;
    let attempt = async {
        let mut version = options.version_max;
        loop {
            let socket = connect(target)
                .await
                .map_err(|source| ConnectError::Io { address, source })?;
            let socket = secured(address, socket, options).await?;
            let opening = Opening::new(address, socket, version, options.buffers.clone());
            match opening.start(target, options).await {
                Err(Refusal::StepDown) => match older(version) {
                    Some(older) => version = older,
                    None => {
                        return Err(ConnectError::Protocol {
                            address,
                            reason: "it speaks no version from v3 to v5".to_owned(),
                        });
                    }
                },
                Err(Refusal::Swallowed) => target.swallows_disconnects.store(true, Ordering::Relaxed),
                Err(Refusal::Final(error)) => return Err(error),
                Ok(connection) => return Ok(connection),
            }
        }
    };
    tokio::time::timeout(timeout, attempt)
        .await
        .unwrap_or(Err(ConnectError::Timeout {
            address,
            timeout_ms: timeout.as_millis() as u64,
        }))
}

#[cfg(feature = "tls")]
async fn secured(
    address: SocketAddr,
    stream: TcpStream,
    options: &ConnectionOptions,
) -> Result<Box<dyn Socket>, ConnectError> {
    match &options.tls {
        Some(tls) => Ok(Box::new(tls.connect(address, stream).await?)),
        None => Ok(Box::new(stream)),
    }
}

#[cfg(not(feature = "tls"))]
async fn secured(
    _address: SocketAddr,
    stream: TcpStream,
    _options: &ConnectionOptions,
) -> Result<Box<dyn Socket>, ConnectError> {
    Ok(Box::new(stream))
}

fn older(version: ProtocolVersion) -> Option<ProtocolVersion> {
    match version {
        ProtocolVersion::V6 => Some(ProtocolVersion::V5),
        ProtocolVersion::V5 => Some(ProtocolVersion::V4),
        ProtocolVersion::V4 => Some(ProtocolVersion::V3),
        ProtocolVersion::V3 => None,
    }
}

/// Source ports for shard-aware connections: above those that services use and below those that the kernel gives
/// out by default (32,768 to 60,999).
const SHARD_PORTS: std::ops::Range<u16> = 10_000..32_700;

async fn connect(target: &ConnectTarget) -> io::Result<TcpStream> {
    let stream = match target.shard {
        None => TcpStream::connect(target.address).await?,
        Some((shard, count, port)) => {
            let mut address = target.address;
            address.set_port(port);
            connect_from_port_of(address, shard, count.max(1)).await?
        }
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A shard-aware server gives a connection to the shard that the client's port says: port modulo shards.
async fn connect_from_port_of(address: SocketAddr, shard: u16, count: u16) -> io::Result<TcpStream> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let slots = SHARD_PORTS.len() as u16 / count;
    let start = NEXT
        .fetch_add(1, Ordering::Relaxed)
        .wrapping_add(std::process::id() as u16);
    for attempt in 0..slots {
        let slot = start.wrapping_add(attempt) % slots;
        let base = SHARD_PORTS.start.next_multiple_of(count);
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        let local = match address {
            SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], base + slot * count + shard)),
            SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], base + slot * count + shard)),
        };
        socket.set_reuseaddr(true)?;
        if socket.bind(local).is_err() {
            continue;
        }
        match socket.connect(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            connected => return connected,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

enum Refusal {
    /// The server does not speak the version.
    StepDown,
    /// A registration for graceful disconnects was not answered, or refused.
    Swallowed,
    Final(ConnectError),
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        Refusal::Final(error)
    }
}

/// A connection that is not open yet: one message at a time.
struct Opening {
    address: SocketAddr,
    socket: Box<dyn Socket>,
    version: ProtocolVersion,
    buffers: Arc<BufferPool>,
    reader: FrameReader,
    received: ReceiveBuffer,
    writer: FrameWriter,
    output: Vec<u8>,
}

/// Options of SUPPORTED that matter here.
#[derive(Debug, Default)]
struct Offer {
    compressions: Vec<String>,
    shard: Option<u16>,
    shard_count: u16,
    shard_aware_port: Option<u16>,
    has_graceful_disconnect: bool,
    overloaded_is_not_run: bool,
    rate_limit_error: Option<String>,
}

impl Offer {
    fn of(supported: &Supported<'_>) -> Self {
        let number = |name| {
            supported
                .option(name)
                .iter()
                .next()
                .and_then(|text| text.parse().ok())
        };
        let is_true = |name| {
            let values = supported.option(name);
            values.iter().any(|value| value.eq_ignore_ascii_case("true"))
        };
        Offer {
            compressions: supported
                .option(extensions::COMPRESSION)
                .iter()
                .map(str::to_owned)
                .collect(),
            shard: number(extensions::SCYLLA_SHARD),
            shard_count: number(extensions::SCYLLA_NR_SHARDS).unwrap_or(1).max(1),
            shard_aware_port: number(extensions::SCYLLA_SHARD_AWARE_PORT),
            has_graceful_disconnect: is_true(extensions::GRACEFUL_DISCONNECT),
            overloaded_is_not_run: is_true(extensions::OVERLOADED_IS_NOT_RUN),
            rate_limit_error: supported
                .option(extensions::SCYLLA_RATE_LIMIT_ERROR)
                .iter()
                .next()
                .map(str::to_owned),
        }
    }
}

impl Opening {
    fn new(
        address: SocketAddr,
        socket: Box<dyn Socket>,
        version: ProtocolVersion,
        buffers: Arc<BufferPool>,
    ) -> Self {
        Opening {
            address,
            socket,
            version,
            buffers,
            reader: FrameReader::new(Direction::Response, FrameLimits::default()),
            received: ReceiveBuffer::new(),
            writer: FrameWriter::new(),
            output: Vec::new(),
        }
    }

    async fn start(
        mut self,
        target: &ConnectTarget,
        options: &ConnectionOptions,
    ) -> Result<Arc<Connection>, Refusal> {
        let offer = match self.ask(Opcode::Options, |_| {}).await?.decode() {
            Ok((Message::Supported(supported), _)) => Offer::of(&supported),
            Ok((Message::Error(error), _)) => return Err(self.refused(error.message).into()),
            _ => return Err(self.broken("OPTIONS was not answered with SUPPORTED").into()),
        };
        self.startup(&offer, options).await?;
        self.register(target, &offer).await?;
        let peer = Peer {
            address: self.address,
            version: self.version,
            shard: offer.shard,
            shard_count: offer.shard_count,
            shard_aware_port: offer.shard_aware_port,
            overloaded_is_not_run: offer.overloaded_is_not_run,
        };
        let connection = Arc::new(Connection::new(peer, self.writer, target.changed.clone()));
        tokio::spawn(IoTask {
            socket: self.socket,
            connection: connection.clone(),
            reader: self.reader,
            received: self.received,
            buffers: self.buffers,
            events: target.events.clone(),
            sending: Vec::new(),
            sent: 0,
            sending_batch: 0,
            answers: Vec::new(),
        });
        Ok(connection)
    }

    async fn startup(&mut self, offer: &Offer, options: &ConnectionOptions) -> Result<(), Refusal> {
        let compression = options.compression.filter(|compression| {
            let is_spoken = !self.version.has_checksummed_frames() || compression.name() == "lz4";
            is_spoken && offer.compressions.iter().any(|name| name == compression.name())
        });
        let mut startup = vec![
            (extensions::CQL_VERSION, "3.0.0"),
            (extensions::DRIVER_NAME, "helenus-client"),
            (extensions::DRIVER_VERSION, env!("CARGO_PKG_VERSION")),
        ];
        if !offer.overloaded_is_not_run {
            // Else an overloaded Cassandra stops reading the connection, which all callers share.
            startup.push((extensions::THROW_ON_OVERLOAD, "1"));
        }
        startup.extend(compression.map(|compression| (extensions::COMPRESSION, compression.name())));
        if let Some(rate_limit_error) = &offer.rate_limit_error {
            startup.push((extensions::SCYLLA_RATE_LIMIT_ERROR, rate_limit_error));
        }
        self.reader.startup_sent(self.version, compression);
        let answer = self
            .ask(Opcode::Startup, |out| write_startup(out, &startup))
            .await?;
        let must_log_in = match answer.decode() {
            Ok((Message::Ready, _)) => false,
            Ok((Message::Authenticate(_), _)) => true,
            Ok((Message::Error(error), _)) => return Err(self.refused(error.message).into()),
            _ => {
                return Err(self
                    .broken("STARTUP was answered with neither READY nor AUTHENTICATE")
                    .into());
            }
        };
        self.writer.startup_answered(self.version, compression);
        self.reader.startup_answered(self.version, compression);
        if must_log_in {
            self.log_in(options).await?;
        }
        self.reader.ready();
        Ok(())
    }

    async fn log_in(&mut self, options: &ConnectionOptions) -> Result<(), Refusal> {
        let address = self.address;
        let Some((user, password)) = &options.credentials else {
            return Err(ConnectError::CredentialsNeeded { address }.into());
        };
        // SASL PLAIN (RFC 4616), as Cassandra's PasswordAuthenticator takes it.
        let token = [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat();
        let answer = self
            .ask(Opcode::AuthResponse, |out| write_auth_response(out, &token))
            .await?;
        match answer.decode() {
            Ok((Message::AuthSuccess(_), _)) => Ok(()),
            Ok((Message::Error(error), _)) => Err(self.refused(error.message).into()),
            _ => Err(self
                .broken("AUTH_RESPONSE was not answered with AUTH_SUCCESS")
                .into()),
        }
    }

    async fn register(&mut self, target: &ConnectTarget, offer: &Offer) -> Result<(), Refusal> {
        let mut events = Register::default();
        let wants_disconnects =
            offer.has_graceful_disconnect && !target.swallows_disconnects.load(Ordering::Relaxed);
        if wants_disconnects {
            events = events.with(EventKind::GracefulDisconnect);
        }
        if target.events.is_some() {
            events = events
                .with(EventKind::TopologyChange)
                .with(EventKind::StatusChange)
                .with(EventKind::SchemaChange);
        }
        if events.is_empty() {
            return Ok(());
        }
        let answer = self.ask(Opcode::Register, |out| write_register(out, events));
        let answer = match wants_disconnects {
            false => answer.await?,
            true => match tokio::time::timeout(REGISTER_TIMEOUT, answer).await {
                Ok(answer) => answer?,
                Err(_) => return Err(Refusal::Swallowed),
            },
        };
        match answer.decode() {
            Ok((Message::Ready, _)) => Ok(()),
            Ok((Message::Error(_), _)) if wants_disconnects => Err(Refusal::Swallowed),
            Ok((Message::Error(error), _)) => Err(self.refused(error.message).into()),
            _ => Err(self.broken("REGISTER was not answered with READY").into()),
        }
    }

    /// Sends one message and waits for its answer.
    async fn ask(&mut self, opcode: Opcode, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Response, Refusal> {
        let address = self.address;
        let io = |source| ConnectError::Io { address, source };
        let mark = self
            .writer
            .begin(&mut self.output, self.version, EnvelopeFlags::NONE, 0, opcode);
        encode(&mut self.output);
        self.writer
            .finish(&mut self.output, mark)
            .map_err(|error| self.broken(&error.to_string()))?;
        self.writer.flush(&mut self.output);
        self.socket.write_all(&self.output).await.map_err(io)?;
        self.output.clear();
        loop {
            match self.reader.next_envelope(&mut self.received) {
                Ok(Some(envelope)) => {
                    let response = Response {
                        version: envelope.header.version,
                        flags: envelope.header.flags,
                        opcode: envelope.header.opcode,
                        body: self.buffers.copy_of(envelope.body),
                    };
                    return self.checked(response);
                }
                Ok(None) => {}
                // The server answers in a version of its own: it does not speak ours.
                Err(FrameError::UnsupportedVersion { .. } | FrameError::VersionChanged { .. }) => {
                    return Err(Refusal::StepDown);
                }
                Err(error) => return Err(self.broken(&error.to_string()).into()),
            }
            if self.socket.read_buf(self.received.tail()).await.map_err(io)? == 0 {
                return Err(ConnectError::ClosedByServer { address }.into());
            }
        }
    }

    /// Servers refuse a version with a protocol error, in that version or in one of theirs.
    fn checked(&self, response: Response) -> Result<Response, Refusal> {
        if response.opcode == Opcode::Error {
            let error = response.server_error(self.address);
            let is_of_version = error.code == Some(helenus_protocol::ErrorCode::ProtocolError)
                && error.message.to_ascii_lowercase().contains("version");
            if is_of_version || response.version != self.version {
                return Err(Refusal::StepDown);
            }
        }
        Ok(response)
    }

    fn refused(&self, message: &str) -> ConnectError {
        ConnectError::Refused {
            address: self.address,
            message: message.to_owned(),
        }
    }

    fn broken(&self, reason: &str) -> ConnectError {
        ConnectError::Protocol {
            address: self.address,
            reason: reason.to_owned(),
        }
    }
}
