//! `GET /metrics` over HTTP/1.1: one small page, one request per connection.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_node::{Shard, metrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A scraper's request line and headers; anything longer is not one.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// From the accepted connection to the end of the answer: a scraper sends its request at once and takes what it asked for.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections at the same time: some scrapers and a curious operator. The next waits in the kernel.
const CONNECTIONS_MAX: usize = 16;

/// How long accepting pauses after an error: one of a connection is gone by then, a process without file descriptors may
/// have some.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

pub async fn serve(listener: std::net::TcpListener, shard: Rc<Shard>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await;
        let stream = accepted(async || listener.accept().await.map(|(stream, _peer)| stream)).await;
        let shard = shard.clone();
        tokio::task::spawn_local(async move {
            let _given_back_at_the_end = place;
            // A scraper that went away is not our error.
            let _gone = tokio::time::timeout(CONNECTION_TIMEOUT, answer(stream, &shard)).await;
        });
    }
}

/// The next connection, however many attempts to accept one fail before.
async fn accepted<T>(mut accept: impl AsyncFnMut() -> io::Result<T>) -> T {
    loop {
        match accept().await {
            Ok(connection) => return connection,
            Err(_) => tokio::time::sleep(ERROR_PAUSE).await,
        }
    }
}

/// Kind of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Page,
    /// The page's headers.
    Head,
    AnotherPage,
    AnotherMethod,
}

fn asked(request: &[u8]) -> Asked {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let is_page = target.split(|byte| *byte == b'?').next() == Some(b"/metrics");
    match method {
        Some(b"GET" | b"HEAD") if !is_page => Asked::AnotherPage,
        Some(b"GET") => Asked::Page,
        Some(b"HEAD") => Asked::Head,
        _ => Asked::AnotherMethod,
    }
}

async fn answer(mut stream: TcpStream, shard: &Rc<Shard>) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let asked = asked(&request);
    let (status, body) = match asked {
        Asked::Page | Asked::Head => ("200 OK", metrics::render(&shard.metrics_snapshots().await)),
        Asked::AnotherPage => ("404 Not Found", "The metrics are at /metrics\n".to_owned()),
        Asked::AnotherMethod => (
            "405 Method Not Allowed\r\nAllow: GET, HEAD",
            "The metrics are read with GET\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if asked != Asked::Head {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The page was gone for ever after one moment without a file descriptor, or one scraper that had left too early.
    #[test]
    fn failed_accepts_do_not_end_the_page() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let errors = [libc::EMFILE, libc::ECONNABORTED, libc::ENFILE];
        let attempts = Cell::new(0);
        let connection = runtime.block_on(accepted(async || {
            let attempt = attempts.replace(attempts.get() + 1);
            errors
                .get(attempt)
                .map_or(Ok(attempt), |error| Err(io::Error::from_raw_os_error(*error)))
        }));
        assert_eq!(connection, errors.len());
    }

    #[test]
    fn requests_are_told_apart_by_their_first_line() {
        for (request, wanted) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", Asked::Page),
            ("GET /metrics?name[]=x HTTP/1.1\r\n\r\n", Asked::Page),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Asked::Head),
            ("GET /metrics/x HTTP/1.1\r\n\r\n", Asked::AnotherPage),
            ("GET / HTTP/1.1\r\n\r\n", Asked::AnotherPage),
            ("POST /metrics HTTP/1.1\r\n\r\n", Asked::AnotherMethod),
            ("\r\n\r\n", Asked::AnotherMethod),
        ] {
            assert_eq!(asked(request.as_bytes()), wanted, "{request:?}");
        }
    }
}
