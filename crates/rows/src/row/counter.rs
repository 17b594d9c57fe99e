//! The value of a counter cell: Cassandra's counter context (`CounterContext`), as its SSTables hold it.
//!
//! | part | bytes, big-endian |
//! |---|---|
//! | count of marked shards | i16; negative if the local ones are another node's, and count as remote |
//! | marks | i16 each: index of a local shard, or index - 32768 of a global one |
//! | shards | counter id 16, clock i64, count i64; ordered by id |
//!
//! Helenus writes one global shard per counter, under the node's id: the new total with the next clock. Replaying
//! it changes nothing. Local and remote shards only come from imported files.

use std::cmp::Ordering;

const MARK_BYTES: usize = 2;
const COUNT_AT: usize = 24;
const SHARD_BYTES: usize = 32;

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
    shards(context)
        .iter()
        .fold(0, |total, shard| total.wrapping_add(shard.count))
}

/// Whether there are shards of before global ones: local and remote ones.
pub fn has_legacy_shards(context: &[u8]) -> bool {
    shards(context).iter().any(|shard| shard.kind != Kind::Global)
}

/// Appends the context that `current` (empty for none) becomes when this node adds `delta`. `clock_floor` keeps the
/// clock ahead of one that was deleted with its counter; microseconds of the write's timestamp will do.
pub fn increment(current: &[u8], node_id: [u8; 16], delta: i64, clock_floor: i64, out: &mut Vec<u8>) {
    let mut shards = shards(current);
    match shards.binary_search_by(|shard| shard.id.cmp(&node_id)) {
        Ok(index) => {
            let shard = &mut shards[index];
            shard.kind = Kind::Global;
            shard.clock = shard.clock.saturating_add(1).max(clock_floor);
            shard.count = shard.count.wrapping_add(delta);
        }
        Err(index) => {
            shards.insert(
                index,
                Shard {
                    id: node_id,
                    kind: Kind::Global,
                    clock: clock_floor.max(1),
                    count: delta,
                },
            );
        }
    }
    encode(&shards, out);
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
            clock: i64::from_be_bytes(array(bytes, 16)),
            count: i64::from_be_bytes(array(bytes, COUNT_AT)),
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
    fn increments_add_up_and_merge_to_the_latest() {
        let (mut first, mut second, mut merged) = (Vec::new(), Vec::new(), Vec::new());
        increment(&[], NODE, 5, 100, &mut first);
        increment(&first, NODE, -7, 100, &mut second);
        assert_eq!((total(&first), total(&second)), (5, -2));
        merge(&second, &first, &mut merged);
        assert_eq!(merged, second);
        assert_eq!(first[..4], [0, 1, 0x80, 0], "one mark, global, index 0");
        assert_eq!(first.len(), 4 + SHARD_BYTES);
    }

    #[test]
    fn shards_of_different_nodes_are_kept_apart_and_summed() {
        let (mut ours, mut theirs, mut merged) = (Vec::new(), Vec::new(), Vec::new());
        increment(&[], NODE, 5, 1, &mut ours);
        increment(&[], [3; 16], 10, 1, &mut theirs);
        merge(&ours, &theirs, &mut merged);
        assert_eq!(total(&merged), 15);
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
            assert_eq!(total(context), 0);
        }
    }
}
