//! Random damage, for runs without a fuzzer.

use helenus_storage_model::Chance;

/// Damage at one to three places. The first byte, which chooses what the rest replaces, stays.
pub fn mutate(chance: &Chance, input: &[u8], donor: &[u8]) -> Vec<u8> {
    let (Some((choice, bytes)), donor) = (input.split_first(), donor.get(1..).unwrap_or_default()) else {
        return Vec::new();
    };
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + chance.count(3) {
        damage(chance, &mut bytes, donor);
    }
    bytes.insert(0, *choice);
    bytes
}

fn damage(chance: &Chance, bytes: &mut Vec<u8>, donor: &[u8]) {
    if bytes.is_empty() {
        bytes.extend_from_slice(donor);
        return;
    }
    let at = chance.count(bytes.len());
    match chance.below(8) {
        0 => bytes[at] ^= 1 << chance.below(8),
        1 => bytes[at] = chance.bits() as u8,
        2 => bytes.truncate(at),
        3 => {
            let end = (at + 1 + chance.count(16)).min(bytes.len());
            bytes.drain(at..end);
        }
        4 => {
            let from = donor.get(chance.count(donor.len() + 1)..).unwrap_or_default();
            let piece = &from[..from.len().min(1 + chance.count(64))];
            bytes.splice(at..at, piece.iter().copied());
        }
        5 => {
            let count = 1 + chance.count(8);
            let piece = chance.bytes(count);
            overwrite(bytes, at, &piece);
        }
        // Lengths, counts and offsets, in both byte orders, and vints: their first byte tells how many follow.
        6 => {
            let number = extreme(chance, bytes.len() as u64);
            let width = *chance.pick(&[1, 2, 4, 8]);
            let mut piece = number.to_be_bytes()[8 - width..].to_vec();
            if chance.one_in(4) {
                piece.reverse();
            }
            overwrite(bytes, at, &piece);
        }
        _ => {
            let number = extreme(chance, bytes.len() as u64).to_be_bytes();
            overwrite(bytes, at, &[&[0xff], number.as_slice()].concat());
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, piece: &[u8]) {
    let room = bytes.get_mut(at..).unwrap_or_default();
    let length = room.len().min(piece.len());
    room[..length].copy_from_slice(&piece[..length]);
}

fn extreme(chance: &Chance, length: u64) -> u64 {
    let near = chance.below(5).wrapping_sub(2);
    let base = *chance.pick(&[
        0,
        0x7f,
        0x7fff,
        0xffff,
        0x7fff_ffff,
        0xffff_ffff,
        16 << 20,
        u64::MAX >> 1,
        u64::MAX,
        length,
        4096,
    ]);
    base.wrapping_add(near)
}
