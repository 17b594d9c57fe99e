//! Checksums.db: CRC32s of the components that the format itself leaves unchecked, or checks in pieces too large.
//!
//! | field | bytes |
//! |---|---|
//! | version | 4: 2 |
//! | filter | 4: CRC32 of Filter.db, 0 if there is none |
//! | summary | 4: CRC32 of Summary.db, 0 if there is none |
//! | chunks | 4: CRC32 of CompressionInfo.db or CRC.db |
//! | lists | 4: their number |
//! | list: component | 1: 1 Data.db, 2 Index.db, 3 Partitions.db, 4 Rows.db, 5 Statistics.db |
//! | list: page length | 4 |
//! | list: pages | 4: their number, then a CRC32 for each page |
//! | checksum | 4: CRC32 of all before |
//!
//! Data.db has a list where it is not compressed; its pages are granules, smaller than the chunks of CRC.db, so that a
//! row is read without its neighbours. Statistics.db has one where the version has no checksums in it. Cassandra ignores components that it does not know, and its own SSTables do
//! without.

use crate::component::Component;
use crate::decode::{ByteReader, DecodeError, without_checksum};

const VERSION: u32 = 2;
/// A list without pages.
const LIST_BYTES_MIN: usize = 9;
/// Largest page of a list, in bytes; one read brings at least a page.
const PAGE_BYTES_MAX: u32 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checksums {
    pub filter: u32,
    pub summary: u32,
    pub chunks: u32,
    /// At most one of a component.
    pub lists: Vec<PageChecksums>,
}

/// A CRC32 for each page of a component, the last one shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageChecksums {
    pub component: Component,
    pub page_bytes: u32,
    pub checksums: Vec<u32>,
}

/// How components are written here.
const TAGS: [(u8, Component); 5] = [
    (1, Component::Data),
    (2, Component::Index),
    (3, Component::Partitions),
    (4, Component::Rows),
    (5, Component::Statistics),
];

impl Checksums {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [
            VERSION,
            self.filter,
            self.summary,
            self.chunks,
            self.lists.len() as u32,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for list in &self.lists {
            let tag = TAGS.iter().find(|(_, component)| *component == list.component);
            debug_assert!(tag.is_some(), "every component that has a list has a tag");
            out.push(tag.map_or(0, |(tag, _)| *tag));
            out.extend_from_slice(&list.page_bytes.to_be_bytes());
            out.extend_from_slice(&(list.checksums.len() as u32).to_be_bytes());
            for checksum in &list.checksums {
                out.extend_from_slice(&checksum.to_be_bytes());
            }
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let checked = without_checksum(bytes, "checksums that match their own")?;
        let mut reader = ByteReader::new(checked);
        let version = reader.u32()?;
        if version != VERSION {
            return Err(DecodeError::malformed(0, "version 2", version));
        }
        let (filter, summary, chunks) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let count = reader.count_u32(LIST_BYTES_MIN)?;
        let lists = (0..count)
            .map(|_| decode_list(&mut reader))
            .collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Checksums {
            filter,
            summary,
            chunks,
            lists,
        })
    }

    /// Takes out the pages of a component of a length, if there are any.
    pub fn take(&mut self, component: Component, length: u64) -> Result<Option<PageChecksums>, DecodeError> {
        let Some(index) = self.lists.iter().position(|list| list.component == component) else {
            return Ok(None);
        };
        let list = self.lists.swap_remove(index);
        if list.checksums.len() as u64 != length.div_ceil(u64::from(list.page_bytes)) {
            let found = format!("{} for {length} bytes", list.checksums.len());
            return Err(DecodeError::malformed(0, "a checksum for each page", found));
        }
        Ok(Some(list))
    }
}

fn decode_list(reader: &mut ByteReader<'_>) -> Result<PageChecksums, DecodeError> {
    let tag_at = reader.position();
    let tag = reader.u8()?;
    let component = TAGS.iter().find(|(known, _)| *known == tag);
    let (_, component) = component.ok_or_else(|| DecodeError::malformed(tag_at, "a component", tag))?;
    let page_bytes_at = reader.position();
    let page_bytes = reader.u32()?;
    if page_bytes == 0 || page_bytes > PAGE_BYTES_MAX {
        let wanted = "a page length up to 16 MiB";
        return Err(DecodeError::malformed(page_bytes_at, wanted, page_bytes));
    }
    let count = reader.count_u32(4)?;
    Ok(PageChecksums {
        component: *component,
        page_bytes,
        checksums: (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_read_back_and_guard_themselves() {
        let list = |component, page_bytes, checksums: &[u32]| PageChecksums {
            component,
            page_bytes,
            checksums: checksums.to_vec(),
        };
        let checksums = Checksums {
            filter: 1,
            summary: 2,
            chunks: 3,
            lists: vec![
                list(Component::Data, 512, &[6]),
                list(Component::Index, 4096, &[4, 5]),
            ],
        };
        let mut bytes = checksums.encode();
        let decoded = Checksums::decode(&bytes).unwrap();
        assert_eq!(decoded, checksums);
        let take = |length| decoded.clone().take(Component::Index, length);
        assert_eq!(take(5000), Ok(Some(list(Component::Index, 4096, &[4, 5]))));
        assert!(take(9000).is_err(), "a page is missing");
        assert_eq!(decoded.clone().take(Component::Summary, 1), Ok(None));
        bytes[6] ^= 1;
        assert!(Checksums::decode(&bytes).is_err());
    }
}
