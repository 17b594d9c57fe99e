//! The limits that the tables of a shard's schema have, and how far its partitions are within them.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_protocol::extensions::RateLimitedOperation;
use helenus_schema::{Schema, TableId, TableMetadata};
use helenus_types::Token;

use super::{RateLimiter, has_rate_limits, partition_of};
use crate::context::ShardContext;

pub(crate) struct PartitionRates {
    context: Rc<ShardContext>,
    limiter: RefCell<RateLimiter>,
    /// True if any table limits how often its partitions are asked for.
    has_limits: Cell<bool>,
}

impl PartitionRates {
    pub fn new(context: Rc<ShardContext>, limiter: RateLimiter, schema: &Schema) -> Self {
        PartitionRates {
            context,
            limiter: RefCell::new(limiter),
            has_limits: Cell::new(has_rate_limits(schema)),
        }
    }

    pub fn set_schema(&self, schema: &Schema) {
        self.has_limits.set(has_rate_limits(schema));
    }

    #[inline]
    pub fn has_limits(&self) -> bool {
        self.has_limits.get()
    }

    /// Checks that the table's limit leaves room for one more request of this partition, which the shard owns. Called
    /// before any work is done; a table without a limit costs one comparison.
    #[inline]
    pub(crate) fn check(
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
                self.admit(table, operation, token, per_second)
            }
        }
    }

    /// As [`PartitionRates::check`], for a write that came without its plan.
    #[inline]
    pub(crate) fn check_write(
        &self,
        schema: &RefCell<Arc<Schema>>,
        table: TableId,
        token: Token,
    ) -> Result<(), CqlError> {
        if !self.has_limits.get() {
            return Ok(());
        }
        match schema.borrow().table_by_id(table) {
            Some(table) => self.check(table, RateLimitedOperation::Write, token),
            None => Ok(()),
        }
    }

    #[cold]
    fn admit(
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
        let is_admitted =
            self.limiter
                .borrow_mut()
                .admit(partition, per_second, self.context.last_looked_ns());
        if is_admitted {
            return Ok(());
        }
        Err(CqlError::RateLimited {
            table: table.clone(),
            operation,
        })
    }
}
