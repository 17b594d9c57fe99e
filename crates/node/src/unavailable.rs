//! Errors of requests that the node does not take: another node would.

use helenus_engine::CqlError;

pub(crate) fn inbox_full() -> CqlError {
    CqlError::overloaded(format_args!(
        "The shard that owns the partition has too much to do"
    ))
}

pub(crate) fn node_is_stopping() -> CqlError {
    CqlError::overloaded(format_args!("The node is stopping"))
}
