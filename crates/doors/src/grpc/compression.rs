//! Compressed messages.

use std::io::{self, Read, Write};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderName};

use super::status::{Code, Status};
use crate::bounds::ZSTD_WINDOW_LOG_MAX;
use crate::failure::Failure;

/// How messages of one direction of a call may be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    Zstd,
}

/// The header with which each side says how its messages are compressed.
pub const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// The header with which each side says what it understands.
pub const ACCEPTED: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Encodings that we understand.
pub const UNDERSTOOD: &str = "gzip,zstd";

/// zstd's fastest level that is worth its name; gzip's fastest.
const ZSTD_LEVEL: i32 = 1;

impl Compression {
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Compression::Zstd, Compression::Gzip]
            .into_iter()
            .find(|known| known.name() == name)
    }

    /// How a call's messages are compressed.
    pub fn of_request(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        let named = headers
            .get(ENCODING)
            .map(|value| value.to_str().unwrap_or_default());
        match named {
            None | Some("identity") => Ok(None),
            Some(name) => Compression::named(name).map(Some).ok_or_else(|| {
                let mut status = Status::new(
                    Code::Unimplemented,
                    format!("grpc-encoding {name} is not understood here"),
                );
                let understood = http::HeaderValue::from_static(UNDERSTOOD);
                status.trailers.insert(ACCEPTED, understood);
                status
            }),
        }
    }

    /// How answers may be compressed: only as the client has said that it understands.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let accepted = headers.get(ACCEPTED)?.to_str().ok()?;
        let understands = |known: &Compression| accepted.split(',').any(|name| name.trim() == known.name());
        [Compression::Zstd, Compression::Gzip]
            .into_iter()
            .find(understands)
    }

    pub fn compress(self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(out, flate2::Compression::fast());
                encoder.write_all(bytes)?;
                encoder.finish().map(drop)
            }
            Compression::Zstd => zstd::stream::copy_encode(bytes, out, ZSTD_LEVEL),
        }
    }

    /// At most `bytes_max`.
    pub fn decompress(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, Status> {
        let mut out = Vec::new();
        let read = match self {
            Compression::Gzip => read_bounded(GzDecoder::new(bytes), bytes_max, &mut out),
            Compression::Zstd => zstd::stream::read::Decoder::with_buffer(bytes).and_then(|mut decoder| {
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                read_bounded(decoder, bytes_max, &mut out)
            }),
        };
        read.map_err(|error| {
            let name = self.name();
            Status::new(
                Code::Internal,
                format!("A message is not {name}, as grpc-encoding says: {error}"),
            )
        })?;
        match out.len() > bytes_max {
            true => Err(Status::of(&Failure::TooLarge {
                bytes_max: Some(bytes_max),
            })),
            false => Ok(out),
        }
    }
}

fn read_bounded(reader: impl Read, bytes_max: usize, out: &mut Vec<u8>) -> io::Result<()> {
    reader.take(bytes_max as u64 + 1).read_to_end(out).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::BODY_BYTES_MAX;

    #[test]
    fn what_is_compressed_is_the_same_again_and_no_bomb_goes_off() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            for length in [0, 1_024, BODY_BYTES_MAX, BODY_BYTES_MAX + 1, 20 * BODY_BYTES_MAX] {
                let mut packed = Vec::new();
                compression.compress(&vec![7; length], &mut packed).unwrap();
                match compression.decompress(&packed, BODY_BYTES_MAX) {
                    Ok(bytes) => assert_eq!((bytes.len(), length <= BODY_BYTES_MAX), (length, true)),
                    Err(status) => assert_eq!((status.code, length > BODY_BYTES_MAX), (8, true)),
                }
            }
            assert_eq!(
                compression.decompress(b"no", BODY_BYTES_MAX).unwrap_err().code,
                Code::Internal as i32
            );
        }
    }

    #[test]
    fn answers_are_compressed_only_as_accepted() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPTED, http::HeaderValue::from_static(value));
            Compression::accepted(&headers)
        };
        assert_eq!(of("identity,deflate,gzip"), Some(Compression::Gzip));
        assert_eq!(of("gzip, zstd"), Some(Compression::Zstd));
        assert_eq!(
            (of("identity"), Compression::accepted(&HeaderMap::new())),
            (None, None)
        );
    }
}
