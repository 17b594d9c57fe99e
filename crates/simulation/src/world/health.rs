//! What a node makes of faults: it tells its operator of none where nothing is broken, and once one has passed it does all that it did
//! before, or says that it wants a restart.

use std::time::Duration;

use super::{Held, Uncertain, World};
use crate::node::SimulatedNode;

/// Longer than any pause before what has failed is tried again.
const HEALING_TIME: Duration = Duration::from_secs(130);
/// Statements on files and the schema after that.
const HEALED_STATEMENTS: u64 = 12;

impl World {
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

    /// The disk has failed once in this life, and works since.
    pub(super) async fn heal(&mut self, node: &SimulatedNode) -> Held<()> {
        self.settle_all().await?;
        self.disk.clear_faults();
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
