//! Turns of a round, shared by users and then by their connections: who opens more connections gets no more of a round.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;

use foldhash::fast::RandomState;

use crate::max_min_fair::fair_level;

/// Turns of one user's connections; all those on which nobody has logged in are one user's.
#[derive(Debug, Default)]
pub(crate) struct UserTurns {
    /// Round of which `turns` are.
    round: Cell<u64>,
    turns: Cell<u32>,
    turns_of_last_round: Cell<u32>,
    /// Time of the round's turns.
    took_ns: Cell<u64>,
    /// One of them was over before all was done.
    was_cut: Cell<bool>,
    /// Connections that wait for the next round, each once.
    waiting: RefCell<Vec<Waker>>,
}

impl UserTurns {
    /// One of its turns took so long; `was_cut`: its time was over.
    #[inline]
    pub fn turn_ended(&self, took_ns: u64, was_cut: bool) {
        self.took_ns.set(self.took_ns.get() + took_ns);
        self.was_cut.set(self.was_cut.get() || was_cut);
    }

    /// Time that they would take in the next round.
    fn demand_ns(&self) -> u64 {
        match self.was_cut.get() || !self.waiting.borrow().is_empty() {
            true => u64::MAX,
            false => self.took_ns.get(),
        }
    }
}

/// Shares of one shard's rounds.
#[derive(Debug)]
pub(crate) struct TurnShares {
    round: Cell<u64>,
    began_ns: Cell<u64>,
    /// Those that have had a turn in this round.
    active: RefCell<Vec<Rc<UserTurns>>>,
    /// Share of a round that one user's turns may take, in thousandths: what those that need less have left is for the others.
    level_permille: Cell<u64>,
    /// More than one user had something to do in the last round.
    is_shared: Cell<bool>,
    users: RefCell<HashMap<Arc<str>, Weak<UserTurns>, RandomState>>,
    nobody: Rc<UserTurns>,
}

impl Default for TurnShares {
    fn default() -> Self {
        TurnShares {
            round: Cell::new(2),
            began_ns: Cell::new(0),
            active: RefCell::default(),
            level_permille: Cell::new(1_000),
            is_shared: Cell::new(false),
            users: RefCell::default(),
            nobody: Rc::default(),
        }
    }
}

impl TurnShares {
    /// Turns of the user that has logged in on a connection, if anybody has.
    pub fn of(&self, user: Option<Arc<str>>) -> Rc<UserTurns> {
        let Some(user) = user else {
            return self.nobody.clone();
        };
        let mut users = self.users.borrow_mut();
        if let Some(turns) = users.get(&user).and_then(Weak::upgrade) {
            return turns;
        }
        users.retain(|_, turns| turns.strong_count() > 0);
        let turns = Rc::default();
        users.insert(user, Rc::downgrade(&turns));
        turns
    }

    /// Returns whether a connection is to be left alone until it is woken in the next round, because its user has had its share of this one,
    /// of `round_ns`: turns take longer than they may where what was sent is read to be kept. `waits_in` is the round in which it waited last: it
    /// is woken once, however often it asks.
    #[inline]
    pub fn must_wait(
        &self,
        user: &Rc<UserTurns>,
        round_ns: u64,
        waits_in: &Cell<u64>,
        waker: &Waker,
    ) -> bool {
        let must_wait = self.is_shared.get() && self.has_had_its_share(user, round_ns);
        let round = self.round.get();
        if must_wait && waits_in.replace(round) != round {
            user.waiting.borrow_mut().push(waker.clone());
        }
        must_wait
    }

    #[inline(never)]
    fn has_had_its_share(&self, user: &Rc<UserTurns>, round_ns: u64) -> bool {
        let share_ns = self.share_ns(round_ns);
        self.enter(user, share_ns);
        user.took_ns.get() >= share_ns
    }

    #[inline]
    pub fn turn_begins(&self, user: &Rc<UserTurns>) {
        self.enter(user, u64::MAX);
        user.turns.set(user.turns.get() + 1);
    }

    /// The user has something to do in this round, of which its share is `share_ns`; the last one's turns may have taken more.
    #[inline]
    fn enter(&self, user: &Rc<UserTurns>, share_ns: u64) {
        let round = self.round.get();
        let last_round = user.round.replace(round);
        if last_round == round {
            return;
        }
        let is_next = last_round + 1 == round;
        let (turns, took_ns) = (user.turns.replace(0), user.took_ns.get());
        user.turns_of_last_round.set(if is_next { turns } else { 0 });
        let owed_ns = if is_next {
            took_ns.saturating_sub(share_ns)
        } else {
            0
        };
        user.took_ns.set(owed_ns.min(share_ns));
        user.was_cut.set(false);
        self.active.borrow_mut().push(user.clone());
    }

    /// A round begins.
    pub fn round_began(&self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.began_ns.replace(now_ns)).max(1);
        let is_shared = self.active.borrow().len() > 1;
        let level_ns = match is_shared {
            true => self.level_ns(passed_ns),
            false => passed_ns,
        };
        self.begin(1, is_shared, level_ns * 1_000 / passed_ns);
    }

    fn level_ns(&self, passed_ns: u64) -> u64 {
        let active = self.active.borrow();
        let demands = active.iter().map(|user| user.demand_ns()).collect();
        fair_level(demands, passed_ns).min(passed_ns)
    }

    /// Nobody waits for a round any more; turns that come now are in none.
    pub fn rounds_ended(&self) {
        self.begin(2, false, 1_000);
    }

    fn begin(&self, rounds: u64, is_shared: bool, level_permille: u64) {
        self.round.set(self.round.get() + rounds);
        self.is_shared.set(is_shared);
        self.level_permille.set(level_permille);
        for user in self.active.borrow_mut().drain(..) {
            user.waiting.borrow_mut().drain(..).for_each(Waker::wake);
        }
    }

    fn share_ns(&self, round_ns: u64) -> u64 {
        round_ns * self.level_permille.get() / 1_000
    }

    /// Longest turn of a user's connection in a round of `round_ns`.
    #[inline]
    pub fn turn_ns(&self, user: &UserTurns, round_ns: u64) -> u64 {
        self.share_ns(round_ns) / u64::from(user.turns_of_last_round.get().max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    use super::*;

    const ROUND_NS: u64 = 5_000_000;

    fn user(shares: &TurnShares, name: &str) -> Rc<UserTurns> {
        shares.of(Some(Arc::from(name)))
    }

    /// Rounds in which a user with a connection needs `needed_permille` of the time and one with sixteen all that it gets, in turns that take
    /// `beyond_ns` longer than they may; the share of each, in thousandths, and the longest round.
    fn shares_of_two(needed_permille: u64, beyond_ns: u64) -> ([u64; 2], u64) {
        let shares = TurnShares::default();
        let (modest, greedy) = (user(&shares, "modest"), user(&shares, "greedy"));
        let (mut now_ns, mut needed_ns, mut got_ns, mut longest_ns) = (0, 0, [0; 2], 0);
        for round in 0..1_000 {
            let began_ns = now_ns;
            if !shares.must_wait(&modest, ROUND_NS, &Cell::new(0), Waker::noop()) {
                shares.turn_begins(&modest);
                let turn_ns = shares.turn_ns(&modest, ROUND_NS);
                let took_ns = turn_ns.min(needed_ns);
                modest.turn_ended(took_ns, turn_ns < needed_ns);
                needed_ns -= took_ns;
                (now_ns, got_ns[0]) = (now_ns + took_ns, got_ns[0] + took_ns);
            }
            for _ in 0..16 {
                if !shares.must_wait(&greedy, ROUND_NS, &Cell::new(0), Waker::noop()) {
                    shares.turn_begins(&greedy);
                    let took_ns = shares.turn_ns(&greedy, ROUND_NS).clamp(50_000, 1_000_000) + beyond_ns;
                    greedy.turn_ended(took_ns, true);
                    (now_ns, got_ns[1]) = (now_ns + took_ns, got_ns[1] + took_ns);
                }
            }
            // A look at the sockets.
            now_ns += 20_000;
            needed_ns += (now_ns - began_ns) * needed_permille / 1_000;
            shares.round_began(now_ns);
            if round > 10 {
                longest_ns = longest_ns.max(now_ns - began_ns);
            }
        }
        (got_ns.map(|got_ns| got_ns * 1_000 / now_ns), longest_ns)
    }

    /// With thirty-one connections each got a thirty-first of the round: fifteen users with one each, who needed a twentieth, were late.
    #[test]
    fn a_user_with_many_connections_gets_no_more_than_one_with_one() {
        for beyond_ns in [0, 300_000] {
            let ([modest, greedy], _) = shares_of_two(2_000, beyond_ns);
            assert!(modest.abs_diff(greedy) < 100, "{beyond_ns}: {modest}, {greedy}");
            let ([modest, greedy], _) = shares_of_two(450, beyond_ns);
            assert!((445..=450).contains(&modest), "{beyond_ns}: {modest}, {greedy}");
        }
    }

    /// Sixteen connections that were read out in their turns took 5 ms of each round beside others, who were late.
    #[test]
    fn a_round_is_no_longer_for_what_turns_take_beyond_their_time() {
        for needed_permille in [100, 450, 2_000] {
            let (_, longest_ns) = shares_of_two(needed_permille, 300_000);
            assert!(longest_ns < ROUND_NS * 5 / 4, "{needed_permille}: {longest_ns}");
        }
    }

    #[test]
    fn what_a_user_does_not_need_is_for_the_others() {
        let ([modest, greedy], _) = shares_of_two(20, 0);
        assert!((19..=20).contains(&modest) && greedy > 900, "{modest}, {greedy}");
    }

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_has_had_its_share_is_woken_in_the_next_round_and_when_there_is_none() {
        for ends in [false, true] {
            let shares = TurnShares::default();
            let (modest, greedy) = (user(&shares, "modest"), user(&shares, "greedy"));
            let woken = Arc::new(Woken::default());
            let (waker, waits_in) = (Waker::from(woken.clone()), Cell::new(0));
            shares.turn_begins(&modest);
            shares.turn_begins(&greedy);
            shares.round_began(ROUND_NS);
            shares.turn_begins(&modest);
            assert!(!shares.must_wait(&greedy, ROUND_NS, &waits_in, &waker));
            shares.turn_begins(&greedy);
            greedy.turn_ended(ROUND_NS, true);
            (0..3).for_each(|_| assert!(shares.must_wait(&greedy, ROUND_NS, &waits_in, &waker)));
            assert!(!shares.must_wait(&modest, ROUND_NS, &waits_in, &waker));
            assert_eq!(woken.0.load(Ordering::Relaxed), 0);
            match ends {
                true => shares.rounds_ended(),
                false => shares.round_began(2 * ROUND_NS),
            }
            assert_eq!(woken.0.load(Ordering::Relaxed), 1);
            assert!(!shares.must_wait(&greedy, ROUND_NS, &waits_in, &waker));
        }
    }

    #[test]
    fn connections_without_a_user_share_the_round_among_them() {
        let shares = TurnShares::default();
        let nobody = shares.of(None);
        for _ in 0..3 {
            for _ in 0..10 {
                shares.turn_begins(&shares.of(None));
            }
            shares.round_began(ROUND_NS);
        }
        shares.turn_begins(&nobody);
        assert_eq!(shares.turn_ns(&nobody, ROUND_NS), ROUND_NS / 10);
        shares.rounds_ended();
        shares.turn_begins(&nobody);
        assert_eq!(shares.turn_ns(&nobody, ROUND_NS), ROUND_NS);
    }

    #[test]
    fn connections_of_one_user_are_known_by_the_name_as_long_as_there_are_any() {
        let shares = TurnShares::default();
        let first = user(&shares, "a");
        assert!(Rc::ptr_eq(&first, &user(&shares, "a")));
        drop(first);
        let _other = user(&shares, "b");
        assert_eq!(shares.users.borrow().len(), 1);
    }
}
