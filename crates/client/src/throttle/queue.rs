//! Queue of those who wait for a turn: first come first served for each caller, and the callers in turns.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use foldhash::fast::RandomState;

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(usize);

/// A caller's line is dropped when it is empty, so memory follows those who wait.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    places: Vec<Place>,
    free: Vec<usize>,
    lines: HashMap<u64, VecDeque<usize>, RandomState>,
    /// Callers with a line, the next one first.
    turns: VecDeque<u64>,
    waiting: usize,
}

#[derive(Debug)]
enum Place {
    Free,
    Waiting(Option<Waker>),
    Granted,
    /// Its waiter has left; it is skipped when its turn comes.
    Left,
}

impl WaitQueue {
    pub fn len(&self) -> usize {
        self.waiting
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub fn push(&mut self, caller: u64, waker: &Waker) -> Ticket {
        let place = Place::Waiting(Some(waker.clone()));
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index] = place;
                index
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        let line = self.lines.entry(caller).or_default();
        if line.is_empty() {
            self.turns.push_back(caller);
        }
        line.push_back(index);
        self.waiting += 1;
        Ticket(index)
    }

    /// Returns whether the turn has come; frees the place if so.
    pub fn poll(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        match &mut self.places[ticket.0] {
            Place::Granted => {
                self.release(ticket.0);
                true
            }
            Place::Waiting(known) => {
                if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    *known = Some(waker.clone());
                }
                false
            }
            Place::Free | Place::Left => unreachable!("a ticket is polled by the waiter that holds it"),
        }
    }

    /// The waiter goes. True if its turn had come and is to be given on.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        match &self.places[ticket.0] {
            Place::Granted => {
                self.release(ticket.0);
                true
            }
            _ => {
                self.places[ticket.0] = Place::Left;
                self.waiting -= 1;
                false
            }
        }
    }

    /// Gives the next waiter its turn; `None` if nobody waits. The waker is the waiter's.
    pub fn grant_next(&mut self) -> Option<Option<Waker>> {
        loop {
            let caller = self.turns.pop_front()?;
            let line = self.lines.get_mut(&caller)?;
            let index = line.pop_front();
            if line.is_empty() {
                self.lines.remove(&caller);
            } else {
                self.turns.push_back(caller);
            }
            let index = index?;
            match &mut self.places[index] {
                Place::Waiting(waker) => {
                    let waker = waker.take();
                    self.places[index] = Place::Granted;
                    self.waiting -= 1;
                    return Some(waker);
                }
                _ => self.release(index),
            }
        }
    }

    fn release(&mut self, index: usize) {
        self.places[index] = Place::Free;
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(queue: &mut WaitQueue, tickets: &[Ticket]) -> Option<usize> {
        queue.grant_next()?;
        let waker = Waker::noop();
        tickets
            .iter()
            .position(|ticket| matches!(queue.places[ticket.0], Place::Granted) && queue.poll(*ticket, waker))
    }

    #[test]
    fn callers_take_turns_however_many_requests_each_has() {
        let mut queue = WaitQueue::default();
        let callers = [1, 1, 1, 1, 2, 3, 3];
        let tickets: Vec<_> = callers
            .iter()
            .map(|caller| queue.push(*caller, Waker::noop()))
            .collect();
        let order: Vec<u64> = std::iter::from_fn(|| next(&mut queue, &tickets))
            .map(|index| callers[index])
            .collect();
        assert_eq!(order, [1, 2, 3, 1, 3, 1, 1]);
        assert!(queue.is_empty() && queue.lines.is_empty());
    }

    #[test]
    fn who_has_left_is_skipped_and_a_granted_turn_is_given_on() {
        let mut queue = WaitQueue::default();
        let tickets: Vec<_> = (0..3).map(|_| queue.push(1, Waker::noop())).collect();
        assert!(!queue.leave(tickets[0]));
        assert_eq!(queue.len(), 2);
        assert!(queue.grant_next().is_some());
        assert!(queue.leave(tickets[1]), "its turn had come");
        assert!(queue.grant_next().is_some());
        assert!(queue.poll(tickets[2], Waker::noop()));
        assert!(queue.grant_next().is_none());
        assert_eq!(queue.free.len(), 3);
    }
}
