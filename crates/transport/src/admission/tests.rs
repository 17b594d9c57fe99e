use std::ops::Range;

use super::*;

const MS: u64 = 1_000_000;

fn admission() -> (Admission, Arc<AtomicBool>) {
    let has_slept = Arc::new(AtomicBool::new(true));
    (
        Admission::with_limits(
            true,
            1_000 * MS,
            RequestMemory::with_limit(1 << 20),
            has_slept.clone(),
        ),
        has_slept,
    )
}

#[test]
fn what_is_read_after_a_sleep_came_after_it() {
    let (admission, has_slept) = admission();
    admission.turn_begins(100 * MS);
    assert_eq!(admission.earliest_arrival(20 * MS), 100 * MS);
    admission.turn_begins(110 * MS);
    assert_eq!(admission.earliest_arrival(20 * MS), 100 * MS);
    assert_eq!(admission.earliest_arrival(105 * MS), 105 * MS);
    has_slept.store(true, Ordering::Relaxed);
    admission.turn_begins(120 * MS);
    assert_eq!(admission.earliest_arrival(105 * MS), 120 * MS);
}

#[test]
fn a_shard_that_does_not_sleep_knows_the_round_before_the_last() {
    let (admission, _) = admission();
    admission.turn_begins(100 * MS);
    for round_ms in [110, 120, 130] {
        (0..10).for_each(|_| admission.turn_begins(round_ms * MS));
        admission.round_began(round_ms * MS);
    }
    assert_eq!(admission.earliest_arrival(0), 120 * MS);
    // Ten connections share a round.
    assert_eq!(admission.turn_ns(), ROUND_NS / 10);
}

/// A shard did nothing but long reads for seconds, and a request that had come just now was refused for its age.
#[test]
fn a_shard_without_turns_knows_when_its_timers_went_off() {
    let (admission, _) = admission();
    admission.turn_begins(100 * MS);
    admission.timer_went_off(5_000 * MS);
    assert_eq!(admission.earliest_arrival(0), 100 * MS);
    admission.timer_went_off(5_005 * MS);
    assert_eq!(admission.earliest_arrival(0), 5_000 * MS);
    assert_eq!(admission.earliest_arrival(5_001 * MS), 5_001 * MS);
}

#[test]
fn only_clients_that_ask_for_it_are_refused_early() {
    let (admission, _) = admission();
    assert_eq!(admission.wait_ns_max(true), 25 * MS);
    for ms in 0..200 {
        admission.turn_ended(Some(1), ms * MS, &refusing(1));
    }
    assert_eq!(admission.wait_ns_max(true), 5 * MS);
    assert_eq!(admission.wait_ns_max(false), 1_000 * MS);
    let off = Admission::with_limits(false, MS, RequestMemory::with_limit(usize::MAX), Arc::default());
    assert_eq!(off.wait_ns_max(true), u64::MAX);
}

fn refusing(refused: u64) -> TurnWork {
    TurnWork {
        refused,
        delay_ns_max: 8 * MS,
        ..TurnWork::default()
    }
}

fn must_wait(admission: &Admission, connection: u64) -> bool {
    let reader = Reader {
        connection,
        user: None,
        was_refused: true,
    };
    admission.must_wait(reader, Waker::noop())
}

/// Windows in which each of 16 connections has a turn with this work; how many are read then.
fn read_after(admission: &Admission, windows: Range<u64>, work: &TurnWork) -> usize {
    let read = |connection: &u64| !must_wait(admission, *connection);
    for window in windows {
        for connection in (0..16).filter(read) {
            admission.turn_ended(Some(connection), window * WINDOW_NS + connection, work);
        }
    }
    (0..16).filter(read).count()
}

/// How many of 16 connections are read once windows have passed in which each has so much to refuse.
fn read_of_sixteen(work: &TurnWork) -> usize {
    let (admission, _) = admission();
    read_after(&admission, 1..100, work)
}

#[test]
fn where_refusing_costs_too_much_connections_take_turns() {
    let tenth = WINDOW_NS / 10 / REFUSAL_NS_FIRST;
    assert_eq!(read_of_sixteen(&refusing(tenth)), 1);
    let shed = TurnWork {
        shed: tenth / REFUSALS_OF_SHEDDING,
        ..TurnWork::default()
    };
    assert_eq!(read_of_sixteen(&shed), 1);
}

/// At twice the capacity each request came in a segment of its own, and reading what was refused took a tenth of the
/// core; the refusals by themselves took a hundredth, so everything was read.
#[test]
fn what_reading_takes_of_the_refused_counts_as_refusing() {
    let (admission, _) = admission();
    assert!(!admission.is_refusing());
    let turn = TurnWork {
        refused: 20,
        handled: 20,
        receiving_ns: 400_000,
        ..TurnWork::default()
    };
    assert_eq!(read_after(&admission, 1..100, &turn), 1);
    assert!(admission.is_refusing());
    // Where nothing is refused reading costs what it must.
    let served = TurnWork { refused: 0, ..turn };
    assert_eq!(read_after(&admission, 100..200, &served), 16);
    assert!(!admission.is_refusing());
}

/// At 10 times the load, nine tenths are refused: that alone is no reason to leave connections unread.
#[test]
fn where_refusing_costs_little_all_are_read() {
    let cheap = WINDOW_NS / 1_600 / REFUSAL_NS_FIRST;
    assert_eq!(read_of_sixteen(&refusing(cheap)), 16);
    // What gathered while a connection was left unread is no sign of too many that are read.
    let gathered = TurnWork {
        is_draining_backlog: true,
        ..refusing(10 * cheap)
    };
    assert_eq!(read_of_sixteen(&gathered), 16);
}

#[test]
fn what_refusing_costs_is_measured() {
    let (admission, _) = admission();
    let work = refusing(1_000);
    assert!(work.is_all_refusals());
    (0..200).for_each(|_| admission.refusing_took(&work, 500_000));
    assert!((480..=515).contains(&admission.refusal_ns.get()));
    admission.refusing_took(&work, 1_000_000_000);
    assert!(
        admission.refusal_ns.get() < 550,
        "the thread did not run meanwhile"
    );
    let mixed = TurnWork { handled: 1, ..work };
    assert!(!mixed.is_all_refusals() && !refusing(3).is_all_refusals());
}

/// Greedy connections keep each turn busy to its end; the others need little. Counted in simulated nanoseconds.
#[test]
fn a_greedy_connection_gets_no_more_time_than_what_others_leave() {
    let (admission, _) = admission();
    let nobody = admission.turns_of(None);
    const OTHERS_NS: u64 = 20_000;
    const GREEDY: usize = 3;
    let mut now_ns = 0;
    let mut longest_round_ns = 0;
    for _ in 0..1_000 {
        let began_ns = now_ns;
        for connection in 0..20 {
            admission.turn_begins(now_ns);
            admission.turn_of_user_begins(&nobody);
            let wanted_ns = if connection < GREEDY { u64::MAX } else { OTHERS_NS };
            now_ns += wanted_ns.min(admission.turn_ns_of(&nobody, true));
        }
        admission.round_began(now_ns);
        longest_round_ns = longest_round_ns.max(now_ns - began_ns);
    }
    // The first round knows nothing of the others yet.
    assert!(
        longest_round_ns <= GREEDY as u64 * TURN_NS_MAX + 17 * OTHERS_NS,
        "{longest_round_ns}"
    );
    assert!(longest_round_ns <= ROUND_NS, "{longest_round_ns}");
}

/// With an inbox that took as long as all turns together, sockets waited for two rounds.
#[test]
fn what_others_have_begun_is_taken_off_the_turns_of_the_next_round() {
    let (admission, _) = admission();
    let round = |others_ns: u64, now_ms: u64| {
        admission.served_others(others_ns);
        admission.round_began(now_ms * MS);
        [admission.round_ns(true), admission.round_ns(false)]
    };
    assert_eq!(round(0, 100), [ROUND_NS; 2]);
    assert_eq!(round(MS, 110), [ROUND_NS - MS, ROUND_NS / 2 - MS]);
    assert_eq!(round(20 * MS, 120), [ROUND_NS / 4, ROUND_NS / 8]);
    assert_eq!(round(0, 130), [ROUND_NS; 2]);
}

/// Connections were all read on, whatever was refused for another thread's sake: that cost more than it saved.
#[test]
fn requests_refused_for_another_threads_sake_count_for_the_read_rotation() {
    let (admission, _) = admission();
    let work = TurnWork {
        handled: 1_000,
        refused_begun: 900,
        ..TurnWork::default()
    };
    assert!(work.has_refused() && work.overloaded() == 0);
    assert!(read_after(&admission, 5..100, &work) < 16);
}
