//! Passing rows and markers that nobody wants, by the lengths that they begin with.

use crate::decode::{ByteReader, DecodeError};
use crate::meta::header::Header;
use crate::rows::row_encoder::{END_OF_PARTITION, HAS_EXTENDED_FLAGS, IS_MARKER, IS_STATIC};

/// How far a partition was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub bytes: usize,
    pub is_end: bool,
}

/// Passes the items that the bytes begin with, up to the partition's end or to the last one that they have all of; there must be
/// one. [`DecodeError::Truncated`] asks for more bytes.
pub(crate) fn pass_items(bytes: &[u8], header: &Header) -> Result<Passed, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    loop {
        let at = reader.position();
        match pass_item(&mut reader, header) {
            Ok(false) => {}
            Ok(true) => {
                return Ok(Passed {
                    bytes: reader.position(),
                    is_end: true,
                });
            }
            Err(DecodeError::Truncated { .. }) if at > 0 => {
                return Ok(Passed {
                    bytes: at,
                    is_end: false,
                });
            }
            Err(error) => return Err(error),
        }
    }
}

/// How far rows before a bound were passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassedRows {
    pub bytes: usize,
    /// True if a row behind the bound, a marker, or the end follows, and not only the end of the bytes.
    pub is_all: bool,
}

/// Passes the rows before a bound that the bytes begin with, as far as `bytes_max`, without looking at what is in them. Stops
/// before a marker, which may concern what comes behind. [`DecodeError::Truncated`] if not even the first row's length is there.
pub(crate) fn pass_rows_before(
    bytes: &[u8],
    bytes_max: u64,
    header: &Header,
    is_before: impl Fn(&[u8]) -> bool,
    clustering: &mut Vec<u8>,
) -> Result<PassedRows, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let mut passed = PassedRows {
        bytes: 0,
        is_all: false,
    };
    while (passed.bytes as u64) < bytes_max {
        clustering.clear();
        match pass_row_before(&mut reader, header, &is_before, clustering) {
            Ok(true) => passed.bytes = reader.position(),
            Ok(false) => break,
            Err(DecodeError::Truncated { .. }) if passed.bytes > 0 => return Ok(passed),
            Err(error) => return Err(error),
        }
    }
    passed.is_all = true;
    Ok(passed)
}

/// False if it is no row, or none before the bound.
#[inline]
fn pass_row_before(
    reader: &mut ByteReader<'_>,
    header: &Header,
    is_before: &impl Fn(&[u8]) -> bool,
    clustering: &mut Vec<u8>,
) -> Result<bool, DecodeError> {
    let flags = reader.u8()?;
    if flags & (END_OF_PARTITION | IS_MARKER) != 0 {
        return Ok(false);
    }
    if flags & HAS_EXTENDED_FLAGS != 0 {
        reader.u8()?;
    }
    let count = header.clustering.component_count();
    header.clustering.read_values(reader, count, clustering)?;
    if !is_before(clustering) {
        return Ok(false);
    }
    reader.bytes_after_vint().map(|_| true)
}

/// True for the mark of the partition's end.
fn pass_item(reader: &mut ByteReader<'_>, header: &Header) -> Result<bool, DecodeError> {
    let flags = reader.u8()?;
    if flags & END_OF_PARTITION != 0 {
        return Ok(true);
    }
    if flags & IS_MARKER != 0 {
        let _kind = reader.u8()?;
        let count = usize::from(reader.u16()?);
        header.clustering.skip_values(reader, count)?;
    } else {
        let extended = if flags & HAS_EXTENDED_FLAGS != 0 {
            reader.u8()?
        } else {
            0
        };
        if extended & IS_STATIC == 0 {
            let count = header.clustering.component_count();
            header.clustering.skip_values(reader, count)?;
        }
    }
    reader.bytes_after_vint().map(|_| false)
}
