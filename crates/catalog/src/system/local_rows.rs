//! `system.local`: what every driver reads first.

use super::node_state::{NodeState, PARTITIONER};
use super::row_writer::{RowWriter, Value};

pub(super) fn local(rows: &mut RowWriter<'_>, node: &NodeState) {
    let tokens = node.tokens.iter().map(i64::to_string).collect();
    rows.row(&[
        ("key", Value::Text("local")),
        ("bootstrapped", Value::Text("COMPLETED")),
        ("broadcast_address", Value::Inet(node.address)),
        ("broadcast_port", Value::Int(i32::from(node.storage_port))),
        ("cluster_name", Value::Text(&node.cluster_name)),
        ("cql_version", Value::Text(&node.cql_version)),
        ("data_center", Value::Text(&node.data_center)),
        ("gossip_generation", Value::Int(node.gossip_generation)),
        ("host_id", Value::Uuid(node.host_id)),
        ("listen_address", Value::Inet(node.address)),
        ("listen_port", Value::Int(i32::from(node.storage_port))),
        ("native_protocol_version", Value::Text("5")),
        ("partitioner", Value::Text(PARTITIONER)),
        ("rack", Value::Text(&node.rack)),
        ("release_version", Value::Text(&node.release_version)),
        ("rpc_address", Value::Inet(node.address)),
        ("rpc_port", Value::Int(i32::from(node.native_port))),
        ("schema_version", Value::Uuid(node.schema_version)),
        ("tokens", Value::TextSet(tokens)),
    ]);
}
