//! Secondary indexes of the table with views: they come and go, and after each start every one of them is built in time and
//! finds what there is, whatever was under way.

use std::time::Duration;

use helenus_test_node::Execution;

use super::views::Rows;
use super::{ANSWER_TIMEOUT, Held, World};
use crate::node::SimulatedNode;

const CREATE: [&str; 2] = [
    "CREATE INDEX IF NOT EXISTS viewed_b ON k.viewed (b)",
    "CREATE INDEX IF NOT EXISTS viewed_b_attached ON k.viewed (b) USING 'sai'",
];
const DROP: [&str; 2] = [
    "DROP INDEX IF EXISTS k.viewed_b",
    "DROP INDEX IF EXISTS k.viewed_b_attached",
];
/// A build that failed is tried again after a minute.
const BUILT_WITHIN_S: u32 = 150;
const ASKED_AFTER: Duration = Duration::from_secs(1);
/// Values that are looked for at most, of those that are there.
const LOOKED_FOR: usize = 5;

impl World {
    /// Creates or drops an index; what became of it shows after the next start.
    pub(super) fn change_index(&mut self, node: &SimulatedNode) {
        let which = self.below(2) as usize;
        let text = match self.below(2) {
            0 => CREATE[which],
            _ => DROP[which],
        };
        let answer = self.submit(node, text, Execution::default(), ANSWER_TIMEOUT);
        self.indexes_under_way.push(answer);
    }

    pub(super) async fn settle_indexes(&mut self) -> Held<()> {
        for answer in std::mem::take(&mut self.indexes_under_way) {
            // A disk that fails may refuse it.
            let _outcome = answer.await.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    pub(super) async fn check_indexes(&mut self, node: &SimulatedNode) -> Held<()> {
        let made = "SELECT index_name FROM system_schema.indexes WHERE keyspace_name = 'k' AND table_name = 'viewed'";
        let Some(made) = self.all_rows(node, made).await? else {
            return Ok(());
        };
        if made.is_empty() {
            return Ok(());
        }
        self.wait_until_indexed(node, made.len()).await?;
        let all = "SELECT p, c, a, b FROM k.viewed";
        let rows = self.all_rows(node, all).await?.unwrap_or_default();
        let mut values: Vec<i32> = rows
            .iter()
            .filter_map(|row| row[3].as_deref()?.try_into().ok().map(i32::from_be_bytes))
            .collect();
        values.sort_unstable();
        values.dedup();
        for value in values.into_iter().take(LOOKED_FOR) {
            let text = format!("{all} WHERE b = {value}");
            let is_one = |row: &&Vec<Option<Vec<u8>>>| row[3].as_deref() == Some(&value.to_be_bytes()[..]);
            let mut expected: Rows = rows.iter().filter(is_one).cloned().collect();
            expected.sort();
            // The pages may be in memory the second time.
            for _ in 0..2 {
                let mut found = self.all_rows(node, &text).await?.unwrap_or_default();
                found.sort();
                if found != expected {
                    return Err(format!("an index finds {found:?}, and there is {expected:?}"));
                }
                self.report.reads_checked += 1;
            }
        }
        Ok(())
    }

    async fn wait_until_indexed(&mut self, node: &SimulatedNode, count: usize) -> Held<()> {
        let text = "SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = 'k'";
        for _ in 0..BUILT_WITHIN_S {
            let rows = self.all_rows(node, text).await?.unwrap_or_default();
            let names = rows.iter().filter_map(|row| row.first()?.as_deref());
            if names.filter(|name| name.starts_with(b"viewed")).count() >= count {
                return Ok(());
            }
            tokio::time::sleep(ASKED_AFTER).await;
        }
        Err("an index is not built".to_owned())
    }
}
