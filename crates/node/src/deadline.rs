//! Deadlines of requests, and what a client is told once its request's is over.
//!
//! A request's time runs from the moment its bytes were read. It is looked at wherever the request would wait: before
//! it is begun, in another shard's mailbox, for memory, for the log. What was not begun is refused as overload, because
//! nothing of it was done; what was begun is answered as Cassandra answers a replica that is silent.

mod late_requests;

use std::time::Duration;

use helenus_cql::StatementClass;
use helenus_cql::ast::BatchKind;
use helenus_engine::{CqlError, Plan, QueryOptions};
use helenus_protocol::{Consistency, WriteType};
use helenus_transport::deadline::nanoseconds;
use helenus_transport::refusal::TIMED_OUT_WAITING;
use helenus_transport::request_memory::NoMemory;

use crate::options::NodeOptions;

/// How long a stopping shard waits for the logs of others, of which some may have ended.
pub(crate) const WRITE_SETS_RESOLVED_IN: Duration = Duration::from_secs(1);

/// One request's deadline, with what its timeout error must say.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// On the node's monotonic clock, which all shards share.
    pub at_ns: u64,
    consistency: Consistency,
    /// `None` for a read.
    write_type: Option<WriteType>,
}

/// The configured times of requests, in nanoseconds: one is added to the time of each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    read_ns: u64,
    range_ns: u64,
    pub write_ns: u64,
    truncate_ns: u64,
}

impl Timeouts {
    pub fn of(options: &NodeOptions) -> Self {
        Timeouts {
            read_ns: nanoseconds(options.read_request_timeout),
            range_ns: nanoseconds(options.range_request_timeout),
            write_ns: nanoseconds(options.write_request_timeout),
            truncate_ns: nanoseconds(options.truncate_request_timeout),
        }
    }

    /// For a statement that is not planned yet: what it has at least, whatever its plan turns out to be. What has no time
    /// may wait as long as the slowest of those that have.
    pub fn of_class(&self, class: StatementClass) -> u64 {
        let of_read_ns = self.read_ns.min(self.range_ns);
        match class {
            StatementClass::Read => of_read_ns,
            StatementClass::Write => self.write_ns,
            StatementClass::Truncate => self.truncate_ns,
            StatementClass::Other => self.truncate_ns.max(self.range_ns),
            StatementClass::Unknown => of_read_ns.min(self.write_ns),
        }
    }

    /// Schema changes and the like take theirs.
    pub fn of_plan(&self, plan: &Plan) -> u64 {
        match plan {
            Plan::Select(plan) if plan.is_range_scan() => self.range_ns,
            Plan::Select(_) => self.read_ns,
            Plan::Modify(_) | Plan::Batch(_) | Plan::Transaction(_) => self.write_ns,
            Plan::Truncate(_) | Plan::Prune(_) => self.truncate_ns,
            Plan::Use(_) | Plan::Schema(_) | Plan::Role(_) | Plan::Describe(_) => u64::MAX,
        }
    }
}

impl Deadline {
    /// For what ends in another way.
    pub const ENDLESS: Deadline = Deadline {
        at_ns: u64::MAX,
        consistency: Consistency::One,
        write_type: Some(WriteType::Simple),
    };

    pub fn of_read(options: &QueryOptions<'_>) -> Self {
        Deadline {
            at_ns: options.deadline_ns,
            consistency: options.consistency,
            write_type: None,
        }
    }

    pub fn of_write(options: &QueryOptions<'_>) -> Self {
        Deadline {
            write_type: Some(WriteType::Simple),
            ..Self::of_read(options)
        }
    }

    /// For a statement that writes as a batch of this kind would.
    #[inline]
    pub fn of_statement(options: &QueryOptions<'_>, kind: BatchKind) -> Self {
        match kind {
            BatchKind::Counter => Self::of_batch(options, kind),
            _ => Self::of_write(options),
        }
    }

    pub fn of_batch(options: &QueryOptions<'_>, kind: BatchKind) -> Self {
        let write_type = match kind {
            BatchKind::Logged => WriteType::Batch,
            BatchKind::Unlogged => WriteType::UnloggedBatch,
            BatchKind::Counter => WriteType::Counter,
        };
        Deadline {
            write_type: Some(write_type),
            ..Self::of_read(options)
        }
    }

    pub fn of_conditional(options: &QueryOptions<'_>) -> Self {
        Deadline {
            consistency: options.serial_consistency.unwrap_or(Consistency::Serial),
            write_type: Some(WriteType::Cas),
            ..Self::of_read(options)
        }
    }

    #[inline]
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns > self.at_ns
    }

    pub fn left(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(now_ns))
    }

    /// For a request that was begun: nobody knows how far it came.
    pub fn timed_out(&self) -> CqlError {
        match self.write_type {
            None => CqlError::ReadTimeout {
                consistency: self.consistency,
                received: 0,
                block_for: 1,
                data_present: false,
            },
            // Nobody knows whether it was decided.
            Some(WriteType::Cas) => CqlError::CasWriteUnknown {
                consistency: self.consistency,
                received: 0,
                block_for: 1,
            },
            Some(write_type) => CqlError::WriteTimeout {
                consistency: self.consistency,
                received: 0,
                block_for: 1,
                write_type,
            },
        }
    }
}

/// For a request of which nothing was done.
pub fn not_begun_in_time() -> CqlError {
    CqlError::Overloaded(TIMED_OUT_WAITING.into())
}

/// For a request whose client has too much on its way already.
pub fn no_memory(_: NoMemory) -> CqlError {
    CqlError::overloaded(format_args!("{NoMemory}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long LOGGED batch waited to be planned for as long as a scan may take, and was refused three seconds late.
    #[test]
    fn what_is_not_planned_yet_waits_no_longer_than_its_plan_will_allow() {
        let timeouts = Timeouts {
            read_ns: 5,
            range_ns: 10,
            write_ns: 2,
            truncate_ns: 60,
        };
        let of_classes = [
            StatementClass::Read,
            StatementClass::Write,
            StatementClass::Truncate,
            StatementClass::Other,
            StatementClass::Unknown,
        ]
        .map(|class| timeouts.of_class(class));
        assert_eq!(of_classes, [5, 2, 60, 60, 2]);
    }
}
