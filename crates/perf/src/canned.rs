//! `helenus-perf canned`: the floor of what a server can cost. It answers every EXECUTE with the same bytes and
//! understands nothing; what it takes is what sockets, frames and the event loop take.

use std::io;
use std::net::SocketAddr;

use helenus_protocol::Opcode;
use helenus_protocol::frame::{EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer};
use helenus_protocol::response::{
    BindMetadata, MetadataForm, ResultMetadata, RowsWriter, SupportedWriter, write_prepared, write_ready,
    write_void,
};
use helenus_protocol::{Direction, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};

use crate::workload::{COLUMNS, VALUE_BYTES};

const VERSION: ProtocolVersion = ProtocolVersion::V4;

/// Serves on the calling thread until the process is killed; prints its address as a server does.
pub fn run(listen: SocketAddr) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        println!("canned ready: cql {}", listener.local_addr()?);
        loop {
            let (stream, _peer) = listener.accept().await?;
            tokio::task::spawn_local(async move {
                // A client that leaves is no error of the floor's.
                let _left = serve(stream).await;
            });
        }
    })
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
    let mut received = ReceiveBuffer::new();
    let mut writer = FrameWriter::new();
    let mut output = Vec::new();
    let row = canned_row();
    while stream.read_buf(received.tail()).await? > 0 {
        while let Some(envelope) = reader.next_envelope(&mut received).map_err(io::Error::other)? {
            let header = envelope.header;
            let opcode = match header.opcode {
                Opcode::Startup => Opcode::Ready,
                Opcode::Options => Opcode::Supported,
                _ => Opcode::Result,
            };
            let mark = writer.begin(&mut output, VERSION, EnvelopeFlags::NONE, header.stream, opcode);
            match header.opcode {
                Opcode::Execute => output.extend_from_slice(&row),
                Opcode::Startup => write_ready(&mut output),
                Opcode::Options => {
                    SupportedWriter::begin(&mut output).option(&mut output, "CQL_VERSION", &["3.4.7"])
                }
                Opcode::Prepare => {
                    let none = ResultMetadata::none();
                    let markers = BindMetadata::new(VERSION, &[], &[]);
                    write_prepared(&mut output, VERSION, &[0; 16], &[0; 16], &markers, &none);
                }
                _ => write_void(&mut output),
            }
            writer.finish(&mut output, mark).map_err(io::Error::other)?;
        }
        writer.flush(&mut output);
        stream.write_all(&output).await?;
        output.clear();
    }
    Ok(())
}

/// A RESULT body with one row of the workload.
fn canned_row() -> Vec<u8> {
    let mut body = Vec::new();
    let mut rows = RowsWriter::begin(&mut body, &ResultMetadata::none(), MetadataForm::Skipped);
    for _ in 0..COLUMNS {
        rows.value(&mut body, Some(&[0xa5; VALUE_BYTES]));
    }
    rows.end_row();
    rows.finish(&mut body, None);
    body
}
