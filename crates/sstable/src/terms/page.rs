//! Pages of groups: written at one end, read at the other.

use crate::block::chunked_file::page_checksum;
use crate::decode::{ByteReader, DecodeError, push_unsigned_vint, unsigned_vint_length};

use super::{CHECKSUM_BYTES, PAGE_BYTES, PAGE_HEAD_BYTES};

/// The rows of a group.
const ROW_COUNT_BYTES: usize = 2;

/// Gathers entries until a page is full.
#[derive(Debug, Default)]
pub(super) struct PageBuilder {
    bytes: Vec<u8>,
    groups: u16,
    head: Vec<u8>,
    clustering: Vec<u8>,
    /// Where the number of rows of the last group is.
    rows_at: usize,
    rows: u16,
}

impl PageBuilder {
    pub fn is_empty(&self) -> bool {
        self.groups == 0
    }

    /// Adds an entry; returns whether it has found room.
    pub fn push(&mut self, head: &[u8], clustering: Option<&[u8]>) -> bool {
        if self.groups > 0
            && self.rows > 0
            && self.head == head
            && let Some(clustering) = clustering
        {
            return self.push_row(clustering);
        }
        let shared = match self.groups {
            0 => 0,
            _ => shared_length(&self.head, head),
        };
        let rest = head.get(shared..).unwrap_or_default();
        let row_bytes = clustering.map_or(0, |clustering| item_bytes(0, clustering.len()));
        let bytes = item_bytes(shared, rest.len()) + ROW_COUNT_BYTES + row_bytes;
        if self.groups == 0 {
            self.bytes.clear();
            self.bytes.extend_from_slice(&[0; PAGE_HEAD_BYTES]);
        }
        if !self.has_room(bytes) {
            return false;
        }
        push_item(&mut self.bytes, shared, rest);
        self.head.truncate(shared);
        self.head.extend_from_slice(rest);
        self.rows_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; ROW_COUNT_BYTES]);
        self.groups += 1;
        self.rows = 0;
        self.clustering.clear();
        clustering.is_none_or(|clustering| self.push_row(clustering))
    }

    fn push_row(&mut self, clustering: &[u8]) -> bool {
        let shared = match self.rows {
            0 => 0,
            _ => shared_length(&self.clustering, clustering),
        };
        let rest = clustering.get(shared..).unwrap_or_default();
        if !self.has_room(item_bytes(shared, rest.len())) {
            return false;
        }
        push_item(&mut self.bytes, shared, rest);
        self.clustering.truncate(shared);
        self.clustering.extend_from_slice(rest);
        self.rows += 1;
        let rows = self.rows.to_be_bytes();
        if let Some(count) = self.bytes.get_mut(self.rows_at..self.rows_at + ROW_COUNT_BYTES) {
            count.copy_from_slice(&rows);
        }
        true
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes + CHECKSUM_BYTES <= PAGE_BYTES
    }

    /// The page, which begins anew.
    pub fn finish(&mut self, number: u64) -> &[u8] {
        let groups = std::mem::take(&mut self.groups).to_be_bytes();
        if let Some(count) = self.bytes.get_mut(..PAGE_HEAD_BYTES) {
            count.copy_from_slice(&groups);
        }
        self.bytes.resize(PAGE_BYTES - CHECKSUM_BYTES, 0);
        let checksum = page_checksum(number, &self.bytes);
        self.bytes.extend_from_slice(&checksum.to_be_bytes());
        &self.bytes
    }
}

fn shared_length(before: &[u8], bytes: &[u8]) -> usize {
    before
        .iter()
        .zip(bytes)
        .take_while(|(left, right)| left == right)
        .count()
}

fn item_bytes(shared: usize, rest: usize) -> usize {
    unsigned_vint_length(shared as u64) + unsigned_vint_length(rest as u64) + rest
}

fn push_item(out: &mut Vec<u8>, shared: usize, rest: &[u8]) {
    push_unsigned_vint(out, shared as u64);
    push_unsigned_vint(out, rest.len() as u64);
    out.extend_from_slice(rest);
}

/// Goes through the entries of a page, whose checksum is right; what it says is not trusted.
#[derive(Debug, Default)]
pub(super) struct PageWalk {
    at: usize,
    groups_left: u16,
    rows_left: u16,
    pub head: Vec<u8>,
    pub clustering: Vec<u8>,
    /// The entry leads to all of its partition.
    pub is_whole: bool,
}

impl PageWalk {
    pub fn begin(&mut self, page: &[u8]) -> Result<(), DecodeError> {
        let mut reader = ByteReader::new(page);
        self.groups_left = reader.u16()?;
        self.at = PAGE_HEAD_BYTES;
        self.rows_left = 0;
        self.head.clear();
        self.clustering.clear();
        Ok(())
    }

    /// Moves to the next entry; false at the end.
    pub fn advance(&mut self, page: &[u8]) -> Result<bool, DecodeError> {
        let page = page.get(..PAGE_BYTES - CHECKSUM_BYTES).unwrap_or_default();
        let mut reader = ByteReader::new(page.get(self.at..).unwrap_or_default());
        if self.rows_left > 0 {
            read_item(&mut reader, &mut self.clustering)?;
            self.rows_left -= 1;
        } else {
            let Some(groups_left) = self.groups_left.checked_sub(1) else {
                return Ok(false);
            };
            self.groups_left = groups_left;
            read_item(&mut reader, &mut self.head)?;
            let rows = reader.u16()?;
            self.is_whole = rows == 0;
            self.clustering.clear();
            if let Some(rows_left) = rows.checked_sub(1) {
                self.rows_left = rows_left;
                read_item(&mut reader, &mut self.clustering)?;
            }
        }
        self.at += reader.position();
        Ok(true)
    }

    pub fn clustering(&self) -> Option<&[u8]> {
        (!self.is_whole).then_some(&*self.clustering)
    }
}

/// Reads an item over the one before it. What is shared is at most what is there, and what is not at most a page.
fn read_item(reader: &mut ByteReader<'_>, item: &mut Vec<u8>) -> Result<(), DecodeError> {
    let at = reader.position();
    let shared = reader.unsigned_vint()?;
    if shared > item.len() as u64 {
        return Err(DecodeError::malformed(at, "a part of the item before", shared));
    }
    let rest = reader.bytes_after_vint()?;
    item.truncate(shared as usize);
    item.extend_from_slice(rest);
    Ok(())
}
