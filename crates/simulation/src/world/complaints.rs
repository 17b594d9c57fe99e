//! Faults that a node tells its operator of: none in a life in which nothing was broken.

use std::sync::{Mutex, PoisonError};

use helenus_events::{Event, EventListener};

use super::{Held, World};

/// The first fault that was told of in a life.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<Option<String>>);

impl EventListener for Complaints {
    fn event(&self, event: &Event<'_>) {
        let is_fault = matches!(
            event,
            Event::DiskReadsFailed { .. }
                | Event::LogFailed { .. }
                | Event::SchemaUndecided { .. }
                | Event::JobFailed { .. }
                | Event::NotFlushed { .. }
                | Event::SsTableDamaged { .. }
                | Event::SsTableRefused { .. }
                | Event::SidecarFault { .. }
        );
        if is_fault {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| event.to_string());
        }
    }
}

impl Complaints {
    pub(super) fn forget(&self) {
        self.take();
    }

    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

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
