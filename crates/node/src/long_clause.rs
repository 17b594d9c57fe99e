//! Clauses that list thousands of values come to keys, rows and filters on the planner's thread: a shard would be held by
//! them for tens of milliseconds.

use std::sync::Arc;

use helenus_engine::select::BoundSelect;
use helenus_engine::{CqlError, Plan};

use crate::forward::OwnedExecution;
use crate::request_memory::Account;
use crate::shard::Shard;

/// What a long statement has bound; it is not freed on the shard's thread.
pub(crate) struct FreedBeside<'a> {
    shard: &'a Shard,
    shared: Vec<Arc<dyn Send + Sync>>,
}

impl<'a> FreedBeside<'a> {
    pub fn of(shard: &'a Shard, bound: &BoundSelect) -> Self {
        let shared = bound.shared_if_long();
        FreedBeside { shard, shared }
    }
}

impl Drop for FreedBeside<'_> {
    fn drop(&mut self) {
        if !self.shared.is_empty() {
            self.shard.planner.retire(std::mem::take(&mut self.shared));
        }
    }
}

impl Shard {
    /// Binds a SELECT; where it waits behind others of the same account, they have their turns.
    pub(crate) async fn bind_beside(
        &self,
        owned: &Arc<OwnedExecution>,
        account: &Arc<Account>,
    ) -> Result<BoundSelect, CqlError> {
        let (owned, shard_count) = (owned.clone(), self.options.shard_count);
        let work = move || {
            owned.with(|plan, values, options| match plan {
                Plan::Select(plan) => Some(plan.bind(values, options, shard_count)),
                _ => None,
            })
        };
        let bound = self.planner.run(Arc::as_ptr(account).addr(), work).await?;
        bound.flatten().ok_or_else(|| self.no_plan())?
    }
}
