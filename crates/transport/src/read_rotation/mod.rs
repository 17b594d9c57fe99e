//! Read rotation: where refusing alone costs too much, some of the refused connections are read, the others are paused, and TCP
//! holds their clients back. Decision 13 has the reasons and the measurements.
//!
//! Those that are read are neighbours in a ring; the first of them goes and the next one comes every few milliseconds,
//! so that only one at a time has to be rid of what grew old in its socket.
//!
//! The ring is of those that bring more than their fair share: of what can be served, by user, and of a user's share by connection.
//! Who brings less, and is refused something because of the others, is always read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use crate::max_min_fair::fair_level;

/// Connections that may take turns; those beyond it are always read.
const CONNECTIONS_MAX: usize = 1_024;

/// Share of the time, in thousandths: where refusing what came in time to be read takes more, fewer connections are read ...
const REFUSING_PERMILLE_MAX: u64 = 15;

/// ... and where it takes less than this, more of them.
const REFUSING_PERMILLE_MIN: u64 = 5;

/// How many are read then is meant to make it this: the connections that are read bring a little more than can be served,
/// or the shard would have nothing to do now and then.
const REFUSING_PERMILLE_WANTED: u64 = 8;

/// Where less than one of so many requests is refused, or would have to be of one connection's, none is paused to begin with: refusing
/// costs some 3 % at most, and a pause those that would be served as well (point reads beside aggregates that nobody has time for).
const REFUSED_SHARE_MIN: u64 = 8;

/// A connection is greedy after so many windows in a row with more than its fair share: in one it may send what it could not before.
const GREEDY_WINDOWS: u32 = 2;

/// Parts of a shard's known capacity of which one is forgotten in each window: half in half a second.
const CAPACITY_LOSS: u64 = 32;

const SECOND_NS: u64 = 1_000_000_000;

/// All are read once within this time, and no sooner. No longer: an answer comes within the shortest of usual timeouts,
/// and a client that sends a heartbeat does not take the connection for dead. No shorter: a client goes on sending until it
/// has as many requests in flight as it may (the Java driver's 1,024 take a quarter of a second at twice the capacity of a
/// core), and what it sends in a shorter pause is all refused later.
const ROTATION_NS: u64 = SECOND_NS;

/// Steps that begin at a time, however late the shard is to begin them: so many in 5 ms take all connections round in
/// [`ROTATION_NS`].
const STEPS_MAX: usize = CONNECTIONS_MAX / 200 + 1;

/// Connections that were refused something, and which of them are read now.
#[derive(Debug, Default)]
pub(crate) struct ReadRotation {
    members: Vec<Member>,
    /// Members with a place in the ring.
    ring_len: usize,
    /// The first of the ring's that are read.
    first: usize,
    /// How many of the ring are read, beginning there.
    read: usize,
    /// When the last one came.
    advanced_ns: u64,
    /// Requests a second that can be served: the most of the last windows, as a shard may have less to do.
    capacity_per_s: u64,
}

/// Work of a window on the connections that are read, but for what grew old before they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusing {
    pub window_ns: u64,
    /// Share of the time that refusing took, in thousandths.
    pub permille: u64,
    pub served: u64,
    pub refused: u64,
    /// Something was refused, also of what grew old.
    pub has_refused: bool,
}

impl Refusing {
    /// Requests a second that could be served if nothing had to be refused.
    fn capacity_per_s(&self) -> u64 {
        let serving_permille = 1_000_u64.saturating_sub(self.permille).max(100);
        let serving_ns = self.window_ns.max(1_000) / 1_000 * serving_permille;
        self.served.saturating_mul(SECOND_NS) / serving_ns
    }
}

/// A connection that is about to be read.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub connection: u64,
    /// The user who has logged in on it.
    pub user: Option<Arc<str>>,
    /// Something of it was refused in its last turn.
    pub was_refused: bool,
}

#[derive(Debug)]
struct Member {
    connection: u64,
    user: Option<Arc<str>>,
    /// Requests of this window.
    brought: u64,
    /// It was left unread in this window, or in a part of it.
    was_paused: bool,
    /// It has come in this window, of which the requests before are not known to be its.
    is_new: bool,
    /// Windows in a row in which it brought more than its fair share.
    greedy_windows: u32,
    /// In the ring, if it is greedy.
    place: Option<usize>,
    /// Waker of a connection that waits.
    waker: Option<Waker>,
}

impl Member {
    /// Requests of this window that it had to send.
    fn demand(&self) -> u64 {
        match self.was_paused {
            true => u64::MAX,
            false => self.brought,
        }
    }
}

impl ReadRotation {
    /// Returns whether a connection is to be left unread until it is woken.
    pub fn must_wait(&mut self, reader: Reader, waker: &Waker) -> bool {
        let known = self
            .members
            .iter()
            .position(|member| member.connection == reader.connection);
        match known {
            Some(index) => {
                let is_read = self.is_read(&self.members[index]);
                let member = &mut self.members[index];
                member.was_paused |= !is_read;
                member.waker = (!is_read).then(|| waker.clone());
                !is_read
            }
            None => {
                if reader.was_refused && self.members.len() < CONNECTIONS_MAX {
                    self.members.push(Member {
                        connection: reader.connection,
                        user: reader.user,
                        brought: 0,
                        was_paused: false,
                        is_new: true,
                        greedy_windows: 0,
                        place: None,
                        waker: None,
                    });
                }
                false
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// So many requests of a connection were begun or refused in a turn.
    pub fn brought(&mut self, connection: u64, requests: u64) {
        let mut members = self.members.iter_mut();
        if let Some(member) = members.find(|member| member.connection == connection) {
            member.brought += requests;
        }
    }

    pub fn connection_closed(&mut self, connection: u64) {
        self.members.retain(|member| member.connection != connection);
        self.number_places(|member| member.place.is_some());
        self.read = self.read.min(self.ring_len);
    }

    /// Every few milliseconds: the next connections are read.
    pub fn advance(&mut self, now_ns: u64) {
        if !self.is_anyone_waiting() {
            return;
        }
        let step_ns = ROTATION_NS / self.ring_len.max(1) as u64;
        let passed_ns = now_ns.saturating_sub(self.advanced_ns);
        if passed_ns < step_ns {
            return;
        }
        // Several at once where they are too many to come one by one; none is passed over.
        let steps = usize::try_from(passed_ns / step_ns)
            .unwrap_or(usize::MAX)
            .min(STEPS_MAX);
        self.read = self.read.max(steps);
        self.advanced_ns = now_ns;
        self.first = (self.first + steps) % self.ring_len.max(1);
        self.wake_those_read();
    }

    /// The shard had nothing to do: one more is read.
    pub fn shard_slept(&mut self) {
        if self.is_anyone_waiting() {
            self.read += 1;
            self.wake_those_read();
        }
    }

    /// A window has ended. Where nothing was refused and nobody waits, the overload is over.
    pub fn window_ended(&mut self, refusing: &Refusing) {
        let refusing = &self.of_the_ring(refusing);
        if refusing.permille > REFUSING_PERMILLE_MAX {
            // By half at most: a thread that lost its processor looks like one that has much to refuse.
            self.read = self
                .wanted(refusing)
                .clamp(self.read.div_ceil(2), self.read.max(1));
        } else if self.is_anyone_waiting() {
            if refusing.permille < REFUSING_PERMILLE_MIN {
                let most = (self.read * 5 / 4).max(self.read + 1);
                self.read = self.wanted(refusing).clamp(self.read + 1, most);
                self.wake_those_read();
            }
        } else if !refusing.has_refused {
            self.members.clear();
            (self.ring_len, self.read) = (0, 0);
        }
    }

    /// Judges who is in the ring; the work of those that are.
    fn of_the_ring(&mut self, refusing: &Refusing) -> Refusing {
        let all_are_read = self.read >= self.ring_len;
        let known = self.members.iter().filter(|member| !member.is_new);
        let brought: u64 = known.map(|member| member.brought).sum();
        let others_brought = (refusing.served + refusing.refused).saturating_sub(brought);
        let remembered_per_s = self.capacity_per_s - self.capacity_per_s / CAPACITY_LOSS;
        self.capacity_per_s = refusing.capacity_per_s().max(remembered_per_s);
        let capacity = self.capacity_per_s.saturating_mul(refusing.window_ns) / SECOND_NS;
        self.judge(capacity.saturating_sub(others_brought));
        let mut fair_brought = others_brought;
        for member in &mut self.members {
            if member.place.is_none() && !member.is_new {
                fair_brought += member.brought;
            }
            member.brought = 0;
            member.is_new = false;
            member.was_paused = member.waker.is_some();
        }
        self.read = match all_are_read {
            true => self.ring_len,
            false => self.read.min(self.ring_len),
        };
        Refusing {
            served: refusing.served.saturating_sub(fair_brought),
            ..*refusing
        }
    }

    /// `capacity`: requests of this window that the members can be served.
    fn judge(&mut self, capacity: u64) {
        let mut users: BTreeMap<Option<Arc<str>>, Vec<u64>> = BTreeMap::new();
        for member in self.members.iter().filter(|member| !member.is_new) {
            users
                .entry(member.user.clone())
                .or_default()
                .push(member.demand());
        }
        let sum = |demands: &Vec<u64>| demands.iter().copied().fold(0, u64::saturating_add);
        let of_each_user = fair_level(users.values().map(sum).collect(), capacity);
        let levels: BTreeMap<_, _> = users
            .into_iter()
            .map(|(user, demands)| (user, fair_level(demands, of_each_user)))
            .collect();
        for member in &mut self.members {
            let level = levels.get(&member.user).filter(|_| !member.is_new);
            let demand = member.demand();
            let is_over = level.is_some_and(|level| demand - demand / REFUSED_SHARE_MIN > *level);
            member.greedy_windows = if is_over { member.greedy_windows + 1 } else { 0 };
        }
        self.number_places(|member| member.greedy_windows >= GREEDY_WINDOWS);
    }

    /// Gives places in the ring to members as they stand in line.
    fn number_places(&mut self, is_in_ring: impl Fn(&Member) -> bool) {
        self.ring_len = 0;
        for member in &mut self.members {
            member.place = is_in_ring(member).then_some(self.ring_len);
            self.ring_len += usize::from(member.place.is_some());
        }
    }

    /// How many connections bring so many requests, if each brings as many as now, that refusing those which are too many
    /// takes the time that it is meant to take.
    fn wanted(&self, refusing: &Refusing) -> usize {
        let Refusing {
            permille,
            served,
            refused,
            ..
        } = *refusing;
        let brought = (served + refused) * permille;
        if brought == 0 {
            return usize::MAX;
        }
        let wanted = served * permille + refused * REFUSING_PERMILLE_WANTED;
        let read = (self.read as u64 * wanted + brought / 2) / brought;
        usize::try_from(read).unwrap_or(usize::MAX)
    }

    fn is_read(&self, member: &Member) -> bool {
        member.place.is_none_or(|place| {
            (place + self.ring_len - self.first % self.ring_len) % self.ring_len < self.read
        })
    }

    fn is_anyone_waiting(&self) -> bool {
        self.members.iter().any(|member| member.waker.is_some())
    }

    fn wake_those_read(&mut self) {
        self.read = self.read.min(self.ring_len);
        for index in 0..self.members.len() {
            if self.is_read(&self.members[index])
                && let Some(waker) = self.members[index].waker.take()
            {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests;
