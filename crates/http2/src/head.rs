//! The head of a request, of the fields of its header block (RFC 9113, section 8.3).

use http::header::{CONTENT_LENGTH, TE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};

use crate::hpack::field::Field;

/// Fields that most requests have at most; more make their map grow.
const FIELDS: usize = 6;

/// A head that is read field by field.
pub struct Reading {
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    headers: HeaderMap,
    body_bytes: Option<u64>,
    /// Bytes that the fields count, whether they are kept or not.
    bytes: usize,
    bytes_max: usize,
    is_malformed: bool,
    /// True once a field came that is none of the head's own.
    is_behind_head: bool,
}

/// A head that was read to its end.
pub struct Head {
    pub parts: Parts,
    /// The length of the body, where the client has said so.
    pub body_bytes: Option<u64>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHead {
    Malformed,
    TooLong,
}

impl Reading {
    pub fn new(bytes_max: usize) -> Self {
        Reading {
            method: None,
            scheme: None,
            authority: None,
            path: None,
            headers: HeaderMap::new(),
            body_bytes: None,
            bytes: 0,
            bytes_max,
            is_malformed: false,
            is_behind_head: false,
        }
    }

    /// `bytes` is what the field counts.
    pub fn add(&mut self, field: &Field, bytes: usize) {
        self.bytes += bytes;
        if self.bytes > self.bytes_max {
            return;
        }
        let is_first = !self.is_behind_head;
        self.is_behind_head |= matches!(field, Field::Regular(..));
        let is_right = match field {
            Field::Method(method) => is_first && self.method.replace(method.clone()).is_none(),
            Field::Scheme(scheme) => is_first && self.scheme.replace(scheme.clone()).is_none(),
            Field::Authority(authority) => is_first && self.authority.replace(authority.clone()).is_none(),
            Field::Path(path) => is_first && self.path.replace(path.clone()).is_none(),
            // It says nothing but that the client takes trailers, which is a matter of the connection.
            Field::Regular(name, _) if *name == TE => true,
            Field::Regular(name, value) => {
                if is_first {
                    self.headers.reserve(FIELDS);
                }
                let is_right = *name != CONTENT_LENGTH || self.is_new_length(value);
                self.headers.append(name.clone(), value.clone());
                is_right
            }
            Field::Wrong(_) => false,
        };
        self.is_malformed |= !is_right;
    }

    fn is_new_length(&mut self, value: &HeaderValue) -> bool {
        let digits = value.as_bytes();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let length = value.to_str().ok().and_then(|text| text.parse().ok());
        let known = self.body_bytes.replace(length.unwrap_or_default());
        is_number && length.is_some() && known.is_none_or(|known| Some(known) == length)
    }

    pub fn finish(self) -> Result<Head, NoHead> {
        if self.bytes > self.bytes_max {
            return Err(NoHead::TooLong);
        }
        let body_bytes = self.body_bytes;
        let parts = self.parts().ok_or(NoHead::Malformed)?;
        Ok(Head { parts, body_bytes })
    }

    fn parts(self) -> Option<Parts> {
        if self.is_malformed {
            return None;
        }
        let method = self.method?;
        let mut uri = http::uri::Parts::default();
        uri.authority = self.authority;
        if method == Method::CONNECT {
            if self.scheme.is_some() || self.path.is_some() {
                return None;
            }
            uri.authority.as_ref()?;
        } else {
            uri.path_and_query = Some(self.path?);
            let scheme = self.scheme?;
            // A target without an authority has no place for the scheme.
            uri.scheme = uri.authority.is_some().then_some(scheme);
        }
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.uri = Uri::from_parts(uri).ok()?;
        parts.version = http::Version::HTTP_2;
        parts.method = method;
        parts.headers = self.headers;
        Some(parts)
    }

    /// Trailers: fields without a head.
    pub fn are_trailers(&self) -> bool {
        let has_head = self.method.is_some() || self.path.is_some() || self.scheme.is_some();
        !self.is_malformed && !has_head && self.authority.is_none()
    }
}
