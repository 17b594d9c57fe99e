//! Which long reads are told at once that they could not be begun in time.

use std::cell::RefCell;

use helenus_engine::error::PreparedId;
use helenus_protocol::Opcode;
use helenus_protocol::frame::Envelope;
use helenus_transport::aged_queue::Wait;
use helenus_transport::deadline::nanoseconds;
use helenus_transport::fair_share::{ClientId, Offer};

use super::executor::Started;
use super::lane::Lane;
use super::{LARGE_NS_MIN, LanesByCost, TRIED_AT_ONCE_NS_MAX, Tag};
use crate::execution::Statement;
use crate::reader::Reader;
use crate::session::Session;
use crate::shard::LearnedCost;

/// A read may wait for so many of its own kind: who asks for something that takes 5 ms does not hope for an answer in 10.
const WAIT_OF_COSTS: u64 = 4;

/// Reads of one connection that may wait for the disk.
const DISK_QUEUED_MAX: u32 = 64;

/// Reads of one connection that may wait for their turn: 1 KiB each. With 64 the queue had nothing old beside them and was
/// served in the order of arrival, of 70 us each after 10 to 30 ms.
const LONG_QUEUED_MAX: u32 = 1_024;

/// The bytes of a prepared statement's id, which its length comes before.
const ID_BYTES: usize = 16;

fn left_ns(started: &Started<Tag>) -> u64 {
    started.tag.cost_ns.saturating_sub(started.took_ns)
}

impl Reader {
    /// How long a read whose client asked to be told of overload may wait.
    pub(super) fn lane_delay_ns_max(&self, cost_ns: u64) -> u64 {
        let lane = self.long_reads.lane_of(cost_ns).borrow();
        delay_ns_max(&lane, cost_ns)
    }

    /// Returns whether a read whose client asked to be told of overload would not be begun in time in one of these lanes. It is one
    /// more that its lane has seen.
    pub(super) fn has_no_time_for(
        &self,
        lanes: &LanesByCost,
        offer: &Offer,
        was_sent: bool,
        now_ns: u64,
    ) -> bool {
        if !self.context.options.admission {
            return false;
        }
        let lane = &mut *lanes.of(offer.cost_ns).borrow_mut();
        let wait_ns = lane.wait_ns(offer.asker, left_ns);
        let delay_ns = offer.wait.age_ns(now_ns).saturating_add(wait_ns);
        lane.standing.saw(delay_ns, now_ns);
        delay_ns
            > match was_sent {
                true => sent_delay_ns_max(lane, offer.cost_ns),
                false => delay_ns_max(lane, offer.cost_ns),
            }
    }

    /// As [`Reader::cannot_begin_read_in_time`], of a statement that was decoded: before its values are kept.
    pub(crate) fn has_no_time_for_statement(&self, statement: &Statement<'_>) -> bool {
        let session = statement.request.session;
        if !session.client().throws_on_overload || !self.long_reads.is_busy() {
            return false;
        }
        let cost_ns = self.cost_ns_of(&statement.prepared.id);
        self.has_no_time_for_read(session, statement.request.received_ns, cost_ns)
    }

    /// Tells other shards what whole reads that they send now would wait for.
    pub(super) fn tell_others(&self) {
        let told = |lane: &RefCell<Lane>, cost_ns: u64| {
            let lane = lane.borrow();
            (lane.wait_of_all_ns(left_ns), sent_delay_ns_max(&lane, cost_ns))
        };
        let wholes = &self.long_reads.wholes;
        let long_reads = self.context.mailbox(self.context.id).long_reads();
        long_reads.small.tell(told(&wholes.small, 0));
        long_reads.large.tell(told(&wholes.large, LARGE_NS_MIN));
    }

    /// Returns whether a read is one of those that other shards have a lane of their own for, by what it cost here.
    pub(crate) fn is_large(&self, statement: &PreparedId) -> bool {
        self.cost_ns_of(statement) >= LARGE_NS_MIN
    }

    fn has_no_time_for_read(&self, session: &Session, received_ns: u64, cost_ns: u64) -> bool {
        let Some(account) = session.account() else {
            return false;
        };
        let offer = Offer {
            asker: ClientId::of(account),
            kept_requests: 0,
            wait: Wait {
                received_ns,
                wait_ns_max: u64::MAX,
            },
            cost_ns,
        };
        let wholes = &self.long_reads.wholes;
        self.has_no_time_for(wholes, &offer, false, self.context.last_looked_ns())
    }

    /// Returns whether a request that came at `received_ns`, of a client that asked to be told of overload, is a read that
    /// would not be begun in time: of one that is executed by its id, that is known before anything of it is decoded.
    #[inline]
    pub(crate) fn cannot_begin_read_in_time(
        &self,
        session: &Session,
        envelope: &Envelope<'_>,
        received_ns: u64,
    ) -> bool {
        (self.long_reads.is_busy() || self.disk_is_busy.get())
            && envelope.header.opcode == Opcode::Execute
            && self.is_long_and_has_no_time(session, envelope, received_ns)
    }

    #[inline(never)]
    fn is_long_and_has_no_time(&self, session: &Session, envelope: &Envelope<'_>, received_ns: u64) -> bool {
        let (Some(statement), Some(account)) = (executed_id(envelope.body), session.account()) else {
            return false;
        };
        if self.disk_is_busy.get()
            && self.has_disk_reads_enough(&statement, ClientId::of(account), received_ns)
        {
            return true;
        }
        // What is not known as long is tried at once.
        self.learned_cost(&statement).is_some_and(|cost| {
            is_long(cost) && self.has_no_time_for_read(session, received_ns, cost.cost_ns)
        })
    }
}

impl Reader {
    /// Returns whether a request would not be answered at once, by what is known of its statement and the shard has to do now.
    pub(crate) fn would_queue_read(&self, envelope: &Envelope<'_>) -> bool {
        let (is_busy, disk_is_busy) = (self.long_reads.is_busy(), self.disk_is_busy.get());
        if !(is_busy || disk_is_busy) || envelope.header.opcode != Opcode::Execute {
            return false;
        }
        let Some(statement) = executed_id(envelope.body) else {
            return false;
        };
        (disk_is_busy && self.waits_for_disk(&statement))
            || (is_busy && self.learned_cost(&statement).is_some_and(is_long))
    }

    /// Reads of one connection that wait here, where the newest is begun first as soon as any is old. For the disk as many as it is asked for at
    /// a time: what comes later may be served before them.
    pub(crate) fn queued_max(&self) -> u32 {
        match self.disk_is_busy.get() {
            true => DISK_QUEUED_MAX,
            false => LONG_QUEUED_MAX,
        }
    }

    /// How long a read may wait of which nothing is known but that it would be queued: half of its time, whichever it is.
    pub(crate) fn queued_wait_ns(&self) -> u64 {
        let options = &self.context.options;
        let time = options.read_request_timeout.min(options.range_request_timeout);
        match options.admission {
            true => nanoseconds(time / 2),
            false => u64::MAX,
        }
    }
}

fn is_long(cost: LearnedCost) -> bool {
    !cost.was_tried || cost.cost_ns > TRIED_AT_ONCE_NS_MAX
}

fn delay_ns_max(lane: &Lane, cost_ns: u64) -> u64 {
    lane.standing.delay_ns_max().max(WAIT_OF_COSTS * cost_ns)
}

/// As [`delay_ns_max`], of one that another shard has sent: its answer has to go back.
fn sent_delay_ns_max(lane: &Lane, cost_ns: u64) -> u64 {
    (lane.standing.delay_ns_max() / 2).max(WAIT_OF_COSTS * cost_ns)
}

/// The id at the beginning of an EXECUTE.
fn executed_id(body: &[u8]) -> Option<PreparedId> {
    let (length, rest) = body.split_first_chunk::<2>()?;
    if usize::from(u16::from_be_bytes(*length)) != ID_BYTES {
        return None;
    }
    rest.first_chunk().map(|id| PreparedId(*id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_execute_is_found_without_decoding_it() {
        let mut body = vec![0, 16];
        body.extend(0..16);
        body.extend([0, 1, 0]);
        assert_eq!(executed_id(&body).map(|id| id.0[15]), Some(15));
        assert_eq!(executed_id(&body[..17]), None);
        assert_eq!(executed_id(&[0, 4, 1, 2, 3, 4]), None);
        assert_eq!(executed_id(&[]), None);
    }
}
