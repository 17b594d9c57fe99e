//! `system_views`: the node as it runs.

use std::collections::BTreeMap;

use super::node_state::NodeState;
use super::row_writer::{RowWriter, Value};

pub(super) fn clients(rows: &mut RowWriter<'_>, node: &NodeState) {
    for client in &node.clients {
        let hostname = client.address.to_string();
        let options: BTreeMap<String, String> = client.options.iter().cloned().collect();
        let mut row = vec![
            ("address", Value::Inet(client.address)),
            ("port", Value::Int(i32::from(client.port))),
            ("client_options", Value::TextMap(&options)),
            ("connection_stage", Value::Text("ready")),
            ("hostname", Value::Text(&hostname)),
            ("protocol_version", Value::Int(i32::from(client.protocol_version))),
            ("request_count", Value::Bigint(client.request_count.cast_signed())),
            ("ssl_enabled", Value::Boolean(false)),
            ("username", Value::Text(&client.username)),
        ];
        let optional = [
            ("driver_name", &client.driver_name),
            ("driver_version", &client.driver_version),
            ("keyspace_name", &client.keyspace),
        ];
        row.extend(
            optional
                .into_iter()
                .filter_map(|(name, text)| Some((name, Value::Text(text.as_deref()?)))),
        );
        rows.row(&row);
    }
}

pub(super) fn settings(rows: &mut RowWriter<'_>, node: &NodeState) {
    for (name, value) in &node.settings {
        rows.row(&[("name", Value::Text(name)), ("value", Value::Text(value))]);
    }
}
