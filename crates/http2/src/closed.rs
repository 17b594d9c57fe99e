//! Streams that have closed lately: what a client still sends on them may have been on its way.

use crate::frame::STREAM_MAX;

/// As many as a client may have begun before it hears of the first one's end.
const KEPT: usize = 128;

/// The flag of a stream that was reset here, beside its 31 bits.
const IS_RESET: u32 = STREAM_MAX + 1;

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By both sides: nothing comes any more.
    Whole,
    /// By us, which the client may not know yet; or by the client, who may not have known that it was over.
    Reset,
}

/// The last ones, the oldest of which gives way.
#[derive(Debug, Default)]
pub struct Closed {
    streams: Vec<u32>,
    next: usize,
}

impl Closed {
    pub fn add(&mut self, stream: u32, ended: Ended) {
        let noted = stream
            | match ended {
                Ended::Whole => 0,
                Ended::Reset => IS_RESET,
            };
        match self.streams.get_mut(self.next) {
            Some(place) => *place = noted,
            None => self.streams.push(noted),
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// `None` where the stream never was, or closed long ago.
    pub fn find(&self, stream: u32) -> Option<Ended> {
        let found = self.streams.iter().find(|noted| **noted & STREAM_MAX == stream)?;
        Some(match found & IS_RESET {
            0 => Ended::Whole,
            _ => Ended::Reset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known() {
        let mut closed = Closed::default();
        for at in 0..2 * KEPT as u32 {
            let ended = [Ended::Whole, Ended::Reset][at as usize % 2];
            closed.add(2 * at + 1, ended);
            assert_eq!(closed.find(2 * at + 1), Some(ended));
        }
        assert_eq!(closed.find(1), None);
        assert_eq!(closed.find(2 * KEPT as u32 + 1), Some(Ended::Whole));
        assert_eq!(closed.streams.len(), KEPT);
    }
}
