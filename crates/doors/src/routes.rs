//! Which handler answers which request.

use std::rc::Rc;

use helenus_node::catch_async;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response};

use crate::body::{Body, Incoming};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::http_door::{self, problem};
use crate::{console, grpc, origin};

/// A request, and when it came.
pub struct Received {
    pub request: Request<Incoming>,
    /// On the node's monotonic clock.
    pub received_ns: u64,
}

/// Endpoint that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Query,
    Batch,
    Login,
    Operation,
    Information,
    OpenApi,
    Metrics,
    Health,
    Readiness,
    Console(console::Asset),
}

/// The paths that there are, with the one method of each; those that are read also know HEAD.
pub const ROUTES: [(&str, Method, Route); 17] = [
    ("/v1/query", Method::POST, Route::Query),
    ("/v1/batch", Method::POST, Route::Batch),
    ("/v1/auth", Method::POST, Route::Login),
    ("/v1/operations", Method::POST, Route::Operation),
    ("/v1/information", Method::GET, Route::Information),
    ("/v1/openapi.json", Method::GET, Route::OpenApi),
    ("/metrics", Method::GET, Route::Metrics),
    ("/healthz", Method::GET, Route::Health),
    ("/readyz", Method::GET, Route::Readiness),
    ("/", Method::GET, Route::Console(console::Asset::Page)),
    ("/console.css", Method::GET, Route::Console(console::Asset::Style)),
    ("/console.js", Method::GET, Route::Console(console::Asset::Script)),
    ("/kit.js", Method::GET, Route::Console(console::Asset::Kit)),
    ("/trace.js", Method::GET, Route::Console(console::Asset::Trace)),
    (
        "/operations.js",
        Method::GET,
        Route::Console(console::Asset::Operations),
    ),
    ("/cql.js", Method::GET, Route::Console(console::Asset::Language)),
    ("/icon.svg", Method::GET, Route::Console(console::Asset::Icon)),
];

/// Answers a request, whatever it is.
pub async fn answer(caller: &Rc<Caller>, request: Request<Incoming>) -> Response<Body> {
    let received_ns = caller.state.clock.monotonic_ns();
    let is_grpc = is_grpc(request.headers());
    let received = Received { request, received_ns };
    let answered = catch_async(routed(caller, received, is_grpc)).await;
    answered.unwrap_or_else(|_panicked| {
        let failure =
            Failure::Internal("Internal error: the request made the door panic, which is a bug".to_owned());
        match is_grpc {
            true => grpc::failed(&failure),
            false => problem::response(&failure),
        }
    })
}

async fn routed(caller: &Rc<Caller>, received: Received, is_grpc: bool) -> Response<Body> {
    let (headers, uri) = (received.request.headers(), received.request.uri());
    if let Err(failure) = origin::check(headers, uri, caller.state.asks_for_passwords) {
        return problem::response(&failure);
    }
    if is_grpc {
        return grpc::call(caller, received).await;
    }
    let route = match route_of(received.request.method(), uri.path()) {
        Ok(route) => route,
        Err(failure) => return problem::response(&failure),
    };
    let answered = http_door::answer(caller, route, received).await;
    answered.unwrap_or_else(|failure| problem::response(&failure))
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let of = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    of.is_some_and(|of| {
        let rest = of.strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    })
}

fn route_of(method: &Method, path: &str) -> Result<Route, Failure> {
    let (_, allowed, route) = ROUTES
        .iter()
        .find(|(known, ..)| *known == path)
        .ok_or(Failure::NotFound)?;
    let is_head = *method == Method::HEAD && *allowed == Method::GET;
    match method == allowed || is_head {
        true => Ok(*route),
        false => Err(Failure::Method(match *allowed == Method::POST {
            true => "POST",
            false => "GET, HEAD",
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_route_and_the_methods_of_it() {
        assert!(matches!(route_of(&Method::POST, "/v1/query"), Ok(Route::Query)));
        assert!(matches!(route_of(&Method::HEAD, "/metrics"), Ok(Route::Metrics)));
        assert!(matches!(
            route_of(&Method::GET, "/v1/query"),
            Err(Failure::Method("POST"))
        ));
        assert!(matches!(
            route_of(&Method::HEAD, "/v1/query"),
            Err(Failure::Method(_))
        ));
        assert!(matches!(
            route_of(&Method::GET, "/v1/query/"),
            Err(Failure::NotFound)
        ));
    }

    /// The console's parts are for browsers only.
    #[test]
    fn the_openapi_document_has_all_paths() {
        let document: serde_json::Value = serde_json::from_str(http_door::OPENAPI).unwrap();
        for (path, method, route) in &ROUTES {
            let known = &document["paths"][*path][method.as_str().to_lowercase()];
            assert_eq!(known.is_object(), !matches!(route, Route::Console(_)), "{path}");
        }
        let paths = document["paths"].as_object().unwrap();
        assert!(
            paths
                .keys()
                .all(|path| ROUTES.iter().any(|(known, ..)| known == path))
        );
    }

    #[test]
    fn grpc_is_known_by_its_content_type() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(value));
            is_grpc(&headers)
        };
        assert!(of("application/grpc") && of("application/grpc+proto") && of("application/grpc; a=b"));
        assert!(!of("application/grpc-web") && !of("application/json"));
    }
}
