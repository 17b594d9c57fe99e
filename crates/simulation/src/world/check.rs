//! Content of a node after a start, against the model.

use std::collections::BTreeMap;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution};
use helenus_vfs::Disk;

use super::{Held, LATE_MAX, RANGE_TIMEOUT, READ_TRIES, World};
use crate::model::{Partition, Table};
use crate::node::SimulatedNode;
use crate::workload;

/// A schema change or TRUNCATE of which nobody knows whether it happened.
pub(super) enum Uncertain {
    Nothing,
    Create(String),
    Drop(String),
    Truncate(String),
}

impl Uncertain {
    pub(super) fn is_about(&self, name: &str) -> bool {
        match self {
            Uncertain::Nothing => false,
            Uncertain::Create(table) | Uncertain::Drop(table) | Uncertain::Truncate(table) => table == name,
        }
    }
}

impl World {
    /// Views are what their base makes them also without a start, which builds again what is not said to be built.
    pub(super) async fn check_before_stop(&mut self, node: &SimulatedNode) -> Held<()> {
        if self.has_faults {
            return Ok(());
        }
        let checked = self.check_views(node).await;
        // The power may fail meanwhile.
        if self.disk.is_power_off() { Ok(()) } else { checked }
    }

    /// After a start: every table holds what can be explained.
    pub(super) async fn check(&mut self, node: &SimulatedNode) -> Held<()> {
        match std::mem::replace(&mut self.uncertain, Uncertain::Nothing) {
            Uncertain::Nothing => {}
            Uncertain::Create(name) => {
                if self.rows_of(node, &name).await?.is_some() {
                    self.tables.insert(name, Table::default());
                }
            }
            Uncertain::Drop(name) => {
                if self.rows_of(node, &name).await?.is_none() {
                    self.tables.remove(&name);
                }
            }
            Uncertain::Truncate(name) => {
                let found = self
                    .rows_of(node, &name)
                    .await?
                    .ok_or("a truncated table is lost")?;
                if let Some(table) = self.tables.get_mut(&name) {
                    table
                        .explain_truncated(&found)
                        .map_err(|error| format!("{name}: {error}"))?;
                }
            }
        }
        let names: Vec<String> = self.tables.keys().cloned().collect();
        for name in names {
            let found = self.rows_of(node, &name).await?;
            let found = found.ok_or_else(|| format!("table {name} is lost"))?;
            if let Some(table) = self.tables.get_mut(&name) {
                table
                    .explain(&found)
                    .map_err(|error| format!("{name}: {error}"))?;
            }
        }
        self.check_counters(node).await?;
        self.check_registers(node).await?;
        self.check_accounts(node).await?;
        self.check_views(node).await?;
        self.check_change_log(node).await?;
        self.check_indexes(node).await?;
        self.check_vectors(node).await?;
        self.report.sstables += self.count_sstables();
        if !node.is_of_one_schema() {
            return Err("the shards start with different schemas".to_owned());
        }
        Ok(())
    }

    /// In pages; `None` if there is no such table.
    pub(super) async fn rows_of(
        &mut self,
        node: &SimulatedNode,
        name: &str,
    ) -> Held<Option<BTreeMap<i32, Partition>>> {
        let text = format!("SELECT p, c, v, w FROM k.{name}");
        let mut partitions: BTreeMap<i32, Partition> = BTreeMap::new();
        let mut execution = Execution {
            page_size: Some(7),
            ..Execution::default()
        };
        let mut tries = 0;
        loop {
            let answer = self.submit(node, &text, execution.clone(), RANGE_TIMEOUT + LATE_MAX);
            let page = match answer.await.map_err(|error| error.to_string())?? {
                Answer::Rows(page) => page,
                Answer::Error { message, .. } if message.contains("does not exist") => return Ok(None),
                Answer::Error {
                    code: ErrorCode::Overloaded | ErrorCode::ReadTimeout,
                    ..
                } if tries < READ_TRIES => {
                    tries += 1;
                    continue;
                }
                other => return Err(format!("{text}: {other:?}")),
            };
            workload::collect_rows(&page, &mut partitions).map_err(|error| format!("{name}: {error}"))?;
            execution.paging_state = page.paging_state;
            if execution.paging_state.is_none() {
                return Ok(Some(partitions));
            }
        }
    }

    pub(super) fn count_sstables(&self) -> u64 {
        let keyspace = std::path::Path::new("/helenus-data/data/k");
        let tables = self.disk.list(keyspace).unwrap_or_default();
        let files = tables
            .iter()
            .flat_map(|table| self.disk.list(&keyspace.join(&table.name)).unwrap_or_default());
        files.filter(|file| file.name.ends_with("-TOC.txt")).count() as u64
    }
}
