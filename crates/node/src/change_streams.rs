//! Where those who follow change logs find the streams: rows of ScyllaDB's tables `system_distributed.cdc_generation_timestamps` and
//! `system_distributed.cdc_streams_descriptions_v2`, written once, before the first log is.
//!
//! There is one generation of streams for ever: they are the same whatever becomes of the node's shards
//! ([`helenus_engine::change_log::Streams`]).

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_engine::change_log::Streams;
use helenus_schema::Schema;
use helenus_types::value::collection::write_collection;

use crate::built_updates::by_owner;
use crate::deadline::Deadline;
use crate::own_statement::OwnStatements;
use crate::shard::Shard;

const KEYSPACE: &str = "system_distributed";
const TIMESTAMPS: &str = "cdc_generation_timestamps";
const DESCRIPTIONS: &str = "cdc_streams_descriptions_v2";

/// The only partition of the table of timestamps.
const TIMESTAMPS_KEY: &[u8] = b"timestamps";

impl Shard {
    /// Describes the streams, durably, before a schema is in force that has the first log.
    pub(crate) async fn describe_streams(
        self: &Rc<Self>,
        before: &Schema,
        after: &Schema,
    ) -> Result<(), CqlError> {
        let has_logs = |schema: &Schema| schema.tables().any(|table| table.params.change_log.is_some());
        if has_logs(before) || !has_logs(after) {
            return Ok(());
        }
        let described = OwnStatements::on(self)
            .execute(
                "SELECT time FROM system_distributed.cdc_generation_timestamps WHERE key = 'timestamps' LIMIT 1",
                &[],
            )
            .await?;
        match described.is_empty() {
            true => self.write_streams().await,
            false => Ok(()),
        }
    }

    async fn write_streams(self: &Rc<Self>) -> Result<(), CqlError> {
        let now_us = self.context.clock.wall_us();
        let time = (now_us / 1000).to_be_bytes();
        let streams = Streams::get().iter().filter_map(|(range_end, stream)| {
            let mut streams = Vec::new();
            write_collection(&mut streams, 1, [stream.as_slice()]);
            self.system_row(
                (KEYSPACE, DESCRIPTIONS),
                (&[&time], &[&range_end.0.to_be_bytes()]),
                &[("streams", &streams)],
                now_us,
            )
        });
        let mut updates: Vec<_> = streams.collect();
        updates.extend(self.system_row((KEYSPACE, TIMESTAMPS), (&[TIMESTAMPS_KEY], &[&time]), &[], now_us));
        let updates = by_owner(updates, self.context.options.shard_count);
        self.write_whole(updates, Deadline::ENDLESS).await
    }
}
