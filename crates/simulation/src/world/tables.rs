//! Schema changes, TRUNCATE and compactions, beside what the clients do.

use std::time::Duration;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution};
use tokio::task::JoinHandle;

use super::{ANSWER_TIMEOUT, Held, LATE_MAX, Outcome, READ_TIMEOUT, TRUNCATE_TIMEOUT, Uncertain, World};
use crate::model::Table;
use crate::node::SimulatedNode;

impl World {
    /// Changes the schema; returns whether it happened, if anybody knows.
    pub(super) async fn change_schema(&mut self, node: &SimulatedNode, text: &str) -> Held<Outcome> {
        let answer = self.submit(node, text, Execution::default(), ANSWER_TIMEOUT);
        let answer = answer.await.map_err(|error| error.to_string())??;
        let outcome = self.outcome(&answer, text)?;
        if matches!(outcome, Outcome::Acknowledged) && !node.is_of_one_schema() {
            // A view may be made or dropped at the same time.
            self.settle_all_viewed().await?;
        }
        if matches!(outcome, Outcome::Acknowledged) && !node.is_of_one_schema() {
            return Err(format!("{text}: the shards have not the same schema"));
        }
        Ok(outcome)
    }

    pub(super) async fn create_table(&mut self, node: &SimulatedNode) -> Held<()> {
        let number = self.tables_made;
        self.tables_made += 1;
        self.create_table_of_number(node, number).await
    }

    async fn create_table_of_number(&mut self, node: &SimulatedNode, number: u64) -> Held<()> {
        let name = format!("t{number}");
        // Every other table is so small for its options that SSTables are never merged for what they share.
        let min_sstable_size = if number.is_multiple_of(2) { 0 } else { 50 << 20 };
        let text = format!(
            "CREATE TABLE k.{name} (p int, c int, v text, w int, PRIMARY KEY (p, c)) WITH gc_grace_seconds = 0 \
             AND compaction = {{'class': 'SizeTieredCompactionStrategy', 'min_sstable_size': '{min_sstable_size}'}} \
             AND ID = 00000000-0000-4000-8000-{number:012x}"
        );
        match self.change_schema(node, &text).await? {
            Outcome::Acknowledged => drop(self.tables.insert(name, Table::default())),
            Outcome::Refused => {}
            Outcome::Unknown => self.uncertain = Uncertain::Create(name),
        }
        Ok(())
    }

    pub(super) async fn drop_table(&mut self, node: &SimulatedNode) -> Held<()> {
        if self.tables.len() < 3 {
            return Ok(());
        }
        self.settle_all().await?;
        let Some(name) = self.any_table() else {
            return Ok(());
        };
        if self.below(2) == 0
            && let Some(compacted) = node.compact("k", &name)
        {
            self.note(format_args!("compact {name}, which is dropped"));
            let wait = Duration::from_micros(self.below(200_000));
            let _late = tokio::time::timeout(wait, compacted).await;
        }
        match self.change_schema(node, &format!("DROP TABLE k.{name}")).await? {
            Outcome::Acknowledged => drop(self.tables.remove(&name)),
            Outcome::Refused => return Ok(()),
            Outcome::Unknown => {
                self.uncertain = Uncertain::Drop(name);
                return Ok(());
            }
        }
        match name[1..].parse() {
            // Under its name and id: nothing of what it was may come back.
            Ok(number) if self.below(2) == 0 => self.create_table_of_number(node, number).await,
            _ => Ok(()),
        }
    }

    pub(super) async fn truncate(&mut self, node: &SimulatedNode) -> Held<()> {
        self.settle_all().await?;
        let Some(name) = self.any_table().filter(|name| self.tables[name].is_certain()) else {
            return Ok(());
        };
        self.tables.entry(name.clone()).or_default().make_certain();
        let text = format!("TRUNCATE k.{name}");
        let answer = self.submit(node, &text, Execution::default(), TRUNCATE_TIMEOUT + LATE_MAX);
        let answer = answer.await.map_err(|error| error.to_string())??;
        let may_fail = matches!(
            &answer,
            Answer::Error {
                code: ErrorCode::TruncateError,
                message,
            } if !self.is_healed || message.contains("timed out") || self.may_be_refused(message)
        );
        let outcome = if may_fail {
            Outcome::Unknown
        } else {
            self.outcome(&answer, &text)?
        };
        match outcome {
            Outcome::Acknowledged => drop(self.tables.insert(name, Table::default())),
            Outcome::Refused => {}
            Outcome::Unknown => self.uncertain = Uncertain::Truncate(name),
        }
        Ok(())
    }

    pub(super) async fn add_column(&mut self, node: &SimulatedNode) -> Held<()> {
        let Some(name) = self.any_table() else {
            return Ok(());
        };
        let text = format!("ALTER TABLE k.{name} ADD x{} int", self.report.statements);
        self.change_schema(node, &text).await?;
        Ok(())
    }

    /// Statements that are prepared while their table is altered see the column as soon as the change is acknowledged.
    pub(super) async fn add_column_beside_prepares(&mut self, node: &SimulatedNode) -> Held<()> {
        let Some(name) = self.any_table() else {
            return Ok(());
        };
        let column = format!("x{}", self.report.statements);
        let alter = format!("ALTER TABLE k.{name} ADD {column} int");
        let select = format!("SELECT * FROM k.{name} WHERE p = 0");
        let mut prepares = Vec::new();
        for _ in 0..1 + self.below(3) {
            prepares.push(self.prepare(node, &select));
        }
        let altered = self.submit(node, &alter, Execution::default(), ANSWER_TIMEOUT);
        for _ in 0..1 + self.below(3) {
            let pause_us = self.below(3_000);
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
            prepares.push(self.prepare(node, &select));
        }
        let answer = altered.await.map_err(|error| error.to_string())??;
        let outcome = self.outcome(&answer, &alter)?;
        let mut statement_id = None;
        for prepare in prepares {
            match prepare.await.map_err(|error| error.to_string())?? {
                Answer::Prepared { id, .. } => statement_id = Some(id),
                answer => {
                    self.outcome(&answer, &select)?;
                }
            }
        }
        let (Some(id), Outcome::Acknowledged) = (statement_id, outcome) else {
            return Ok(());
        };
        for shard in 0..node.shard_count() {
            let answer = node.execute_prepared(shard, id.clone(), Execution::default());
            let answer = self.answered(
                answer,
                format!("EXECUTE on shard {shard}: {select}"),
                READ_TIMEOUT + LATE_MAX,
            );
            match answer.await.map_err(|error| error.to_string())?? {
                Answer::Rows(rows) if rows.columns.iter().any(|found| found.name == column) => {}
                Answer::Rows(rows) => {
                    return Err(format!(
                        "shard {shard} executes `{select}` without {column}, which was added: {:?}",
                        rows.columns
                    ));
                }
                // The client prepares it again.
                Answer::Error {
                    code: ErrorCode::Unprepared,
                    ..
                } => {}
                answer => {
                    self.outcome(&answer, &select)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn prepare(&mut self, node: &SimulatedNode, text: &str) -> JoinHandle<Held<Answer>> {
        let shard = self.below(8) as usize;
        let answer = node.prepare(shard, text.to_owned());
        self.answered(answer, format!("PREPARE {text}"), ANSWER_TIMEOUT)
    }

    /// A major compaction ends, also where there is nothing to do.
    pub(super) async fn compact(&mut self, node: &SimulatedNode) -> Held<()> {
        let Some(name) = self.any_table() else {
            return Ok(());
        };
        let Some(compacted) = node.compact("k", &name) else {
            return Ok(());
        };
        self.note(format_args!("compact {name}"));
        if self.below(3) == 0 {
            // Beside what the clients do.
            tokio::task::spawn_local(compacted);
            return Ok(());
        }
        tokio::time::timeout(ANSWER_TIMEOUT, compacted)
            .await
            .map_err(|_| format!("the compaction of {name} never ends"))
    }
}
