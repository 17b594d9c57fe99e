//! One connection, from its first bytes until both sides have closed it, or another process goes on with it.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use http::{Request, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::body::Incoming;
use crate::bounds;
use crate::caller::Caller;
use crate::drain::Stage;
use crate::executor::Timers;
use crate::http2;
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
    request: Request<hyper::body::Incoming>,
    under_way: underway::Request,
) -> Result<Response<Answer>, Infallible> {
    let request = request.map(Incoming::Http1);
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
    let connection = http2::Connection::new(socket, caller);
    let requests = connection.requests();
    let mut connection = pin!(connection);
    tokio::select! {
        () = connection.as_mut() => return,
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
    requests.begin_drain();
    let heard = async {
        tokio::time::sleep(bounds::HEARING).await;
        while !requests.are_over() {
            tokio::time::sleep(bounds::LOOK).await;
        }
    };
    tokio::select! {
        () = connection.as_mut() => return,
        () = heard => drop(serving.take()),
    }
    connection.await;
}
