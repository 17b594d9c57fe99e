//! A statement with its values, as it goes through the shard that was asked.

use std::sync::Arc;

use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Prepared, QueryOptions};
use helenus_protocol::request::QueryParameters;

use crate::session::RequestContext;

/// One statement on its way through the shard.
#[derive(Clone, Copy)]
pub(crate) struct Statement<'a> {
    pub request: RequestContext<'a>,
    pub prepared: &'a Arc<Prepared>,
    pub parameters: &'a QueryParameters<'a>,
    /// True if the client executes it by its id.
    pub is_prepared: bool,
    /// The metadata the client holds, if it says so (v5).
    pub result_metadata_id: Option<&'a [u8]>,
}

impl Statement<'_> {
    /// For who computes the statement's keys several times: `work` gets it with the keys of this execution.
    pub fn with_made_keys<T>(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        work: impl FnOnce(&Statement<'_>) -> Result<T, CqlError>,
    ) -> Result<T, CqlError> {
        if !self.prepared.makes_keys() {
            return work(self);
        }
        let prepared = &self.prepared.with_made_keys(values, options)?;
        work(&Statement { prepared, ..*self })
    }
}
