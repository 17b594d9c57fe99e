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
    users: Vec<Option<Arc<str>>>,
    now_ns: u64,
}

fn refusing(permille: u64, served: u64, refused: u64) -> Refusing {
    Refusing {
        window_ns: 20 * MS,
        permille,
        served,
        refused,
        has_refused: refused > 0,
    }
}

fn reader(connection: usize) -> Reader {
    Reader {
        connection: connection as u64,
        user: None,
        was_refused: true,
    }
}

impl Overload {
    fn new(connections: usize) -> Self {
        Overload {
            rotation: ReadRotation::default(),
            woken: (0..connections).map(|_| Arc::default()).collect(),
            users: vec![None; connections],
            now_ns: 0,
        }
    }

    /// As it is once overload is known.
    fn judged(connections: usize) -> Self {
        let mut overload = Overload::new(connections);
        for _ in 0..=GREEDY_WINDOWS {
            let each = vec![100; overload.read().len()];
            overload.window(&each, 50 * connections as u64, 10);
        }
        assert_eq!(overload.rotation.ring_len, connections);
        overload
    }

    /// A window in which each connection brings so many requests and `capacity` are served.
    fn window(&mut self, brought: &[u64], capacity: u64, permille: u64) {
        for (connection, requests) in brought.iter().enumerate() {
            self.rotation.brought(connection as u64, *requests);
        }
        let all: u64 = brought.iter().sum();
        let served = all.min(capacity);
        self.rotation
            .window_ended(&refusing(permille, served, all - served));
    }

    /// Each connection asks; those that may read.
    fn read(&mut self) -> Vec<usize> {
        let ask = |(connection, woken): (usize, &Arc<Woken>)| {
            let waker = Waker::from(woken.clone());
            let reader = Reader {
                user: self.users[connection].clone(),
                ..reader(connection)
            };
            (!self.rotation.must_wait(reader, &waker)).then_some(connection)
        };
        self.woken.iter().enumerate().filter_map(ask).collect()
    }

    fn pass_without_window(&mut self) {
        self.now_ns += 5 * MS;
        self.rotation.advance(self.now_ns);
    }

    /// 5 ms in which each connection that is read costs so much of the time; those read.
    fn pass(&mut self, permille_of_each: u64) -> Vec<usize> {
        self.now_ns += 5 * MS;
        self.rotation.advance(self.now_ns);
        let read = self.read();
        if self.now_ns.is_multiple_of(20 * MS) {
            let count = read.len() as u64;
            for &connection in &read {
                self.rotation.brought(connection as u64, 900);
            }
            let served = 100.min(900 * count);
            let refused = 900 * count - served;
            self.rotation
                .window_ended(&refusing(permille_of_each * count, served, refused));
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
        let read = overload.read();
        // Each brings an eighth of what can be served; to refuse as much as can be served takes a tenth of the time.
        let mut brought = [0; 16];
        read.iter().for_each(|&connection| brought[connection] = 125);
        let read = read.len() as u64;
        let refused = (read * 125).saturating_sub(1_000);
        overload.window(&brought, 1_000, refused / 10);
        assert!(window < 6 || (9..=10).contains(&read), "{window}: {read}");
    }
}

/// Point reads beside aggregates at ten times of what can be done of them: a tenth of all was refused, and a third of the point reads
/// was lost to the pauses that were to make that cheaper.
#[test]
fn nobody_is_paused_for_the_few_that_are_refused() {
    let mut overload = Overload::judged(16);
    for _ in 0..10 {
        overload.window(&[490; 16], 7_000, 40);
        assert_eq!(overload.read().len(), 16);
    }
    (0..3).for_each(|_| overload.window(&[600; 16], 7_000, 40));
    let read = overload.read().len();
    assert!(read < 16, "{read}");
    // Those that are read bring little to refuse, because others are paused.
    let mut brought = [0; 16];
    brought[..read].fill(7_500 / read as u64);
    overload.window(&brought, 7_000, 20);
    assert!(overload.read().len() <= read);
}

/// Windows of overload in which each connection brings as much as `brought` if it is read, at a capacity of 10,000; how often each was
/// left unread.
fn pauses(overload: &mut Overload, brought: &[u64], windows: u64) -> Vec<u64> {
    let mut pauses = vec![0; brought.len()];
    for _ in 0..windows {
        (0..4).for_each(|_| overload.pass_without_window());
        let read = overload.read();
        let mut read_brought = vec![0; brought.len()];
        read.iter()
            .for_each(|&connection| read_brought[connection] = brought[connection]);
        (0..brought.len())
            .filter(|connection| !read.contains(connection))
            .for_each(|connection| pauses[connection] += 1);
        let refused = read_brought.iter().sum::<u64>().saturating_sub(10_000);
        overload.window(&read_brought, 10_000, (refused / 100).min(900));
    }
    pauses
}

/// One connection with a hundred shares, and fifteen that could all be served, were paused in turns: those lost half of theirs.
#[test]
fn who_brings_no_more_than_its_share_is_never_paused() {
    let mut overload = Overload::new(18);
    let mut brought = [500; 18];
    brought[15..].fill(10_000);
    let pauses = pauses(&mut overload, &brought, 200);
    assert!(pauses[..15].iter().all(|&pauses| pauses == 0), "{pauses:?}");
    assert!(pauses[15..].iter().all(|&pauses| pauses > 10), "{pauses:?}");
}

#[test]
fn what_one_user_sends_over_many_connections_is_no_more_than_a_users_share() {
    let mut overload = Overload::new(31);
    let mut brought = [500; 31];
    brought[15..].fill(3_000);
    for (connection, user) in overload.users.iter_mut().enumerate() {
        *user = Some(Arc::from(format!("user {}", connection.min(15))));
    }
    let pauses_of_users = pauses(&mut overload, &brought, 200);
    let (others, greedy) = pauses_of_users.split_at(15);
    assert!(others.iter().all(|&pauses| pauses == 0), "{others:?}");
    assert!(greedy.iter().all(|&pauses| pauses > 100), "{greedy:?}");
    // By their connections they all bring more than a share.
    let pauses = pauses(&mut Overload::new(31), &brought, 200);
    assert!(pauses.iter().all(|&pauses| pauses > 10), "{pauses:?}");
}

/// While the greedy ones were paused the shard had less to do, and that passed for what it can serve: then others were greedy.
#[test]
fn what_can_be_served_is_remembered_while_there_is_less_to_do() {
    let mut overload = Overload::new(4);
    overload.read();
    for _ in 0..4 {
        overload.window(&[2_400, 2_400, 20_000, 20_000], 10_000, 100);
    }
    assert_eq!(overload.read().len(), 3);
    // The greedy one that is read is held back by its client.
    for _ in 0..4 {
        overload.window(&[2_400, 2_400, 0, 0], 4_700, 10);
        overload.read();
        assert!(overload.rotation.ring_len <= 2);
    }
}

#[test]
fn a_connection_that_sends_in_one_window_what_it_could_not_before_is_not_greedy() {
    let mut overload = Overload::new(16);
    overload.read();
    let even = [1_000; 16];
    let mut burst = even;
    burst[3] = 5_000;
    overload.window(&[600; 16], 9_000, 10);
    overload.window(&burst, 16_000, 100);
    assert_eq!(overload.rotation.ring_len, 0);
    (0..2).for_each(|_| overload.window(&burst, 16_000, 100));
    assert_eq!(overload.rotation.ring_len, 1);
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
    assert!(!overload.rotation.must_wait(reader(15), Waker::noop()));
    overload.rotation.connection_closed(15);
    overload.rotation.advance(overload.now_ns + 2_000 * MS);
    overload.rotation.shard_slept();
    assert!(overload.rotation.is_empty());
}
