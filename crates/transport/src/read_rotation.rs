//! Read rotation: where refusing alone costs too much, some of the refused connections are read, the others are paused, and TCP
//! holds their clients back. Decision 13 has the reasons and the measurements.
//!
//! Those that are read are neighbours in a ring; the first of them goes and the next one comes every few milliseconds,
//! so that only one at a time has to be rid of what grew old in its socket.

use std::task::Waker;

/// Connections that may take turns; those beyond it are always read.
const CONNECTIONS_MAX: usize = 1_024;

/// Share of the time, in thousandths: where refusing what came in time to be read takes more, fewer connections are read ...
const REFUSING_PERMILLE_MAX: u64 = 15;

/// ... and where it takes less than this, more of them.
const REFUSING_PERMILLE_MIN: u64 = 5;

/// How many are read then is meant to make it this: the connections that are read bring a little more than can be served,
/// or the shard would have nothing to do now and then.
const REFUSING_PERMILLE_WANTED: u64 = 8;

/// Where less than one of so many requests is refused, no connection is paused to begin with: refusing costs some 3 % at most, and a
/// pause those that would be served as well (point reads beside aggregates that nobody has time for).
const REFUSED_SHARE_MIN: u64 = 8;

/// All are read once within this time, and no sooner. No longer: an answer comes within the shortest of usual timeouts,
/// and a client that sends a heartbeat does not take the connection for dead. No shorter: a client goes on sending until it
/// has as many requests in flight as it may (the Java driver's 1,024 take a quarter of a second at twice the capacity of a
/// core), and what it sends in a shorter pause is all refused later.
const ROTATION_NS: u64 = 1_000_000_000;

/// Steps that begin at a time, however late the shard is to begin them: so many in 5 ms take all connections round in
/// [`ROTATION_NS`].
const STEPS_MAX: usize = CONNECTIONS_MAX / 200 + 1;

/// Connections that were refused something, and which of them are read now.
#[derive(Debug, Default)]
pub(crate) struct ReadRotation {
    members: Vec<Member>,
    /// The first of those that are read.
    first: usize,
    /// How many are read, beginning there.
    read: usize,
    /// When the last one came.
    advanced_ns: u64,
}

/// Work of a window on the connections that are read, but for what grew old before they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusing {
    /// Share of the time that refusing took, in thousandths.
    pub permille: u64,
    pub served: u64,
    pub refused: u64,
    /// Something was refused, also of what grew old.
    pub has_refused: bool,
}

impl Refusing {
    /// Returns whether so much of what was read is refused that it is worth to pause who sends it.
    fn is_of_many(&self) -> bool {
        self.refused * REFUSED_SHARE_MIN >= self.served + self.refused
    }
}

#[derive(Debug)]
struct Member {
    connection: u64,
    /// Waker of a connection that waits.
    waker: Option<Waker>,
}

impl ReadRotation {
    /// Returns whether `connection` is to be left unread until it is woken.
    pub fn must_wait(&mut self, connection: u64, was_refused: bool, waker: &Waker) -> bool {
        let known = self
            .members
            .iter()
            .position(|member| member.connection == connection);
        let place = match known {
            Some(place) => place,
            None if was_refused && self.members.len() < CONNECTIONS_MAX => {
                // All are read until that is seen to cost too much.
                self.read += usize::from(self.read == self.members.len());
                self.members.push(Member {
                    connection,
                    waker: None,
                });
                self.members.len() - 1
            }
            None => return false,
        };
        let is_read = self.is_read(place);
        self.members[place].waker = (!is_read).then(|| waker.clone());
        !is_read
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn connection_closed(&mut self, connection: u64) {
        self.members.retain(|member| member.connection != connection);
        self.read = self.read.min(self.members.len());
    }

    /// Every few milliseconds: the next connections are read.
    pub fn advance(&mut self, now_ns: u64) {
        if !self.is_anyone_waiting() {
            return;
        }
        let step_ns = ROTATION_NS / self.members.len().max(1) as u64;
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
        self.first = (self.first + steps) % self.members.len();
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
        let is_worth_it = self.is_anyone_waiting() || refusing.is_of_many();
        if refusing.permille > REFUSING_PERMILLE_MAX && is_worth_it {
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
            self.read = 0;
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

    fn is_read(&self, place: usize) -> bool {
        let count = self.members.len();
        (place + count - self.first % count) % count < self.read
    }

    fn is_anyone_waiting(&self) -> bool {
        self.members.iter().any(|member| member.waker.is_some())
    }

    fn wake_those_read(&mut self) {
        self.read = self.read.min(self.members.len());
        for place in 0..self.members.len() {
            if self.is_read(place)
                && let Some(waker) = self.members[place].waker.take()
            {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    use super::*;

    const MS: u64 = 1_000_000;

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Connections that always have more than is served, in simulated time.
    struct Overload {
        rotation: ReadRotation,
        woken: Vec<Arc<Woken>>,
        now_ns: u64,
    }

    impl Overload {
        fn new(connections: usize) -> Self {
            Overload {
                rotation: ReadRotation::default(),
                woken: (0..connections).map(|_| Arc::default()).collect(),
                now_ns: 0,
            }
        }

        /// Each connection asks; those that may read.
        fn read(&mut self) -> Vec<usize> {
            let ask = |(connection, woken): (usize, &Arc<Woken>)| {
                let waker = Waker::from(woken.clone());
                (!self.rotation.must_wait(connection as u64, true, &waker)).then_some(connection)
            };
            self.woken.iter().enumerate().filter_map(ask).collect()
        }

        /// 5 ms in which each connection that is read costs so much of the time; those read.
        fn pass(&mut self, permille_of_each: u64) -> Vec<usize> {
            self.now_ns += 5 * MS;
            self.rotation.advance(self.now_ns);
            let read = self.read();
            if self.now_ns.is_multiple_of(20 * MS) {
                let count = read.len() as u64;
                self.rotation.window_ended(&Refusing {
                    permille: permille_of_each * count,
                    served: 100,
                    refused: 900 * count,
                    has_refused: true,
                });
            }
            read
        }
    }

    #[test]
    fn each_connection_is_read_in_every_second_and_is_woken_for_it() {
        for connections in [2, 16, 100, CONNECTIONS_MAX] {
            let mut overload = Overload::new(connections);
            // Each costs a hundredth of the time.
            (0..200).for_each(|_| drop(overload.pass(10)));
            for _ in 0..3 {
                let mut times_read = vec![0; connections];
                overload
                    .woken
                    .iter()
                    .for_each(|woken| woken.0.store(0, Ordering::Relaxed));
                for _ in 0..210 {
                    for connection in overload.pass(10) {
                        times_read[connection] += 1;
                    }
                }
                assert!(
                    times_read.iter().all(|&read| read > 0),
                    "{connections}: {times_read:?}"
                );
                let all_woken = overload
                    .woken
                    .iter()
                    .all(|woken| woken.0.load(Ordering::Relaxed) > 0);
                assert!(all_woken || connections < 4, "{connections}");
            }
            assert!(overload.read().len() <= 3.max(STEPS_MAX), "{connections}");
        }
    }

    /// At twice the capacity too few connections were read, and then too many, in turns.
    #[test]
    fn as_many_are_read_as_bring_little_to_refuse_and_no_fewer() {
        let mut overload = Overload::new(16);
        overload.read();
        for window in 0..100 {
            let read = overload.read().len() as u64;
            // Each brings an eighth of what can be served; to refuse as much as can be served takes a tenth of the time.
            let refused = (read * 125).saturating_sub(1_000);
            overload.rotation.window_ended(&Refusing {
                permille: refused / 10,
                served: (read * 125).min(1_000),
                refused,
                has_refused: true,
            });
            assert!(window < 4 || (9..=10).contains(&read), "{window}: {read}");
        }
    }

    /// Point reads beside aggregates at ten times of what can be done of them: a tenth of all was refused, and a third of the point reads
    /// was lost to the pauses that were to make that cheaper.
    #[test]
    fn nobody_is_paused_for_the_few_that_are_refused() {
        let mut overload = Overload::new(16);
        let refusing = |refused| Refusing {
            permille: 40,
            served: 7_000,
            refused,
            has_refused: true,
        };
        overload.read();
        for _ in 0..10 {
            overload.rotation.window_ended(&refusing(999));
            assert_eq!(overload.read().len(), 16);
        }
        overload.rotation.window_ended(&refusing(1_000));
        let read = overload.read().len();
        assert!(read < 16, "{read}");
        // Those that are read bring little to refuse, because others are paused.
        overload.rotation.window_ended(&refusing(500));
        assert!(overload.read().len() <= read);
    }

    /// At twice the capacity those that are read changed every 10 ms: clients went on sending in the short pauses, and all of it was read
    /// and refused.
    #[test]
    fn a_pause_outlasts_what_a_client_may_have_in_flight() {
        let mut overload = Overload::new(16);
        // Half of them bring as much to refuse as is wanted.
        (0..200).for_each(|_| drop(overload.pass(1)));
        let mut pauses_ms = [0; 16];
        let mut longest_ms = 0;
        for _ in 0..400 {
            let read = overload.pass(1);
            for (connection, pause_ms) in pauses_ms.iter_mut().enumerate() {
                *pause_ms = if read.contains(&connection) {
                    0
                } else {
                    *pause_ms + 5
                };
                longest_ms = longest_ms.max(*pause_ms);
            }
        }
        assert!((300..=800).contains(&longest_ms), "{longest_ms} ms");
    }

    #[test]
    fn a_shard_with_nothing_to_do_reads_one_more_each_time() {
        let mut overload = Overload::new(16);
        (0..200).for_each(|_| drop(overload.pass(20)));
        let read = overload.read().len();
        assert!(read <= 2, "{read}");
        for more in 1..=16 - read {
            overload.rotation.shard_slept();
            assert_eq!(overload.read().len(), read + more);
        }
        // Then nobody waits, and the first window without a refusal ends it.
        overload.rotation.window_ended(&Refusing::default());
        assert!(overload.rotation.is_empty());
    }

    #[test]
    fn a_connection_that_closes_leaves_the_others_in_the_rotation() {
        let mut overload = Overload::new(16);
        (0..200).for_each(|_| drop(overload.pass(10)));
        (0..15).for_each(|connection| overload.rotation.connection_closed(connection));
        overload.woken.drain(..15);
        overload.rotation.advance(overload.now_ns + 1_000 * MS);
        assert!(!overload.rotation.must_wait(15, true, Waker::noop()));
        overload.rotation.connection_closed(15);
        overload.rotation.advance(overload.now_ns + 2_000 * MS);
        overload.rotation.shard_slept();
        assert!(overload.rotation.is_empty());
    }
}
