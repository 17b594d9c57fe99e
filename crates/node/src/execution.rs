//! A statement with its values, as it goes through the shard that was asked.

use std::sync::Arc;

use helenus_engine::Prepared;
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

impl<'a> Statement<'a> {
    /// The same by another plan.
    pub fn by(&self, prepared: &'a Arc<Prepared>) -> Statement<'a> {
        Statement { prepared, ..*self }
    }
}
