//! Bytes that are to be sent, in their order: small ones copied together, long pieces of answers where they lie.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// A piece that is shorter is copied: it costs less than a slice of its own.
const COPIED_BYTES_MAX: usize = 1_024;

/// A buffer that has grown longer is not kept.
const KEPT_BYTES_MAX: usize = 4_096;

/// Bytes that were sent are let go of when there are so many, also where the client never takes all.
const SENT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a connection that are to be sent.
#[derive(Debug, Default)]
pub struct Output {
    copied: Vec<u8>,
    /// How much of `copied` was sent.
    sent: usize,
    /// Each with the length of `copied` when it was put: that much goes before it.
    pieces: VecDeque<(usize, Bytes)>,
    pieces_bytes: usize,
}

impl Output {
    /// Bytes that are to be sent.
    pub fn len(&self) -> usize {
        self.copied.len() - self.sent + self.pieces_bytes
    }

    /// Returns whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    pub(crate) fn put_piece(&mut self, piece: Bytes) {
        if piece.len() <= COPIED_BYTES_MAX {
            return self.put(&piece);
        }
        self.pieces_bytes += piece.len();
        self.pieces.push_back((self.copied.len(), piece));
    }

    /// Fills `slices` with what is to be sent first, and returns how many it has filled.
    pub fn slices<'o>(&'o self, slices: &mut [IoSlice<'o>]) -> usize {
        let mut places = slices.iter_mut();
        let mut filled = 0;
        let mut fill = |bytes: &'o [u8]| {
            if bytes.is_empty() {
                return true;
            }
            let Some(place) = places.next() else { return false };
            *place = IoSlice::new(bytes);
            filled += 1;
            true
        };
        let mut from = self.sent;
        for (at, piece) in &self.pieces {
            let before = self.copied.get(from..*at).unwrap_or_default();
            if !fill(before) || !fill(piece) {
                return filled;
            }
            from = *at;
        }
        fill(self.copied.get(from..).unwrap_or_default());
        filled
    }

    /// So many bytes of [`slices`](Self::slices) were sent.
    pub fn advance(&mut self, bytes: usize) {
        self.pass(bytes);
        if self.is_empty() {
            self.sent = 0;
            self.copied.clear();
            if self.copied.capacity() > KEPT_BYTES_MAX {
                self.copied = Vec::new();
            }
        } else if self.sent > SENT_BYTES_MAX {
            self.copied.drain(..self.sent);
            for (at, _) in &mut self.pieces {
                *at -= self.sent;
            }
            self.sent = 0;
        }
    }

    fn pass(&mut self, mut bytes: usize) {
        while let Some((at, piece)) = self.pieces.front_mut() {
            let before = (*at - self.sent).min(bytes);
            self.sent += before;
            bytes -= before;
            let of_piece = piece.len().min(bytes);
            if self.sent < *at {
                return;
            }
            piece.advance(of_piece);
            self.pieces_bytes -= of_piece;
            bytes -= of_piece;
            if piece.has_remaining() {
                return;
            }
            self.pieces.pop_front();
        }
        self.sent = self.copied.len().min(self.sent + bytes);
    }

    /// Gives back what is kept for the next answers: none are to be expected.
    pub fn forget_buffers(&mut self) {
        if self.is_empty() {
            *self = Output::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that takes `at_most` bytes at a time.
    fn sent(output: &mut Output, at_most: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); 3];
            let count = output.slices(&mut slices);
            let before = sent.len();
            sent.extend(
                slices[..count]
                    .iter()
                    .flat_map(|slice| slice.iter())
                    .take(at_most),
            );
            assert!(
                sent.len() > before,
                "there is something to send, and nothing to be had"
            );
            output.advance(sent.len() - before);
        }
        sent
    }

    /// A client that always leaves something made the buffer grow for ever.
    #[test]
    fn what_was_sent_is_let_go_of_where_the_client_never_takes_all() {
        let mut output = Output::default();
        let mut sent = Vec::new();
        for round in 0..1_000_u32 {
            output.put(&round.to_be_bytes().repeat(100));
            output.put_piece(vec![7; 2_000].into());
            let mut slices = [IoSlice::new(&[]); 8];
            let count = output.slices(&mut slices);
            let first: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = first.len() - 1;
            sent.extend(&first[..taken]);
            output.advance(taken);
            assert!(output.copied.len() < 2 * SENT_BYTES_MAX);
        }
        sent.extend(self::sent(&mut output, 9));
        let wanted: Vec<u8> = (0..1_000_u32)
            .flat_map(|round| [round.to_be_bytes().repeat(100), vec![7; 2_000]].concat())
            .collect();
        assert!(sent == wanted);
    }

    #[test]
    fn bytes_are_sent_in_their_order_however_few_the_socket_takes() {
        for at_most in [1, 7, 1_000, 1_025, 5_000, usize::MAX] {
            let mut output = Output::default();
            let mut wanted = Vec::new();
            for round in 0..5_u8 {
                for length in [0, 3, 1_024, 1_025, 4_000] {
                    let bytes = vec![round; length];
                    wanted.extend(&bytes);
                    output.put_piece(bytes.into());
                    output.put(&[0xff, round]);
                    wanted.extend([0xff, round]);
                }
                assert_eq!(output.len(), wanted.len());
            }
            assert_eq!(sent(&mut output, at_most), wanted, "{at_most}");
            assert_eq!((output.sent, output.copied.len(), output.pieces_bytes), (0, 0, 0));
            output.put(b"again");
            assert_eq!(sent(&mut output, at_most), b"again");
        }
    }
}
