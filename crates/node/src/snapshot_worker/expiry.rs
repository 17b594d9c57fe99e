//! Snapshots whose time is over.

use std::rc::Rc;
use std::time::Duration;

use helenus_events::Event;
use helenus_tools::snapshot::remove_expired;

use super::SnapshotWorker;
use crate::shard::Shard;

/// How often expired snapshots are looked for: Cassandra's `snapshot_cleanup_period`.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

impl Shard {
    /// Snapshot worker of the schema's owner; `None` on other shards and in memory.
    pub(crate) fn snapshots(&self) -> Option<&SnapshotWorker> {
        self.schema_owner.as_ref()?.snapshots.as_ref()
    }

    /// Removes snapshots whose time is over, again and again.
    pub(crate) async fn sweep_snapshots(self: Rc<Self>) {
        let data_folder = self.store.borrow().data_folder().cloned();
        let (Some(worker), Some(data_folder)) = (self.snapshots(), data_folder) else {
            return;
        };
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            let data_folder = data_folder.clone();
            let swept = worker.run(move || remove_expired(&data_folder)).await;
            // What could not be removed is tried again with the next.
            if let Ok(Some(Err(error))) = swept {
                self.context
                    .options
                    .events
                    .event(&Event::SnapshotsNotRemoved { error: &error });
            }
        }
    }
}
