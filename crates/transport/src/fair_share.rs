//! Fair share of a shard's time: work of many clients that waits for its turn, whatever the others have asked for.
//!
//! Start-time fair queueing over the clients, by the cost of what they ask for: the next turn is of the client that has had
//! least since it came. Among a client's own requests the order is that of an `AgedQueue`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::aged_queue::{AgedQueue, Wait};
use crate::request_memory::Account;

/// Identity of a client: the address of its account, which the client's requests keep alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub usize);

impl ClientId {
    /// The client that an account is of.
    pub fn of(account: &Arc<Account>) -> Self {
        ClientId(Arc::as_ptr(account).addr())
    }
}

/// Parameters of a request that is to wait.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Client whose request it is.
    pub asker: ClientId,
    /// Requests of the same client that wait elsewhere until fewer of them are here.
    pub kept_requests: usize,
    /// When it came, and how long it may wait.
    pub wait: Wait,
    /// Expected cost in the shard's time, by what others of its kind have taken.
    pub cost_ns: u64,
}

/// Item taken from the queue.
pub enum Turn<T> {
    /// It has its turn.
    Begin(T),
    /// Its time to be begun is over: nothing of it was done.
    TooLate(T),
}

/// The queue. Bounded by whoever offers: the streams of connections and their accounts of memory.
pub struct FairShareQueue<T> {
    clients: HashMap<ClientId, Client<T>, RandomState>,
    /// Those that have something waiting, by what they have had; among equals who has waited for its turn longest.
    turns: BTreeMap<Place, ClientId>,
    /// Number of the next place to give out.
    next_place: u64,
    /// Time that the client whose turn was last had had before: new clients begin there.
    had_ns: u64,
    cost_ns: u64,
    len: usize,
}

/// Place in line: the time a client had had when it got there, and a number that grows with each place.
type Place = (u64, u64);

struct Client<T> {
    place: Place,
    cost_ns: u64,
    kept_requests: usize,
    queue: AgedQueue<(u64, T)>,
}

impl<T> Default for FairShareQueue<T> {
    fn default() -> Self {
        FairShareQueue {
            clients: HashMap::default(),
            turns: BTreeMap::new(),
            next_place: 0,
            had_ns: 0,
            cost_ns: 0,
            len: 0,
        }
    }
}

impl<T> FairShareQueue<T> {
    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Requests that wait, of all clients.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Cost of all that waits.
    pub fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    /// Time served before a request that `asker` offers now, if its own are served in their order: its own, and as much of
    /// each other client's.
    pub fn cost_before_ns(&self, asker: ClientId) -> u64 {
        let own_ns = self.clients.get(&asker).map_or(0, |client| client.cost_ns);
        let others = self.turns.len() as u64 - u64::from(own_ns > 0);
        self.cost_ns
            .min(own_ns.saturating_add(others.saturating_mul(own_ns.max(self.cost_each_ns()))))
    }

    /// Average cost of one request.
    fn cost_each_ns(&self) -> u64 {
        self.cost_ns.checked_div(self.len as u64).unwrap_or(0)
    }

    /// Puts a request at the end of its client's queue.
    pub fn push(&mut self, offer: &Offer, item: T, now_ns: u64) {
        let place = (self.had_ns, self.next_place);
        let client = self.clients.entry(offer.asker).or_insert_with(|| Client {
            place,
            cost_ns: 0,
            kept_requests: 0,
            queue: AgedQueue::default(),
        });
        if client.queue.is_empty() {
            self.next_place += 1;
            self.turns.insert(place, offer.asker);
        }
        client.cost_ns += offer.cost_ns;
        client.kept_requests = offer.kept_requests;
        client.queue.push(offer.wait, (offer.cost_ns, item), now_ns);
        self.cost_ns += offer.cost_ns;
        self.len += 1;
    }

    /// The next one. What has waited too long is not begun where others wait, who can still be served in time.
    pub fn pop(&mut self, now_ns: u64) -> Option<Turn<T>> {
        let ((had_ns, _), asker) = self.turns.pop_first()?;
        self.had_ns = had_ns;
        let client = self.clients.get_mut(&asker)?;
        let (wait, (cost_ns, item)) = client.queue.pop_before(client.kept_requests, now_ns)?;
        let others_wait = self.len > 1;
        match wait.is_over(now_ns) && others_wait {
            true => {
                self.took(asker, cost_ns, 0);
                Some(Turn::TooLate(item))
            }
            false => {
                self.took(asker, cost_ns, cost_ns.max(1));
                Some(Turn::Begin(item))
            }
        }
    }

    /// One whose time to be begun is over.
    pub fn pop_late(&mut self, now_ns: u64) -> Option<T> {
        let is_late = |client: &Client<T>| client.queue.oldest().is_some_and(|wait| wait.is_over(now_ns));
        let late = self
            .turns
            .values()
            .find(|asker| self.clients.get(asker).is_some_and(is_late));
        self.pop_oldest_of(*late?)
    }

    /// The one of a client that has waited longest.
    pub fn pop_oldest_of(&mut self, asker: ClientId) -> Option<T> {
        let client = self.clients.get_mut(&asker)?;
        let (_, (cost_ns, item)) = client.queue.pop_oldest()?;
        self.turns.remove(&client.place);
        self.took(asker, cost_ns, 0);
        Some(item)
    }

    /// Something of a client that is not among the turns now was taken from its queue; it has had `served_ns` more.
    fn took(&mut self, asker: ClientId, cost_ns: u64, served_ns: u64) {
        self.cost_ns = self.cost_ns.saturating_sub(cost_ns);
        self.len -= 1;
        let Some(client) = self.clients.get_mut(&asker) else {
            return;
        };
        client.cost_ns = client.cost_ns.saturating_sub(cost_ns);
        if client.queue.is_empty() {
            // Who comes back begins where the others are: nothing is owed to who did not ask.
            self.clients.remove(&asker);
            return;
        }
        client.place = match served_ns {
            0 => client.place,
            _ => (client.place.0 + served_ns, self.next_place),
        };
        self.next_place += 1;
        self.turns.insert(client.place, asker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn offer(asker: usize, received_ns: u64, cost_ns: u64) -> Offer {
        Offer {
            asker: ClientId(asker),
            kept_requests: 0,
            wait: Wait {
                received_ns,
                wait_ns_max: 5 * MS,
            },
            cost_ns,
        }
    }

    fn begun<T>(turn: Option<Turn<T>>) -> Option<T> {
        match turn? {
            Turn::Begin(item) => Some(item),
            Turn::TooLate(_) => None,
        }
    }

    /// One answer in eight came after 2 s where what waits here is short, and what waits behind it is not.
    #[test]
    fn the_old_end_of_a_client_is_given_up_where_too_many_of_its_requests_wait_elsewhere() {
        let of_old_end = |kept_requests| {
            let mut queue = FairShareQueue::default();
            let mut now_ns = 0;
            let offered = |queue: &mut FairShareQueue<u64>, now_ns| {
                let of_second = Wait {
                    received_ns: now_ns,
                    wait_ns_max: 2_500 * MS,
                };
                let offer = Offer {
                    kept_requests,
                    wait: of_second,
                    ..offer(1, now_ns, MS / 4)
                };
                queue.push(&offer, now_ns, now_ns);
            };
            (0..1_000).for_each(|_| offered(&mut queue, 0));
            let mut old = 0;
            for _ in 0..2_000 {
                now_ns += MS / 4;
                offered(&mut queue, now_ns);
                let received_ns = begun(queue.pop(now_ns)).unwrap();
                old += u64::from(now_ns > 100 * MS && received_ns < now_ns);
            }
            old
        };
        let (saved, given_up) = (of_old_end(0), of_old_end(10_000));
        assert!(saved > 150 && given_up < 100, "{saved}, {given_up}");
    }

    #[test]
    fn a_client_with_a_hundred_requests_has_the_same_share_as_one_with_ten() {
        let mut waiting = FairShareQueue::default();
        (0..100).for_each(|_| waiting.push(&offer(1, 0, 100), 1, 0));
        (0..10).for_each(|_| waiting.push(&offer(2, 0, 100), 2, 0));
        let first: Vec<i32> = (0..20).filter_map(|_| begun(waiting.pop(MS))).collect();
        assert_eq!(first.iter().filter(|&&asker| asker == 2).count(), 10);
        assert_eq!((waiting.len(), waiting.cost_ns), (90, 9_000));
    }

    #[test]
    fn shares_are_of_the_time_and_not_of_the_number() {
        let mut waiting = FairShareQueue::default();
        (0..100).for_each(|_| waiting.push(&offer(1, 0, 1_000), 1, 0));
        (0..100).for_each(|_| waiting.push(&offer(2, 0, 100), 2, 0));
        let first: Vec<i32> = (0..110).filter_map(|_| begun(waiting.pop(MS))).collect();
        let cheap = first.iter().filter(|&&asker| asker == 2).count();
        assert!((99..=100).contains(&cheap), "{cheap}");
    }

    #[test]
    fn who_comes_late_has_no_claim_on_what_was_served_before() {
        let mut waiting = FairShareQueue::default();
        (0..100).for_each(|_| waiting.push(&offer(1, 0, 100), 1, 0));
        assert_eq!((0..50).filter_map(|_| begun(waiting.pop(MS))).count(), 50);
        (0..50).for_each(|_| waiting.push(&offer(2, 0, 100), 2, 0));
        let next: Vec<i32> = (0..20).filter_map(|_| begun(waiting.pop(MS))).collect();
        assert_eq!(next.iter().filter(|&&asker| asker == 2).count(), 10);
    }

    #[test]
    fn what_is_too_late_is_not_begun_where_others_wait() {
        let mut waiting = FairShareQueue::default();
        waiting.push(&offer(1, 0, 100), 1, 0);
        waiting.push(&offer(1, 8 * MS, 100), 2, 8 * MS);
        assert!(matches!(waiting.pop(9 * MS), Some(Turn::TooLate(1))));
        // The last one has the time that is left to it, as nobody waits for it.
        assert!(matches!(waiting.pop(20 * MS), Some(Turn::Begin(2))));
        assert!(waiting.is_empty() && waiting.pop(20 * MS).is_none());
        assert_eq!(waiting.cost_ns, 0);
    }

    #[test]
    fn the_late_are_found_without_their_turn() {
        let mut waiting = FairShareQueue::default();
        (1..=3).for_each(|asker| waiting.push(&offer(asker, asker as u64 * MS, 100), asker, 0));
        assert!(waiting.pop_late(6 * MS).is_none());
        assert_eq!(waiting.pop_late(7 * MS), Some(1));
        assert_eq!((waiting.pop_late(7 * MS), waiting.len()), (None, 2));
    }

    /// The one that was served asked again at once and was the next again, for ever.
    #[test]
    fn clients_that_ask_for_one_thing_at_a_time_have_their_turns_in_order() {
        let mut waiting = FairShareQueue::default();
        (1..=3).for_each(|asker| waiting.push(&offer(asker, 0, 100), asker, 0));
        let mut served = Vec::new();
        for _ in 0..9 {
            let Some(asker) = begun(waiting.pop(MS)) else {
                break;
            };
            served.push(asker);
            waiting.push(&offer(asker, 0, 100), asker, MS);
        }
        assert_eq!(served, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
    }

    /// A client that asked for little was told to wait for all that another had asked for.
    #[test]
    fn what_is_before_a_request_is_what_its_client_has_waiting_and_as_much_of_the_others() {
        let mut waiting = FairShareQueue::default();
        (0..1_000).for_each(|_| waiting.push(&offer(1, 0, 100), 1, 0));
        assert_eq!(waiting.cost_before_ns(ClientId(1)), 100_000);
        assert_eq!(waiting.cost_before_ns(ClientId(2)), 100);
    }
}
