//! Connections by number, each in one of two queues ordered by age; no allocation once the table has grown.

/// Which queue a guest is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Queue {
    /// Its first message has not arrived yet.
    Waiting,
    /// It has its answer, and is to read it before the connection is closed.
    Leaving,
}

const QUEUES: usize = 2;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// A table of guests. The number of a guest is given to another once it has gone.
pub struct Guests<T> {
    places: Vec<Place<T>>,
    free: u32,
    /// Oldest and newest of each queue.
    oldest: [u32; QUEUES],
    newest: [u32; QUEUES],
    counts: [usize; QUEUES],
}

struct Place<T> {
    guest: Option<T>,
    queue: Queue,
    since_ms: u64,
    older: u32,
    /// Also chains the free places.
    newer: u32,
}

impl<T> Guests<T> {
    pub fn new() -> Self {
        Guests {
            places: Vec::new(),
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

    /// The number of the next guest to be inserted.
    pub fn next_number(&self) -> u32 {
        if self.free == NONE {
            self.places.len() as u32
        } else {
            self.free
        }
    }

    /// The guest becomes the newest of `queue`. At most `u32::MAX` guests: the caller's bound is far below.
    pub fn insert(&mut self, guest: T, queue: Queue, now_ms: u64) -> u32 {
        let number = self.next_number();
        let place = Place {
            guest: Some(guest),
            queue,
            since_ms: now_ms,
            older: NONE,
            newer: NONE,
        };
        match self.places.get_mut(number as usize) {
            Some(free) => {
                self.free = free.newer;
                *free = place;
            }
            None => self.places.push(place),
        }
        self.append(number, queue, now_ms);
        number
    }

    pub fn get_mut(&mut self, number: u32) -> Option<(&mut T, Queue)> {
        let place = self.places.get_mut(number as usize)?;
        let queue = place.queue;
        place.guest.as_mut().map(|guest| (guest, queue))
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        let guest = self.places.get_mut(number as usize)?.guest.take()?;
        self.unlink(number);
        self.places[number as usize].newer = self.free;
        self.free = number;
        Some(guest)
    }

    /// Makes the guest the newest of `queue`.
    pub fn move_to(&mut self, number: u32, queue: Queue, now_ms: u64) {
        if self.get_mut(number).is_some() {
            self.unlink(number);
            self.append(number, queue, now_ms);
        }
    }

    /// The guest that has been longest in `queue`, and since when.
    pub fn oldest(&self, queue: Queue) -> Option<(u32, u64)> {
        let number = self.oldest[queue as usize];
        self.places
            .get(number as usize)
            .map(|place| (number, place.since_ms))
    }

    fn append(&mut self, number: u32, queue: Queue, now_ms: u64) {
        self.counts[queue as usize] += 1;
        let last = std::mem::replace(&mut self.newest[queue as usize], number);
        match self.places.get_mut(last as usize) {
            Some(last) => last.newer = number,
            None => self.oldest[queue as usize] = number,
        }
        let place = &mut self.places[number as usize];
        (place.queue, place.since_ms) = (queue, now_ms);
        (place.older, place.newer) = (last, NONE);
    }

    fn unlink(&mut self, number: u32) {
        let Place {
            queue, older, newer, ..
        } = self.places[number as usize];
        self.counts[queue as usize] -= 1;
        match self.places.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest[queue as usize] = newer,
        }
        match self.places.get_mut(newer as usize) {
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

    fn in_order(guests: &Guests<u64>, queue: Queue) -> Vec<u64> {
        let mut found = Vec::new();
        let mut number = guests.oldest[queue as usize];
        while let Some(place) = guests.places.get(number as usize) {
            found.extend(place.guest);
            number = place.newer;
        }
        found
    }

    #[test]
    fn queues_keep_the_order_of_arrival_whoever_leaves() {
        let random = SeededRandom::new(5);
        let mut guests = Guests::new();
        let mut model: [VecDeque<(u32, u64)>; 2] = Default::default();
        for step in 0..20_000_u64 {
            let from = random.below(2) as usize;
            match random.below(4) {
                0 | 1 => {
                    let number = guests.insert(step, Queue::Waiting, step);
                    model[Queue::Waiting as usize].push_back((number, step));
                }
                2 if !model[from].is_empty() => {
                    let at = random.below(model[from].len() as u64) as usize;
                    let (number, value) = model[from].remove(at).unwrap();
                    assert_eq!(guests.remove(number), Some(value));
                    assert_eq!(guests.remove(number), None);
                }
                3 if !model[0].is_empty() => {
                    let at = random.below(model[0].len() as u64) as usize;
                    let moved = model[0].remove(at).unwrap();
                    guests.move_to(moved.0, Queue::Leaving, step);
                    model[1].push_back(moved);
                }
                _ => {}
            }
            assert_eq!(guests.len(), model[0].len() + model[1].len());
            assert_eq!(guests.count(Queue::Leaving), model[1].len());
            if step % 64 == 0 {
                for queue in [Queue::Waiting, Queue::Leaving] {
                    let wanted: Vec<u64> = model[queue as usize].iter().map(|&(_, value)| value).collect();
                    assert_eq!(in_order(&guests, queue), wanted);
                    let oldest = guests.oldest(queue).map(|(number, _)| number);
                    assert_eq!(oldest, model[queue as usize].front().map(|&(number, _)| number));
                }
            }
        }
    }
}
