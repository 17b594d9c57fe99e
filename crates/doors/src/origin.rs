//! Pages of other origins: a browser lets them send requests to a node on the machine of whoever looks at them.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Uri};

use crate::failure::Failure;

/// Header by which a browser tells how the asking page relates to this door (Fetch Metadata).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what a browser sends for a page that is not the console of this very door. Programs that are no browsers say nothing of
/// origins, and are let through.
///
/// A name that an attacker's page has come from may be made to mean this machine afterwards (DNS rebinding), and then the origin
/// is the door's. So where nobody has to log in, browsers have to call the door by address or as localhost.
pub fn check(headers: &HeaderMap, uri: &Uri, asks_for_passwords: bool) -> Result<(), Failure> {
    const FOREIGN: Failure = Failure::Forbidden("Pages of other origins may not ask here");
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let site = text(SITE);
    let origin = text(ORIGIN);
    if site.is_none() && origin.is_none() {
        return Ok(());
    }
    if !matches!(site, None | Some("same-origin" | "none")) {
        return Err(FOREIGN);
    }
    let host = uri.authority().map(|authority| authority.as_str());
    let host = host.or(text(HOST)).unwrap_or_default();
    let is_own = |origin: &str| {
        let called = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        called.is_some_and(|called| called.eq_ignore_ascii_case(host))
    };
    match origin.is_none_or(is_own) && (asks_for_passwords || is_certain(host)) {
        true => Ok(()),
        false => Err(FOREIGN),
    }
}

/// Returns whether nobody else can decide what the name means.
fn is_certain(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _port)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn is_let_in(lines: &[(&'static str, &'static str)], asks_for_passwords: bool) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        check(&headers, &Uri::from_static("/v1/query"), asks_for_passwords).is_ok()
    }

    #[test]
    fn only_programs_and_the_doors_own_page_may_ask() {
        let local = ("host", "127.0.0.1:8090");
        let own = ("origin", "http://127.0.0.1:8090");
        assert!(is_let_in(&[local], false));
        assert!(is_let_in(&[local, own], false));
        assert!(is_let_in(&[local, own, ("sec-fetch-site", "same-origin")], false));
        assert!(is_let_in(&[local, ("sec-fetch-site", "none")], false));
        assert!(is_let_in(
            &[("host", "[::1]:8090"), ("origin", "http://[::1]:8090")],
            false
        ));
        for foreign in [
            ("origin", "http://127.0.0.1:8091"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!is_let_in(&[local, foreign], false), "{foreign:?}");
            assert!(!is_let_in(&[local, foreign], true), "{foreign:?}");
        }
        let rebound = [
            ("host", "evil.example:8090"),
            ("origin", "http://evil.example:8090"),
        ];
        assert!(!is_let_in(&rebound, false));
        assert!(is_let_in(&rebound, true));
    }
}
