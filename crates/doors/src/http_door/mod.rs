//! HTTP with JSON: what services and scripts without a driver speak.

mod batch;
mod bounded;
mod json_values;
mod login;
pub mod operations;
mod options;
mod pages;
pub mod problem;
mod query;
mod rows;

use std::rc::Rc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use serde::Deserialize;

use crate::body::{self, Body, Incoming};
use crate::caller::Caller;
use crate::console;
use crate::failure::Failure;
use crate::routes::{Received, Route};

/// Description of the door's requests and answers, for programs (OpenAPI 3.1).
pub const OPENAPI: &str = include_str!("openapi.json");

const JSON: &str = "application/json";

/// Answers what a path leads to.
pub async fn answer(
    caller: &Rc<Caller>,
    route: Route,
    received: Received,
) -> Result<Response<Body>, Failure> {
    match route {
        Route::Query => query::answer(caller, received).await,
        Route::Batch => batch::answer(caller, received).await,
        Route::Login => login::answer(caller, received).await,
        Route::Operation => operations::answer(caller, received).await,
        Route::Information => Ok(information(caller)),
        Route::OpenApi => Ok(whole(StatusCode::OK, JSON, OPENAPI)),
        Route::Metrics => {
            let page = caller.state.metrics_page().await;
            Ok(whole(StatusCode::OK, "text/plain; version=0.0.4", page))
        }
        Route::Health => Ok(whole(StatusCode::OK, "text/plain", "ok\n")),
        Route::Readiness => Ok(match caller.state.is_ready().await {
            true => whole(StatusCode::OK, "text/plain", "ready\n"),
            false => whole(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "not ready\n"),
        }),
        Route::Console(asset) => Ok(console::answer(asset, &received.request)),
    }
}

/// Answers the first request of the console.
fn information(caller: &Rc<Caller>) -> Response<Body> {
    let text = format!(
        "{{\"server\":\"Helenus\",\"version\":\"{}\",\"authentication\":{},\"read_only\":{}}}",
        env!("CARGO_PKG_VERSION"),
        caller.state.asks_for_passwords,
        caller.state.is_read_only,
    );
    whole(StatusCode::OK, JSON, text)
}

/// An answer that is there as a whole. None of them is for caches, and none is anything but what it says.
pub fn whole(status: StatusCode, media_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(bytes));
    *response.status_mut() = status;
    set_headers(&mut response, media_type);
    response
}

fn set_headers(response: &mut Response<Body>, media_type: &'static str) {
    const NO_SNIFFING: HeaderName = HeaderName::from_static("x-content-type-options");
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_SNIFFING, HeaderValue::from_static("nosniff"));
}

/// The methods of a path, for who tried another.
fn set_allowed(response: &mut Response<Body>, methods: &'static str) {
    let value = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, value);
}

/// A request's JSON. Only what says to be JSON is read as such: what a foreign page's form sends says something else.
async fn read_json(caller: &Caller, request: Request<Incoming>) -> Result<body::Received, Failure> {
    let of = request.headers().get(CONTENT_TYPE);
    let of = of.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = of.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case(JSON) {
        return Err(Failure::MediaType("application/json"));
    }
    body::read_whole(request.into_body(), &caller.memory).await
}

fn parse<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::Malformed(format!("The request cannot be read: {error}")))
}
