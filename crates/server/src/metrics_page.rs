//! `GET /metrics` over HTTP/1.1: one small page, one request per connection.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use helenus_node::{Shard, metrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A scraper's request line and headers; anything longer is not one.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// A scraper sends its request at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

pub async fn serve(listener: std::net::TcpListener, shard: Rc<Shard>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _peer) = listener.accept().await?;
        let shard = shard.clone();
        tokio::task::spawn_local(async move {
            // A scraper that went away is not our error.
            let _gone = tokio::time::timeout(REQUEST_TIMEOUT, answer(stream, &shard)).await;
        });
    }
}

async fn answer(mut stream: TcpStream, shard: &Rc<Shard>) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", metrics::render(&metrics::snapshots(shard).await))
    } else {
        ("404 Not Found", "The metrics are at /metrics\n".to_owned())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
