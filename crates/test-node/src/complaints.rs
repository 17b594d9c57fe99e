//! Faults that a node tells its operator of: there are none as long as nothing is broken.

use std::sync::{Mutex, PoisonError};

use helenus_events::{Event, EventListener, Events};

/// Keeps the first fault, and hands all events on to whoever has them printed.
#[derive(Debug)]
pub struct Complaints {
    first: Mutex<Option<String>>,
    printed: Events,
}

impl Default for Complaints {
    fn default() -> Self {
        Complaints {
            first: Mutex::default(),
            printed: crate::events(),
        }
    }
}

impl EventListener for Complaints {
    fn event(&self, event: &Event<'_>) {
        self.printed.event(event);
        let is_fault = matches!(
            event,
            Event::DiskReadsFailed { .. }
                | Event::LogFailed { .. }
                | Event::LogSegmentNotRemoved { .. }
                | Event::SchemaUndecided { .. }
                | Event::JobFailed { .. }
                | Event::NotFlushed { .. }
                | Event::SsTableDamaged { .. }
                | Event::SsTableRefused { .. }
                | Event::SidecarFault { .. }
        );
        if is_fault {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| event.to_string());
        }
    }
}

impl Complaints {
    /// The first fault since this was last asked, or since the start.
    pub fn take(&self) -> Option<String> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
