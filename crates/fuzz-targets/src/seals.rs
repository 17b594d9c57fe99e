//! Checksums made to fit what they cover, so that damage reaches the decoders behind them.

use std::collections::BTreeMap;

use helenus_schema::SsTableFormat;
use helenus_sstable::Component;

/// Pages of Blocks.db.
const PAGE_BYTES: usize = 4096;
/// Behind the directory of Blocks.db: its length and its checksum.
const FOOT_BYTES: usize = 12;

/// Makes whatever covers `component` match it, as far as its layout can still be told.
pub fn fit(components: &mut BTreeMap<Component, Vec<u8>>, component: Component, format: SsTableFormat) {
    match component {
        Component::Data => fit_data(components),
        Component::Statistics if format != SsTableFormat::Me => {
            components
                .get_mut(&component)
                .and_then(|bytes| fit_statistics(bytes));
        }
        Component::Checksums | Component::Fences => {
            components.get_mut(&component).and_then(|bytes| {
                let end = bytes.len().checked_sub(4)?;
                seal(bytes, 0..end)
            });
        }
        Component::Blocks => {
            components.get_mut(&component).and_then(|bytes| fit_blocks(bytes));
        }
        _ => {}
    }
}

/// Writes the CRC32 of a range behind it.
fn seal(bytes: &mut [u8], covered: std::ops::Range<usize>) -> Option<()> {
    let checksum = crc32fast::hash(bytes.get(covered.clone())?);
    put(bytes, covered.end, checksum)
}

fn put(bytes: &mut [u8], at: usize, checksum: u32) -> Option<()> {
    let room = bytes.get_mut(at..at.checked_add(4)?)?;
    room.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let piece = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(piece.try_into().ok()?) as usize)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    let piece = bytes.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_be_bytes(piece.try_into().ok()?)).ok()
}

/// CRC.db is made anew; a compressed chunk carries its own checksum.
fn fit_data(components: &mut BTreeMap<Component, Vec<u8>>) {
    let starts = components
        .get(&Component::CompressionInfo)
        .map(|info| chunk_starts(info));
    let Some(data) = components.get_mut(&Component::Data) else {
        return;
    };
    if let Some(starts) = starts {
        let ends = starts
            .iter()
            .skip(1)
            .copied()
            .chain([data.len()])
            .collect::<Vec<_>>();
        for (start, end) in starts.into_iter().zip(ends) {
            // A chunk that is cut off has none.
            end.checked_sub(4).and_then(|end| seal(data, start..end));
        }
        return;
    }
    let data = std::mem::take(data);
    if let Some(crc) = components.get_mut(&Component::Crc)
        && let Some(chunk_bytes) = u32_at(crc, 0)
    {
        crc.truncate(4);
        for chunk in data.chunks(chunk_bytes.max(1)) {
            crc.extend_from_slice(&crc32fast::hash(chunk).to_be_bytes());
        }
    }
    components.insert(Component::Data, data);
}

/// The offsets at the end of CompressionInfo.db, behind their number.
fn chunk_starts(info: &[u8]) -> Vec<usize> {
    let offsets_at = (1..=info.len() / 8)
        .map(|count| (count, info.len() - 8 * count))
        .find(|(count, at)| {
            let counted = at.checked_sub(4).and_then(|at| u32_at(info, at));
            counted == Some(*count) && u64_at(info, *at) == Some(0)
        });
    let Some((count, at)) = offsets_at else {
        return Vec::new();
    };
    (0..count)
        .filter_map(|index| u64_at(info, at + 8 * index))
        .collect()
}

fn fit_statistics(bytes: &mut [u8]) -> Option<()> {
    let count = u32_at(bytes, 0)?;
    seal(bytes, 0..4)?;
    let contents_end = count.checked_mul(8)?.checked_add(8)?;
    let contents = bytes.get(8..contents_end)?;
    let checked = [bytes.get(..4)?, contents].concat();
    let starts: Vec<usize> = contents.chunks(8).filter_map(|entry| u32_at(entry, 4)).collect();
    put(bytes, contents_end, crc32fast::hash(&checked))?;
    let ends = starts
        .iter()
        .skip(1)
        .copied()
        .chain([bytes.len()])
        .collect::<Vec<_>>();
    for (start, end) in starts.into_iter().zip(ends) {
        if end >= start.checked_add(4)? {
            seal(bytes, start..end - 4)?;
        }
    }
    Some(())
}

fn fit_blocks(bytes: &mut [u8]) -> Option<()> {
    let foot_at = bytes.len().checked_sub(FOOT_BYTES)?;
    let directory_at = foot_at.checked_sub(u64_at(bytes, foot_at)?)?;
    let page_count = u32_at(bytes, directory_at.checked_add(4)?)?;
    for page in 0..page_count.min(directory_at / PAGE_BYTES) {
        let checksum = crc32fast::hash(bytes.get(page * PAGE_BYTES..(page + 1) * PAGE_BYTES)?);
        put(bytes, directory_at + 8 + 4 * page, checksum)?;
    }
    seal(bytes, directory_at..foot_at + 8)
}
