//! Turn of a connection: its work between two looks at its socket, and which of its statements are too late.

use helenus_protocol::frame::Envelope;

use crate::admission::{TurnWork, is_time_to_shed};
use crate::aged_queue::{IN_ORDER_NS_MAX, Wait};
use crate::context::TransportContext;
use crate::priority_statements::{PRIORITY_PER_TURN_MAX, is_priority};
use crate::request::RequestContext;
use crate::service::Service;

/// Work between two looks at the clock within a turn, in refusals: some 25 us.
const WORK_PER_LOOK: u32 = 128;

/// A statement that is executed costs at least as much as so many refusals.
const WORK_OF_STATEMENT: u32 = 16;

/// To copy a statement out of the buffer that it came in.
const WORK_OF_KEEPING: u32 = 1;

/// To find out which partition a statement is for, and refuse it.
const WORK_OF_SHEDDING: u32 = 2;

/// Limits of a turn, set by admission as it begins.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    pub turn_ns: u64,
    pub wait_ns_max: u64,
    /// The client asked to be told of overload.
    pub throws_on_overload: bool,
    pub is_out_of_memory: bool,
    /// Earliest arrival of the bytes that the turn handles.
    pub earliest_ns: u64,
}

/// Progress of one turn of a connection.
pub struct Turn {
    pub began_ns: u64,
    serving_since_ns: u64,
    pub now_ns: u64,
    limits: TurnLimits,
    /// As of the last look at the clock: time is up.
    is_over: bool,
    /// As of the last look at the clock: nothing has waited so long that it could be refused.
    is_calm: bool,
    /// As of the last look at the clock: nothing has waited so long that the order matters.
    is_prompt: bool,
    pub work: TurnWork,
    priority: u32,
    work_since_look: u32,
    /// How an EXECUTE begins, with the length and the bytes of its id, of a read that was refused for what is before it since the last look at
    /// the clock: until the next one more of them are as well.
    refused_read: Option<[u8; EXECUTED_BYTES]>,
}

/// The length of a prepared statement's id, and the id.
const EXECUTED_BYTES: usize = 2 + 16;

impl Turn {
    pub fn begin(now_ns: u64, limits: TurnLimits, is_draining_backlog: bool) -> Turn {
        let mut turn = Turn {
            began_ns: now_ns,
            serving_since_ns: now_ns,
            now_ns,
            limits,
            is_over: false,
            is_calm: false,
            is_prompt: false,
            work: TurnWork {
                is_draining_backlog,
                ..TurnWork::default()
            },
            priority: 0,
            work_since_look: 0,
            refused_read: None,
        };
        turn.look(now_ns);
        turn
    }

    fn look(&mut self, now_ns: u64) {
        let limits = &self.limits;
        let longest_ns = now_ns.saturating_sub(limits.earliest_ns);
        self.is_over = now_ns.saturating_sub(self.serving_since_ns) > limits.turn_ns;
        self.is_calm = longest_ns <= limits.wait_ns_max / 2 && !limits.is_out_of_memory;
        self.is_prompt = longest_ns <= IN_ORDER_NS_MAX || limits.throws_on_overload;
        self.refused_read = None;
        self.now_ns = now_ns;
    }

    /// As of the last look at the clock: how long it has taken, and whether its time is over.
    pub(crate) fn taken(&self) -> (u64, bool) {
        (self.now_ns.saturating_sub(self.began_ns), self.is_over)
    }

    /// Returns whether statements of the client are kept at all: a THROW_ON_OVERLOAD client is told instead.
    #[inline]
    pub(crate) fn may_keep(&self) -> bool {
        !self.limits.throws_on_overload
    }

    /// Returns whether a statement that came at `received_ns` is kept to be begun in another order than that of its arrival.
    /// `others_are_kept`: it came behind some that are. A driver's own statements are not.
    #[inline]
    pub fn keeps(&mut self, received_ns: u64, others_are_kept: bool, envelope: &Envelope<'_>) -> bool {
        if self.is_prompt && !others_are_kept {
            return false;
        }
        self.keeps_late(received_ns, others_are_kept, envelope)
    }

    #[inline(never)]
    fn keeps_late(&mut self, received_ns: u64, others_are_kept: bool, envelope: &Envelope<'_>) -> bool {
        let is_late = self.now_ns.saturating_sub(received_ns) > IN_ORDER_NS_MAX;
        if self.limits.throws_on_overload || !(is_late || others_are_kept) {
            return false;
        }
        if self.priority < PRIORITY_PER_TURN_MAX && is_priority(envelope) {
            self.priority += 1;
            return false;
        }
        self.work_since_look += WORK_OF_KEEPING;
        true
    }

    /// How long a statement that came at `received_ns` may wait, unless the service queues it.
    pub fn wait_of(&self, received_ns: u64) -> Wait {
        Wait {
            received_ns,
            wait_ns_max: self.limits.wait_ns_max,
        }
    }

    /// The time of the turn begins again: reading what is to be kept was not its purpose.
    pub(crate) fn begins_serving(&mut self, transport: &TransportContext) {
        let now_ns = transport.look_at_clock();
        self.serving_since_ns = now_ns;
        self.work_since_look = 0;
        self.look(now_ns);
    }

    /// As [`Turn::admits`], of one that was kept.
    pub(crate) fn admits_kept(
        &mut self,
        wait: &Wait,
        envelope: &Envelope<'_>,
        service: &impl Service,
    ) -> bool {
        !self.sheds(wait.received_ns, envelope, service) && !self.refuses(wait, envelope)
    }

    /// One that was begun is put back.
    pub(crate) fn puts_back(&mut self) {
        self.work.handled = self.work.handled.saturating_sub(1);
    }

    /// One that was kept is refused.
    pub(crate) fn refuses_kept(&mut self) {
        self.work.refused += 1;
        self.work_since_look += 1;
    }

    /// Looks at the clock every few statements.
    #[inline]
    pub fn is_over(&mut self, transport: &TransportContext) -> bool {
        if self.work_since_look >= WORK_PER_LOOK {
            self.work_since_look = 0;
            self.look(transport.look_at_clock());
        }
        self.is_over
    }

    /// Returns whether a statement is begun; if not it is answered OVERLOADED.
    #[inline]
    pub(crate) fn admits<S: Service>(
        &mut self,
        request: RequestContext<'_, S::Conversation>,
        envelope: &Envelope<'_>,
        service: &S,
    ) -> bool {
        let received_ns = request.received_ns;
        if self.limits.throws_on_overload
            && (self
                .refused_read
                .is_some_and(|refused| envelope.body.starts_with(&refused))
                || service.cannot_begin_in_time(request, envelope))
        {
            self.refuses_read(envelope);
            return false;
        }
        if self.limits.throws_on_overload && service.is_beyond_rate(envelope) {
            self.work.shed_at_once += 1;
            self.work_since_look += WORK_OF_SHEDDING;
            return false;
        }
        if self.is_calm {
            self.begins(self.now_ns.saturating_sub(received_ns));
            return true;
        }
        let wait = self.wait_of(received_ns);
        !self.sheds(received_ns, envelope, service) && !self.refuses(&wait, envelope)
    }

    #[inline(never)]
    fn refuses_read(&mut self, envelope: &Envelope<'_>) {
        self.refused_read = envelope.body.first_chunk().copied();
        self.work.refused += 1;
        self.work_since_look += 1;
    }

    #[inline]
    fn begins(&mut self, delay_ns: u64) {
        self.work.delay_ns_max = self.work.delay_ns_max.max(delay_ns);
        self.work.handled += 1;
        self.work_since_look += WORK_OF_STATEMENT;
    }

    /// Returns whether a statement that came at `received_ns` is refused for its partition: where requests have waited half
    /// of what they may, those for the heaviest partition go first.
    fn sheds(&mut self, received_ns: u64, envelope: &Envelope<'_>, service: &impl Service) -> bool {
        let delay_ns = self.now_ns.saturating_sub(received_ns);
        if !is_time_to_shed(delay_ns, self.limits.wait_ns_max) || !service.sheds(envelope) {
            return false;
        }
        self.work.delay_ns_max = self.work.delay_ns_max.max(delay_ns);
        self.work.shed += 1;
        self.work_since_look += WORK_OF_SHEDDING;
        true
    }

    /// Returns whether a statement has waited too long, or there is no memory for it.
    fn refuses(&mut self, wait: &Wait, envelope: &Envelope<'_>) -> bool {
        let delay_ns = wait.age_ns(self.now_ns);
        let may_begin = !wait.is_over(self.now_ns) && !self.limits.is_out_of_memory;
        if may_begin || (self.priority < PRIORITY_PER_TURN_MAX && is_priority(envelope)) {
            self.priority += u32::from(!may_begin);
            self.begins(delay_ns);
            return false;
        }
        self.work.delay_ns_max = self.work.delay_ns_max.max(delay_ns);
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

    fn limits(earliest_ns: u64) -> TurnLimits {
        TurnLimits {
            turn_ns: MS,
            wait_ns_max: 5 * MS,
            throws_on_overload: true,
            is_out_of_memory: false,
            earliest_ns,
        }
    }

    fn turn_at(now_ns: u64) -> Turn {
        Turn::begin(now_ns, limits(0), false)
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
        assert!(!turn.refuses(&turn.wait_of(95 * MS), &execute));
        assert!(turn.refuses(&turn.wait_of(94 * MS), &execute));
        assert_eq!((turn.work.refused, turn.work.delay_ns_max), (1, 6 * MS));
    }

    #[test]
    fn a_drivers_own_statements_pass_in_a_flood_but_are_no_way_around_admission() {
        let mut turn = turn_at(100 * MS);
        let prepare = envelope(Opcode::Prepare, &[]);
        for _ in 0..1_000 {
            turn.refuses(&turn.wait_of(0), &envelope(Opcode::Execute, &[]));
        }
        assert_eq!(turn.work.refused, 1_000);
        let passed = (0..1_000)
            .filter(|_| !turn.refuses(&turn.wait_of(0), &prepare))
            .count();
        assert_eq!(passed, PRIORITY_PER_TURN_MAX as usize);
    }

    #[test]
    fn without_memory_even_what_came_just_now_is_refused() {
        let limits = TurnLimits {
            is_out_of_memory: true,
            ..limits(100 * MS)
        };
        let mut turn = Turn::begin(100 * MS, limits, false);
        assert!(!turn.is_calm && turn.refuses(&turn.wait_of(100 * MS), &envelope(Opcode::Execute, &[])));
    }

    #[test]
    fn nothing_is_refused_while_the_oldest_has_waited_less_than_half_of_what_it_may() {
        let mut turn = Turn::begin(100 * MS, limits(98 * MS), false);
        assert!(turn.is_calm);
        turn.look(101 * MS);
        assert!(!turn.is_calm && !turn.is_over);
        turn.look(102 * MS);
        assert!(turn.is_over);
        // A client that waits for ever, and a turn that nobody waits for.
        let endless = TurnLimits {
            turn_ns: u64::MAX,
            wait_ns_max: u64::MAX,
            ..limits(0)
        };
        let turn = Turn::begin(100 * MS, endless, false);
        assert!(turn.is_calm && !turn.is_over);
    }
}
