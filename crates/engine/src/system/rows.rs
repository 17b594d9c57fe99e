//! Which generator makes the rows of which table.

use helenus_schema::{Schema, TableMetadata};

use super::node_state::NodeState;
use super::row_writer::RowWriter;
use super::{local_rows, schema_rows, view_rows};

/// Appends every row of a table that [`is_made_from_code`](super::is_made_from_code) as a packed update. Tables that
/// describe what does not exist here (peers, repairs, hints...) have no rows.
pub fn system_updates(table: &TableMetadata, schema: &Schema, node: &NodeState, out: &mut Vec<Vec<u8>>) {
    let mut rows = RowWriter::new(table, node.now_us, out);
    match (&*table.keyspace, &*table.name) {
        ("system", "local") => local_rows::local(&mut rows, node),
        ("system_schema", "keyspaces") => schema_rows::keyspaces(&mut rows, schema),
        ("system_schema", "tables") => schema_rows::tables(&mut rows, schema),
        ("system_schema", "columns") => schema_rows::columns(&mut rows, schema),
        ("system_schema", "dropped_columns") => schema_rows::dropped_columns(&mut rows, schema),
        ("system_schema", "types") => schema_rows::types(&mut rows, schema),
        ("system_virtual_schema", "keyspaces") => schema_rows::virtual_keyspaces(&mut rows, schema),
        ("system_virtual_schema", "tables") => schema_rows::virtual_tables(&mut rows, schema),
        ("system_virtual_schema", "columns") => schema_rows::virtual_columns(&mut rows, schema),
        ("system_views", "clients") => view_rows::clients(&mut rows, node),
        ("system_views", "settings") => view_rows::settings(&mut rows, node),
        _ => {}
    }
}
