//! Ends of a process that the power outlives, and what a node makes of a file in which one bit is another one. For that it is given a
//! copy of the disk, so that the run goes on as it would have without.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution};
use helenus_vfs::{Disk, Random, SeededRandom, SimulatedDisk};

use super::{Held, READ_TRIES, World, runtime};
use crate::model::{Partition, Row};
use crate::node::SimulatedNode;
use crate::weather::Weather;
use crate::workload;

/// Where the tables of the model are.
const TABLES: &str = "/helenus-data/data/k";
const LOGS: &str = "/helenus-data/commitlog";

/// Answer of a damaged table.
enum Found {
    Rows(BTreeMap<i32, Partition>),
    Error(String),
}

impl World {
    /// Mostly the power fails with it, at the latest. After a stop without that another process takes the node's place, as
    /// `serve --replace` does: everything was answered, and nothing is lost that was not synced.
    pub(super) fn end_process(&mut self) {
        let keeps_power = self.outlives_processes && self.later_random.below(2) == 0;
        if keeps_power && !self.disk.is_power_off() {
            self.note("the power stays on");
            self.disk.end_process();
        } else {
            self.disk.crash();
        }
    }

    /// The node says which file is damaged and does not start, or it does, and whatever it answers is true: what is
    /// corrupt is never served, no other table is hurt, and one that is read without a file is named.
    pub(super) fn live_damaged(&mut self) -> Held<()> {
        let random = Arc::new(SeededRandom::new(self.later_random.next_u64()));
        let disk = Arc::new(self.disk.copy(random.next_u64()));
        let Some(path) = flip_any_bit(&disk, &random)? else {
            return Ok(());
        };
        self.note(format_args!(
            "in a copy of the disk a bit of {} is flipped",
            path.display()
        ));
        let weather = Arc::new(Weather::of_seed(random.clone()));
        let clock = Arc::new(self.clock.copy());
        let options = self.options_on(&random, &disk, &clock, &weather);
        let held = runtime().block_on(async {
            clock.life_begins();
            match SimulatedNode::start(options, &weather).await {
                Ok(node) => self.check_damaged(&node, &path).await,
                Err(error) => {
                    self.note(format_args!("and the node does not start: {error}"));
                    names_file(&error.to_string(), &path)
                }
            }
        });
        held.map_err(|error| format!("with a flipped bit in {}: {error}", path.display()))
    }

    async fn check_damaged(&self, node: &SimulatedNode, path: &Path) -> Held<()> {
        let incomplete = node.incomplete_tables();
        for (name, table) in self
            .tables
            .iter()
            .filter(|(name, _)| !self.uncertain.is_about(name))
        {
            let folder = path.strip_prefix(TABLES).ok().and_then(|path| path.to_str());
            let is_damaged = folder.is_some_and(|folder| folder.starts_with(&format!("{name}-")));
            match rows_or_error(node, name).await? {
                Found::Error(_) if is_damaged => {}
                Found::Error(message) => return Err(format!("{name} is not damaged: {message}")),
                Found::Rows(rows) if incomplete.contains(&format!("k.{name}")) => {
                    if !is_damaged {
                        return Err(format!("{name} is read without files that are not damaged"));
                    }
                    check_texts(name, &rows)?;
                }
                Found::Rows(rows) => {
                    let explained = table.clone().explain(&rows);
                    explained.map_err(|error| format!("{name}: {error}"))?;
                }
            }
        }
        Ok(())
    }
}

/// Flips a bit of a log, of a table, or of any file that the node has written.
fn flip_any_bit(disk: &SimulatedDisk, random: &SeededRandom) -> Held<Option<PathBuf>> {
    let length = |path: &Path| disk.open(path).and_then(|file| file.length());
    let mut files: Vec<(PathBuf, u64)> = Vec::new();
    for path in disk.files() {
        let length = length(&path).map_err(|error| error.to_string())?;
        if length > 0 {
            files.push((path, length));
        }
    }
    let wanted = [LOGS, TABLES, "/"][random.below(3) as usize];
    if files.iter().any(|(path, _)| path.starts_with(wanted)) {
        files.retain(|(path, _)| path.starts_with(wanted));
    }
    if files.is_empty() {
        return Ok(None);
    }
    let (path, length) = files.swap_remove(random.below(files.len() as u64) as usize);
    disk.flip_bit(&path, random.below(length * 8))
        .map_err(|error| error.to_string())?;
    Ok(Some(path))
}

/// Checks that a message names the file: whoever reads it knows which one to restore or to move away.
fn names_file(message: &str, path: &Path) -> Held<()> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    match message.contains(name) {
        true => Ok(()),
        false => Err(format!(
            "the node does not start, and does not say why: {message}"
        )),
    }
}

/// Checks a table of which files are missing: any old state may show, but nothing that was never written.
fn check_texts(name: &str, rows: &BTreeMap<i32, Partition>) -> Held<()> {
    let is_written = |row: &&Row| row.v.as_ref().is_none_or(workload::is_written_text);
    match rows
        .values()
        .flat_map(BTreeMap::values)
        .find(|row| !is_written(row))
    {
        None => Ok(()),
        Some(row) => Err(format!("{name}: {row:?} was never written")),
    }
}

async fn rows_or_error(node: &SimulatedNode, name: &str) -> Held<Found> {
    let text = format!("SELECT p, c, v, w FROM k.{name}");
    let mut rows: BTreeMap<i32, Partition> = BTreeMap::new();
    let mut execution = Execution {
        page_size: Some(7),
        ..Execution::default()
    };
    let mut tries = 0;
    loop {
        match node.execute(0, text.clone(), execution.clone()).await {
            Answer::Rows(page) => {
                workload::collect_rows(&page, &mut rows).map_err(|error| format!("{name}: {error}"))?;
                execution.paging_state = page.paging_state;
                if execution.paging_state.is_none() {
                    return Ok(Found::Rows(rows));
                }
            }
            Answer::Error {
                code: ErrorCode::Overloaded | ErrorCode::ReadTimeout,
                ..
            } if tries < READ_TRIES => tries += 1,
            Answer::Error { message, .. } => return Ok(Found::Error(message)),
            other => return Err(format!("{text}: {other:?}")),
        }
    }
}
