//! Beginnings of requests for the partition that is refused first.

use helenus_protocol::ProtocolVersion;
use helenus_protocol::frame::{Envelope, EnvelopeFlags};

/// Beginnings that are remembered: a few statements read and write one partition, each in one or two versions of the
/// protocol and with or without what else is chosen before the values.
const BEGINNINGS_MAX: usize = 8;

/// Longer ones are decoded each time.
const BEGINNING_BYTES_MAX: usize = 512;

/// How EXECUTE messages begin that are for one partition: from the statement's id to the last value of the key. Whatever
/// has the same bytes there executes the same statement on the same partition.
#[derive(Default)]
pub(super) struct ShedRequests {
    beginnings: Vec<(ProtocolVersion, Box<[u8]>)>,
    /// The next to make room for another.
    next: usize,
}

impl ShedRequests {
    /// Another partition is refused first now, or none.
    pub fn forget(&mut self) {
        self.beginnings.clear();
        self.next = 0;
    }

    #[inline]
    pub fn knows(&self, envelope: &Envelope<'_>) -> bool {
        envelope.header.flags == EnvelopeFlags::NONE
            && self.beginnings.iter().any(|(version, beginning)| {
                *version == envelope.header.version && envelope.body.starts_with(beginning)
            })
    }

    pub fn learn(&mut self, envelope: &Envelope<'_>, bytes: usize) {
        let beginning = envelope.body.get(..bytes.min(BEGINNING_BYTES_MAX + 1));
        let Some(beginning) = beginning.filter(|beginning| beginning.len() <= BEGINNING_BYTES_MAX) else {
            return;
        };
        if envelope.header.flags != EnvelopeFlags::NONE {
            return;
        }
        let known = (envelope.header.version, beginning.into());
        if self.beginnings.len() < BEGINNINGS_MAX {
            self.beginnings.push(known);
        } else {
            self.beginnings[self.next] = known;
            self.next = (self.next + 1) % BEGINNINGS_MAX;
        }
    }
}
