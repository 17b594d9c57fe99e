//! Sending of requests that another shard has to do: now, not at all, or later, by what waits there already and what their client asked for.
//! Decision 37 has the reasons.

use helenus_transport::UNDER_WAY_AT_BUSY_MAX;
use helenus_types::ShardId;

use crate::execution::Statement;
use crate::session::RequestContext;
use crate::shard::Shard;

/// A request whose client did not ask to be told of overload is sent where so much waits, or less: what is beyond that waits with its
/// connection, where the newest can be begun first.
const SENT_WAIT_NS_MAX: u64 = 1_000_000;

/// Fate of a request that another shard is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Sending {
    Now,
    /// It would be begun too late, and its client asked to be told.
    Refused,
    /// It waits with its connection.
    PutBack,
}

impl Shard {
    /// How long a request whose client asked to be told of overload may have waited when the shard that it was sent to begins it:
    /// half of what it may on its own shard, as the answer has to come back.
    pub(crate) fn sent_delay_ns_max(&self) -> u64 {
        self.context.transport.admission.wait_ns_max(true) / 2
    }

    /// How a request is to be sent to the shard that has its partition, by what waits there already.
    #[inline]
    pub(crate) fn sending(&self, owner: ShardId, request: &RequestContext<'_>) -> Sending {
        let wait_ns = self.context.mailbox(owner).wait_ns();
        match wait_ns == 0 || !self.context.options.admission {
            true => Sending::Now,
            false => self.sending_behind(wait_ns, self.sent_delay_ns_max(), request),
        }
    }

    /// As [`Shard::sending`], where it would wait for so long behind others.
    pub(crate) fn sending_behind(
        &self,
        wait_ns: u64,
        delay_ns_max: u64,
        request: &RequestContext<'_>,
    ) -> Sending {
        let session = request.session;
        let delay_ns = self.context.last_looked_ns().saturating_sub(request.received_ns);
        if session.client().throws_on_overload {
            return match delay_ns + wait_ns > delay_ns_max {
                true => {
                    self.context.transport.admission.refuses_begun();
                    Sending::Refused
                }
                false => Sending::Now,
            };
        }
        let is_put_back = request.may_be_put_back
            && wait_ns > SENT_WAIT_NS_MAX
            && session.outbox().in_flight() >= UNDER_WAY_AT_BUSY_MAX;
        match is_put_back {
            true => {
                self.context.transport.put_back();
                Sending::PutBack
            }
            false => Sending::Now,
        }
    }

    /// As [`Shard::sending`], of a read that waits in a lane of the shard that it begins on.
    pub(crate) fn sending_long_read(&self, other: ShardId, statement: &Statement<'_>) -> Sending {
        let is_large = self.reader.is_large(&statement.prepared.id);
        let long_reads = self.context.mailbox(other).long_reads();
        let told = if is_large {
            &long_reads.large
        } else {
            &long_reads.small
        };
        match told.wait_ns() {
            0 => Sending::Now,
            _ if !self.context.options.admission => Sending::Now,
            wait_ns => self.sending_behind(wait_ns, told.delay_ns_max(), &statement.request),
        }
    }
}
