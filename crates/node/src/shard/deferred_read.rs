//! A read that a shard begins when its turn comes.

use std::rc::Rc;

use helenus_engine::CqlError;

use super::Shard;
use crate::long_reads::executor::ReadFuture;

/// Asked for by another shard.
pub(crate) trait DeferredRead {
    fn begin(self: Box<Self>, shard: &Rc<Shard>) -> ReadFuture;
    fn refuse(self: Box<Self>, error: CqlError);
}
