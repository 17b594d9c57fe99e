//! One connection, from its first bytes until both sides have closed it, or another process goes on with it.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;

use crate::bounds;
use crate::caller::Caller;
use crate::drain::Stage;
use crate::executor::{Tasks, Timers};
use crate::routes;
use crate::socket::{Socket, Spoken};
use crate::state::Serving;
use crate::underway::{self, Answer};

/// Serves it.
pub async fn serve(socket: Socket, caller: Rc<Caller>) {
    let state = caller.state.clone();
    let mut serving = Some(state.serving());
    // Who has said nothing by the time that the doors drain has nothing to be answered.
    let spoken = tokio::select! {
        spoken = socket.spoken() => spoken,
        () = state.reached(Stage::Draining) => {
            if state.stage() == Stage::HandingOver {
                state.departures.add(&socket, &socket.take_received());
            }
            return;
        }
    };
    match spoken {
        Some(Spoken::Http1) => {
            if let Some(received) = serve_http1(socket.clone(), caller).await {
                state.departures.add(&socket, &received);
                return;
            }
        }
        Some(Spoken::Http2) => serve_http2(socket.clone(), caller, &mut serving).await,
        None => return,
    }
    // Nobody is waited for who has been answered.
    drop(serving);
    socket.linger().await;
}

async fn answer(
    caller: Rc<Caller>,
    request: Request<Incoming>,
    under_way: underway::Request,
) -> Result<Response<Answer>, Infallible> {
    Ok(under_way.until_sent(routes::answer(&caller, request).await))
}

/// Where another process goes on: what was read of the next request.
async fn serve_http1(socket: Socket, caller: Rc<Caller>) -> Option<Vec<u8>> {
    let state = caller.state.clone();
    let underway = socket.underway().clone();
    let counting = underway.clone();
    let service = service_fn(move |request| answer(caller.clone(), request, counting.begin()));
    let mut connection = http1::Builder::new()
        .timer(Timers)
        .header_read_timeout(bounds::HEADERS_TIMEOUT)
        .max_headers(bounds::HEADERS_MAX)
        .max_buf_size(bounds::REQUEST_BUFFER_BYTES)
        .serve_connection(socket.clone(), service);
    tokio::select! {
        // What is wrong with a connection was said on it.
        _ended = &mut connection => return None,
        () = state.reached(Stage::Draining) => {}
    }
    if state.stage() != Stage::HandingOver {
        Pin::new(&mut connection).graceful_shutdown();
        let _ended = connection.await;
        return None;
    }
    let at_rest = poll_fn(|context| {
        // What is read from now on would have to be answered here.
        if underway.is_empty() && !socket.is_stalled() {
            return Poll::Ready(true);
        }
        match Pin::new(&mut connection).poll(context) {
            Poll::Ready(_ended) => Poll::Ready(false),
            Poll::Pending if underway.is_empty() && !socket.is_stalled() => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    });
    at_rest.await.then(|| connection.into_parts().read_buf.to_vec())
}

/// Ends `serving` when everything is answered that the client has asked.
async fn serve_http2(socket: Socket, caller: Rc<Caller>, serving: &mut Option<Serving>) {
    let state = caller.state.clone();
    let underway = socket.underway().clone();
    let counting = underway.clone();
    let service = service_fn(move |request| answer(caller.clone(), request, counting.begin()));
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
    // Balancers hear of it by health checks first. Where another process takes the node's place there is nothing to hear.
    if state.stage() != Stage::HandingOver
        && tokio::time::timeout(bounds::NOTICE, connection.as_mut())
            .await
            .is_ok()
    {
        return;
    }
    // Says that streams up to the last that the client can have begun are answered, asks by a ping whether it has heard so, and only
    // then which one that was (RFC 9113, section 6.8): what the client sends meanwhile is answered, too.
    connection.as_mut().graceful_shutdown();
    let heard = async {
        tokio::time::sleep(bounds::HEARING).await;
        while !underway.is_empty() {
            tokio::time::sleep(bounds::LOOK).await;
        }
    };
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = heard => drop(serving.take()),
    }
    let _ended = connection.await;
}
