//! The import itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::{TableId, TableMetadata, is_local_system_keyspace};
use helenus_storage::store::{Adoption, DataFolder, Transfer};
use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::schema::{Undo, create_inferred};
use super::{ImportError, SchemaSource, TextSchema, origin_of_folder};
use crate::host::{Host, Incumbents, TableChoice};
use crate::progress::Progress;
use crate::target::{Target, TargetError, Targets};
use crate::verify::{Contents, check_contents};

#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// With SSTables, and perhaps a `schema.cql`.
    pub folder: PathBuf,
    /// Where the folder's own word is not wanted.
    pub choice: TableChoice,
    /// Instead of the folder's `schema.cql`.
    pub schema_file: Option<PathBuf>,
    /// Takes the good files where others are bad, instead of none.
    pub skip_bad: bool,
    /// A folder without SSTables is a table without rows, as in a snapshot of one.
    pub may_be_empty: bool,
    pub transfer: Transfer,
    pub incumbents: Incumbents,
}

/// Outcome of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    pub keyspace: String,
    pub table: String,
    pub schema: SchemaSource,
    /// That were taken from the folder.
    pub sstables: u64,
    /// That the table got: more where some were split among the shards.
    pub sstables_added: u64,
    pub partitions: u64,
    pub rows: u64,
    pub data_bytes: u64,
    pub refused: Vec<Refused>,
}

/// An SSTable that was left where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub file: String,
    pub reason: String,
}

/// Imports a folder. Every SSTable is read from start to end first; nothing changes unless all are good, or bad ones
/// may be skipped.
pub fn import(
    host: &dyn Host,
    options: &ImportOptions,
    progress: &dyn Progress,
) -> Result<Imported, ImportError> {
    let data = host.data_folder()?;
    let disk = &**data.disk();
    let targets = match Targets::find(disk, &options.folder) {
        Err(TargetError::Empty { .. }) if options.may_be_empty => Targets::default(),
        found => found?,
    };
    let wanted = Wanted::find(host, disk, options)?;
    let undo = Undo::begin(host, &wanted.keyspace, &wanted.table)?;
    let imported = import_into(host, &data, &wanted, options, &targets, progress);
    if imported.is_err() {
        // The error to tell is the first.
        let _left_behind = undo.undo(host);
    }
    imported
}

fn import_into(
    host: &dyn Host,
    data: &Arc<DataFolder>,
    wanted: &Wanted,
    options: &ImportOptions,
    targets: &Targets,
    progress: &dyn Progress,
) -> Result<Imported, ImportError> {
    let disk = &**data.disk();
    let (table, schema) = wanted.table(host, disk, options, &targets.readable)?;
    // A stopped node's folder may hold what a crash left.
    host.sstables(&table)?;
    let mut adoption = Adoption::begin(data, &table)?;
    let mut import = Import {
        host,
        disk,
        transfer: options.transfer,
        contents: Contents::default(),
        taken: 0,
        refused: Vec::new(),
    };
    if let Err(error) = import.stage(&mut adoption, targets, progress) {
        adoption.abandon()?;
        return Err(error);
    }
    let Import {
        contents,
        taken,
        refused,
        ..
    } = import;
    let first = refused.first().map(|refused| refused.reason.clone());
    match first {
        Some(first) if taken == 0 => {
            adoption.abandon()?;
            return Err(ImportError::AllBad { first });
        }
        Some(first) if !options.skip_bad => {
            adoption.abandon()?;
            let count = refused.len();
            return Err(ImportError::Bad { count, first });
        }
        _ => {}
    }
    let sstables_added = host.adopt(&table, adoption, options.incumbents)?;
    Ok(Imported {
        keyspace: table.keyspace.to_string(),
        table: table.name.to_string(),
        schema,
        sstables: taken,
        sstables_added,
        partitions: contents.partitions,
        rows: contents.rows,
        data_bytes: contents.data_bytes,
        refused,
    })
}

struct Import<'a> {
    host: &'a dyn Host,
    disk: &'a dyn Disk,
    transfer: Transfer,
    contents: Contents,
    taken: u64,
    refused: Vec<Refused>,
}

impl Import<'_> {
    fn stage(
        &mut self,
        adoption: &mut Adoption,
        targets: &Targets,
        progress: &dyn Progress,
    ) -> Result<(), ImportError> {
        for path in &targets.foreign {
            self.refused.push(Refused {
                file: path.display().to_string(),
                reason: TargetError::Foreign { path: path.clone() }.to_string(),
            });
        }
        for target in &targets.readable {
            if let Err(reason) = self.stage_one(adoption, target, progress)? {
                self.refused.push(Refused {
                    file: target.label(),
                    reason,
                });
            }
        }
        Ok(())
    }

    /// The inner error is the file's fault, the outer one is not.
    fn stage_one(
        &mut self,
        adoption: &mut Adoption,
        target: &Target,
        progress: &dyn Progress,
    ) -> Result<Result<(), String>, ImportError> {
        let label = target.label();
        let stored = match target
            .metadata(self.disk)
            .and_then(|found| Ok(found.table("", "")?))
        {
            Ok(stored) => stored,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let staged = adoption.take(target.descriptor.version, &target.files, self.transfer)?;
        let staging = adoption.staging().display().to_string();
        let named = |reason: String| {
            // The operator knows the file by the name that it came with.
            let own = target.folder.join(target.descriptor.to_string());
            reason.replace(&format!("{staging}/{staged}"), &own.display().to_string())
        };
        // Its own types first, to see all cells; then the table's, to see that they fit.
        let renamed = target.renamed(adoption.staging(), staged);
        let checked = renamed
            .require_mandatory()
            .map_err(|error| error.to_string())
            .and_then(|()| adoption.seal(staged).map_err(|error| error.to_string()))
            .and_then(|_| {
                renamed
                    .open(self.disk, &stored)
                    .map_err(|error| error.to_string())
            })
            .and_then(|sstable| {
                let (contents, findings) = check_contents(&sstable, &stored, &label, progress)
                    .map_err(|finding| finding.to_string())?;
                match findings.first() {
                    Some(finding) => Err(finding.to_string()),
                    None => Ok(contents),
                }
            })
            .and_then(|contents| {
                let sstable = adoption.open(staged).map_err(|error| error.to_string())?;
                Ok((contents, sstable))
            });
        let (contents, sstable) = match checked {
            Ok(checked) => checked,
            Err(reason) => {
                adoption.refuse(staged)?;
                return Ok(Err(named(reason)));
            }
        };
        adoption.split(&sstable, self.host.shard_count())?;
        self.taken += 1;
        self.contents.partitions += contents.partitions;
        self.contents.rows += contents.rows;
        self.contents.data_bytes += contents.data_bytes;
        Ok(Ok(()))
    }
}

/// The table that the files go to.
struct Wanted {
    keyspace: String,
    table: String,
    text: Option<TextSchema>,
}

fn is_view(host: &dyn Host, chosen: &TableChoice) -> Result<bool, ImportError> {
    let (Some(keyspace), Some(table)) = (&chosen.keyspace, &chosen.table) else {
        return Ok(false);
    };
    let schema = host.schema()?;
    let keyspace = schema.keyspace(keyspace);
    Ok(keyspace.is_some_and(|keyspace| keyspace.views.contains_key(table.as_str())))
}

impl Wanted {
    fn find(host: &dyn Host, disk: &dyn Disk, options: &ImportOptions) -> Result<Wanted, ImportError> {
        let origin = origin_of_folder(&options.folder);
        let chosen = &options.choice;
        // A view is made of its base table: what its snapshot says of it makes no table.
        let text = match is_view(host, chosen)? {
            true => None,
            false => TextSchema::find(disk, &options.folder, options.schema_file.as_deref())?,
        };
        let names = match (&chosen.keyspace, &chosen.table, &text) {
            (Some(keyspace), Some(table), _) => Some((keyspace.clone(), table.clone())),
            (_, _, Some(text)) => Some((text.keyspace.clone(), text.table.clone())),
            (keyspace, table, None) => keyspace
                .clone()
                .or(origin.keyspace)
                .zip(table.clone().or(origin.table)),
        };
        let (keyspace, table) = names.ok_or_else(|| ImportError::UnknownTable {
            folder: options.folder.clone(),
        })?;
        if is_local_system_keyspace(&keyspace) {
            return Err(ImportError::SystemTable { keyspace, table });
        }
        Ok(Wanted {
            keyspace,
            table,
            text,
        })
    }

    /// Makes it if the node does not have it.
    fn table(
        &self,
        host: &dyn Host,
        disk: &dyn Disk,
        options: &ImportOptions,
        targets: &[Target],
    ) -> Result<(Arc<TableMetadata>, SchemaSource), ImportError> {
        let (keyspace, table) = (&self.keyspace, &self.table);
        if let Some(found) = host.schema()?.table(keyspace, table) {
            return Ok((Arc::clone(found), SchemaSource::Node));
        }
        let source = match &self.text {
            Some(text) if (&text.keyspace, &text.table) != (keyspace, table) => {
                return Err(ImportError::OtherTable {
                    path: options.folder.join(crate::schema_text::SCHEMA_FILE),
                    found: format!("{}.{}", text.keyspace, text.table),
                    wanted: format!("{keyspace}.{table}"),
                });
            }
            Some(text) => {
                text.create(host)?;
                SchemaSource::Text
            }
            None => {
                let inferred = inferred_table(disk, keyspace, table, targets)?;
                create_inferred(host, &inferred)?;
                SchemaSource::Statistics
            }
        };
        let schema = host.schema()?;
        let made = schema.table(keyspace, table).cloned();
        made.map(|made| (made, source))
            .ok_or_else(|| ImportError::UnknownTable {
                folder: options.folder.clone(),
            })
    }
}

/// From the first file that can be read. The names of key columns are the usual ones of a table that has none.
fn inferred_table(
    disk: &dyn Disk,
    keyspace: &str,
    table: &str,
    targets: &[Target],
) -> Result<TableMetadata, ImportError> {
    let mut first_error = None;
    for target in targets {
        match target
            .metadata(disk)
            .and_then(|metadata| Ok(metadata.table(keyspace, table)?))
        {
            Ok(inferred) => {
                return Ok(TableMetadata {
                    id: TableId(Uuid::new_v4()),
                    ..inferred
                });
            }
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.map_or_else(
        || ImportError::UnknownTable {
            folder: Path::new(table).to_path_buf(),
        },
        ImportError::from,
    ))
}
