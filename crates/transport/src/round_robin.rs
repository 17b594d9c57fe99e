//! A bounded queue served round robin over those who ask, whatever each has asked for.

use std::collections::VecDeque;

/// A bounded queue in which those who ask have turns.
pub struct RoundRobinQueue<K, T> {
    /// Askers with their waiting items; the first has the next turn.
    askers: VecDeque<(K, VecDeque<T>)>,
    waiting_max: usize,
    waiting_each_max: usize,
}

impl<K: PartialEq, T> RoundRobinQueue<K, T> {
    /// For `waiting_max` items, `waiting_each_max` of them of one asker.
    pub fn new(waiting_max: usize, waiting_each_max: usize) -> Self {
        RoundRobinQueue {
            askers: VecDeque::new(),
            waiting_max,
            waiting_each_max,
        }
    }

    /// Items that wait, of all askers.
    pub fn len(&self) -> usize {
        self.askers.iter().map(|(_, waiting)| waiting.len()).sum()
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.askers.is_empty()
    }

    /// Gives back what there is no room for: the new one where its asker has enough waiting, else the newest of the
    /// asker that has most.
    pub fn push(&mut self, asker: K, item: T) -> Option<T> {
        let place = match self.askers.iter().position(|(known, _)| *known == asker) {
            Some(place) => place,
            None => {
                self.askers.push_back((asker, VecDeque::new()));
                self.askers.len() - 1
            }
        };
        let own = &mut self.askers[place].1;
        if own.len() >= self.waiting_each_max {
            return Some(item);
        }
        own.push_back(item);
        if self.len() <= self.waiting_max {
            return None;
        }
        let most = self
            .askers
            .iter_mut()
            .map(|(_, waiting)| waiting)
            .max_by_key(|waiting| waiting.len());
        let refused = most.and_then(VecDeque::pop_back);
        self.askers.retain(|(_, waiting)| !waiting.is_empty());
        refused
    }

    /// The next one that `takes` agrees to, of the asker whose turn it is; that has its next turn behind the others.
    pub fn pop(&mut self, takes: impl Fn(&T) -> bool) -> Option<T> {
        let place = self
            .askers
            .iter()
            .position(|(_, waiting)| waiting.front().is_some_and(&takes))?;
        let (asker, mut waiting) = self.askers.remove(place)?;
        let item = waiting.pop_front();
        if !waiting.is_empty() {
            self.askers.push_back((asker, waiting));
        }
        item
    }
}
