//! Version 1 UUIDs: 60 bits of time in units of 100 ns since 1582-10-15, low part first, then clock sequence and node.

/// Milliseconds from the start of UUID time, 1582-10-15, to 1970-01-01.
pub const UUID_EPOCH_MS: i64 = 12_219_292_800_000;

const TICKS_PER_MS: i64 = 10_000;

/// The least and the greatest of all UUIDs of one moment: timeuuids compare these bytes as signed.
const CLOCK_AND_NODE_MIN: u64 = 0x8080_8080_8080_8080;
const CLOCK_AND_NODE_MAX: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Makes timeuuids that never repeat and always ascend, whatever the clock does. One per shard, each with a
/// `clock_and_node` of its own.
#[derive(Clone, Debug)]
pub struct TimeuuidGenerator {
    clock_and_node: u64,
    last_ticks: i64,
}

impl TimeuuidGenerator {
    /// `seed` tells generators apart; any 62 of its bits that differ will do. The variant bits and the multicast bit,
    /// which says that the node is not a hardware address, are set here.
    pub fn new(seed: u64) -> TimeuuidGenerator {
        TimeuuidGenerator {
            clock_and_node: seed & 0x3fff_ffff_ffff_ffff | 1 << 63 | 1 << 40,
            last_ticks: i64::MIN,
        }
    }

    /// The next timeuuid at `now_us`, microseconds since 1970. A clock that stands still or goes back yields the
    /// following ticks of 100 ns.
    pub fn next(&mut self, now_us: i64) -> [u8; 16] {
        let ticks = ticks_of_us(now_us).max(self.last_ticks.saturating_add(1));
        self.last_ticks = ticks;
        timeuuid_of(ticks, self.clock_and_node)
    }
}

/// `minTimeuuid`: sorts before every timeuuid of that millisecond or later ones.
pub fn timeuuid_min(timestamp_ms: i64) -> [u8; 16] {
    timeuuid_of(ticks_of_ms(timestamp_ms), CLOCK_AND_NODE_MIN)
}

/// `maxTimeuuid`: sorts after every timeuuid of that millisecond or earlier ones.
pub fn timeuuid_max(timestamp_ms: i64) -> [u8; 16] {
    let next = ticks_of_ms(timestamp_ms.wrapping_add(1));
    timeuuid_of(next.wrapping_sub(1), CLOCK_AND_NODE_MAX)
}

/// Milliseconds since 1970 of a timeuuid, rounded towards 1970.
pub fn timeuuid_timestamp_ms(timeuuid: [u8; 16]) -> i64 {
    timeuuid_timestamp_us(timeuuid) / 1000
}

/// Microseconds since 1970 of a timeuuid.
pub(crate) fn timeuuid_timestamp_us(timeuuid: [u8; 16]) -> i64 {
    timeuuid_ticks(timeuuid) / 10 - UUID_EPOCH_MS * 1000
}

/// The 60 bits of time, in units of 100 ns since 1582-10-15.
pub(crate) fn timeuuid_ticks(timeuuid: [u8; 16]) -> i64 {
    let word = most_significant(timeuuid) & !0xf000;
    (word << 48 | (word & 0xffff_0000) << 16 | word >> 32).cast_signed()
}

/// A timeuuid of a moment in ticks and the lower eight bytes.
pub fn timeuuid_of(ticks: i64, clock_and_node: u64) -> [u8; 16] {
    let ticks = ticks.cast_unsigned();
    let word = 0x1000 | ticks >> 48 & 0x0fff | (ticks & 0xffff_0000_0000) >> 16 | ticks << 32;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&word.to_be_bytes());
    bytes[8..].copy_from_slice(&clock_and_node.to_be_bytes());
    bytes
}

/// The time uuid of a moment in microseconds since 1970, as near to it as time uuids come (1582 to 5236); `seed` tells those of one moment
/// apart.
pub fn timeuuid_of_us(timestamp_us: i64, seed: u64) -> [u8; 16] {
    const TICKS_MAX: i64 = (1 << 60) - 1;
    let ticks = timestamp_us
        .saturating_add(UUID_EPOCH_MS * 1000)
        .saturating_mul(10)
        .clamp(0, TICKS_MAX);
    timeuuid_of(ticks, seed & 0x3fff_ffff_ffff_ffff | 1 << 63)
}

fn ticks_of_ms(timestamp_ms: i64) -> i64 {
    timestamp_ms
        .wrapping_add(UUID_EPOCH_MS)
        .wrapping_mul(TICKS_PER_MS)
}

fn ticks_of_us(timestamp_us: i64) -> i64 {
    timestamp_us
        .wrapping_mul(10)
        .wrapping_add(UUID_EPOCH_MS * TICKS_PER_MS)
}

fn most_significant(timeuuid: [u8; 16]) -> u64 {
    let word: [u8; 8] = std::array::from_fn(|index| timeuuid[index]);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CqlType;

    #[test]
    fn a_clock_that_stands_or_goes_back_still_yields_ascending_uuids() {
        let mut generator = TimeuuidGenerator::new(7);
        let uuids = [1_000, 1_000, 999, 0, 1_001].map(|now_us| generator.next(now_us));
        for pair in uuids.windows(2) {
            assert!(CqlType::Timeuuid.compare(&pair[0], &pair[1]).is_lt());
        }
        assert_eq!(timeuuid_timestamp_us(uuids[0]), 1_000);
        assert!(uuids.iter().all(|uuid| CqlType::Timeuuid.validate(uuid).is_ok()));
    }

    #[test]
    fn min_and_max_enclose_the_millisecond() {
        let timestamp_ms = 1_577_836_800_123;
        let mut generator = TimeuuidGenerator::new(u64::MAX);
        let inside = generator.next(timestamp_ms * 1000 + 999);
        assert!(
            CqlType::Timeuuid
                .compare(&timeuuid_min(timestamp_ms), &inside)
                .is_lt()
        );
        assert!(
            CqlType::Timeuuid
                .compare(&inside, &timeuuid_max(timestamp_ms))
                .is_lt()
        );
        assert!(
            CqlType::Timeuuid
                .compare(&timeuuid_max(timestamp_ms), &timeuuid_min(timestamp_ms + 1))
                .is_lt()
        );
        for uuid in [inside, timeuuid_min(timestamp_ms), timeuuid_max(timestamp_ms)] {
            assert_eq!(timeuuid_timestamp_ms(uuid), timestamp_ms);
        }
    }
}
