//! Which table a folder is of, by its path.

use std::path::Path;

use crate::snapshot::{SNAPSHOTS, table_folder_name};

/// Keyspace and table that a path tells; each may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub keyspace: Option<String>,
    pub table: Option<String>,
}

/// Knows `KEYSPACE/TABLE-ID`, `KEYSPACE/TABLE-ID/snapshots/NAME`, `KEYSPACE/TABLE-ID/backups` and, as sstableloader
/// wants it, `KEYSPACE/TABLE`.
pub(crate) fn origin_of_folder(folder: &Path) -> Origin {
    let mut names = folder
        .components()
        .rev()
        .filter_map(|component| match component {
            std::path::Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect::<Vec<_>>();
    if names.get(1) == Some(&SNAPSHOTS) {
        names.drain(..2);
    } else if names.first() == Some(&"backups") {
        names.drain(..1);
    }
    let owned = |name: &&str| (*name).to_owned();
    match names.first().and_then(|name| table_folder_name(name)) {
        Some((table, _)) => Origin {
            keyspace: names.get(1).map(owned),
            table: Some(table.to_owned()),
        },
        None => Origin {
            keyspace: names.get(1).map(owned),
            table: names.first().map(owned),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cassandras_layouts_are_known() {
        let id = "5a1c395eb41f11e59f22ba0be0483c18";
        let wanted = Origin {
            keyspace: Some("ks".to_owned()),
            table: Some("t".to_owned()),
        };
        for path in [
            format!("/var/lib/cassandra/data/ks/t-{id}"),
            format!("data/ks/t-{id}/snapshots/before"),
            format!("data/ks/t-{id}/backups/"),
            "/tmp/load/ks/t".to_owned(),
        ] {
            assert_eq!(origin_of_folder(Path::new(&path)), wanted, "{path}");
        }
    }
}
