//! Admission of partitions to a full cache: those that are looked for again.
//!
//! Most of what is read at random out of more than the cache holds is not asked for again while it would be there. Recording a row, packing it
//! and letting another one go costs more than the read itself saves then (decision 10).

/// Tags of partitions that were looked for lately and are not cached, each in the one place that its hash has: what is newer takes the
/// place of what is older. As many places as the cache has had partitions, up to twice as many.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// 0 is nobody's.
    tags: Vec<u16>,
}

const PLACES_MIN: usize = 1 << 10;
/// 2 MiB of tags.
const PLACES_MAX: usize = 1 << 20;

impl Admission {
    /// For a cache of so many partitions. What was known is forgotten where the number of places changes.
    pub fn set_partitions(&mut self, partitions: usize) {
        let places = partitions.next_power_of_two().clamp(PLACES_MIN, PLACES_MAX);
        // A number at the edge of a power of two would have everything forgotten again and again.
        if places > self.tags.len() || places * 4 <= self.tags.len() {
            self.tags = vec![0; places];
        }
    }

    pub fn has_seen(&self, hash: u64) -> bool {
        self.tags.get(self.place(hash)) == Some(&tag(hash))
    }

    pub fn see(&mut self, hash: u64) {
        let place = self.place(hash);
        if let Some(seen) = self.tags.get_mut(place) {
            *seen = tag(hash);
        }
    }

    fn place(&self, hash: u64) -> usize {
        hash as usize & self.tags.len().saturating_sub(1)
    }
}

/// Bits that the place does not come from.
fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 29)
    }

    #[test]
    fn what_was_seen_lately_is_known_and_what_was_not_is_not() {
        let mut admission = Admission::default();
        assert!(!admission.has_seen(hash(1)));
        admission.see(hash(1));
        assert!(!admission.has_seen(hash(1)), "there is no place yet");
        admission.set_partitions(5_000);
        (0..1_000).for_each(|number| admission.see(hash(number)));
        let known = (0..1_000)
            .filter(|number| admission.has_seen(hash(*number)))
            .count();
        assert!(known > 900, "{known}");
        let taken_for_known = (1_000..101_000)
            .filter(|number| admission.has_seen(hash(*number)))
            .count();
        assert!(taken_for_known < 50, "{taken_for_known}");
        (1_000..201_000).for_each(|number| admission.see(hash(number)));
        let known = (0..1_000)
            .filter(|number| admission.has_seen(hash(*number)))
            .count();
        assert!(known < 10, "{known}");
    }

    #[test]
    fn it_has_places_for_as_many_as_the_cache() {
        let mut admission = Admission::default();
        for (partitions, places) in [
            (0, 1 << 10),
            (5_000, 1 << 13),
            (4_000, 1 << 13),
            (2_048, 1 << 11),
            (1 << 30, 1 << 20),
        ] {
            admission.set_partitions(partitions);
            assert_eq!(admission.tags.len(), places, "{partitions}");
        }
    }
}
