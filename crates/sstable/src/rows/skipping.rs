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
