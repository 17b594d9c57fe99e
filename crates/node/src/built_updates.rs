//! Updates of a statement or batch for several partitions, by owner, built before any of them is applied.

use std::collections::BTreeMap;

use helenus_engine::CqlError;
use helenus_engine::execute::Scratch;
use helenus_engine::modify::{EmitUpdate, check_written};
use helenus_rows::update::{PackedUpdate, merge_by_partition};
use helenus_schema::Schema;
use helenus_storage::error::WriteError;
use helenus_types::{ShardId, Token, shard_of};

use crate::options::NodeOptions;

/// Updates that a shard applies before it serves others: about a microsecond each, of the millisecond that it may be held.
pub(crate) const APPLIED_PER_STEP_MAX: usize = 256;

/// Copying so much into the log and the memtable takes as long as a small update.
const BYTES_PER_UPDATE: usize = 4 << 10;

/// The packed updates of one statement or batch, at most one of each partition, by the shard that owns them.
pub(crate) type UpdatesByShard = BTreeMap<ShardId, Vec<PackedUpdate>>;

/// Built updates of one statement or batch.
pub(crate) struct BuiltUpdates {
    pub updates: UpdatesByShard,
    /// Before those of one partition were merged.
    pub written_bytes: usize,
    /// For the client.
    pub warnings: Vec<String>,
}

/// Divides applying many updates into steps.
#[derive(Default)]
pub(crate) struct Steps {
    done: usize,
}

impl BuiltUpdates {
    /// `warning` learns how many partitions they cover.
    pub fn new(
        options: &NodeOptions,
        schema: &Schema,
        scratch: &mut Scratch,
        warning: impl FnOnce(usize) -> Option<String>,
        build: impl FnOnce(&mut Scratch, &mut EmitUpdate<'_>) -> Result<(), CqlError>,
    ) -> Result<Self, CqlError> {
        let mut updates = Vec::new();
        let mut written_bytes = 0;
        let mut warnings = Vec::new();
        let guardrails = &options.guardrails.values;
        build(scratch, &mut |token, update| {
            if guardrails.is_enabled() {
                warnings.extend(guardrails.check(schema, update)?);
            }
            written_bytes += update.len();
            check_written(written_bytes)?;
            updates.push(packed(token, update.to_vec())?);
            Ok(())
        })?;
        let updates = by_owner(updates, options.shard_count);
        let partitions = updates.values().map(Vec::len).sum();
        if partitions > 1 {
            let all = updates.values().flatten();
            warnings.extend(options.guardrails.check_batch(schema, all, &options.events)?);
        }
        warnings.extend(warning(partitions));
        Ok(BuiltUpdates {
            updates,
            written_bytes,
            warnings,
        })
    }
}

impl Steps {
    /// An update of so many bytes is next: whether others are to be served before.
    pub fn is_over(&mut self, update_bytes: usize) -> bool {
        let is_over = self.done >= APPLIED_PER_STEP_MAX;
        if is_over {
            self.done = 0;
        }
        self.done += 1 + update_bytes / BYTES_PER_UPDATE;
        is_over
    }
}

/// Makes one update of all those of a partition, and brings them into order by owner.
pub(crate) fn by_owner(updates: Vec<PackedUpdate>, shard_count: u16) -> UpdatesByShard {
    let mut by_shard = UpdatesByShard::new();
    for update in merge_by_partition(updates) {
        by_shard
            .entry(shard_of(update.token(), shard_count))
            .or_default()
            .push(update);
    }
    by_shard
}

/// Pairs an update that the engine has just built with the token of its partition. Where it is no update nothing is
/// written: to pass it over would be to acknowledge it.
pub(crate) fn packed(token: Token, update: Vec<u8>) -> Result<PackedUpdate, CqlError> {
    PackedUpdate::with_token(token, update).ok_or_else(malformed)
}

/// As [`packed`], of partitions whose tokens nobody knows yet.
pub(crate) fn packed_all(updates: Vec<Vec<u8>>) -> Result<Vec<PackedUpdate>, CqlError> {
    let packed = updates.into_iter().map(PackedUpdate::new);
    packed.collect::<Option<_>>().ok_or_else(malformed)
}

/// Returns the error for a built update that is none.
pub(crate) fn malformed() -> CqlError {
    CqlError::server(format_args!("{}", WriteError::Malformed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Updates that a statement makes of thousands of partitions were applied in one go.
    #[test]
    fn many_updates_and_large_ones_are_applied_in_steps() {
        let pauses = |count: usize, bytes| {
            let mut steps = Steps::default();
            (0..count).filter(|_| steps.is_over(bytes)).count()
        };
        assert_eq!(pauses(APPLIED_PER_STEP_MAX, 100), 0);
        assert_eq!(pauses(APPLIED_PER_STEP_MAX + 1, 100), 1);
        assert_eq!(pauses(100 * APPLIED_PER_STEP_MAX, 100), 99);
        assert_eq!(pauses(3, 1 << 20), 2);
    }
}
