//! Carrying out a request on a host.

use helenus_storage::store::{CompactionKind, CompactionRequest, Transfer};

use super::answer::{Answer, Compactions, RefusedSsTable, TableCount};
use super::request::Request;
use crate::host::{ChoiceError, Host, HostError, Incumbents, TableChoice};
use crate::import::{ImportError, ImportOptions, import};
use crate::progress::{Progress, Unit};
use crate::snapshot::{self, SnapshotError};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Blocks until all is done.
pub fn execute(host: &dyn Host, request: &Request, progress: &dyn Progress) -> Result<Answer, ExecuteError> {
    match request {
        Request::SnapshotCreate { tables, name, ttl_s } => {
            let created = snapshot::create(host, tables, name, *ttl_s, progress)?;
            Ok(Answer::SnapshotsCreated(created))
        }
        Request::SnapshotList { tables, name } => {
            let data = host.data_folder()?;
            let found = snapshot::list(&**data.disk(), &data.data_folder(), tables, name.as_deref())?;
            Ok(Answer::Snapshots(found))
        }
        Request::SnapshotRestore {
            tables,
            name,
            replace,
        } => {
            let restored = snapshot::restore(host, tables, name, incumbents(*replace), progress)?;
            Ok(Answer::SnapshotsRestored(restored))
        }
        Request::SnapshotRemove { tables, name } => {
            Ok(Answer::SnapshotsRemoved(snapshot::remove(host, tables, name)?))
        }
        Request::Import {
            folder,
            tables,
            schema_file,
            skip_bad,
            copy,
            replace,
        } => {
            let options = ImportOptions {
                folder: folder.clone(),
                choice: tables.clone(),
                schema_file: schema_file.clone(),
                skip_bad: *skip_bad,
                may_be_empty: false,
                transfer: if *copy { Transfer::Copy } else { Transfer::Link },
                incumbents: incumbents(*replace),
            };
            Ok(Answer::Imported(import(host, &options, progress)?))
        }
        Request::Flush { tables } => flush(host, tables),
        Request::RefusedSsTables {} => refused_sstables(host),
        Request::CompactionStatus {} => Ok(Answer::Compactions(Compactions::of(&host.compactions()?))),
        Request::ViewStatus { tables } => view_status(host, tables),
        Request::CompactionMajor { tables, split_output } => {
            let split_output = *split_output;
            compact(host, tables, CompactionKind::Major { split_output }, progress)
        }
        Request::CompactionCleanup { tables } => compact(host, tables, CompactionKind::Cleanup, progress),
        Request::CompactionStop { tables } => stop_compactions(host, tables),
    }
}

fn flush(host: &dyn Host, choice: &TableChoice) -> Result<Answer, ExecuteError> {
    let tables = choice.tables(&*host.schema()?)?;
    for table in &tables {
        host.flush(Some(table.id))?;
    }
    Ok(Answer::Flushed(TableCount {
        tables: tables.len() as u64,
    }))
}

fn view_status(host: &dyn Host, choice: &TableChoice) -> Result<Answer, ExecuteError> {
    let chosen = choice.tables(&*host.schema()?)?;
    let mut views = host.view_builds()?;
    views.retain(|view| {
        let mut chosen = chosen.iter();
        chosen.any(|table| (&*table.keyspace, &*table.name) == (&*view.keyspace, &*view.view))
    });
    Ok(Answer::Views(views))
}

fn refused_sstables(host: &dyn Host) -> Result<Answer, ExecuteError> {
    let refused = host.data_folder()?.refused_sstables();
    let described = refused.iter().map(|refused| RefusedSsTable {
        keyspace: refused.keyspace.to_string(),
        table: refused.table.to_string(),
        reason: refused.reason.to_string(),
    });
    Ok(Answer::RefusedSsTables(described.collect()))
}

fn stop_compactions(host: &dyn Host, choice: &TableChoice) -> Result<Answer, ExecuteError> {
    let mut count = 0;
    if *choice == TableChoice::default() {
        count = host.stop_compactions(None)?;
    } else {
        for table in choice.tables(&*host.schema()?)? {
            count += host.stop_compactions(Some(table.id))?;
        }
    }
    Ok(Answer::CompactionsStopped { count })
}

fn compact(
    host: &dyn Host,
    choice: &TableChoice,
    kind: CompactionKind,
    progress: &dyn Progress,
) -> Result<Answer, ExecuteError> {
    let tables = choice.tables(&*host.schema()?)?;
    progress.begin("compacting tables", Unit::Files, tables.len() as u64);
    for (done, table) in (1..).zip(&tables) {
        // As nodetool does; what cannot be flushed keeps nothing from being compacted.
        let flushed = match kind {
            CompactionKind::Major { .. } => host.flush(Some(table.id)),
            CompactionKind::Cleanup => Ok(()),
        };
        host.compact(CompactionRequest {
            table: table.id,
            kind,
        })?;
        flushed?;
        progress.at(done);
    }
    Ok(Answer::Compacted(TableCount {
        tables: tables.len() as u64,
    }))
}

fn incumbents(replace: bool) -> Incumbents {
    if replace { Incumbents::Go } else { Incumbents::Stay }
}
