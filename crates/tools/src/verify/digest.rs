//! Files beside the data: the list of components, and the checksum of the whole data file.

use std::io;

use helenus_sstable::Component;
use helenus_vfs::Disk;

use super::Finding;
use crate::target::Target;

/// Bytes of a data file that are read at once.
const READ_BYTES: usize = 1 << 20;
/// A list of a dozen names, or a decimal checksum.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Every component that the TOC lists is there.
pub fn check_components(disk: &dyn Disk, target: &Target) -> Vec<Finding> {
    let path = target.path(Component::Toc);
    let toc = match read_text(disk, target, Component::Toc) {
        Ok(toc) => toc,
        Err(error) => {
            return vec![Finding::of_file(
                path.display().to_string(),
                "the list of components",
                error.to_string(),
            )];
        }
    };
    toc.lines()
        .map(str::trim)
        .filter_map(Component::by_file_suffix)
        .filter(|component| !target.has(*component))
        .map(|component| {
            Finding::of_file(
                target.path(component).display().to_string(),
                "a file that the TOC lists",
                "none".to_owned(),
            )
        })
        .collect()
}

/// The data file matches its digest, where it has one.
pub fn check_digest(disk: &dyn Disk, target: &Target) -> Option<Finding> {
    if !target.has(Component::Digest) || !target.has(Component::Data) {
        return None;
    }
    let path = target.path(Component::Digest).display().to_string();
    let compare = || -> io::Result<Option<Finding>> {
        let text = read_text(disk, target, Component::Digest)?;
        let Ok(wanted) = text.trim().parse::<u32>() else {
            return Ok(Some(Finding::of_file(
                path.clone(),
                "a decimal checksum",
                format!("{text:?}"),
            )));
        };
        let found = digest_of(disk, target)?;
        Ok((wanted != found).then(|| {
            Finding::of_file(
                target.label(),
                "data that matches its digest",
                format!("CRC32 {found} instead of {wanted}"),
            )
        }))
    };
    compare().unwrap_or_else(|error| {
        Some(Finding::of_file(
            path.clone(),
            "files that can be read",
            error.to_string(),
        ))
    })
}

fn digest_of(disk: &dyn Disk, target: &Target) -> io::Result<u32> {
    let file = disk.open(&target.path(Component::Data))?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    loop {
        let count = file.read_at(offset, &mut buffer)?;
        if count == 0 {
            return Ok(hasher.finalize());
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        offset += count as u64;
    }
}

fn read_text(disk: &dyn Disk, target: &Target, component: Component) -> io::Result<String> {
    let file = disk.open(&target.path(component))?;
    let length = file.length()?;
    if length > TEXT_BYTES_MAX {
        return Err(io::Error::other(format!("{length} bytes of text")));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
