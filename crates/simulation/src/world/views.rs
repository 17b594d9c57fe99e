//! A table with materialized views: after each start the views are what the table's rows make of them, whatever was under way.

use std::time::Duration;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution};
use tokio::task::JoinHandle;

use super::{
    ANSWER_TIMEOUT, Held, LATE_MAX, RANGE_TIMEOUT, READ_TRIES, TRUNCATE_TIMEOUT, UNDER_WAY_MAX,
    WRITE_TIMEOUT, World,
};
use crate::node::SimulatedNode;

pub(super) const CREATE: [&str; 3] = [
    "CREATE TABLE k.viewed (p int, c int, a int, b int, PRIMARY KEY (p, c))",
    "CREATE MATERIALIZED VIEW k.by_a AS SELECT * FROM k.viewed WHERE a IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL \
     PRIMARY KEY (a, p, c)",
    CREATE_BY_C,
];

/// It is dropped and made again.
const CREATE_BY_C: &str = "CREATE MATERIALIZED VIEW IF NOT EXISTS k.by_c AS SELECT * FROM k.viewed WHERE p IS NOT NULL AND c IS NOT NULL \
     PRIMARY KEY (c, p)";

const COLUMNS: &str = "p, c, a, b";

/// How often it is asked whether a view is built, at growing intervals: 50 s in all, in few lines of the trace.
const BUILT_TRIES: u32 = 56;

/// How often a view and its base are read until nothing of them changes in between.
const SETTLED_TRIES: u32 = 5;

const BUILT_ASKED_AFTER: Duration = Duration::from_millis(20);
const BUILT_ASKED_AFTER_MAX: Duration = Duration::from_secs(1);

pub(super) struct ViewedWrite {
    text: String,
    answer: JoinHandle<Held<Answer>>,
}

pub(super) type Rows = Vec<Vec<Option<Vec<u8>>>>;

impl World {
    pub(super) async fn write_viewed(&mut self, node: &SimulatedNode) -> Held<()> {
        while self.viewed_under_way.len() as u64 > self.below(UNDER_WAY_MAX) {
            self.settle_any_viewed().await?;
        }
        let (text, limit) = match self.below(60) {
            0 => ("TRUNCATE k.viewed".to_owned(), TRUNCATE_TIMEOUT),
            1 => (
                "DROP MATERIALIZED VIEW IF EXISTS k.by_c".to_owned(),
                ANSWER_TIMEOUT,
            ),
            2 | 3 => (CREATE_BY_C.to_owned(), ANSWER_TIMEOUT),
            4..14 => {
                let members: Vec<String> = (0..2 + self.below(3))
                    .map(|_| self.viewed_statement() + ";")
                    .collect();
                (
                    format!("BEGIN BATCH {} APPLY BATCH", members.join(" ")),
                    WRITE_TIMEOUT,
                )
            }
            14..20 => {
                let (p, c, a) = (self.below(6), self.below(3), self.below(3));
                let text = format!("UPDATE k.viewed SET a = {a} WHERE p = {p} AND c = {c} IF EXISTS");
                (text, WRITE_TIMEOUT)
            }
            _ => (self.viewed_statement(), WRITE_TIMEOUT),
        };
        let answer = self.submit(node, &text, Execution::default(), limit + LATE_MAX);
        self.note_viewed(text, answer);
        Ok(())
    }

    pub(super) fn note_viewed(&mut self, text: String, answer: JoinHandle<Held<Answer>>) {
        self.viewed_under_way.push(ViewedWrite { text, answer });
    }

    pub(super) async fn settle_any_viewed(&mut self) -> Held<()> {
        let index = self.below(self.viewed_under_way.len() as u64) as usize;
        let sent = self.viewed_under_way.swap_remove(index);
        self.settle_viewed(sent).await
    }

    fn viewed_statement(&self) -> String {
        self.statement_about("k.viewed")
    }

    /// A write to a table of the columns `p`, `c`, `a` and `b`.
    pub(super) fn statement_about(&self, table: &str) -> String {
        let (p, c) = (self.below(6), self.below(3));
        let using = match self.below(3) {
            0 => format!(" USING TIMESTAMP {}", 1 + self.below(50)),
            _ => String::new(),
        };
        let a = match self.below(4) {
            0 => "null".to_owned(),
            _ => self.below(3).to_string(),
        };
        let b = self.below(100);
        match self.below(10) {
            0..4 => format!("INSERT INTO {table} (p, c, a, b) VALUES ({p}, {c}, {a}, {b}){using}"),
            4 | 5 => format!("UPDATE {table}{using} SET a = {a} WHERE p = {p} AND c = {c}"),
            6 => format!("UPDATE {table}{using} SET b = {b} WHERE p = {p} AND c = {c}"),
            7 => format!("DELETE FROM {table}{using} WHERE p = {p} AND c = {c}"),
            8 => format!("DELETE FROM {table}{using} WHERE p = {p} AND c > {c}"),
            _ => format!("DELETE FROM {table}{using} WHERE p = {p}"),
        }
    }

    pub(super) async fn settle_all_viewed(&mut self) -> Held<()> {
        for sent in std::mem::take(&mut self.viewed_under_way) {
            self.settle_viewed(sent).await?;
        }
        self.settle_indexes().await
    }

    async fn settle_viewed(&mut self, sent: ViewedWrite) -> Held<()> {
        let answer = sent.answer.await.map_err(|error| error.to_string())??;
        // A clock that was set back by more than a day leaves rows that are too new to follow; a truncation may be late.
        let is_expected = match &answer {
            Answer::Error { code, message } => {
                *code == ErrorCode::TruncateError
                    || (*code == ErrorCode::Invalid && message.contains("in the future"))
            }
            _ => false,
        };
        if is_expected {
            return Ok(());
        }
        self.outcome(&answer, &sent.text).map(|_| ())
    }

    pub(super) async fn check_views(&mut self, node: &SimulatedNode) -> Held<()> {
        for view in ["by_a", "by_c"] {
            let select = format!("SELECT {COLUMNS} FROM k.{view}");
            if self.all_rows(node, &select).await?.is_none() {
                continue;
            }
            let Some((base, mut found)) = self.settled(node, view, &select).await? else {
                return Ok(());
            };
            let has = |row: &Vec<Option<Vec<u8>>>| view == "by_c" || row[2].is_some();
            let mut expected: Rows = base.iter().filter(|row| has(row)).cloned().collect();
            found.sort();
            expected.sort();
            if found != expected {
                return Err(format!("{view} is {found:?}, and its base makes it {expected:?}"));
            }
            let text = format!("PRUNE MATERIALIZED VIEW k.{view}");
            let pruned = self.rows_within(node, &text, TRUNCATE_TIMEOUT).await?;
            let pruned = pruned.unwrap_or_default();
            let count = |count: usize| Some((count as u64).to_be_bytes().to_vec());
            let is_as_expected = pruned == [[count(expected.len()), count(0)]];
            let settled = match is_as_expected {
                true => None,
                false => self.settled(node, view, &select).await?,
            };
            if settled.is_some_and(|(base_afterwards, _)| base_afterwards == base) {
                return Err(format!(
                    "{view} has {} rows, and pruned were {pruned:?}",
                    expected.len()
                ));
            }
            self.report.reads_checked += 1;
        }
        Ok(())
    }

    /// Rows of the base and of a view that is built, of one moment: a truncation whose time was over may still end, and the view is
    /// not said to be built while it does.
    async fn settled(
        &mut self,
        node: &SimulatedNode,
        view: &str,
        select: &str,
    ) -> Held<Option<(Rows, Rows)>> {
        let of_base = format!("SELECT {COLUMNS} FROM k.viewed");
        for _ in 0..SETTLED_TRIES {
            self.wait_built(node, view).await?;
            let Some(base) = self.all_rows(node, &of_base).await? else {
                return Ok(None);
            };
            let found = self.all_rows(node, select).await?.unwrap_or_default();
            let base_afterwards = self.all_rows(node, &of_base).await?;
            if base_afterwards.as_ref() == Some(&base) && self.is_built(node, view).await? {
                return Ok(Some((base, found)));
            }
        }
        Err(format!("{view} or its base does not come to rest"))
    }

    async fn is_built(&mut self, node: &SimulatedNode, view: &str) -> Held<bool> {
        let text = format!(
            "SELECT view_name FROM system.built_views WHERE keyspace_name = 'k' AND view_name = '{view}'"
        );
        let rows = self.all_rows(node, &text).await?;
        Ok(rows.is_some_and(|rows| !rows.is_empty()))
    }

    async fn wait_built(&mut self, node: &SimulatedNode, view: &str) -> Held<()> {
        let mut pause = BUILT_ASKED_AFTER;
        for _ in 0..BUILT_TRIES {
            if self.is_built(node, view).await? {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(BUILT_ASKED_AFTER_MAX);
        }
        Err(format!("{view} is not built"))
    }

    /// `None` if there is no such table.
    pub(super) async fn all_rows(&mut self, node: &SimulatedNode, text: &str) -> Held<Option<Rows>> {
        self.rows_within(node, text, RANGE_TIMEOUT).await
    }

    async fn rows_within(
        &mut self,
        node: &SimulatedNode,
        text: &str,
        timeout: Duration,
    ) -> Held<Option<Rows>> {
        let mut tries = 0;
        loop {
            let answer = self.submit(node, text, Execution::default(), timeout + LATE_MAX);
            match answer.await.map_err(|error| error.to_string())?? {
                Answer::Rows(rows) => return Ok(Some(rows.rows)),
                Answer::Error { message, .. } if message.contains("does not exist") => return Ok(None),
                Answer::Error {
                    code: ErrorCode::Overloaded | ErrorCode::ReadTimeout | ErrorCode::WriteTimeout,
                    ..
                } if tries < READ_TRIES => tries += 1,
                other => return Err(format!("{text}: {other:?}")),
            }
        }
    }
}
