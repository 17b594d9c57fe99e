//! Checksums.db: CRC32s of the components that the format itself leaves unchecked.
//!
//! | field | bytes |
//! |---|---|
//! | version | 4: 1 |
//! | filter | 4: CRC32 of Filter.db, 0 if there is none |
//! | summary | 4: CRC32 of Summary.db |
//! | compression | 4: CRC32 of CompressionInfo.db or CRC.db |
//! | page length | 4 |
//! | pages | 4: their number, then a CRC32 for each page of Index.db |
//! | checksum | 4: CRC32 of all before |
//!
//! Cassandra ignores components that it does not know, and its own SSTables do without.

use super::component_writer::INDEX_PAGE_BYTES;
use super::decode::{ByteReader, DecodeError};

const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checksums {
    pub filter: u32,
    pub summary: u32,
    pub chunks: u32,
    pub index_pages: Vec<u32>,
}

impl Checksums {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(28 + 4 * self.index_pages.len());
        let count = self.index_pages.len() as u32;
        for number in [
            VERSION,
            self.filter,
            self.summary,
            self.chunks,
            INDEX_PAGE_BYTES,
            count,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for page in &self.index_pages {
            out.extend_from_slice(&page.to_be_bytes());
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        out
    }

    pub fn decode(bytes: &[u8], index_length: u64) -> Result<Self, DecodeError> {
        let (checked, checksum) = bytes
            .split_last_chunk::<4>()
            .ok_or(DecodeError::Truncated { needed: 4 })?;
        let (wanted, found) = (u32::from_be_bytes(*checksum), crc32fast::hash(checked));
        if wanted != found {
            let found = format!("CRC32 {found:08x} instead of {wanted:08x}");
            return Err(DecodeError::malformed(
                checked.len(),
                "checksums that match their own",
                found,
            ));
        }
        let mut reader = ByteReader::new(checked);
        let version = reader.u32()?;
        if version != VERSION {
            return Err(DecodeError::malformed(0, "version 1", version));
        }
        let (filter, summary, chunks) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let page_bytes = reader.u32()?;
        let count = reader.count_u32(4)?;
        if page_bytes != INDEX_PAGE_BYTES || count as u64 != index_length.div_ceil(u64::from(page_bytes)) {
            return Err(DecodeError::malformed(
                16,
                "a checksum for each page of the index",
                count,
            ));
        }
        let index_pages = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Checksums {
            filter,
            summary,
            chunks,
            index_pages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_read_back_and_guard_themselves() {
        let checksums = Checksums {
            filter: 1,
            summary: 2,
            chunks: 3,
            index_pages: vec![4, 5],
        };
        let mut bytes = checksums.encode();
        assert_eq!(Checksums::decode(&bytes, 5000), Ok(checksums));
        assert!(Checksums::decode(&bytes, 9000).is_err(), "a page is missing");
        bytes[6] ^= 1;
        assert!(Checksums::decode(&bytes, 5000).is_err());
    }
}
