//! The value of a counter cell: Cassandra's counter context (`CounterContext`), as its SSTables hold it.
//!
//! | part | bytes, big-endian |
//! |---|---|
//! | count of marked shards | i16; negative if the local ones are another node's, and count as remote |
//! | marks | i16 each: index of a local shard, or index - 32768 of a global one |
//! | shards | counter id 16, clock i64, count i64; ordered by id |
//!
//! Helenus writes one global shard per counter, under the node's id: all that the node has counted, with the next clock.
//! Replaying it changes nothing. Shards of other nodes, and local and remote ones, only come from imported files.

use std::cmp::Ordering;

const MARK_BYTES: usize = 2;
const CLOCK_AT: usize = 16;
const COUNT_AT: usize = 24;
const SHARD_BYTES: usize = 32;

/// One mark: shard 0 is global.
const ONE_GLOBAL: [u8; 2 * MARK_BYTES] = [0, 1, 0x80, 0];

/// A context of one global shard.
pub(crate) const GLOBAL_BYTES: usize = ONE_GLOBAL.len() + SHARD_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Remote,
    Local,
    Global,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    id: [u8; 16],
    kind: Kind,
    clock: i64,
    count: i64,
}

/// The counter's value.
pub fn total(context: &[u8]) -> i64 {
    body(context)
        .chunks_exact(SHARD_BYTES)
        .fold(0, |total, shard| total.wrapping_add(i64_at(shard, COUNT_AT)))
}

/// Returns whether there are shards of before global ones: local and remote ones.
pub fn has_legacy_shards(context: &[u8]) -> bool {
    only_global(context).is_none() && shards(context).iter().any(|shard| shard.kind != Kind::Global)
}

/// Clock and count of a node's shard, of whatever kind it is.
pub fn shard_of(context: &[u8], node_id: &[u8; 16]) -> Option<(i64, i64)> {
    let mut shards = body(context).chunks_exact(SHARD_BYTES);
    let own = shards.find(|shard| shard.starts_with(node_id))?;
    Some((i64_at(own, CLOCK_AT), i64_at(own, COUNT_AT)))
}

/// The context that a node writes: its own global shard alone. What other shards there are comes to it where it is merged.
pub fn global(node_id: &[u8; 16], clock: i64, count: i64) -> [u8; GLOBAL_BYTES] {
    let mut context = [0; GLOBAL_BYTES];
    let (head, shard) = context.split_at_mut(ONE_GLOBAL.len());
    head.copy_from_slice(&ONE_GLOBAL);
    shard[..CLOCK_AT].copy_from_slice(node_id);
    shard[CLOCK_AT..COUNT_AT].copy_from_slice(&clock.to_be_bytes());
    shard[COUNT_AT..].copy_from_slice(&count.to_be_bytes());
    context
}

/// The one of two contexts that is their merge, where that is seen without merging them.
pub fn newer<'c>(left: &'c [u8], right: &'c [u8]) -> Option<&'c [u8]> {
    let (left_shard, right_shard) = (only_global(left)?, only_global(right)?);
    let rank = |shard: &[u8]| (i64_at(shard, CLOCK_AT), i64_at(shard, COUNT_AT));
    if left_shard[..CLOCK_AT] != right_shard[..CLOCK_AT] {
        return None;
    }
    Some(match rank(left_shard) > rank(right_shard) {
        true => left,
        false => right,
    })
}

/// The shard of a context that has no other, and that one global.
fn only_global(context: &[u8]) -> Option<&[u8]> {
    context
        .strip_prefix(&ONE_GLOBAL)
        .filter(|shard| shard.len() == SHARD_BYTES)
}

/// Appends the merge of two contexts.
pub fn merge(left: &[u8], right: &[u8], out: &mut Vec<u8>) {
    if left == right {
        return out.extend_from_slice(left);
    }
    let (left, right) = (shards(left), shards(right));
    let mut merged = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.id.cmp(&right.id),
        };
        let next = match order {
            Ordering::Less => left.next(),
            Ordering::Greater => right.next(),
            Ordering::Equal => left
                .next()
                .zip(right.next())
                .map(|(left, right)| merge_shards(left, right)),
        };
        merged.extend(next);
    }
    encode(&merged, out);
}

fn merge_shards(left: Shard, right: Shard) -> Shard {
    if left.kind == Kind::Local && right.kind == Kind::Local {
        let clock = left.clock.wrapping_add(right.clock);
        return Shard {
            clock,
            count: left.count.wrapping_add(right.count),
            ..left
        };
    }
    let rank = |shard: &Shard| (shard.kind, shard.clock, shard.count);
    if rank(&left) > rank(&right) { left } else { right }
}

/// The shards, as far as the marks before them are whole.
fn body(context: &[u8]) -> &[u8] {
    let Some((mark_count, rest)) = context.split_first_chunk::<MARK_BYTES>() else {
        return &[];
    };
    let mark_bytes = usize::from(i16::from_be_bytes(*mark_count).unsigned_abs()) * MARK_BYTES;
    rest.get(mark_bytes..).unwrap_or_default()
}

/// Stops at the first byte that does not fit.
fn shards(context: &[u8]) -> Vec<Shard> {
    let Some((mark_count, rest)) = context.split_first_chunk::<MARK_BYTES>() else {
        return Vec::new();
    };
    let mark_count = i16::from_be_bytes(*mark_count);
    let kind_of_local = if mark_count < 0 { Kind::Remote } else { Kind::Local };
    let mark_bytes = usize::from(mark_count.unsigned_abs()) * MARK_BYTES;
    let Some((marks, body)) = rest.split_at_checked(mark_bytes) else {
        return Vec::new();
    };
    let mut shards: Vec<Shard> = body
        .chunks_exact(SHARD_BYTES)
        .map(|bytes| Shard {
            id: array(bytes, 0),
            kind: Kind::Remote,
            clock: i64_at(bytes, CLOCK_AT),
            count: i64_at(bytes, COUNT_AT),
        })
        .collect();
    for mark in marks.chunks_exact(MARK_BYTES) {
        let mark = i16::from_be_bytes(array(mark, 0));
        let (index, kind) = if mark < 0 {
            (mark ^ i16::MIN, Kind::Global)
        } else {
            (mark, kind_of_local)
        };
        if let Some(shard) = usize::try_from(index)
            .ok()
            .and_then(|index| shards.get_mut(index))
        {
            shard.kind = kind;
        }
    }
    shards
}

fn encode(shards: &[Shard], out: &mut Vec<u8>) {
    let marked = shards
        .iter()
        .enumerate()
        .filter(|(_, shard)| shard.kind != Kind::Remote);
    out.extend_from_slice(&(marked.clone().count() as i16).to_be_bytes());
    for (index, shard) in marked {
        let mark = if shard.kind == Kind::Global {
            index as i16 | i16::MIN
        } else {
            index as i16
        };
        out.extend_from_slice(&mark.to_be_bytes());
    }
    for shard in shards {
        out.extend_from_slice(&shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(array(bytes, at))
}

/// `bytes[at..at + N]`; the callers cut chunks that are long enough.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: [u8; 16] = [7; 16];

    #[test]
    fn what_one_node_counted_merges_to_the_latest() {
        let (first, second) = (global(&NODE, 100, 5), global(&NODE, 101, -2));
        assert_eq!((total(&first), total(&second)), (5, -2));
        assert_eq!(shard_of(&second, &NODE), Some((101, -2)));
        for (left, right) in [(&first, &second), (&second, &first)] {
            let mut merged = Vec::new();
            merge(left, right, &mut merged);
            assert_eq!(merged, second);
            assert_eq!(newer(left, right), Some(&second[..]));
        }
        let (smaller, larger) = (global(&NODE, 101, -2), global(&NODE, 101, 7));
        assert_eq!(
            newer(&larger, &smaller),
            Some(&larger[..]),
            "of equal clocks the larger count"
        );
    }

    #[test]
    fn shards_of_different_nodes_are_kept_apart_and_summed() {
        let (ours, theirs) = (global(&NODE, 1, 5), global(&[3; 16], 1, 10));
        let mut merged = Vec::new();
        merge(&ours, &theirs, &mut merged);
        assert_eq!(total(&merged), 15);
        assert_eq!(newer(&ours, &theirs), None);
        assert_eq!(
            (shard_of(&merged, &NODE), shard_of(&merged, &[4; 16])),
            (Some((1, 5)), None)
        );
        let mut again = Vec::new();
        merge(&merged, &global(&NODE, 2, 6), &mut again);
        assert_eq!(total(&again), 16);
    }

    #[test]
    fn local_shards_of_another_node_count_as_remote() {
        let local = |mark_count: i16, clock: i64, count: i64| {
            let mut context = mark_count.to_be_bytes().to_vec();
            encode(
                &[Shard {
                    id: NODE,
                    kind: Kind::Remote,
                    clock,
                    count,
                }],
                &mut context,
            );
            context[2..4].copy_from_slice(&0_i16.to_be_bytes());
            context
        };
        assert!(has_legacy_shards(&local(1, 1, 5)));
        let mut merged = Vec::new();
        merge(&local(1, 1, 5), &local(1, 2, 7), &mut merged);
        assert_eq!(total(&merged), 12, "local shards add up");
        merged.clear();
        merge(&local(-1, 1, 5), &local(-1, 2, 7), &mut merged);
        assert_eq!(total(&merged), 7, "of remote shards the later one counts");
    }

    #[test]
    fn damaged_contexts_read_as_far_as_they_go() {
        for context in [&[][..], &[0], &[0x7f, 0xff, 1], &[0, 1, 0x80, 9, 1, 2, 3]] {
            assert_eq!((total(context), shard_of(context, &NODE)), (0, None));
        }
    }
}
