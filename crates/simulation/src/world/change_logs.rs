//! A table with a log of its changes: after each start the table is what its log, done again, makes of an empty one, whatever was under way.

use std::collections::BTreeMap;

use helenus_test_node::Execution;

use super::views::Rows;
use super::{Held, LATE_MAX, UNDER_WAY_MAX, WRITE_TIMEOUT, World};
use crate::node::SimulatedNode;

/// The rows of the log stay as long as the life lasts, however its clock jumps.
pub(super) const CREATE: &str = "CREATE TABLE k.logged (p int, c int, a int, b int, PRIMARY KEY (p, c)) WITH cdc = \
                                 {'enabled': 'true', 'ttl': '0', 'preimage': 'true'}";

const LOG: &str = "SELECT \"cdc$time\", \"cdc$operation\", p, c, a, \"cdc$deleted_a\", b, \"cdc$deleted_b\" FROM k.logged_scylla_cdc_log";

/// A time after which nothing was.
const NEVER: i128 = i128::MIN;

/// A partition as the log makes it.
#[derive(Default)]
struct Partition {
    /// Ranges of clusterings, both bounds included, and when they were deleted.
    deletions: Vec<(i64, i64, i128)>,
    rows: BTreeMap<i64, Row>,
}

#[derive(Default)]
struct Row {
    marked_at: Option<i128>,
    /// The columns `a` and `b`.
    cells: [Option<Cell>; 2],
}

/// When it was written, and what: nothing beats a value of the same time, and of two values the greater one stays.
type Cell = (i128, Option<Vec<u8>>);

impl World {
    pub(super) async fn write_logged(&mut self, node: &SimulatedNode) -> Held<()> {
        while self.viewed_under_way.len() as u64 > self.below(UNDER_WAY_MAX) {
            self.settle_any_viewed().await?;
        }
        let text = match self.below(5) {
            0 => {
                let members: Vec<String> = (0..2 + self.below(3))
                    .map(|_| self.statement_about("k.logged") + ";")
                    .collect();
                format!("BEGIN BATCH {} APPLY BATCH", members.join(" "))
            }
            _ => self.statement_about("k.logged"),
        };
        let answer = self.submit(node, &text, Execution::default(), WRITE_TIMEOUT + LATE_MAX);
        self.note_viewed(text, answer);
        Ok(())
    }

    pub(super) async fn check_change_log(&mut self, node: &SimulatedNode) -> Held<()> {
        let Some(mut found) = self.all_rows(node, "SELECT p, c, a, b FROM k.logged").await? else {
            return Ok(());
        };
        let log = self.all_rows(node, LOG).await?.ok_or("a log is lost")?;
        let mut expected = replayed(&log)?;
        expected.sort();
        found.sort();
        if found != expected {
            return Err(format!(
                "a table is {found:?}, and its log makes it {expected:?}: {log:?}"
            ));
        }
        self.report.reads_checked += 1;
        Ok(())
    }
}

fn replayed(log: &Rows) -> Held<Rows> {
    let mut partitions: BTreeMap<i64, Partition> = BTreeMap::new();
    let mut start = None;
    for row in log {
        let value = |place: usize| row.get(place).and_then(Option::as_deref);
        let time = value(0).and_then(ticks_of).ok_or("a row of a log has no time")?;
        let operation = value(1).and_then(|value| value.first()).copied();
        let p = value(2)
            .and_then(number)
            .ok_or("a row of a log has no partition")?;
        let c = value(3).and_then(number);
        let partition = partitions.entry(p).or_default();
        match (operation, c) {
            // As it was before.
            (Some(0), _) => {}
            (Some(operation @ (1 | 2)), Some(c)) => {
                let written = partition.rows.entry(c).or_default();
                if operation == 2 {
                    written.marked_at = written.marked_at.max(Some(time));
                }
                for (cell, place) in written.cells.iter_mut().zip([4, 6]) {
                    match (value(place), value(place + 1)) {
                        (Some(value), _) => put(cell, (time, Some(value.to_vec()))),
                        (None, Some(_)) => put(cell, (time, None)),
                        (None, None) => {}
                    }
                }
            }
            (Some(3), Some(c)) => partition.deletions.push((c, c, time)),
            (Some(4), None) => partition.deletions.push((i64::MIN, i64::MAX, time)),
            (Some(5), c) => start = Some(c.unwrap_or(i64::MIN)),
            (Some(6), Some(c)) => start = Some(c + 1),
            (Some(operation @ (7 | 8)), c) => {
                let first = start.take().ok_or("a range has no lower bound")?;
                let last = c.map_or(i64::MAX, |c| if operation == 7 { c } else { c - 1 });
                partition.deletions.push((first, last, time));
            }
            other => return Err(format!("a log has the operation {other:?}")),
        }
    }
    let rows = partitions
        .iter()
        .flat_map(|(p, partition)| partition.rows.keys().map(move |c| (*p, *c, partition)));
    Ok(rows
        .filter_map(|(p, c, partition)| partition.live_row(p, c))
        .collect())
}

impl Partition {
    fn live_row(&self, p: i64, c: i64) -> Option<Vec<Option<Vec<u8>>>> {
        let row = self.rows.get(&c)?;
        let covers = |(first, last, _): &&(i64, i64, i128)| (*first..=*last).contains(&c);
        let deleted_at = self.deletions.iter().filter(covers).map(|(_, _, time)| *time);
        let deleted_at = deleted_at.max().unwrap_or(NEVER);
        let cells = row.cells.iter().map(|cell| match cell {
            Some((time, value)) if *time > deleted_at => value.clone(),
            _ => None,
        });
        let cells: Vec<Option<Vec<u8>>> = cells.collect();
        let is_marked = row.marked_at.is_some_and(|time| time > deleted_at);
        let is_there = is_marked || cells.iter().any(Option::is_some);
        let int = |value: i64| Some((value as i32).to_be_bytes().to_vec());
        is_there.then(|| [int(p), int(c)].into_iter().chain(cells).collect())
    }
}

fn put(cell: &mut Option<Cell>, written: Cell) {
    let is_later = cell.as_ref().is_none_or(|known| {
        let order = |(time, value): &Cell| (*time, value.is_none(), value.clone());
        order(&written) > order(known)
    });
    if is_later {
        *cell = Some(written);
    }
}

fn number(value: &[u8]) -> Option<i64> {
    Some(i64::from(i32::from_be_bytes(value.try_into().ok()?)))
}

/// The 60 bits of time of a time uuid.
fn ticks_of(uuid: &[u8]) -> Option<i128> {
    let word = u128::from_be_bytes(uuid.try_into().ok()?) >> 64;
    let ticks = (word & 0xfff) << 48 | (word >> 16 & 0xffff) << 32 | word >> 32;
    i128::try_from(ticks).ok()
}
