//! `helenus snapshot`, and `helenus flush`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use helenus_server::config::DurationSetting;
use helenus_tools::control::{Answer, RefusedSsTable, Request};
use helenus_tools::import::Imported;
use helenus_tools::snapshot::SnapshotInfo;

use crate::compaction::print_status;
use crate::operation::{NodeArguments, TableArguments, perform};
use crate::terminal::{Bar, bytes_text, fail, print_json};
use crate::view::print_views;

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum SnapshotCommand {
    /// Link the files of tables under a name; nothing is copied. All tables unless some are named.
    Create {
        /// The snapshot's name [default: the milliseconds since 1970].
        #[arg(long)]
        name: Option<String>,
        /// How long it lives, for example 12h or 7d; then the node removes it. Without it, until it is removed.
        #[arg(long)]
        ttl: Option<DurationSetting>,
        #[command(flatten)]
        tables: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Which snapshots there are, and what they cost.
    List {
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        tables: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Bring the rows of a snapshot back; into a running node, too. Each table gets all of it or nothing.
    Restore {
        #[arg(long)]
        name: String,
        /// The tables hold what the snapshot holds, and what they held goes. Without it both are merged: the newest
        /// write of each cell wins, deletions included.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        tables: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Remove snapshots; the tables keep their rows.
    Remove {
        #[arg(long)]
        name: String,
        #[command(flatten)]
        tables: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
}

#[derive(Args)]
pub struct FlushArguments {
    #[command(flatten)]
    tables: TableArguments,
    #[command(flatten)]
    node: NodeArguments,
}

const EXAMPLES: &str = "Examples:
  helenus snapshot create --name before --keyspace shop     of all tables of a keyspace
  helenus snapshot list                                     name, table, size, when
  helenus snapshot restore --name before --table shop.cart  merge the snapshot's rows with the table's
  helenus snapshot restore --name before --table shop.cart --replace
                                                            the table as it was
  helenus snapshot remove --name before";

pub fn run(command: &SnapshotCommand) -> ExitCode {
    let (node, request) = match command {
        SnapshotCommand::Create {
            name,
            ttl,
            tables,
            node,
        } => (
            node,
            Request::SnapshotCreate {
                tables: tables.choice(),
                name: name.clone().unwrap_or_else(now_ms),
                ttl_s: ttl.map(|ttl| ttl.0.as_secs()),
            },
        ),
        SnapshotCommand::List { name, tables, node } => (
            node,
            Request::SnapshotList {
                tables: tables.choice(),
                name: name.clone(),
            },
        ),
        SnapshotCommand::Restore {
            name,
            replace,
            tables,
            node,
        } => (
            node,
            Request::SnapshotRestore {
                tables: tables.choice(),
                name: name.clone(),
                replace: *replace,
            },
        ),
        SnapshotCommand::Remove { name, tables, node } => (
            node,
            Request::SnapshotRemove {
                tables: tables.choice(),
                name: name.clone(),
            },
        ),
    };
    answer("snapshot", node, &request)
}

pub fn flush(arguments: &FlushArguments) -> ExitCode {
    let request = Request::Flush {
        tables: arguments.tables.choice(),
    };
    answer("flush", &arguments.node, &request)
}

/// Performs a request and prints its answer.
pub fn answer(command: &str, node: &NodeArguments, request: &Request) -> ExitCode {
    let bar = Bar::new();
    let performed = perform(&node.data, request, &bar);
    drop(bar);
    match performed {
        Err(error) => fail(command, &error),
        Ok(answer) if node.json => print_json(&answer),
        Ok(answer) => {
            print(&answer);
            ExitCode::SUCCESS
        }
    }
}

fn print(answer: &Answer) {
    match answer {
        Answer::SnapshotsCreated(created) => {
            for made in created {
                println!(
                    "{}.{}: {} SSTables, {} files, {} linked in {}",
                    made.keyspace,
                    made.table,
                    made.sstables,
                    made.files,
                    bytes_text(made.bytes),
                    made.folder.display()
                );
            }
        }
        Answer::Snapshots(snapshots) => print_list(snapshots),
        Answer::SnapshotsRestored(restored) => restored.iter().for_each(print_imported),
        Answer::SnapshotsRemoved(removed) => {
            for snapshot in removed {
                println!(
                    "{}.{}: removed {}, {} freed",
                    snapshot.keyspace,
                    snapshot.table,
                    snapshot.name,
                    bytes_text(snapshot.true_bytes)
                );
            }
        }
        Answer::Imported(imported) => print_imported(imported),
        Answer::Flushed(flushed) => println!("{} tables flushed", flushed.tables),
        Answer::RefusedSsTables(refused) if refused.is_empty() => println!("none"),
        Answer::RefusedSsTables(refused) => {
            let of_table = |left: &RefusedSsTable, right: &RefusedSsTable| {
                (&left.keyspace, &left.table) == (&right.keyspace, &right.table)
            };
            for refused in refused.chunk_by(of_table) {
                for sstable in refused {
                    println!("{}.{}: {}", sstable.keyspace, sstable.table, sstable.reason);
                }
                if let Some(RefusedSsTable { keyspace, table, .. }) = refused.first() {
                    println!("  {}", RefusedSsTable::advice(keyspace, table));
                }
            }
        }
        Answer::Compactions(status) => print_status(status),
        Answer::Compacted(compacted) => println!("{} tables compacted", compacted.tables),
        Answer::Views(views) => print_views(views),
        Answer::CompactionsStopped { count } => println!("{count} compactions stopped"),
    }
}

fn print_imported(imported: &Imported) {
    println!(
        "{}.{}: {} SSTables, {} partitions, {} rows, {} of data",
        imported.keyspace,
        imported.table,
        imported.sstables,
        imported.partitions,
        imported.rows,
        bytes_text(imported.data_bytes)
    );
    for refused in &imported.refused {
        println!("  left out {}: {}", refused.file, refused.reason);
    }
}

fn print_list(snapshots: &[SnapshotInfo]) {
    if snapshots.is_empty() {
        println!("there are no snapshots");
        return;
    }
    print!("{}", list_text(snapshots));
}

/// Columns as wide as what is in them: snapshots have long names.
fn list_text(snapshots: &[SnapshotInfo]) -> String {
    let head = ["name", "table", "true size", "on disk", "created", "expires"].map(str::to_owned);
    let lines = snapshots.iter().map(|snapshot| {
        let created = match &snapshot.created_at {
            Some(at) => at,
            None if snapshot.is_complete => "",
            None => "was not finished",
        };
        [
            snapshot.name.clone(),
            format!("{}.{}", snapshot.keyspace, snapshot.table),
            bytes_text(snapshot.true_bytes),
            bytes_text(snapshot.bytes),
            created.to_owned(),
            snapshot.expires_at.clone().unwrap_or_default(),
        ]
    });
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(lines).collect();
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let [name, table, true_size, on_disk, created] = [0, 1, 2, 3, 4].map(width);
    lines
        .iter()
        .map(|line| {
            let text = format!(
                "{:<name$}  {:<table$}  {:>true_size$}  {:>on_disk$}  {:<created$}  {}",
                line[0], line[1], line[2], line[3], line[4], line[5]
            );
            format!("{}\n", text.trim_end())
        })
        .collect()
}

fn now_ms() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or_else(|_| "0".to_owned(), |now| now.as_millis().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of a snapshot that TRUNCATE took is longer than a column was wide.
    #[test]
    fn long_names_move_no_column() {
        let snapshot = |name: &str, table: &str| SnapshotInfo {
            name: name.to_owned(),
            keyspace: "k".to_owned(),
            table: table.to_owned(),
            table_id: String::new(),
            files: 1,
            folder: std::path::PathBuf::new(),
            true_bytes: 1 << 20,
            bytes: 1 << 20,
            created_at: Some("2026-01-01".to_owned()),
            expires_at: None,
            is_complete: true,
        };
        let long = "truncated-1790000000000-a_table_with_a_long_name_of_its_own";
        let text = list_text(&[snapshot("s", "t"), snapshot(long, &"t".repeat(48))]);
        let places: Vec<_> = text.lines().skip(1).map(|line| line.find("2026-01-01")).collect();
        assert!(places[0].is_some() && places[0] == places[1], "{text}");
    }
}
