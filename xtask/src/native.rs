//! A small native protocol client (v4), independent of Helenus' own protocol crate.
//!
//! It starts and waits for servers, and is the load and the witness of the crash test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const VERSION_REQUEST: u8 = 0x04;
const OPCODE_ERROR: u8 = 0x00;
const OPCODE_STARTUP: u8 = 0x01;
const OPCODE_READY: u8 = 0x02;
const OPCODE_QUERY: u8 = 0x07;
const OPCODE_RESULT: u8 = 0x08;
const OPCODE_PREPARE: u8 = 0x09;
const OPCODE_EXECUTE: u8 = 0x0A;
const RESULT_ROWS: i32 = 2;
const RESULT_PREPARED: i32 = 4;
const CONSISTENCY_ONE: u16 = 1;
/// Types whose option goes on after its number (native protocol v4, section 4.2.5.2).
const TYPE_CUSTOM: u16 = 0x00;
const TYPE_LIST: u16 = 0x20;
const TYPE_MAP: u16 = 0x21;
const TYPE_SET: u16 = 0x22;
const TYPE_USER: u16 = 0x30;
const TYPE_TUPLE: u16 = 0x31;
/// As deep as Helenus lets types nest.
const TYPE_DEPTH_MAX: usize = 64;
/// Longest answer the tools expect; a longer length is a broken server, not a reason to allocate.
const ANSWER_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    #[error("cannot reach {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error("server error {code:#06x}: {message}")]
    Server { code: i32, message: String },
    #[error("the answer does not follow the protocol: {0}")]
    Malformed(&'static str),
}

/// One cell as it came over the wire; `None` is null.
pub type Cell = Option<Vec<u8>>;

/// Name that a server gives a prepared statement.
pub struct PreparedId(Vec<u8>);

pub struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Connects and negotiates; `timeout` bounds the connect and each later answer.
    pub fn open(address: SocketAddr, timeout: Duration) -> Result<Self, NativeError> {
        let stream = TcpStream::connect_timeout(&address, timeout)
            .map_err(|source| NativeError::Connect { address, source })?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        let mut connection = Self { stream };
        let mut body = Vec::new();
        put_short(&mut body, 1);
        put_string(&mut body, "CQL_VERSION");
        put_string(&mut body, "3.0.0");
        let (opcode, _) = connection.exchange(OPCODE_STARTUP, &body)?;
        if opcode == OPCODE_READY {
            Ok(connection)
        } else {
            Err(NativeError::Malformed("STARTUP was not answered with READY"))
        }
    }

    /// Runs one statement and returns its rows, which are none for anything but a SELECT.
    pub fn query(&mut self, statement: &str) -> Result<Vec<Vec<Cell>>, NativeError> {
        self.query_with(statement, &[])
    }

    /// The same with a serialized value for each `?`.
    pub fn query_with(&mut self, statement: &str, values: &[Vec<u8>]) -> Result<Vec<Vec<Cell>>, NativeError> {
        let mut body = Vec::with_capacity(statement.len() + 8);
        put_long_string(&mut body, statement);
        put_parameters(&mut body, values);
        self.ask(OPCODE_QUERY, &body)
    }

    pub fn prepare(&mut self, statement: &str) -> Result<PreparedId, NativeError> {
        let mut body = Vec::with_capacity(statement.len() + 4);
        put_long_string(&mut body, statement);
        let (_, answer) = self.exchange(OPCODE_PREPARE, &body)?;
        let mut cursor = Cursor { bytes: &answer };
        if cursor.int()? != RESULT_PREPARED {
            return Err(NativeError::Malformed("PREPARE was not answered with an id"));
        }
        let length = usize::from(cursor.short()?);
        Ok(PreparedId(cursor.take(length)?.to_vec()))
    }

    /// As [`Connection::query_with`].
    pub fn execute(
        &mut self,
        statement: &PreparedId,
        values: &[Vec<u8>],
    ) -> Result<Vec<Vec<Cell>>, NativeError> {
        let mut body = Vec::with_capacity(128);
        put_short(&mut body, statement.0.len() as u16);
        body.extend(&statement.0);
        put_parameters(&mut body, values);
        self.ask(OPCODE_EXECUTE, &body)
    }

    fn ask(&mut self, opcode: u8, body: &[u8]) -> Result<Vec<Vec<Cell>>, NativeError> {
        let (opcode, answer) = self.exchange(opcode, body)?;
        if opcode != OPCODE_RESULT {
            return Err(NativeError::Malformed("a statement was not answered with RESULT"));
        }
        let mut cursor = Cursor { bytes: &answer };
        if cursor.int()? == RESULT_ROWS {
            rows(&mut cursor)
        } else {
            Ok(Vec::new())
        }
    }

    fn exchange(&mut self, opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>), NativeError> {
        let mut frame = Vec::with_capacity(9 + body.len());
        frame.extend([VERSION_REQUEST, 0, 0, 0, opcode]);
        frame.extend((body.len() as u32).to_be_bytes());
        frame.extend(body);
        self.stream.write_all(&frame)?;
        let mut header = [0_u8; 9];
        self.stream.read_exact(&mut header)?;
        let [_, flags, _, _, answer_opcode, length @ ..] = header;
        let length = u32::from_be_bytes(length) as usize;
        if length > ANSWER_BYTES_MAX {
            return Err(NativeError::Malformed("an answer longer than anything asked for"));
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let answer = without_warnings(flags, answer)?;
        if answer_opcode == OPCODE_ERROR {
            let mut cursor = Cursor { bytes: &answer };
            return Err(NativeError::Server {
                code: cursor.int()?,
                message: cursor.string()?,
            });
        }
        Ok((answer_opcode, answer))
    }
}

/// The body behind the warnings that a flag of its header announces (native protocol v4, section 2.2).
fn without_warnings(flags: u8, body: Vec<u8>) -> Result<Vec<u8>, NativeError> {
    const HAS_WARNINGS: u8 = 8;
    if flags & HAS_WARNINGS == 0 {
        return Ok(body);
    }
    let mut cursor = Cursor { bytes: &body };
    for _ in 0..cursor.short()? {
        cursor.string()?;
    }
    Ok(cursor.bytes.to_vec())
}

fn put_short(body: &mut Vec<u8>, value: u16) {
    body.extend(value.to_be_bytes());
}

fn put_long_string(body: &mut Vec<u8>, text: &str) {
    body.extend((text.len() as u32).to_be_bytes());
    body.extend(text.as_bytes());
}

/// Consistency, flags and values of a statement (native protocol v4, section 4.1.4).
fn put_parameters(body: &mut Vec<u8>, values: &[Vec<u8>]) {
    const HAS_VALUES: u8 = 1;
    put_short(body, CONSISTENCY_ONE);
    if values.is_empty() {
        body.push(0);
        return;
    }
    body.push(HAS_VALUES);
    put_short(body, values.len() as u16);
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value);
    }
}

fn put_string(body: &mut Vec<u8>, text: &str) {
    put_short(body, text.len() as u16);
    body.extend(text.as_bytes());
}

fn rows(cursor: &mut Cursor<'_>) -> Result<Vec<Vec<Cell>>, NativeError> {
    const GLOBAL_TABLE: i32 = 1;
    const MORE_PAGES: i32 = 2;
    let flags = cursor.int()?;
    let columns = cursor.int()?;
    if flags & MORE_PAGES != 0 {
        return Err(NativeError::Malformed("a page although none was asked for"));
    }
    if flags & GLOBAL_TABLE != 0 {
        cursor.string()?;
        cursor.string()?;
    }
    for _ in 0..columns {
        if flags & GLOBAL_TABLE == 0 {
            cursor.string()?;
            cursor.string()?;
        }
        cursor.string()?;
        skip_type(cursor, TYPE_DEPTH_MAX)?;
    }
    let count = cursor.int()?;
    let mut rows = Vec::new();
    for _ in 0..count {
        let mut row = Vec::new();
        for _ in 0..columns {
            row.push(cursor.cell()?);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A type's option of a result's metadata (native protocol v4, section 4.2.5.2).
fn skip_type(cursor: &mut Cursor<'_>, depth: usize) -> Result<(), NativeError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(NativeError::Malformed("a type that nests deeper than any"));
    };
    match cursor.short()? {
        TYPE_CUSTOM => {
            cursor.string()?;
        }
        TYPE_LIST | TYPE_SET => skip_type(cursor, depth)?,
        TYPE_MAP => {
            skip_type(cursor, depth)?;
            skip_type(cursor, depth)?;
        }
        TYPE_USER => {
            cursor.string()?;
            cursor.string()?;
            for _ in 0..cursor.short()? {
                cursor.string()?;
                skip_type(cursor, depth)?;
            }
        }
        TYPE_TUPLE => {
            for _ in 0..cursor.short()? {
                skip_type(cursor, depth)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Reads an answer's body from the front and never past its end.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl Cursor<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], NativeError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or(NativeError::Malformed("the body ends early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn short(&mut self) -> Result<u16, NativeError> {
        let bytes = self.take(2)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u16::from(*byte)))
    }

    fn int(&mut self) -> Result<i32, NativeError> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | i32::from(*byte)))
    }

    fn string(&mut self) -> Result<String, NativeError> {
        let length = usize::from(self.short()?);
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn cell(&mut self) -> Result<Cell, NativeError> {
        match usize::try_from(self.int()?) {
            Ok(length) => Ok(Some(self.take(length)?.to_vec())),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: a SELECT over a thousand tombstones, of which Cassandra warns, seemed to return no rows.
    #[test]
    fn warnings_are_not_the_body() {
        let body = [0, 2, 0, 1, b'a', 0, 0, 7, 8];
        assert_eq!(without_warnings(8, body.to_vec()).unwrap(), [7, 8]);
        assert_eq!(without_warnings(0, body.to_vec()).unwrap(), body);
        assert!(without_warnings(8, vec![0, 1]).is_err());
    }
}
