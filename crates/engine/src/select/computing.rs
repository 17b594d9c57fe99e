//! How much is computed of the rows that were read, and where: what would hold a shard for long is computed beside it.

use super::execution::SelectExecution;
use super::plan::{Output, SelectPlan};
use super::shard_rows::ShardRows;
use crate::term::Expression;

/// Expressions and aggregates computed at once, of as many rows as that makes: well below a millisecond's work, because
/// the coordinating shard does it in one go.
const COMPUTED_VALUES_MAX: usize = 1_000;

/// Bytes of rows that values are computed of at once.
const COMPUTED_BYTES_MAX: usize = 256 << 10;

/// Bytes of rows that become JSON at once: a floating-point number of eight bytes takes up to half a microsecond.
const JSON_BYTES_MAX: usize = 8 << 10;

/// Bytes of rows that are copied and put in order at once.
const SORTED_BYTES_MAX: usize = 1 << 20;

impl SelectPlan {
    /// How many rows are asked of a shard at once, as far as what is done with them here goes.
    pub(super) fn computed_rows_max(&self) -> u32 {
        match &self.output {
            Output::Columns(_) if self.grouping.is_none() => u32::MAX,
            // At most COMPUTED_VALUES_MAX, which fits.
            _ => (COMPUTED_VALUES_MAX / self.values_per_row().max(1)).max(1) as u32,
        }
    }

    fn values_per_row(&self) -> usize {
        match &self.output {
            Output::Columns(_) => 1,
            Output::Expressions {
                expressions,
                aggregates,
            } => expressions.iter().map(Expression::value_count).sum::<usize>() + aggregates.len(),
        }
    }

    fn is_long_to_compute(&self, row_count: u32, bytes: usize) -> bool {
        let bytes_max = match &self.output {
            Output::Columns(_) => SORTED_BYTES_MAX,
            Output::Expressions { .. } if self.writes_json => JSON_BYTES_MAX,
            Output::Expressions { .. } => COMPUTED_BYTES_MAX,
        };
        bytes > bytes_max || self.values_per_row().saturating_mul(row_count as usize) > COMPUTED_VALUES_MAX
    }
}

impl SelectExecution<'_> {
    /// Returns whether [`absorb`](Self::absorb) would hold a shard for long: one row is never cut, and may be large.
    pub fn is_long_to_absorb(&self, rows: &ShardRows) -> bool {
        let is_computed = match self.plan.output {
            Output::Columns(_) => self.plan.grouping.is_some(),
            Output::Expressions { .. } => !self.plan.is_sorted_later(),
        };
        let bytes = rows.bytes.len() + self.progress.group.first_row_bytes();
        is_computed && self.plan.is_long_to_compute(rows.count, bytes)
    }

    /// As [`is_long_to_absorb`](Self::is_long_to_absorb), of [`finish`](Self::finish).
    pub fn is_long_to_finish(&self) -> bool {
        let group_bytes = self.progress.group.first_row_bytes();
        match self.plan.is_sorted_later() {
            true => {
                let progress = &self.progress;
                self.plan
                    .is_long_to_compute(progress.output_count, progress.output.len())
            }
            false => group_bytes > 0 && self.plan.is_long_to_compute(1, group_bytes),
        }
    }
}
