//! Connections by number, each in one of two queues ordered by age; no allocation once the table has grown.

/// Which queue a connection is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Queue {
    /// Its first message has not arrived yet.
    Waiting,
    /// It has its answer, and is to read it before the connection is closed.
    Lingering,
}

const QUEUES: usize = 2;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// A table of connections that are not handed over. The number of a connection is given to another once it has gone.
pub struct PendingConnections<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    /// Oldest and newest of each queue.
    oldest: [u32; QUEUES],
    newest: [u32; QUEUES],
    counts: [usize; QUEUES],
}

struct Entry<T> {
    connection: Option<T>,
    queue: Queue,
    since_ms: u64,
    older: u32,
    /// Also chains the free entries.
    newer: u32,
}

impl<T> PendingConnections<T> {
    pub fn new() -> Self {
        PendingConnections {
            entries: Vec::new(),
            free: NONE,
            oldest: [NONE; QUEUES],
            newest: [NONE; QUEUES],
            counts: [0; QUEUES],
        }
    }

    pub fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    pub fn count(&self, queue: Queue) -> usize {
        self.counts[queue as usize]
    }

    /// The number of the next connection to be inserted.
    pub fn next_number(&self) -> u32 {
        if self.free == NONE {
            self.entries.len() as u32
        } else {
            self.free
        }
    }

    /// The connection becomes the newest of `queue`. At most `u32::MAX` pending: the caller's bound is far below.
    pub fn insert(&mut self, connection: T, queue: Queue, now_ms: u64) -> u32 {
        let number = self.next_number();
        let entry = Entry {
            connection: Some(connection),
            queue,
            since_ms: now_ms,
            older: NONE,
            newer: NONE,
        };
        match self.entries.get_mut(number as usize) {
            Some(free) => {
                self.free = free.newer;
                *free = entry;
            }
            None => self.entries.push(entry),
        }
        self.append(number, queue, now_ms);
        number
    }

    pub fn get_mut(&mut self, number: u32) -> Option<(&mut T, Queue)> {
        let entry = self.entries.get_mut(number as usize)?;
        let queue = entry.queue;
        entry.connection.as_mut().map(|connection| (connection, queue))
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        let connection = self.entries.get_mut(number as usize)?.connection.take()?;
        self.unlink(number);
        self.entries[number as usize].newer = self.free;
        self.free = number;
        Some(connection)
    }

    /// Makes the connection the newest of `queue`.
    pub fn move_to(&mut self, number: u32, queue: Queue, now_ms: u64) {
        if self.get_mut(number).is_some() {
            self.unlink(number);
            self.append(number, queue, now_ms);
        }
    }

    /// The connection that has been longest in `queue`, and since when.
    pub fn oldest(&self, queue: Queue) -> Option<(u32, u64)> {
        let number = self.oldest[queue as usize];
        self.entries
            .get(number as usize)
            .map(|entry| (number, entry.since_ms))
    }

    fn append(&mut self, number: u32, queue: Queue, now_ms: u64) {
        self.counts[queue as usize] += 1;
        let last = std::mem::replace(&mut self.newest[queue as usize], number);
        match self.entries.get_mut(last as usize) {
            Some(last) => last.newer = number,
            None => self.oldest[queue as usize] = number,
        }
        let entry = &mut self.entries[number as usize];
        (entry.queue, entry.since_ms) = (queue, now_ms);
        (entry.older, entry.newer) = (last, NONE);
    }

    fn unlink(&mut self, number: u32) {
        let Entry {
            queue, older, newer, ..
        } = self.entries[number as usize];
        self.counts[queue as usize] -= 1;
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest[queue as usize] = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest[queue as usize] = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use helenus_vfs::{Random, SeededRandom};

    use super::*;

    fn in_order(pending: &PendingConnections<u64>, queue: Queue) -> Vec<u64> {
        let mut found = Vec::new();
        let mut number = pending.oldest[queue as usize];
        while let Some(entry) = pending.entries.get(number as usize) {
            found.extend(entry.connection);
            number = entry.newer;
        }
        found
    }

    #[test]
    fn queues_keep_the_order_of_arrival_whoever_leaves() {
        let random = SeededRandom::new(5);
        let mut pending = PendingConnections::new();
        let mut model: [VecDeque<(u32, u64)>; 2] = Default::default();
        for step in 0..20_000_u64 {
            let from = random.below(2) as usize;
            match random.below(4) {
                0 | 1 => {
                    let number = pending.insert(step, Queue::Waiting, step);
                    model[Queue::Waiting as usize].push_back((number, step));
                }
                2 if !model[from].is_empty() => {
                    let at = random.below(model[from].len() as u64) as usize;
                    let (number, value) = model[from].remove(at).unwrap();
                    assert_eq!(pending.remove(number), Some(value));
                    assert_eq!(pending.remove(number), None);
                }
                3 if !model[0].is_empty() => {
                    let at = random.below(model[0].len() as u64) as usize;
                    let moved = model[0].remove(at).unwrap();
                    pending.move_to(moved.0, Queue::Lingering, step);
                    model[1].push_back(moved);
                }
                _ => {}
            }
            assert_eq!(pending.len(), model[0].len() + model[1].len());
            assert_eq!(pending.count(Queue::Lingering), model[1].len());
            if step % 64 == 0 {
                for queue in [Queue::Waiting, Queue::Lingering] {
                    let wanted: Vec<u64> = model[queue as usize].iter().map(|&(_, value)| value).collect();
                    assert_eq!(in_order(&pending, queue), wanted);
                    let oldest = pending.oldest(queue).map(|(number, _)| number);
                    assert_eq!(oldest, model[queue as usize].front().map(|&(number, _)| number));
                }
            }
        }
    }
}
