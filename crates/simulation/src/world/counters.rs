//! Counters that only grow: each holds at least what was acknowledged, and at most what was sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_test_node::{Answer, Execution, Rows};
use helenus_vfs::{Random, SeededRandom};
use tokio::task::JoinHandle;

use super::{Held, LATE_MAX, Outcome, READ_TIMEOUT, UNDER_WAY_MAX, WRITE_TIMEOUT, World};
use crate::node::SimulatedNode;

/// Seed bits of its own randomness, so that seeds without counters are what they were.
const SEED_MIXED_IN: u64 = 0xc0e1;
const TABLE: &str = "n.counts";
const PARTITIONS: u64 = 3;
const ROWS: u64 = 4;
/// An UPDATE with so many rows takes several steps.
const MANY_ROWS: u64 = 700;

/// Partition and row.
type Place = (i32, i32);

/// Known state of the counters of a seed.
pub(super) struct Counters {
    /// None in a seed without counters.
    random: Option<Arc<SeededRandom>>,
    has_table: bool,
    bounds: BTreeMap<Place, Bounds>,
    under_way: Vec<Counting>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    acknowledged: i64,
    /// Less what was refused.
    sent: i64,
}

struct Counting {
    increments: Vec<(Place, i64)>,
    text: String,
    answer: JoinHandle<Held<Answer>>,
}

impl Counters {
    pub fn of_seed(seed: u64) -> Self {
        let random = SeededRandom::new(seed ^ SEED_MIXED_IN);
        Counters {
            random: (random.below(2) == 0).then(|| Arc::new(random)),
            has_table: false,
            bounds: BTreeMap::new(),
            under_way: Vec::new(),
        }
    }

    /// Returns whether the next step is one of theirs.
    pub fn are_next(&self) -> bool {
        self.random.as_ref().is_some_and(|random| random.below(4) == 0)
    }

    /// The life is over.
    pub fn forget_answers(&mut self) {
        self.under_way.clear();
    }

    fn sent(&mut self, increments: &[(Place, i64)]) {
        for (place, by) in increments {
            self.bounds.entry(*place).or_default().sent += by;
        }
    }

    fn check(&self, p: i32, found: &BTreeMap<Place, i64>) -> Held<()> {
        let places = self.bounds.keys().chain(found.keys());
        for place in places.filter(|place| place.0 == p) {
            let found = found.get(place).copied().unwrap_or_default();
            let Bounds { acknowledged, sent } = self.bounds.get(place).copied().unwrap_or_default();
            if !(acknowledged..=sent).contains(&found) {
                return Err(format!(
                    "the counter of {place:?} is {found}; {acknowledged} are acknowledged, {sent} were sent"
                ));
            }
        }
        Ok(())
    }

    fn settled(&mut self, increments: &[(Place, i64)], outcome: &Outcome) {
        for (place, by) in increments {
            let bounds = self.bounds.entry(*place).or_default();
            match outcome {
                Outcome::Acknowledged => bounds.acknowledged += by,
                Outcome::Refused => bounds.sent -= by,
                Outcome::Unknown => {}
            }
        }
    }
}

/// The counters of a partition in rows of `SELECT c, n`.
fn totals(p: i32, rows: &Rows) -> Held<BTreeMap<Place, i64>> {
    let total = |row: &Vec<Option<Vec<u8>>>| {
        let [Some(c), Some(n)] = row.as_slice() else {
            return None;
        };
        let c = i32::from_be_bytes(c.as_slice().try_into().ok()?);
        Some(((p, c), i64::from_be_bytes(n.as_slice().try_into().ok()?)))
    };
    let totals = rows.rows.iter();
    let totals = totals.map(|row| total(row).ok_or_else(|| format!("{row:?} is no counter")));
    totals.collect()
}

/// Makes the increments of a statement, with its text.
fn increments(random: &SeededRandom) -> (Vec<(Place, i64)>, String) {
    let by = 1 + random.below(5) as i64;
    let p = random.below(PARTITIONS) as i32;
    if random.below(40) == 0 {
        let rows = 0..MANY_ROWS as i32;
        let text = rows.clone().map(|c| c.to_string()).collect::<Vec<_>>().join(", ");
        let text = format!("UPDATE {TABLE} SET n = n + {by} WHERE p = {p} AND c IN ({text})");
        return (rows.map(|c| ((p, c), by)).collect(), text);
    }
    let mut increments = Vec::new();
    let mut texts = Vec::new();
    let is_batch = random.below(4) == 0;
    for _ in 0..if is_batch { 1 + random.below(4) } else { 1 } {
        let place = (random.below(PARTITIONS) as i32, random.below(ROWS) as i32);
        increments.push((place, by));
        let (p, c) = place;
        texts.push(format!(
            "UPDATE {TABLE} SET n = n + {by} WHERE p = {p} AND c = {c}"
        ));
    }
    let text = match is_batch {
        true => format!("BEGIN COUNTER BATCH {}; APPLY BATCH", texts.join("; ")),
        false => texts.concat(),
    };
    (increments, text)
}

impl World {
    pub(super) async fn create_counters(&mut self, node: &SimulatedNode) -> Held<()> {
        if self.counters.random.is_none() {
            return Ok(());
        }
        let text =
            "CREATE KEYSPACE n WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        self.change_schema(node, text).await?;
        let text = format!("CREATE TABLE {TABLE} (p int, c int, n counter, PRIMARY KEY (p, c))");
        self.change_schema(node, &text).await?;
        self.counters.has_table = true;
        Ok(())
    }

    pub(super) async fn step_counters(&mut self, node: &SimulatedNode) -> Held<()> {
        let Some(random) = self.counters.random.clone() else {
            return Ok(());
        };
        if random.below(4) == 0 {
            let p = random.below(PARTITIONS) as i32;
            return self.read_counters(node, p).await;
        }
        while self.counters.under_way.len() as u64 > random.below(UNDER_WAY_MAX) {
            let index = random.below(self.counters.under_way.len() as u64) as usize;
            let counting = self.counters.under_way.swap_remove(index);
            self.settle_counting(counting).await?;
        }
        let (increments, text) = increments(&random);
        self.counters.sent(&increments);
        let answer = self.submit(node, &text, Execution::default(), WRITE_TIMEOUT + LATE_MAX);
        self.counters.under_way.push(Counting {
            increments,
            text,
            answer,
        });
        Ok(())
    }

    pub(super) async fn settle_counters(&mut self) -> Held<()> {
        for counting in std::mem::take(&mut self.counters.under_way) {
            self.settle_counting(counting).await?;
        }
        Ok(())
    }

    async fn settle_counting(&mut self, counting: Counting) -> Held<()> {
        let answer = counting.answer.await.map_err(|error| error.to_string())??;
        let outcome = self.outcome(&answer, &counting.text)?;
        self.counters.settled(&counting.increments, &outcome);
        Ok(())
    }

    async fn read_counters(&mut self, node: &SimulatedNode, p: i32) -> Held<()> {
        let text = format!("SELECT c, n FROM {TABLE} WHERE p = {p}");
        let answer = self.submit(node, &text, Execution::default(), READ_TIMEOUT + LATE_MAX);
        let answer = answer.await.map_err(|error| error.to_string())??;
        let Answer::Rows(rows) = &answer else {
            self.outcome(&answer, &text)?;
            return Ok(());
        };
        self.report.reads_checked += 1;
        let found = totals(p, rows)?;
        self.counters.check(p, &found)
    }

    /// After a start: what is there now stays.
    pub(super) async fn check_counters(&mut self, node: &SimulatedNode) -> Held<()> {
        if !self.counters.has_table {
            return Ok(());
        }
        for p in 0..PARTITIONS as i32 {
            let found = self.totals_of(node, p).await?;
            self.counters.check(p, &found)?;
            for (place, bounds) in &mut self.counters.bounds {
                if place.0 == p {
                    let found = found.get(place).copied().unwrap_or_default();
                    (bounds.acknowledged, bounds.sent) = (found, found);
                }
            }
        }
        Ok(())
    }

    /// The counters of a partition, however long it takes.
    async fn totals_of(&mut self, node: &SimulatedNode, p: i32) -> Held<BTreeMap<Place, i64>> {
        let text = format!("SELECT c, n FROM {TABLE} WHERE p = {p}");
        for _ in 0..super::READ_TRIES {
            let answer = self.submit(node, &text, Execution::default(), READ_TIMEOUT + LATE_MAX);
            match answer.await.map_err(|error| error.to_string())?? {
                Answer::Rows(rows) => return totals(p, &rows),
                other => {
                    self.outcome(&other, &text)?;
                }
            }
        }
        Err(format!("{text} is never answered"))
    }
}
