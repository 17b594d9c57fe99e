//! Max-min fairness: who asks for more than its share of what there is, where those who ask for less get all of it (Bertsekas and
//! Gallager, Data Networks, 1992, section 6.5.2).

/// Computes the fair level: those who ask for more get so much, the others what they ask for. `u64::MAX` where there is enough for all.
pub(crate) fn fair_level(mut demands: Vec<u64>, capacity: u64) -> u64 {
    demands.sort_unstable();
    let mut left = capacity;
    let mut askers = demands.len() as u64;
    for demand in demands {
        let share = left / askers;
        if demand > share {
            return share;
        }
        left -= demand;
        askers -= 1;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_little_gets_it_and_the_rest_is_divided() {
        assert_eq!(fair_level(vec![100, 1, 1, 100, 2], 24), 10);
        assert_eq!(fair_level(vec![5, 5, 5, 5], 8), 2);
        assert_eq!(fair_level(vec![u64::MAX, 3, u64::MAX], 3), 1);
        assert_eq!(fair_level(vec![1], 0), 0);
    }

    #[test]
    fn where_there_is_enough_there_is_no_level() {
        assert_eq!(fair_level(vec![5, 1, 2], 8), u64::MAX);
        assert_eq!(fair_level(Vec::new(), 0), u64::MAX);
    }
}
