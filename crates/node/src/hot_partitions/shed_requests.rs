//! Beginnings of requests for what is refused first.

use helenus_protocol::ProtocolVersion;
use helenus_protocol::frame::{Envelope, EnvelopeFlags};

/// Beginnings that are remembered: a few statements read and write one partition, each in one or two versions of the
/// protocol and with or without what else is chosen before the values.
const BEGINNINGS_MAX: usize = 8;

/// Longer ones are decoded each time.
const BEGINNING_BYTES_MAX: usize = 512;

/// How an EXECUTE message begins that is for one partition: from the statement's id to the last value of the key. Whatever
/// has the same bytes there executes the same statement on the same partition. Of one on a table the id is enough.
struct Beginning {
    version: ProtocolVersion,
    bytes: Box<[u8]>,
}

#[derive(Default)]
pub(super) struct ShedRequests {
    beginnings: Vec<Beginning>,
    /// The next to make room for another.
    next: usize,
}

impl ShedRequests {
    /// Something else is refused first now, or nothing.
    pub fn forget(&mut self) {
        self.beginnings.clear();
        self.next = 0;
    }

    #[inline]
    pub fn knows(&self, envelope: &Envelope<'_>) -> bool {
        envelope.header.flags == EnvelopeFlags::NONE
            && self.beginnings.iter().any(|beginning| {
                beginning.version == envelope.header.version && envelope.body.starts_with(&beginning.bytes)
            })
    }

    /// The first `bytes` of its body are those of all that are for the same.
    pub fn learn(&mut self, envelope: &Envelope<'_>, bytes: usize) {
        let beginning = envelope.body.get(..bytes.min(BEGINNING_BYTES_MAX + 1));
        let Some(beginning) = beginning.filter(|beginning| beginning.len() <= BEGINNING_BYTES_MAX) else {
            return;
        };
        if envelope.header.flags != EnvelopeFlags::NONE {
            return;
        }
        let known = Beginning {
            version: envelope.header.version,
            bytes: beginning.into(),
        };
        if self.beginnings.len() < BEGINNINGS_MAX {
            self.beginnings.push(known);
        } else {
            self.beginnings[self.next] = known;
            self.next = (self.next + 1) % BEGINNINGS_MAX;
        }
    }
}
