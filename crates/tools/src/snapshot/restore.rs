//! Restoring: the snapshot's files become the table's again, table by table.

use std::collections::BTreeMap;

use helenus_storage::store::Transfer;

use super::{SnapshotError, SnapshotInfo, check_name, list};
use crate::host::{Host, Incumbents, TableChoice};
use crate::import::{ImportOptions, Imported, import};
use crate::progress::Progress;

/// Restores the snapshots of that name of the chosen tables. A table gets all files or none; a table that was dropped
/// since is made again as it was. The snapshots stay.
pub fn restore(
    host: &dyn Host,
    choice: &TableChoice,
    name: &str,
    incumbents: Incumbents,
    progress: &dyn Progress,
) -> Result<Vec<Imported>, SnapshotError> {
    check_name(name)?;
    let data = host.data_folder()?;
    let found = list(&**data.disk(), &data.data_folder(), choice, Some(name))?;
    if found.is_empty() {
        return Err(SnapshotError::NotFound {
            name: name.to_owned(),
        });
    }
    let mut restored = Vec::new();
    for snapshot in one_per_table(host, found)? {
        if !snapshot.is_complete {
            return Err(SnapshotError::Unfinished {
                folder: snapshot.folder,
            });
        }
        let options = ImportOptions {
            folder: snapshot.folder,
            choice: TableChoice {
                keyspace: Some(snapshot.keyspace.clone()),
                table: Some(snapshot.table.clone()),
            },
            schema_file: None,
            skip_bad: false,
            may_be_empty: true,
            transfer: Transfer::Link,
            incumbents,
        };
        let imported = import(host, &options, progress).map_err(|source| SnapshotError::Import {
            keyspace: snapshot.keyspace,
            table: snapshot.table,
            source: Box::new(source),
        })?;
        restored.push(imported);
    }
    Ok(restored)
}

/// A table that was dropped and made again may have snapshots under several ids: the one of the table that there is,
/// else the newest.
fn one_per_table(host: &dyn Host, found: Vec<SnapshotInfo>) -> Result<Vec<SnapshotInfo>, SnapshotError> {
    let schema = host.schema()?;
    let rank = |snapshot: &SnapshotInfo| {
        let live = schema.table(&snapshot.keyspace, &snapshot.table);
        let is_live = live.is_some_and(|table| table.id.0.simple().to_string() == snapshot.table_id);
        (is_live, snapshot.created_at.clone())
    };
    let mut chosen: BTreeMap<(String, String), SnapshotInfo> = BTreeMap::new();
    for snapshot in found {
        let key = (snapshot.keyspace.clone(), snapshot.table.clone());
        let is_better = chosen.get(&key).is_none_or(|other| rank(other) < rank(&snapshot));
        if is_better {
            chosen.insert(key, snapshot);
        }
    }
    Ok(chosen.into_values().collect())
}
