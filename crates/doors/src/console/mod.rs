//! The console: one page that shows what the node does, and asks it. It is embedded, and needs no network.

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderValue, Request, Response, StatusCode};

use crate::body::{Body, Incoming};
use crate::http_door::whole;

/// The page's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asset {
    /// The page itself.
    Page,
    /// How it looks.
    Style,
    /// Its behaviour.
    Script,
    /// Parts that its views are made of.
    Kit,
    /// Its view of a traced request.
    Trace,
    /// Operations on tables.
    Operations,
    /// Its completions: words of CQL, and names of the schema.
    Language,
    /// Its icon.
    Icon,
}

/// Only what comes from this door, and nothing that is written into the page: what a row holds stays text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A part of the page.
pub fn answer(asset: Asset, _request: &Request<Incoming>) -> Response<Body> {
    let (media_type, text): (&str, &'static str) = match asset {
        Asset::Page => ("text/html; charset=utf-8", include_str!("index.html")),
        Asset::Style => ("text/css; charset=utf-8", include_str!("console.css")),
        Asset::Script => ("text/javascript; charset=utf-8", include_str!("console.js")),
        Asset::Kit => ("text/javascript; charset=utf-8", include_str!("kit.js")),
        Asset::Trace => ("text/javascript; charset=utf-8", include_str!("trace.js")),
        Asset::Operations => ("text/javascript; charset=utf-8", include_str!("operations.js")),
        Asset::Language => ("text/javascript; charset=utf-8", include_str!("cql.js")),
        Asset::Icon => ("image/svg+xml", include_str!("icon.svg")),
    };
    let mut response = whole(StatusCode::OK, media_type, text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
