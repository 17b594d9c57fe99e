//! Fields of a request's headers, read once: a table keeps them read, and a field that is referred to is not read again.

use http::header::{CONNECTION, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method};

/// A name, which fields may share.
#[derive(Clone, Debug)]
pub enum Name {
    Method,
    Scheme,
    Authority,
    Path,
    Regular(HeaderName),
    /// One that no request may have; with its length.
    Wrong(usize),
}

/// A name with its value.
#[derive(Clone, Debug)]
pub enum Field {
    Method(Method),
    Scheme(Scheme),
    Authority(Authority),
    Path(PathAndQuery),
    Regular(HeaderName, HeaderValue),
    /// A request that has it is malformed (RFC 9113, section 8.1.1). Tables keep it as any other.
    Wrong(Name),
}

impl Name {
    pub fn read(bytes: &[u8]) -> Name {
        match bytes {
            b":method" => Name::Method,
            b":scheme" => Name::Scheme,
            b":authority" => Name::Authority,
            b":path" => Name::Path,
            // Names with capital letters are none.
            _ => HeaderName::from_lowercase(bytes).map_or(Name::Wrong(bytes.len()), Name::Regular),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Name::Method | Name::Scheme => ":method".len(),
            Name::Authority => ":authority".len(),
            Name::Path => ":path".len(),
            Name::Regular(name) => name.as_str().len(),
            Name::Wrong(length) => *length,
        }
    }
}

impl Field {
    pub fn read(name: Name, value: &[u8]) -> Field {
        let read = match &name {
            Name::Method => Method::from_bytes(value).ok().map(Field::Method),
            Name::Scheme => Scheme::try_from(value).ok().map(Field::Scheme),
            Name::Authority => Authority::try_from(value).ok().map(Field::Authority),
            Name::Path if matches!(value, [b'/', ..] | [b'*']) => {
                PathAndQuery::try_from(value).ok().map(Field::Path)
            }
            Name::Regular(name) if is_allowed(name, value) => HeaderValue::from_bytes(value)
                .ok()
                .map(|value| Field::Regular(name.clone(), value)),
            Name::Path | Name::Regular(_) | Name::Wrong(_) => None,
        };
        read.unwrap_or(Field::Wrong(name))
    }

    pub fn name(&self) -> Name {
        match self {
            Field::Method(_) => Name::Method,
            Field::Scheme(_) => Name::Scheme,
            Field::Authority(_) => Name::Authority,
            Field::Path(_) => Name::Path,
            Field::Regular(name, _) => Name::Regular(name.clone()),
            Field::Wrong(name) => name.clone(),
        }
    }
}

/// Returns whether the field may be: those that are of a connection of HTTP/1.1 may not (RFC 9113, section 8.2.2), nor may values begin or
/// end with white space (section 8.2.1).
fn is_allowed(name: &HeaderName, value: &[u8]) -> bool {
    let is_of_connection = [CONNECTION, TRANSFER_ENCODING, UPGRADE].contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection");
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_of_connection
        && (*name != TE || value == b"trailers")
        && !is_blank(value.first())
        && !is_blank(value.last())
}
