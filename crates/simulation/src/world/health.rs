//! Health of a node whose disk fails: where nothing is broken its operator is told of no fault, and once a fault has passed it does all
//! that it did before, or says that it wants a restart.

use std::time::Duration;

use helenus_vfs::{Fault, FaultKind, Operation};

use super::{Held, Uncertain, World};
use crate::node::SimulatedNode;

/// Longer than any pause before what has failed is tried again.
const HEALING_TIME: Duration = Duration::from_secs(130);
/// Some of the files that a node makes in a life fit, or none.
const LEFT_BYTES_MAX: u64 = 256 << 10;
/// Statements on files and the schema after that.
const HEALED_STATEMENTS: u64 = 12;

impl World {
    /// One of its operations fails later, or there is no more room on it.
    pub(super) fn break_disk(&mut self) {
        self.has_faults = true;
        if self.below(3) == 0 {
            let left_bytes = self.below(LEFT_BYTES_MAX);
            self.note(format_args!("{left_bytes} bytes are left on the disk"));
            self.disk.set_free_bytes(Some(left_bytes));
            return;
        }
        let operations = [
            Operation::Create,
            Operation::Write,
            Operation::Sync,
            Operation::SyncDirectory,
            Operation::Rename,
            Operation::Remove,
            Operation::Read,
        ];
        let kinds = [FaultKind::Error, FaultKind::NoSpace, FaultKind::Short];
        let fault = Fault {
            operation: operations[self.below(operations.len() as u64) as usize],
            after: self.below(100),
            kind: kinds[self.below(3) as usize],
        };
        self.note(format_args!("{fault:?}"));
        self.disk.inject(fault);
    }

    pub(super) fn check_complaints(&self) -> Held<()> {
        match self.complaints.take() {
            Some(told) if !self.has_faults && !self.disk.is_power_off() => {
                Err(format!("nothing was broken, and the operator is told: {told}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a refusal is right: of a disk that fails, or has failed in a way that only a restart mends.
    pub(super) fn may_be_refused(&self, message: &str) -> bool {
        let is_broken = self.has_faults && !self.is_healed;
        is_broken || self.disk.is_power_off() || (self.has_faults && message.contains("restart"))
    }

    /// The disk has failed in this life, and works from now on.
    pub(super) async fn heal(&mut self, node: &SimulatedNode) -> Held<()> {
        self.settle_all().await?;
        self.disk.clear_faults();
        self.disk.set_free_bytes(None);
        self.note("the disk works again");
        tokio::time::sleep(HEALING_TIME).await;
        self.is_healed = true;
        for _ in 0..HEALED_STATEMENTS {
            if !matches!(self.uncertain, Uncertain::Nothing) || self.is_too_uncertain() {
                break;
            }
            match self.below(4) {
                0 => self.create_table(node).await?,
                1 => self.drop_table(node).await?,
                2 => self.truncate(node).await?,
                _ => self.write(node).await?,
            }
        }
        self.settle_all().await
    }
}
