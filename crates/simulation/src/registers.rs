//! Registers that clients set by comparing, and what their answers must fit: one chain of values, however requests meet and
//! whatever crashes.
//!
//! Every value that is proposed is new. So a register goes through each value at most once, and the statement that set it says
//! what was there before: all that was ever seen of a register must lie on one chain, none of it goes back, and what was
//! answered as not applied is never on it.

use std::collections::BTreeMap;

/// Registers, one partition each.
pub const REGISTERS: u64 = 4;

/// All registers of a run.
#[derive(Debug, Default)]
pub struct Registers {
    registers: BTreeMap<i32, Register>,
}

#[derive(Debug, Default)]
struct Register {
    /// Predecessor that each value was proposed to follow, unless it certainly did not.
    proposed: BTreeMap<i32, Option<i32>>,
    /// The last value that somebody was answered with, or that an answer has set. `None` is a register without a row.
    seen: Option<i32>,
}

/// A statement under way.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub register: i32,
    /// `None` inserts.
    pub expected: Option<i32>,
    pub value: i32,
    /// Value that was seen when it was sent: nobody may be answered with less.
    floor: Option<i32>,
}

impl Registers {
    /// Proposes a new value to follow the last that was seen, or, if it is `stale`, any earlier one.
    pub fn attempt(&mut self, register: i32, value: i32, stale: Option<u64>) -> Attempt {
        let state = self.registers.entry(register).or_default();
        let chain = state.chain(state.seen);
        let expected = match stale {
            Some(place) if !chain.is_empty() => Some(chain[place as usize % chain.len()]),
            _ => state.seen,
        };
        state.proposed.insert(value, expected);
        Attempt {
            register,
            expected,
            value,
            floor: state.seen,
        }
    }

    /// A read of the register, under way.
    pub fn read(&mut self, register: i32) -> Attempt {
        let state = self.registers.entry(register).or_default();
        Attempt {
            register,
            expected: None,
            value: 0,
            floor: state.seen,
        }
    }

    /// It was applied.
    pub fn applied(&mut self, attempt: Attempt) -> Result<(), String> {
        self.found(attempt, Some(attempt.value))
    }

    /// It certainly was not; nothing is known of what is there.
    pub fn refused(&mut self, attempt: Attempt) {
        if let Some(state) = self.registers.get_mut(&attempt.register) {
            state.proposed.remove(&attempt.value);
        }
    }

    /// It was not applied, because of the value that was found.
    pub fn not_applied(&mut self, attempt: Attempt, found: Option<i32>) -> Result<(), String> {
        if found == attempt.expected {
            return Err(format!(
                "register {}: {attempt:?} was not applied although it found what it expected",
                attempt.register
            ));
        }
        self.refused(attempt);
        self.found(attempt, found)
    }

    /// Somebody was answered with this value.
    pub fn found(&mut self, attempt: Attempt, found: Option<i32>) -> Result<(), String> {
        let register = attempt.register;
        let state = self.registers.entry(register).or_default();
        let chain = state.chain(found);
        let is_complete = found.is_none() || chain.first().is_some_and(|first| state.is_first(*first));
        if !is_complete {
            return Err(format!(
                "register {register}: {found:?} follows what was never there: {chain:?}"
            ));
        }
        if attempt.floor.is_some_and(|floor| !chain.contains(&floor)) {
            return Err(format!(
                "register {register}: {found:?} ({chain:?}) goes back behind {:?}, which was there before",
                attempt.floor
            ));
        }
        let seen = state.chain(state.seen);
        if state.seen.is_none_or(|seen| chain.contains(&seen)) {
            state.seen = found.or(state.seen);
        } else if found.is_some_and(|found| !seen.contains(&found)) {
            return Err(format!(
                "register {register}: {found:?} ({chain:?}) and {:?} ({seen:?}) cannot both have been there",
                state.seen
            ));
        }
        Ok(())
    }
}

impl Register {
    /// The values up to this one, oldest first, as far as they were proposed.
    fn chain(&self, mut value: Option<i32>) -> Vec<i32> {
        let mut chain = Vec::new();
        while let Some(current) = value {
            let Some(before) = self.proposed.get(&current) else {
                break;
            };
            chain.push(current);
            value = *before;
        }
        chain.reverse();
        chain
    }

    fn is_first(&self, value: i32) -> bool {
        self.proposed.get(&value) == Some(&None)
    }
}

/// The statement of an attempt.
pub fn text(attempt: &Attempt) -> String {
    let Attempt { register, value, .. } = attempt;
    match attempt.expected {
        None => format!("INSERT INTO k.registers (p, n) VALUES ({register}, {value}) IF NOT EXISTS"),
        Some(expected) => {
            format!("UPDATE k.registers SET n = {value} WHERE p = {register} IF n = {expected}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_explained_and_a_fork_is_not() {
        let mut registers = Registers::default();
        let first = registers.attempt(1, 10, None);
        let second = registers.attempt(1, 11, None);
        registers.applied(first).unwrap();
        registers.not_applied(second, Some(10)).unwrap();
        let third = registers.attempt(1, 12, None);
        let fourth = registers.attempt(1, 13, None);
        registers.applied(third).unwrap();
        // Both have followed 10.
        assert!(registers.applied(fourth).is_err());
    }

    #[test]
    fn what_was_seen_stays() {
        let mut registers = Registers::default();
        let first = registers.attempt(1, 10, None);
        registers.applied(first).unwrap();
        let read = registers.read(1);
        assert!(registers.found(read, None).is_err());
        assert!(registers.found(read, Some(99)).is_err());
        registers.found(read, Some(10)).unwrap();
        let lost = registers.attempt(1, 11, None);
        registers.refused(lost);
        assert!(registers.found(read, Some(11)).is_err());
    }

    #[test]
    fn what_nobody_was_told_of_may_be_there_or_not() {
        let mut registers = Registers::default();
        let first = registers.attempt(1, 10, None);
        registers.applied(first).unwrap();
        let _unknown = registers.attempt(1, 11, None);
        let read = registers.read(1);
        registers.found(read, Some(10)).unwrap();
        registers.found(read, Some(11)).unwrap();
        let later = registers.read(1);
        assert!(registers.found(later, Some(10)).is_err());
    }
}
