//! Turns of partitions: who has them, and who waits for them, in the order in which they came.
//!
//! A claim is for all of its partitions at once. While it waits it keeps those for itself that nobody has and nobody has asked for before:
//! else one for many partitions waits for a moment at which all of them are free, which never comes where others take them one by one.
//! Claims never wait for each other in a circle: one waits for those before it and for who has its turns, and nobody who has turns of a
//! shard claims others of the same shard or of one before it.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use crate::written_partitions::WrittenPartition;

/// Both are as many as requests are in flight, each with its partitions.
#[derive(Default)]
pub(crate) struct TurnQueue {
    taken: HashSet<WrittenPartition, RandomState>,
    /// By partition, for those that anybody waits for.
    waiting: HashMap<WrittenPartition, VecDeque<Rc<Claim>>, RandomState>,
}

/// One that could not be met at once.
pub(crate) struct Claim {
    /// Each once.
    partitions: Vec<WrittenPartition>,
    /// Number of them that somebody has, or has asked for before.
    missing: Cell<usize>,
    woken: Notify,
}

impl Claim {
    /// Waits until nothing is missing any more.
    pub async fn woken(&self) {
        self.woken.notified().await;
    }

    pub fn is_ready(&self) -> bool {
        self.missing.get() == 0
    }

    /// Has its owner look.
    pub fn wake(&self) {
        self.woken.notify_one();
    }
}

impl TurnQueue {
    pub fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    pub fn is_taken(&self, partition: WrittenPartition) -> bool {
        !self.taken.is_empty() && self.taken.contains(&partition)
    }

    pub fn taken(&self) -> impl Iterator<Item = &WrittenPartition> {
        self.taken.iter()
    }

    /// Takes partitions that nobody has or waits for. Whether it did.
    pub fn take_free(&mut self, partitions: &[WrittenPartition]) -> bool {
        let is_free = |partition| !self.taken.contains(partition) && !self.waiting.contains_key(partition);
        let are_free = partitions.iter().all(is_free);
        if are_free {
            self.taken.extend(partitions);
        }
        are_free
    }

    /// Waits behind whoever waits for any of these.
    pub fn join(&mut self, mut partitions: Vec<WrittenPartition>) -> Rc<Claim> {
        partitions.sort_unstable();
        partitions.dedup();
        let claim = Rc::new(Claim {
            partitions,
            missing: Cell::new(0),
            woken: Notify::new(),
        });
        for partition in &claim.partitions {
            let waiting = self.waiting.entry(*partition).or_default();
            let is_missing = !waiting.is_empty() || self.taken.contains(partition);
            claim.missing.set(claim.missing.get() + usize::from(is_missing));
            waiting.push_back(claim.clone());
        }
        claim
    }

    /// Takes what a claim is for that is ready, and has waited.
    pub fn take(&mut self, claim: &Rc<Claim>) {
        // Whoever is next goes on missing it.
        for partition in &claim.partitions {
            self.remove_waiting(*partition, claim);
            self.taken.insert(*partition);
        }
    }

    /// A claim is not waited for any longer. Who is ready by that.
    pub fn leave(&mut self, claim: &Rc<Claim>) -> Vec<Rc<Claim>> {
        let mut ready = Vec::new();
        for partition in &claim.partitions {
            let was_first = self.remove_waiting(*partition, claim);
            if was_first && !self.taken.contains(partition) {
                self.found(*partition, &mut ready);
            }
        }
        ready
    }

    /// Gives partitions back that were taken. Who is ready by that.
    pub fn give_back(&mut self, partitions: &[WrittenPartition]) -> Vec<Rc<Claim>> {
        let mut ready = Vec::new();
        for partition in partitions {
            if self.taken.remove(partition) && !self.waiting.is_empty() {
                self.found(*partition, &mut ready);
            }
        }
        ready
    }

    /// Tells the first that waits for a partition that it is free.
    fn found(&self, partition: WrittenPartition, ready: &mut Vec<Rc<Claim>>) {
        let Some(first) = self.waiting.get(&partition).and_then(VecDeque::front) else {
            return;
        };
        first.missing.set(first.missing.get().saturating_sub(1));
        if first.is_ready() {
            ready.push(first.clone());
        }
    }

    /// Returns whether it was the first that waited.
    fn remove_waiting(&mut self, partition: WrittenPartition, claim: &Rc<Claim>) -> bool {
        let Some(waiting) = self.waiting.get_mut(&partition) else {
            return false;
        };
        let place = waiting.iter().position(|other| Rc::ptr_eq(other, claim));
        if let Some(place) = place {
            waiting.remove(place);
        }
        if waiting.is_empty() {
            self.waiting.remove(&partition);
        }
        place == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use helenus_schema::TableId;
    use helenus_types::Token;
    use uuid::Uuid;

    use super::*;

    fn partition(number: i64) -> WrittenPartition {
        (TableId(Uuid::nil()), Token(number))
    }

    fn partitions<const N: usize>(numbers: [i64; N]) -> Vec<WrittenPartition> {
        numbers.map(partition).to_vec()
    }

    fn ready(claims: &[Rc<Claim>], wanted: &[&Rc<Claim>]) -> bool {
        claims.len() == wanted.len()
            && claims
                .iter()
                .zip(wanted)
                .all(|(claim, wanted)| Rc::ptr_eq(claim, wanted))
    }

    #[test]
    fn one_for_many_is_not_overtaken_by_those_for_one() {
        let mut queue = TurnQueue::default();
        assert!(queue.take_free(&partitions([1])) && queue.take_free(&partitions([2])));
        let many = queue.join(partitions([1, 2, 3]));
        // Nobody has the third; it is kept for who has asked before.
        assert!(!queue.take_free(&partitions([3])));
        let third = queue.join(partitions([3]));
        assert!(queue.take_free(&partitions([4])));
        assert!(queue.give_back(&partitions([2])).is_empty());
        assert!(!queue.take_free(&partitions([2])));
        assert!(ready(&queue.give_back(&partitions([1])), &[&many]));
        queue.take(&many);
        assert!(!third.is_ready() && queue.is_taken(partition(3)));
        assert!(ready(&queue.give_back(&partitions([1, 2, 3])), &[&third]));
        queue.take(&third);
        assert!(queue.give_back(&partitions([3, 4])).is_empty());
        assert!(!queue.has_taken() && queue.waiting.is_empty());
    }

    #[test]
    fn who_leaves_is_waited_for_no_longer() {
        let mut queue = TurnQueue::default();
        assert!(queue.take_free(&partitions([1])));
        let first = queue.join(partitions([1, 2]));
        let second = queue.join(partitions([2]));
        let third = queue.join(partitions([1]));
        assert!(ready(&queue.leave(&first), &[&second]));
        queue.take(&second);
        assert!(ready(&queue.give_back(&partitions([1])), &[&third]));
        assert!(queue.leave(&third).is_empty());
        assert!(queue.take_free(&partitions([1])));
    }

    #[test]
    fn partitions_that_are_named_twice_are_claimed_once() {
        let mut queue = TurnQueue::default();
        assert!(queue.take_free(&partitions([1])));
        let twice = queue.join(partitions([1, 1, 2]));
        assert!(ready(&queue.give_back(&partitions([1, 1])), &[&twice]));
    }

    /// Whatever comes, leaves and gives back, somebody goes on, in the order in which they came wherever two want the same.
    #[test]
    fn nobody_waits_for_nobody() {
        let mut state = 7_u64;
        let mut below = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let mut queue = TurnQueue::default();
        let (mut having, mut waiting): (Vec<Vec<WrittenPartition>>, Vec<Rc<Claim>>) = Default::default();
        for _ in 0..20_000 {
            let some = (0..1 + below(4)).map(|_| partition(below(6) as i64));
            let some: Vec<WrittenPartition> = some.collect();
            match below(4) {
                0 if !having.is_empty() => {
                    let given = having.swap_remove(below(having.len() as u64) as usize);
                    queue.give_back(&given);
                }
                1 if !waiting.is_empty() => {
                    let left = waiting.remove(below(waiting.len() as u64) as usize);
                    queue.leave(&left);
                }
                _ if queue.take_free(&some) => having.push(some),
                _ => waiting.push(queue.join(some)),
            }
            while let Some(place) = waiting.iter().position(|claim| claim.is_ready()) {
                let claim = waiting.remove(place);
                let overtaken = waiting[..place]
                    .iter()
                    .any(|other| other.partitions.iter().any(|p| claim.partitions.contains(p)));
                assert!(!overtaken);
                assert!(claim.partitions.iter().all(|p| !queue.is_taken(*p)));
                queue.take(&claim);
                having.push(claim.partitions.clone());
            }
            assert!(waiting.is_empty() || !having.is_empty());
        }
        for given in having.drain(..) {
            queue.give_back(&given);
        }
        assert!(waiting.is_empty() || waiting.iter().any(|claim| claim.is_ready()));
    }
}
