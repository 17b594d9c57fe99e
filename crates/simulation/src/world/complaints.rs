//! Faults that a node tells its operator of: none in a life in which nothing was broken.

use super::{Held, World};

impl World {
    pub(super) fn check_complaints(&self) -> Held<()> {
        match self.complaints.take() {
            Some(told) if !self.has_faults && !self.disk.is_power_off() => {
                Err(format!("nothing was broken, and the operator is told: {told}"))
            }
            _ => Ok(()),
        }
    }
}
