//! The smallest client that can load a CQL server: one connection, frames written and counted in place.

use std::io;
use std::net::SocketAddr;

use helenus_protocol::extensions;
use helenus_protocol::frame::{EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer};
use helenus_protocol::request::{self, BindValues, QueryParameters};
use helenus_protocol::wire::WireReader;
use helenus_protocol::{Consistency, Direction, Opcode, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Every server this is pointed at speaks v4.
const VERSION: ProtocolVersion = ProtocolVersion::V4;

pub struct WireClient {
    stream: TcpStream,
    reader: FrameReader,
    received: ReceiveBuffer,
    pub writer: FrameWriter,
    pub output: Vec<u8>,
}

/// Shards that a shard-aware server announces in SUPPORTED; one shard for any other.
#[derive(Clone, Copy, Debug)]
pub struct ServerShards {
    pub count: u16,
    pub shard_aware_port: Option<u16>,
}

impl WireClient {
    /// Connects and completes STARTUP. With `shard`, from a source port that chooses it.
    pub async fn connect(address: SocketAddr, shard: Option<(u16, u16)>) -> io::Result<WireClient> {
        let stream = match shard {
            None => TcpStream::connect(address).await?,
            Some((shard, count)) => connect_to_shard(address, shard, count).await?,
        };
        stream.set_nodelay(true)?;
        let mut client = WireClient {
            stream,
            reader: FrameReader::new(Direction::Response, FrameLimits::default()),
            received: ReceiveBuffer::new(),
            writer: FrameWriter::new(),
            output: Vec::new(),
        };
        client.push(0, Opcode::Startup, |out| {
            request::write_startup(out, &[("CQL_VERSION", extensions::CQL_VERSION_SPOKEN)]);
        })?;
        client.expect(Opcode::Ready, |_| ()).await?;
        client.writer.startup_answered(VERSION, None);
        client.reader.startup_answered(VERSION, None);
        client.reader.ready();
        Ok(client)
    }

    pub async fn shards(&mut self) -> io::Result<ServerShards> {
        self.push(0, Opcode::Options, |_| {})?;
        self.expect(Opcode::Supported, |body| {
            let mut shards = ServerShards {
                count: 1,
                shard_aware_port: None,
            };
            let mut reader = WireReader::new(body);
            for _ in 0..reader.short("a count").unwrap_or(0) {
                let Ok(name) = reader.string() else { break };
                let values: Vec<&str> = (0..reader.short("a count").unwrap_or(0))
                    .map_while(|_| reader.string().ok())
                    .collect();
                let Some(value) = values.first() else { continue };
                if name == extensions::SCYLLA_NR_SHARDS {
                    shards.count = value.parse().unwrap_or(1);
                } else if name == extensions::SCYLLA_SHARD_AWARE_PORT {
                    shards.shard_aware_port = value.parse().ok();
                }
            }
            shards
        })
        .await
    }

    pub async fn query(&mut self, text: &str) -> io::Result<()> {
        let parameters = QueryParameters::new(Consistency::One);
        self.push(0, Opcode::Query, |out| {
            request::write_query(out, VERSION, text, &parameters, BindValues::NONE);
        })?;
        self.expect(Opcode::Result, |_| ()).await
    }

    /// The statement's id.
    pub async fn prepare(&mut self, text: &str) -> io::Result<Vec<u8>> {
        self.push(0, Opcode::Prepare, |out| {
            request::write_prepare(out, VERSION, text, None)
        })?;
        self.expect(Opcode::Result, |body| {
            // The kind, then the id.
            let mut reader = WireReader::new(body.get(4..).unwrap_or_default());
            reader.short_bytes().map(<[u8]>::to_vec).unwrap_or_default()
        })
        .await
    }

    /// Appends one request to the output.
    pub fn push(&mut self, stream: i16, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mark = self
            .writer
            .begin(&mut self.output, VERSION, EnvelopeFlags::NONE, stream, opcode);
        body(&mut self.output);
        self.writer
            .finish(&mut self.output, mark)
            .map_err(io::Error::other)
    }

    pub async fn send(&mut self) -> io::Result<()> {
        self.writer.flush(&mut self.output);
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }

    /// Sends the requests of the output, so many, and reads their answers; an error where one of them is no RESULT.
    pub async fn receive_results(&mut self, count: usize) -> io::Result<()> {
        self.send().await?;
        let (mut answered, mut refused) = (0, None);
        while answered < count {
            self.receive(|_, opcode, body| {
                answered += 1;
                if opcode != Opcode::Result {
                    refused = Some(String::from_utf8_lossy(body).into_owned());
                }
            })
            .await?;
        }
        refused.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    /// One read, then `answer` for each whole response: stream, opcode, body.
    pub async fn receive(&mut self, mut answer: impl FnMut(i16, Opcode, &[u8])) -> io::Result<()> {
        if self.stream.read_buf(self.received.tail()).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some(envelope) = self
            .reader
            .next_envelope(&mut self.received)
            .map_err(io::Error::other)?
        {
            answer(envelope.header.stream, envelope.header.opcode, envelope.body);
        }
        Ok(())
    }

    async fn expect<T>(&mut self, wanted: Opcode, take: impl Fn(&[u8]) -> T) -> io::Result<T> {
        self.send().await?;
        let mut result = None;
        while result.is_none() {
            self.receive(|_, opcode, body| {
                result = Some(if opcode == wanted {
                    Ok(take(body))
                } else {
                    Err(io::Error::other(format!(
                        "wanted {wanted}, got {opcode}: {}",
                        String::from_utf8_lossy(body)
                    )))
                });
            })
            .await?;
        }
        result.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }
}

/// Tries source ports that are `shard` modulo `count` until one is free.
async fn connect_to_shard(address: SocketAddr, shard: u16, count: u16) -> io::Result<TcpStream> {
    /// Above the ports that the kernel gives out by default end (60999) and below those that services use.
    const FIRST_PORT: u16 = 20_000;
    const LAST_PORT: u16 = 32_000;
    let first = FIRST_PORT - FIRST_PORT % count + shard;
    let start = std::process::id() as u16 % 1_000 * count;
    for port in (first + start..LAST_PORT).step_by(usize::from(count)) {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        if socket.bind(SocketAddr::from(([127, 0, 0, 1], port))).is_err() {
            continue;
        }
        match socket.connect(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            connected => return connected,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
