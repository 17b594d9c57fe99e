//! Header blocks of answers. Nothing is put into a table: an answer's headers are short, and who has no table has none to keep in step.

use http::{HeaderMap, HeaderName, StatusCode};

/// `:status`, by the index of the field where there is one, and of its name otherwise.
pub fn status(status: StatusCode, out: &mut Vec<u8>) {
    let index = match status.as_u16() {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            // Three digits.
            out.extend_from_slice(&[8, 3]);
            return out.extend_from_slice(status.as_str().as_bytes());
        }
    };
    out.push(0x80 | index);
}

/// Literal fields without indexing (RFC 7541, section 6.2.2).
pub fn fields(headers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in headers {
        put_name(name, out);
        string(value.as_bytes(), out);
    }
}

/// Names that answers often have are referred to in the table that is the same for all.
fn put_name(name: &HeaderName, out: &mut Vec<u8>) {
    let index = match name.as_str() {
        "allow" => 22,
        "cache-control" => 24,
        "content-length" => 28,
        "content-type" => 31,
        "date" => 33,
        _ => {
            out.push(0);
            return string(name.as_str().as_bytes(), out);
        }
    };
    number(0, 4, index, out);
}

fn string(bytes: &[u8], out: &mut Vec<u8>) {
    number(0, 7, bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn number(flags: u8, bits: u32, number: usize, out: &mut Vec<u8>) {
    let most = (1_usize << bits) - 1;
    if number < most {
        return out.push(flags | number as u8);
    }
    out.push(flags | most as u8);
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;

    use super::super::Decoder;
    use super::super::field::Field;
    use super::*;

    #[test]
    fn a_decoder_reads_what_is_written() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static("0"));
        for name in ["allow", "cache-control", "content-length", "date"] {
            headers.insert(name, HeaderValue::from_static(name));
        }
        headers.insert("x-long", HeaderValue::from_bytes(&[b'x'; 20_000]).unwrap());
        headers.append("x-long", HeaderValue::from_static(""));
        let mut block = Vec::new();
        fields(&headers, &mut block);
        let mut read = HeaderMap::new();
        let tell = |entry: &super::super::Entry| match &entry.field {
            Field::Regular(name, value) => drop(read.append(name.clone(), value.clone())),
            other => panic!("{other:?}"),
        };
        Decoder::default().decode(&block, tell).unwrap();
        assert_eq!(read, headers);
    }

    /// RFC 7541, appendix C.1 and C.6.1.
    #[test]
    fn numbers_and_statuses_of_the_rfc() {
        let of = |bits: u32, value: usize| {
            let mut out = Vec::new();
            number(0, bits, value, &mut out);
            out
        };
        assert_eq!(
            (of(5, 10), of(5, 1_337), of(8, 42)),
            (vec![10], vec![31, 154, 10], vec![42])
        );
        let of = |code: u16| {
            let mut out = Vec::new();
            status(StatusCode::from_u16(code).unwrap(), &mut out);
            out
        };
        assert_eq!((of(200), of(302)), (vec![0x88], b"\x08\x03302".to_vec()));
    }
}
