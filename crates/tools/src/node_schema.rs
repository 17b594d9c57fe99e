//! Schema of a table in the data folder of a node that this process has not opened.

use std::path::Path;
use std::sync::Arc;

use helenus_catalog::schema_store::SchemaStore;
use helenus_schema::TableMetadata;
use helenus_storage::store::DataFolder;
use helenus_vfs::Disk;

use crate::host::HostError;
use crate::snapshot::{SNAPSHOTS, table_folder_name};

/// The table whose folder (or whose snapshot) this is, by the schema of the data folder it lies in. `None` if it lies in
/// none, or the schema has the table no more. Takes no lock: a running node replaces its schema file by rename.
///
/// `folder` is absolute.
pub fn table_of_node(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Option<Arc<TableMetadata>>, HostError> {
    let folder = match folder.parent() {
        Some(parent) if parent.ends_with(SNAPSHOTS) => parent.parent().unwrap_or(folder),
        _ => folder,
    };
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let Some((_, id)) = table_folder_name(name) else {
        return Ok(None);
    };
    for root in folder.ancestors().skip(1) {
        if DataFolder::is_at(&**disk, root)? {
            let schema = SchemaStore::new(Arc::clone(disk), root.to_owned()).load()?;
            let table = schema
                .tables()
                .find(|table| table.id.0.simple().to_string() == id);
            return Ok(table.cloned());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use helenus_vfs::{MemoryDisk, SystemClock};

    use super::*;
    use crate::host::Host;
    use crate::stopped_node::StoppedNode;

    /// The CSV of a live table began with `PartitionKey,PartitionKey1,clustering`.
    #[test]
    fn a_live_tables_columns_have_their_names() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let root = Path::new("/node");
        let node = StoppedNode::open(Arc::clone(&disk), Arc::new(SystemClock::new()), root).unwrap();
        node.change_schema(
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
        .unwrap();
        node.change_schema("CREATE TABLE k.t (p int, q int, c int, v int, PRIMARY KEY ((p, q), c))")
            .unwrap();
        let schema = node.schema().unwrap();
        let table = schema.table("k", "t").unwrap();
        let folder = node.data_folder().unwrap().table_folder(table);
        for folder in [folder.clone(), folder.join(SNAPSHOTS).join("one")] {
            let found = table_of_node(&disk, &folder).unwrap().unwrap();
            let names: Vec<&str> = found.columns.iter().map(|column| &*column.name).collect();
            assert_eq!(names, ["p", "q", "c", "v"]);
        }
        assert!(
            table_of_node(&disk, Path::new("/elsewhere/k/t"))
                .unwrap()
                .is_none()
        );
        assert!(table_of_node(&disk, &root.join("data/k")).unwrap().is_none());
    }
}
