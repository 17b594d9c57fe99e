//! `system_views`: the node as it runs.

use std::collections::BTreeMap;

use super::node_state::NodeState;
use super::row_writer::{RowWriter, Value};

pub(super) fn clients(rows: &mut RowWriter<'_>, node: &NodeState) {
    for client in &node.usage.clients {
        let hostname = client.address.to_string();
        let options: BTreeMap<String, String> = client.options.iter().cloned().collect();
        let mut row = vec![
            ("address", Value::Inet(client.address)),
            ("port", Value::Int(i32::from(client.port))),
            ("client_options", Value::TextMap(&options)),
            ("connection_stage", Value::Text(client.stage)),
            ("hostname", Value::Text(&hostname)),
            ("protocol_version", Value::Int(i32::from(client.protocol_version))),
            ("request_count", Value::Bigint(client.request_count.cast_signed())),
            ("ssl_enabled", Value::Boolean(false)),
            ("username", Value::Text(&client.username)),
        ];
        let optional = [
            ("driver_name", client.driver_name.as_deref()),
            ("driver_version", client.driver_version.as_deref()),
            ("keyspace_name", client.keyspace.as_deref()),
        ];
        row.extend(
            optional
                .into_iter()
                .filter_map(|(name, text)| Some((name, Value::Text(text?)))),
        );
        rows.row(&row);
    }
}

pub(super) fn settings(rows: &mut RowWriter<'_>, node: &NodeState) {
    for (name, value) in &node.settings {
        rows.row(&[("name", Value::Text(name)), ("value", Value::Text(value))]);
    }
}

pub(super) fn sstable_tasks(rows: &mut RowWriter<'_>, node: &NodeState) {
    for task in &node.sstable_tasks {
        let ratio = if task.total == 0 {
            1.0
        } else {
            task.progress as f64 / task.total as f64
        };
        rows.row(&[
            ("keyspace_name", Value::Text(&task.keyspace)),
            ("table_name", Value::Text(&task.table)),
            ("task_id", Value::Uuid(task.id)),
            ("completion_ratio", Value::Double(ratio)),
            ("kind", Value::Text(task.kind)),
            ("progress", Value::Bigint(task.progress.cast_signed())),
            ("sstables", Value::Int(task.sstables.cast_signed())),
            ("target_directory", Value::Text(&task.target_directory)),
            ("total", Value::Bigint(task.total.cast_signed())),
            ("unit", Value::Text("bytes")),
        ]);
    }
}

pub(super) fn hot_partitions(rows: &mut RowWriter<'_>, node: &NodeState) {
    for hot in &node.hot_partitions {
        rows.row(&[
            ("keyspace_name", Value::Text(&hot.keyspace)),
            ("table_name", Value::Text(&hot.table)),
            ("shard", Value::Int(i32::from(hot.shard))),
            ("partition_token", Value::Bigint(hot.token)),
            ("partition_key", Value::Text(&hot.key)),
            ("reads_per_second", Value::Double(hot.reads_per_second)),
            ("share", Value::Double(hot.share)),
            ("writes_per_second", Value::Double(hot.writes_per_second)),
        ]);
    }
}

pub(super) fn node_metrics(rows: &mut RowWriter<'_>, node: &NodeState) {
    for metric in &node.metrics {
        rows.row(&[
            ("name", Value::Text(&metric.name)),
            ("labels", Value::Text(&metric.labels)),
            ("value", Value::Double(metric.value)),
        ]);
    }
}
