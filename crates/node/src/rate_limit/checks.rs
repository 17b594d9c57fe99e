//! Requests beside the limits of their partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_protocol::extensions::RateLimitedOperation;
use helenus_schema::{TableId, TableMetadata};
use helenus_types::{ShardId, Token};

use super::partition_of;
use crate::shard::Shard;
use crate::written_partitions::WrittenPartition;

impl Shard {
    /// As [`Shard::check_rate`], for a write that came without its plan.
    #[inline]
    pub(crate) fn check_rate_of_write(&self, table: TableId, token: Token) -> Result<(), CqlError> {
        if !self.has_rate_limits.get() {
            return Ok(());
        }
        match self.schema.borrow().table_by_id(table) {
            Some(table) => self.check_rate(table, RateLimitedOperation::Write, token),
            None => Ok(()),
        }
    }

    /// Has the owners of a batch's partitions look at their limits before anything of it is written. What was admitted
    /// of a batch that is refused is counted all the same.
    pub(crate) async fn check_rates_everywhere(
        self: &Rc<Self>,
        partitions: Vec<(ShardId, WrittenPartition)>,
    ) -> Result<(), CqlError> {
        let mut by_shard: BTreeMap<ShardId, BTreeSet<WrittenPartition>> = BTreeMap::new();
        for (owner, partition) in partitions {
            by_shard.entry(owner).or_default().insert(partition);
        }
        for (owner, partitions) in by_shard {
            let checked = self.call(owner, move |shard| {
                partitions
                    .into_iter()
                    .try_for_each(|(table, token)| shard.check_rate_of_write(table, token))
            });
            checked.await.unwrap_or_else(|| Err(self.no_answer_from(owner)))?;
        }
        Ok(())
    }

    /// Whether the table's limit leaves room for one more request of this partition, which the shard owns. Asked before
    /// any work is done; a table without a limit costs one comparison.
    #[inline]
    pub(crate) fn check_rate(
        &self,
        table: &Arc<TableMetadata>,
        operation: RateLimitedOperation,
        token: Token,
    ) -> Result<(), CqlError> {
        match table.params.per_partition_rate_limit {
            None => Ok(()),
            Some(limit) => {
                let per_second = match operation {
                    RateLimitedOperation::Read => limit.max_reads_per_second,
                    RateLimitedOperation::Write => limit.max_writes_per_second,
                };
                self.check_rate_of(table, operation, token, per_second)
            }
        }
    }

    #[cold]
    fn check_rate_of(
        &self,
        table: &Arc<TableMetadata>,
        operation: RateLimitedOperation,
        token: Token,
        per_second: Option<NonZeroU32>,
    ) -> Result<(), CqlError> {
        let Some(per_second) = per_second else {
            return Ok(());
        };
        let partition = partition_of(table, operation, token);
        let is_admitted = self
            .rate_limiter
            .borrow_mut()
            .admit(partition, per_second, self.last_looked_ns());
        if is_admitted {
            return Ok(());
        }
        Err(CqlError::RateLimited {
            table: table.clone(),
            operation,
        })
    }
}
