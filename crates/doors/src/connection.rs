//! One connection, from its first bytes until both sides have closed it.

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use tokio::net::TcpStream;

use crate::bounds;
use crate::caller::Caller;
use crate::drain::Stage;
use crate::executor::{Tasks, Timers};
use crate::routes;
use crate::socket::{Socket, Spoken};

/// Serves it.
pub async fn serve(stream: TcpStream, caller: Rc<Caller>) {
    let socket = Socket::new(stream);
    let state = caller.state.clone();
    // Who has said nothing by the time that the doors drain has nothing to be answered.
    let spoken = tokio::select! {
        spoken = socket.spoken() => spoken,
        () = state.reached(Stage::Draining) => None,
    };
    match spoken {
        Some(Spoken::Http1) => serve_http1(socket.clone(), caller).await,
        Some(Spoken::Http2) => serve_http2(socket.clone(), caller).await,
        None => return,
    }
    socket.linger().await;
}

async fn serve_http1(socket: Socket, caller: Rc<Caller>) {
    let state = caller.state.clone();
    let service = service_fn(move |request| {
        let caller = caller.clone();
        async move { Ok::<_, Infallible>(routes::answer(&caller, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(Timers)
        .header_read_timeout(bounds::HEADERS_TIMEOUT)
        .max_headers(bounds::HEADERS_MAX)
        .max_buf_size(bounds::REQUEST_BUFFER_BYTES)
        .serve_connection(socket, service);
    let mut connection = pin!(connection);
    tokio::select! {
        // What is wrong with a connection was said on it.
        _ended = connection.as_mut() => return,
        () = state.reached(Stage::Draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ended = connection.await;
}

async fn serve_http2(socket: Socket, caller: Rc<Caller>) {
    let state = caller.state.clone();
    let service = service_fn(move |request| {
        let caller = caller.clone();
        async move { Ok::<_, Infallible>(routes::answer(&caller, request).await) }
    });
    let connection = http2::Builder::new(Tasks)
        .timer(Timers)
        .max_concurrent_streams(bounds::STREAMS_MAX)
        .max_pending_accept_reset_streams(bounds::RESET_STREAMS_MAX)
        .max_header_list_size(bounds::HEADERS_BYTES_MAX)
        .initial_stream_window_size(bounds::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(bounds::CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(bounds::SEND_BUFFER_BYTES)
        .keep_alive_interval(bounds::PING_INTERVAL)
        .keep_alive_timeout(bounds::PING_TIMEOUT)
        .serve_connection(socket, service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = state.reached(Stage::Draining) => {}
    }
    // Balancers hear of it by health checks first.
    if tokio::time::timeout(bounds::NOTICE, connection.as_mut())
        .await
        .is_ok()
    {
        return;
    }
    // Says that streams up to the last that the client can have begun are answered, asks by a ping whether it has heard so, and only
    // then which one that was (RFC 9113, section 6.8): what the client sends meanwhile is answered, too.
    connection.as_mut().graceful_shutdown();
    let _ended = connection.await;
}
