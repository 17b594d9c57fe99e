//! The node's identity: chosen once per data folder, told to drivers in `system.local`.

use std::io;
use std::path::Path;

use helenus_vfs::{Disk, Random};
use uuid::{Builder, Uuid};

pub const FILE: &str = "host-id";

/// In front of the checksum of what is before it. Earlier releases wrote the identity alone, and read no further.
const CHECKSUM: &str = "\ncrc32 ";

/// An identity, its checksum of at most ten digits, and the end of the line.
const FILE_BYTES_MAX: u64 = (uuid::fmt::Hyphenated::LENGTH + CHECKSUM.len() + 11) as u64;

/// Reads the identity, or makes it, durable with the names in the folder. A file that does not hold one is an error: drivers would see another node.
pub fn load_or_create(disk: &dyn Disk, random: &dyn Random, root: &Path) -> io::Result<Uuid> {
    let path = root.join(FILE);
    if disk.exists(&path)? {
        let file = disk.open(&path)?;
        let length = file.length()?;
        if length > FILE_BYTES_MAX {
            return Err(io::Error::other("it is too long"));
        }
        let mut text = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(0, &mut text)?;
        return decode(&text);
    }
    let host_id = new_host_id(random);
    let temporary = root.join("host-id.tmp");
    if disk.exists(&temporary)? {
        // A crash came before it got its name.
        disk.remove(&temporary)?;
    }
    let file = disk.create(&temporary)?;
    file.append(encode(host_id).as_bytes())?;
    file.sync_data()?;
    disk.rename(&temporary, &path)?;
    Ok(host_id)
}

fn encode(host_id: Uuid) -> String {
    let text = host_id.hyphenated().to_string();
    let checksum = crc32fast::hash(text.as_bytes());
    format!("{text}{CHECKSUM}{checksum}\n")
}

fn decode(file: &[u8]) -> io::Result<Uuid> {
    let text = str::from_utf8(file).map_err(io::Error::other)?;
    let host_id = text.get(..uuid::fmt::Hyphenated::LENGTH).unwrap_or(text);
    let host_id = Uuid::try_parse(host_id).map_err(io::Error::other)?;
    // Without a checksum, or as it would be written.
    if text.len() > uuid::fmt::Hyphenated::LENGTH && text != encode(host_id) {
        return Err(io::Error::other("its checksum is wrong"));
    }
    Ok(host_id)
}

/// A random one.
pub fn new_host_id(random: &dyn Random) -> Uuid {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flipped bit of a digit made another identity of it: drivers saw another node.
    #[test]
    fn no_flipped_bit_is_another_identity_and_files_of_earlier_releases_are_read() {
        let host_id = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
        let file = encode(host_id).into_bytes();
        assert_eq!(decode(&file).unwrap(), host_id);
        assert_eq!(decode(&file[..uuid::fmt::Hyphenated::LENGTH]).unwrap(), host_id);
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
    }
}
