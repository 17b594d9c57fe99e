//! Turns of a round, shared by users and then by their connections: who opens more connections gets no more of a round.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

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
}

impl UserTurns {
    /// One of its turns took so long; `was_cut`: its time was over.
    #[inline]
    pub fn turn_ended(&self, took_ns: u64, was_cut: bool) {
        self.took_ns.set(self.took_ns.get() + took_ns);
        self.was_cut.set(self.was_cut.get() || was_cut);
    }

    fn demand_ns(&self) -> u64 {
        match self.was_cut.get() {
            true => u64::MAX,
            false => self.took_ns.get(),
        }
    }
}

/// Shares of one shard's rounds.
#[derive(Debug)]
pub(crate) struct TurnShares {
    round: Cell<u64>,
    /// Those that have had a turn in this round.
    active: RefCell<Vec<Rc<UserTurns>>>,
    /// Share of a round that one user's turns may take, in thousandths: what those that need less have left is for the others.
    level_permille: Cell<u64>,
    users: RefCell<HashMap<Arc<str>, Weak<UserTurns>, RandomState>>,
    nobody: Rc<UserTurns>,
}

impl Default for TurnShares {
    fn default() -> Self {
        TurnShares {
            round: Cell::new(2),
            active: RefCell::default(),
            level_permille: Cell::new(1_000),
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

    #[inline]
    pub fn turn_begins(&self, user: &Rc<UserTurns>) {
        let round = self.round.get();
        let last_round = user.round.replace(round);
        if last_round != round {
            let is_last = last_round + 1 == round;
            let turns = user.turns.replace(0);
            user.turns_of_last_round.set(if is_last { turns } else { 0 });
            user.took_ns.set(0);
            user.was_cut.set(false);
            self.active.borrow_mut().push(user.clone());
        }
        user.turns.set(user.turns.get() + 1);
    }

    /// A round of `round_ns` at most begins.
    pub fn round_began(&self, round_ns: u64) {
        let mut active = self.active.borrow_mut();
        let level_ns = match active.len() {
            0 | 1 => round_ns,
            _ => fair_level(active.iter().map(|user| user.demand_ns()).collect(), round_ns).min(round_ns),
        };
        self.level_permille.set(level_ns * 1_000 / round_ns);
        active.clear();
        self.round.set(self.round.get() + 1);
    }

    /// Nobody waits for a round any more; turns that come now are in none.
    pub fn rounds_ended(&self) {
        self.active.borrow_mut().clear();
        self.level_permille.set(1_000);
        self.round.set(self.round.get() + 2);
    }

    /// Longest turn of a user's connection in a round of `round_ns`.
    #[inline]
    pub fn turn_ns(&self, user: &UserTurns, round_ns: u64) -> u64 {
        round_ns * self.level_permille.get() / 1_000 / u64::from(user.turns_of_last_round.get().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_NS: u64 = 5_000_000;

    fn user(shares: &TurnShares, name: &str) -> Rc<UserTurns> {
        shares.of(Some(Arc::from(name)))
    }

    /// Rounds in which a user with a connection needs so much and one with sixteen all that it gets; what it gets at last.
    fn greedy_ns(shares: &TurnShares, needed_ns: u64) -> [u64; 2] {
        let (modest, greedy) = (user(shares, "modest"), user(shares, "greedy"));
        let mut got_ns = [0; 2];
        for _ in 0..10 {
            got_ns = [0; 2];
            shares.turn_begins(&modest);
            let turn_ns = shares.turn_ns(&modest, ROUND_NS);
            got_ns[0] = turn_ns.min(needed_ns);
            modest.turn_ended(got_ns[0], turn_ns < needed_ns);
            for _ in 0..16 {
                shares.turn_begins(&greedy);
                let turn_ns = shares.turn_ns(&greedy, ROUND_NS);
                greedy.turn_ended(turn_ns, true);
                got_ns[1] += turn_ns;
            }
            shares.round_began(ROUND_NS);
        }
        got_ns
    }

    /// With thirty-one connections each got a thirty-first of the round: fifteen users with one each, who needed a twentieth, were late.
    #[test]
    fn a_user_with_many_connections_gets_no_more_of_a_round_than_one_with_one() {
        let [modest_ns, greedy_ns] = greedy_ns(&TurnShares::default(), u64::MAX);
        assert_eq!(modest_ns, ROUND_NS / 2);
        assert!(
            (ROUND_NS / 2 - 100..=ROUND_NS / 2).contains(&greedy_ns),
            "{greedy_ns}"
        );
    }

    #[test]
    fn what_a_user_does_not_need_is_for_the_others() {
        let [modest_ns, greedy_ns] = greedy_ns(&TurnShares::default(), 100_000);
        assert_eq!(modest_ns, 100_000);
        assert!(greedy_ns > ROUND_NS * 97 / 100, "{greedy_ns}");
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
