//! What a connection does between two looks at its socket, and which of its statements are too late.

use helenus_node::hot_partitions::is_time_to_shed;
use helenus_node::{Shard, TurnWork};
use helenus_protocol::frame::Envelope;

use crate::control_lane::{CONTROL_PER_TURN_MAX, is_control};

/// Work between two looks at the clock within a turn, in refusals: some 25 us.
const WORK_PER_LOOK: u32 = 128;

/// A statement that is executed costs at least as much as so many refusals.
const WORK_OF_STATEMENT: u32 = 16;

/// To find out which partition a statement is for, and refuse it.
const WORK_OF_SHEDDING: u32 = 2;

/// What one turn of a connection has done so far.
pub struct Turn {
    pub began_ns: u64,
    pub now_ns: u64,
    pub ends_ns: u64,
    pub wait_ns_max: u64,
    pub is_out_of_memory: bool,
    pub work: TurnWork,
    pub control: u32,
    pub work_since_look: u32,
}

impl Turn {
    /// Looks at the clock every few statements.
    #[inline]
    pub fn is_over(&mut self, shard: &Shard) -> bool {
        if self.work_since_look >= WORK_PER_LOOK {
            self.work_since_look = 0;
            self.now_ns = shard.look_at_clock();
        }
        self.now_ns > self.ends_ns
    }

    /// Whether a statement that came at `received_ns` is refused for its partition: where requests have waited half of
    /// what they may, those for the shard's heaviest partition go first.
    #[inline]
    pub fn sheds(&mut self, received_ns: u64, envelope: &Envelope<'_>, shard: &Shard) -> bool {
        let delay_ns = self.now_ns.saturating_sub(received_ns);
        if !is_time_to_shed(delay_ns, self.wait_ns_max) || !shard.sheds(envelope) {
            return false;
        }
        self.work.delay_ns_max = self.work.delay_ns_max.max(delay_ns);
        self.work.shed += 1;
        self.work_since_look += WORK_OF_SHEDDING;
        true
    }

    /// Whether a statement that came at `received_ns` has waited too long, or there is no memory for it.
    #[inline]
    pub fn refuses(&mut self, received_ns: u64, envelope: &Envelope<'_>) -> bool {
        let delay_ns = self.now_ns.saturating_sub(received_ns);
        self.work.delay_ns_max = self.work.delay_ns_max.max(delay_ns);
        let may_begin = delay_ns <= self.wait_ns_max && !self.is_out_of_memory;
        if may_begin || (self.control < CONTROL_PER_TURN_MAX && is_control(envelope)) {
            self.control += u32::from(!may_begin);
            self.work.handled += 1;
            self.work_since_look += WORK_OF_STATEMENT;
            return false;
        }
        self.work.refused += 1;
        self.work_since_look += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use helenus_protocol::frame::{EnvelopeFlags, EnvelopeHeader};
    use helenus_protocol::{Opcode, ProtocolVersion};

    use super::*;

    const MS: u64 = 1_000_000;

    fn turn_at(now_ns: u64) -> Turn {
        Turn {
            began_ns: now_ns,
            now_ns,
            ends_ns: now_ns + MS,
            wait_ns_max: 5 * MS,
            is_out_of_memory: false,
            work: TurnWork::default(),
            control: 0,
            work_since_look: 0,
        }
    }

    fn envelope(opcode: Opcode, body: &[u8]) -> Envelope<'_> {
        let header = EnvelopeHeader {
            version: ProtocolVersion::V5,
            flags: EnvelopeFlags::NONE,
            stream: 1,
            opcode,
            body_bytes: body.len() as u32,
        };
        Envelope { header, body }
    }

    #[test]
    fn what_waited_longer_than_the_bound_is_refused_by_its_header() {
        let mut turn = turn_at(100 * MS);
        let execute = envelope(Opcode::Execute, &[]);
        assert!(!turn.refuses(95 * MS, &execute));
        assert!(turn.refuses(94 * MS, &execute));
        assert_eq!((turn.work.refused, turn.work.delay_ns_max), (1, 6 * MS));
    }

    #[test]
    fn a_drivers_own_statements_pass_in_a_flood_but_are_no_way_around_admission() {
        let mut turn = turn_at(100 * MS);
        let prepare = envelope(Opcode::Prepare, &[]);
        for _ in 0..1_000 {
            turn.refuses(0, &envelope(Opcode::Execute, &[]));
        }
        assert_eq!(turn.work.refused, 1_000);
        let passed = (0..1_000).filter(|_| !turn.refuses(0, &prepare)).count();
        assert_eq!(passed, CONTROL_PER_TURN_MAX as usize);
    }

    #[test]
    fn without_memory_even_what_came_just_now_is_refused() {
        let mut turn = turn_at(100 * MS);
        turn.is_out_of_memory = true;
        assert!(turn.refuses(100 * MS, &envelope(Opcode::Execute, &[])));
    }
}
