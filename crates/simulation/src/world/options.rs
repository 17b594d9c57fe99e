//! Options of the nodes that a seed starts.

use std::sync::Arc;

use helenus_node::{CommitlogSync, CompactionSettings, NodeOptions};
use helenus_test_node::options;
use helenus_vfs::{Random, SeededRandom, SimulatedDisk};

use super::{RANGE_TIMEOUT, READ_TIMEOUT, TRUNCATE_TIMEOUT, WRITE_TIMEOUT, World};
use crate::clock::SimulatedClock;
use crate::threads::SimulatedThreads;
use crate::weather::Weather;

impl World {
    pub(super) fn options(&self) -> NodeOptions {
        NodeOptions {
            events: self.complaints.clone(),
            ..self.options_on(&self.random, &self.disk, &self.clock, &self.weather)
        }
    }

    pub(super) fn options_on(
        &self,
        random: &SeededRandom,
        disk: &Arc<SimulatedDisk>,
        clock: &Arc<SimulatedClock>,
        weather: &Arc<Weather>,
    ) -> NodeOptions {
        let shard_count = 1 + random.below(4) as u16;
        NodeOptions {
            memory_bytes: self.memory_bytes_per_shard * u64::from(shard_count),
            row_cache: self.row_cache,
            walks_small_graphs: self.walks_small_graphs,
            read_step_units_max: self.read_step_units_max,
            commitlog_segment_bytes: self.commitlog_segment_bytes,
            tries_all_at_once: self.tries_all_at_once,
            commitlog_sync: CommitlogSync::Group,
            sstable_format: self.format,
            read_request_timeout: READ_TIMEOUT,
            range_request_timeout: RANGE_TIMEOUT,
            write_request_timeout: WRITE_TIMEOUT,
            truncate_request_timeout: TRUNCATE_TIMEOUT,
            compaction: CompactionSettings {
                bytes_per_s_max: 0,
                concurrent_compactors: Some(1 + random.below(3) as usize),
            },
            threads: Arc::new(SimulatedThreads::new(weather.clone())),
            random: Arc::new(SeededRandom::new(random.next_u64())),
            ..options(shard_count, disk.clone(), clock.clone())
        }
    }
}
