//! Events of one node between two statements, by operators, disks and power.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_node::{Operator, SsTableFormat};
use helenus_schema::{Schema, TableMetadata};
use helenus_storage::store::{CompactionKind, CompactionRequest, Transfer};
use helenus_test_node::{Answer, Execution, Pending, Rows, TestNode};
use helenus_tools::export::export_sstables;
use helenus_tools::host::{Host as _, Incumbents, TableChoice};
use helenus_tools::import::{ImportOptions, import};
use helenus_tools::progress::Silent;
use helenus_tools::snapshot;
use helenus_tools::target::Targets;
use helenus_types::quoted_identifier;
use helenus_vfs::{Disk, EntryKind};

/// Name of the event's own snapshot, which is gone when it ends.
const SNAPSHOT: &str = "metamorphic";
/// Beside the data folder.
const EXPORTS: &str = "/helenus-exports";

/// Returns the tables that a history made, not those that the node has of its own.
fn own_tables(schema: &Schema) -> impl Iterator<Item = &Arc<TableMetadata>> {
    schema
        .tables()
        .filter(|table| !table.keyspace.starts_with("system"))
}

pub fn compact(operator: &Operator) -> Result<(), String> {
    let schema = operator.schema().map_err(|error| error.to_string())?;
    for table in own_tables(&schema) {
        let request = CompactionRequest {
            table: table.id,
            kind: CompactionKind::Major { split_output: false },
        };
        operator.compact(request).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A snapshot of everything takes the place of everything.
pub fn restore(operator: &Operator) -> Result<(), String> {
    with_snapshot(operator, |choice, _| {
        snapshot::restore(operator, choice, SNAPSHOT, Incumbents::Go, &Silent)
            .map(|_restored| ())
            .map_err(|error| error.to_string())
    })
}

/// Every table is written anew in a format, and that takes its place.
pub fn interchange(operator: &Operator, format: SsTableFormat) -> Result<(), String> {
    with_snapshot(operator, |_, created| {
        let data = operator.data_folder().map_err(|error| error.to_string())?;
        for snapshot in created {
            let targets = match Targets::find(&**data.disk(), &snapshot.folder) {
                Err(helenus_tools::target::TargetError::Empty { .. }) => Targets::default(),
                found => found.map_err(|error| error.to_string())?,
            };
            let out = Path::new(EXPORTS).join(&snapshot.keyspace).join(&snapshot.table);
            export_sstables(data.disk(), &targets.readable, format, &out, &Silent)
                .map_err(|error| error.to_string())?;
            let options = ImportOptions {
                folder: out.clone(),
                choice: TableChoice {
                    keyspace: Some(snapshot.keyspace.clone()),
                    table: Some(snapshot.table.clone()),
                },
                schema_file: None,
                skip_bad: false,
                may_be_empty: true,
                transfer: Transfer::Copy,
                incumbents: Incumbents::Go,
            };
            import(operator, &options, &Silent).map_err(|error| error.to_string())?;
            remove_files(&**data.disk(), &out).map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

fn with_snapshot(
    operator: &Operator,
    work: impl FnOnce(&TableChoice, &[snapshot::Created]) -> Result<(), String>,
) -> Result<(), String> {
    let all = TableChoice::default();
    let created = snapshot::create(operator, &all, SNAPSHOT, None, &Silent);
    let created = created.map_err(|error| error.to_string())?;
    if created.is_empty() {
        return Ok(());
    }
    work(&all, &created)?;
    let removed = snapshot::remove(operator, &all, SNAPSHOT);
    removed.map(|_removed| ()).map_err(|error| error.to_string())
}

fn remove_files(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    for entry in disk.list(folder)? {
        disk.remove(&folder.join(entry.name))?;
    }
    // Else some of them are there again after a crash.
    disk.sync_directory(folder)
}

/// The files of own tables' SSTables, each with its length, in a folder of data.
pub fn sstable_files(disk: &dyn Disk, data: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let children = |folder: &Path, kind: EntryKind| -> io::Result<Vec<String>> {
        let mut entries = disk.list(folder)?;
        entries.retain(|entry| entry.kind == kind);
        let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        Ok(names)
    };
    let mut files = Vec::new();
    let mut keyspaces = children(data, EntryKind::Directory)?;
    keyspaces.retain(|keyspace| !keyspace.starts_with("system"));
    for keyspace in keyspaces {
        let keyspace = data.join(keyspace);
        for table in children(&keyspace, EntryKind::Directory)? {
            let table = keyspace.join(table);
            for file in children(&table, EntryKind::File)? {
                let path = table.join(file);
                let length = disk.open(&path)?.length()?;
                files.push((path, length));
            }
        }
    }
    files.retain(|(_, length)| *length > 0);
    Ok(files)
}

/// Tables of which the node says that it reads them without all of their SSTables.
pub fn incomplete_tables(operator: &Operator) -> Result<BTreeSet<String>, String> {
    let data = operator.data_folder().map_err(|error| error.to_string())?;
    let refused = data.refused_sstables();
    let names = refused
        .iter()
        .map(|refused| qualified(&refused.keyspace, &refused.table));
    Ok(names.collect())
}

/// All rows of all own tables; `None` where that is an error.
pub fn contents(node: &TestNode) -> Vec<(String, Option<Rows>)> {
    let schema = node.schema();
    let mut names: Vec<String> = own_tables(&schema)
        .map(|table| qualified(&table.keyspace, &table.name))
        .collect();
    names.sort();
    let read = names.into_iter().map(|name| {
        let answer = node.execute(&format!("SELECT * FROM {name}"));
        match answer {
            Answer::Rows(rows) => (name, Some(rows)),
            _ => (name, None),
        }
    });
    read.collect()
}

/// As many as make several pages of a few rows.
const PAGE_ROWS: i32 = 3;

/// Tables that are being read, each with its first page.
pub struct Pages(Vec<(String, Rows)>);

/// The first page of each own table.
pub fn begin_pages(node: &TestNode) -> Pages {
    let schema = node.schema();
    let names = own_tables(&schema).map(|table| qualified(&table.keyspace, &table.name));
    let first_page = |name: String| match next_page(node, &name, None) {
        Answer::Rows(page) => Some((name, page)),
        _ => None,
    };
    Pages(names.filter_map(first_page).collect())
}

/// The other pages, of the process that has taken the node's place: together they are what the table held before.
pub fn finish_pages(node: &TestNode, begun: Pages, before: &[(String, Option<Rows>)]) -> Result<(), String> {
    for (name, page) in begun.0 {
        let (mut rows, mut paging_state) = (page.rows, page.paging_state);
        while paging_state.is_some() {
            match next_page(node, &name, paging_state) {
                Answer::Rows(page) => {
                    rows.extend(page.rows);
                    paging_state = page.paging_state;
                }
                answer => return Err(format!("the next page of {name}: {answer:?}")),
            }
        }
        let all = before.iter().find(|(other, _)| *other == name);
        if let Some((_, Some(all))) = all
            && all.rows != rows
        {
            return Err(format!(
                "{name} had {} rows, in pages before and after {}",
                all.rows.len(),
                rows.len()
            ));
        }
    }
    Ok(())
}

fn next_page(node: &TestNode, name: &str, paging_state: Option<Vec<u8>>) -> Answer {
    let execution = Execution {
        page_size: Some(PAGE_ROWS),
        paging_state,
        ..Execution::default()
    };
    node.execute_with(&format!("SELECT * FROM {name}"), &execution)
}

/// Increments that nobody has waited for.
pub struct Counting {
    count: i64,
    under_way: Vec<Pending>,
}

const COUNTER_TABLE: &str = "CREATE TABLE IF NOT EXISTS probe.c (k int PRIMARY KEY, n counter)";

pub fn begin_counting(node: &TestNode) -> Counting {
    node.run(PROBE_KEYSPACE);
    node.run(COUNTER_TABLE);
    let count = counted(node);
    let increment = |_| node.submit("UPDATE probe.c SET n = n + 1 WHERE k = 0", &Execution::default());
    Counting {
        count,
        under_way: (0..PROBES).map(increment).collect(),
    }
}

impl Counting {
    /// Checks that each acknowledged increment is there once, and each other one at most once.
    pub fn check(self, node: &TestNode) -> Result<(), String> {
        let sent = self.under_way.len() as i64;
        let answers = self.under_way.into_iter().map(Pending::wait);
        let acknowledged = answers
            .filter(|answer| matches!(answer, Some(answer) if !matches!(answer, Answer::Error { .. })))
            .count() as i64;
        let found = counted(node) - self.count;
        match (acknowledged..=sent).contains(&found) {
            true => Ok(()),
            false => Err(format!(
                "{acknowledged} of {sent} increments were acknowledged, {found} were counted"
            )),
        }
    }
}

fn counted(node: &TestNode) -> i64 {
    let rows = node.rows("SELECT n FROM probe.c WHERE k = 0");
    let count = rows.first().and_then(|row| row.first()).cloned().flatten();
    count
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, i64::from_be_bytes)
}

fn qualified(keyspace: &str, table: &str) -> String {
    format!("{}.{}", quoted_identifier(keyspace), quoted_identifier(table))
}

/// Rows of a table that no statement of a history knows, in a keyspace of its own.
const PROBE_KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS probe WITH replication = {'class': 'SimpleStrategy', \
                              'replication_factor': 1}";
const PROBE_TABLE: &str = "CREATE TABLE IF NOT EXISTS probe.t (k int PRIMARY KEY)";
/// As many as reach the logs of all shards.
pub const PROBES: i32 = 12;

pub fn make_probe_table(node: &TestNode) {
    node.run(PROBE_KEYSPACE);
    node.run(PROBE_TABLE);
}

/// Writes rows while a sync may fail. Those that were acknowledged, or what must not be.
pub fn write_probes(node: &TestNode, first: i32) -> Result<Vec<i32>, String> {
    let write = |key: &i32| {
        let text = format!("INSERT INTO probe.t (k) VALUES ({key}) USING TIMESTAMP 1");
        !matches!(node.execute(&text), Answer::Error { .. })
    };
    let (acknowledged, failed): (Vec<i32>, Vec<i32>) = (first..first + PROBES).partition(write);
    if let Some(key) = failed.iter().find(|key| write(key)) {
        return Err(format!(
            "the shard of {key} takes writes after one that could not be synced"
        ));
    }
    match node.execute("SELECT k FROM probe.t") {
        Answer::Rows(_) => Ok(acknowledged),
        answer => Err(format!("reads do not go on after a failed sync: {answer:?}")),
    }
}

pub fn check_probes(node: &TestNode, acknowledged: &[i32]) -> Result<(), String> {
    let rows = node.rows("SELECT k FROM probe.t");
    let is_there = |key: &&i32| rows.contains(&vec![Some(key.to_be_bytes().to_vec())]);
    match acknowledged.iter().find(|key| !is_there(key)) {
        None => Ok(()),
        Some(key) => Err(format!(
            "{key} was acknowledged before a sync failed, and is gone"
        )),
    }
}
