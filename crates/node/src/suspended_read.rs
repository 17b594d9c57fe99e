//! Reads of one partition that wait for the disk without a task of their own.
//!
//! A direct read that lacks pages leaves its statement, its values and what was brought for it in a box. The shard
//! brings the pages and makes the same function call again, which then answers: no future is made, moved or polled, and
//! no timer is set. What turns out to be more than one step goes the general way with what it has.

mod steps;

use std::rc::Rc;
use std::sync::Arc;

use helenus_storage::read_state::ReadState;
use helenus_transport::request_memory::Account;
use helenus_types::ShardId;

use crate::deadline::Deadline;
use crate::forward::{OwnedExecution, Ticket};
use crate::session::Session;

/// Recipient of the answer.
#[derive(Clone)]
pub(crate) enum Asker {
    /// A session that expects the answer.
    Session {
        session: Rc<Session>,
        stream: i16,
        /// When the request was begun, on the shard's clock.
        begun_ns: u64,
    },
    /// Another shard.
    Shard {
        from: ShardId,
        ticket: Ticket,
        account: Arc<Account>,
    },
}

impl Asker {
    pub fn is_shard(&self) -> bool {
        matches!(self, Asker::Shard { .. })
    }
}

/// A read of one partition between two tries. Nothing of the store is held meanwhile.
pub(crate) struct SuspendedRead {
    pub execution: OwnedExecution,
    pub asker: Asker,
    /// Pins the pages that were brought.
    pub state: ReadState,
    /// Its first page was waited for: what is begun is read on before others.
    pub has_waited: bool,
}

impl SuspendedRead {
    pub fn deadline(&self) -> Deadline {
        Deadline::of_read(&self.execution.options())
    }
}
