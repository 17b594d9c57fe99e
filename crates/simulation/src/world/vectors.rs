//! Rows with vectors, whose index comes and goes: what is acknowledged and nearest is found, and nothing that is deleted or was
//! never there, whatever crashes.
//!
//! Every write has a timestamp of its own, so that the order in which writes are applied does not matter. Components are small whole
//! numbers: distances are exact.

use std::collections::{BTreeMap, BTreeSet};

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, Rows};
use helenus_vfs::{Random, SeededRandom};
use tokio::task::JoinHandle;

use super::{Held, LATE_MAX, Outcome, RANGE_TIMEOUT, READ_TRIES, UNDER_WAY_MAX, WRITE_TIMEOUT, World};
use crate::node::SimulatedNode;

/// Seed bits of its own randomness, so that seeds without vectors are what they were.
const SEED_MIXED_IN: u64 = 0x7ec7;
/// Remainders of half of the seeds, by 16. Those of `tests/seeds.rs` have others: they are what they were when they failed.
const REMAINDERS: [u64; 8] = [1, 4, 5, 7, 8, 11, 12, 14];
const CREATE: &str = "CREATE TABLE k.vectors (p int, c int, v vector<float, 3>, g int, PRIMARY KEY (p, c))";
/// Stays: what is nearest is narrowed by it.
const CREATE_GROUP_INDEX: &str = "CREATE INDEX IF NOT EXISTS vectors_g ON k.vectors (g) USING 'sai'";
const CREATE_INDEX: &str = "CREATE CUSTOM INDEX IF NOT EXISTS vectors_v ON k.vectors (v) USING 'StorageAttachedIndex' \
                            WITH OPTIONS = {'similarity_function': 'euclidean'}";
const DROP_INDEX: &str = "DROP INDEX IF EXISTS k.vectors_v";
const PARTITIONS: u64 = 4;
const ROWS: u64 = 16;
const GROUPS: u64 = 3;
/// More than there are rows.
const ALL: usize = 100;
/// Components lie between it and its negative.
const COMPONENT_MAX: i32 = 8;
/// Largest error of similarities, which are 32-bit numbers from 0 to 1.
const SIMILARITY_ERROR: f64 = 1e-6;

/// Partition and row.
type Place = (i32, i32);
type Vector = [i32; 3];

/// Known state of the vectors of a seed.
pub(super) struct Vectors {
    /// None in a seed without vectors.
    random: Option<SeededRandom>,
    rows: BTreeMap<Place, KnownRow>,
    /// Timestamp of the last write.
    timestamp: u64,
    under_way: Vec<VectorWrite>,
    /// True if the index is there, as far as anybody knows.
    has_index: bool,
}

#[derive(Clone, Debug, Default)]
struct KnownRow {
    /// Version acknowledged last; nothing at first.
    acknowledged: Version,
    /// Versions written later, which may come or be there.
    uncertain: Vec<Version>,
}

/// `None` for a row without a vector, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Version {
    timestamp: u64,
    vector: Option<Vector>,
    group: i32,
}

struct VectorWrite {
    places: Vec<Place>,
    version: Version,
    text: String,
    answer: JoinHandle<Held<Answer>>,
}

/// One ANN query.
struct Question {
    of: Vector,
    partition: Option<i32>,
    group: Option<i32>,
    limit: usize,
}

impl KnownRow {
    /// Vectors that it may have where it is of a group, if one is asked for; `None` among them if it may have none there.
    fn possible(&self, group: Option<i32>) -> impl Iterator<Item = Option<Vector>> + '_ {
        let versions = std::iter::once(&self.acknowledged).chain(&self.uncertain);
        let is_asked = move |version: &Version| group.is_none_or(|group| version.group == group);
        versions.map(move |version| version.vector.filter(|_| is_asked(version)))
    }

    /// How far away the row may be at most; `None` where it may have no vector.
    fn farthest(&self, from: Vector, group: Option<i32>) -> Option<i32> {
        let distances: Option<Vec<i32>> = self
            .possible(group)
            .map(|vector| vector.map(|vector| distance(vector, from)))
            .collect();
        distances?.into_iter().max()
    }
}

impl Vectors {
    pub fn of_seed(seed: u64) -> Self {
        let has_vectors = REMAINDERS.contains(&(seed % 16));
        Vectors {
            random: has_vectors.then(|| SeededRandom::new(seed ^ SEED_MIXED_IN)),
            rows: BTreeMap::new(),
            timestamp: 0,
            under_way: Vec::new(),
            has_index: false,
        }
    }

    /// Returns whether the next step is one of theirs.
    pub fn are_next(&self) -> bool {
        self.random.as_ref().is_some_and(|random| random.below(3) == 0)
    }

    /// The life is over.
    pub fn forget_answers(&mut self) {
        self.under_way.clear();
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.as_ref().map_or(0, |random| random.below(bound))
    }

    fn vector(&self) -> Vector {
        [(); 3].map(|()| self.below(2 * COMPONENT_MAX as u64 + 1) as i32 - COMPONENT_MAX)
    }

    fn settled(&mut self, write: &VectorWrite, outcome: &Outcome) {
        for place in &write.places {
            let row = self.rows.entry(*place).or_default();
            let timestamp = write.version.timestamp;
            match outcome {
                Outcome::Acknowledged if timestamp > row.acknowledged.timestamp => {
                    row.acknowledged = write.version;
                    row.uncertain.retain(|version| version.timestamp > timestamp);
                }
                Outcome::Refused => row.uncertain.retain(|version| version.timestamp != timestamp),
                Outcome::Acknowledged | Outcome::Unknown => {}
            }
        }
    }

    /// Makes a write: its places and their new version, with its text.
    fn next_write(&mut self) -> (Vec<Place>, Version, String) {
        self.timestamp += 1;
        let timestamp = self.timestamp;
        let (p, c) = (self.below(PARTITIONS) as i32, self.below(ROWS) as i32);
        let vector = self.vector();
        let group = self.below(GROUPS) as i32;
        let using = format!("USING TIMESTAMP {timestamp}");
        let (vector, text) = match self.below(16) {
            0..3 => (
                None,
                format!("DELETE FROM k.vectors {using} WHERE p = {p} AND c = {c}"),
            ),
            3 => (
                None,
                format!("DELETE v FROM k.vectors {using} WHERE p = {p} AND c = {c}"),
            ),
            4 => (None, format!("DELETE FROM k.vectors {using} WHERE p = {p}")),
            _ => (
                Some(vector),
                format!("INSERT INTO k.vectors (p, c, v, g) VALUES ({p}, {c}, {vector:?}, {group}) {using}"),
            ),
        };
        let places = match text.contains(" AND c") || vector.is_some() {
            true => vec![(p, c)],
            false => (0..ROWS as i32).map(|c| (p, c)).collect(),
        };
        let version = Version {
            timestamp,
            vector,
            group,
        };
        (places, version, text)
    }

    fn question(&self) -> Question {
        Question {
            of: self.vector(),
            partition: (self.below(6) == 0).then(|| self.below(PARTITIONS) as i32),
            group: (self.below(2) == 0).then(|| self.below(GROUPS) as i32),
            limit: [1, 3, 10, ALL][self.below(4) as usize],
        }
    }

    /// Checks that an answer can be explained.
    fn explain(&self, question: &Question, rows: &Rows) -> Held<()> {
        let found = rows.rows.iter().map(|row| found_row(row));
        let found: Vec<(Place, Vector, f64)> = found.collect::<Held<_>>()?;
        let mut last = 0;
        let mut places = BTreeSet::new();
        for (place, vector, similarity) in &found {
            let distance = distance(*vector, question.of);
            let known = self.rows.get(place).cloned().unwrap_or_default();
            if !known
                .possible(question.group)
                .any(|possible| possible == Some(*vector))
            {
                return Err(format!("{place:?} is found with {vector:?}, and is {known:?}"));
            }
            if !places.insert(*place) || question.partition.is_some_and(|p| p != place.0) {
                return Err(format!("{place:?} is found twice, or in another partition"));
            }
            if distance < last {
                return Err(format!("{place:?} is found after what is farther away"));
            }
            if (similarity - 1.0 / (1.0 + f64::from(distance))).abs() > SIMILARITY_ERROR {
                return Err(format!(
                    "{place:?} at {distance} is said to be {similarity} alike"
                ));
            }
            last = distance;
        }
        if found.len() > question.limit {
            return Err(format!("{} rows are found", found.len()));
        }
        let is_full = found.len() == question.limit;
        let asked = self
            .rows
            .iter()
            .filter(|(place, _)| question.partition.is_none_or(|p| p == place.0));
        for (place, known) in asked.filter(|(place, _)| !places.contains(place)) {
            if let Some(farthest) = known.farthest(question.of, question.group)
                && (!is_full || farthest < last)
            {
                return Err(format!(
                    "{place:?} is {known:?} and not found among {} rows, the last of which is {last} away",
                    found.len()
                ));
            }
        }
        Ok(())
    }
}

fn distance(left: Vector, right: Vector) -> i32 {
    left.iter()
        .zip(right)
        .map(|(left, right)| (left - right).pow(2))
        .sum()
}

fn question_text(question: &Question) -> String {
    let Question {
        of,
        partition,
        group,
        limit,
    } = question;
    let conditions = [("p", partition), ("g", group)];
    let conditions: Vec<String> = conditions
        .iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name} = {value}")))
        .collect();
    let within = match conditions.is_empty() {
        true => String::new(),
        false => format!("WHERE {} ", conditions.join(" AND ")),
    };
    format!(
        "SELECT p, c, v, similarity_euclidean(v, {of:?}) FROM k.vectors {within}ORDER BY v ANN OF {of:?} LIMIT {limit}"
    )
}

fn found_row(row: &[Option<Vec<u8>>]) -> Held<(Place, Vector, f64)> {
    let parse = || {
        let [Some(p), Some(c), Some(v), Some(similarity)] = row else {
            return None;
        };
        let int = |bytes: &Vec<u8>| Some(i32::from_be_bytes(bytes.as_slice().try_into().ok()?));
        let float = |bytes: &[u8]| Some(f32::from_be_bytes(bytes.try_into().ok()?));
        let components: Option<Vec<i32>> = v.chunks(4).map(|bytes| Some(float(bytes)? as i32)).collect();
        let vector: Vector = components?.try_into().ok()?;
        Some(((int(p)?, int(c)?), vector, f64::from(float(similarity)?)))
    };
    parse().ok_or_else(|| format!("{row:?} is no row with a vector"))
}

impl World {
    pub(super) async fn create_vectors(&mut self, node: &SimulatedNode) -> Held<()> {
        if self.vectors.random.is_some() {
            self.change_schema(node, CREATE).await?;
            self.change_schema(node, CREATE_GROUP_INDEX).await?;
            self.change_schema(node, CREATE_INDEX).await?;
            self.vectors.has_index = true;
        }
        Ok(())
    }

    /// Writes, asks, compacts, or makes the index anew.
    pub(super) async fn step_vectors(&mut self, node: &SimulatedNode) -> Held<()> {
        match self.vectors.below(60) {
            0 => self.change_vector_index(node).await,
            _ if !self.vectors.has_index => self.change_vector_index(node).await,
            1 => {
                if let Some(compacted) = node.compact("k", "vectors") {
                    self.note("compact vectors");
                    tokio::task::spawn_local(compacted);
                }
                Ok(())
            }
            2..20 => {
                let question = self.vectors.question();
                self.ask_vectors(node, &question).await?;
                Ok(())
            }
            _ => self.write_vectors(node).await,
        }
    }

    async fn change_vector_index(&mut self, node: &SimulatedNode) -> Held<()> {
        let makes = !std::mem::replace(&mut self.vectors.has_index, false);
        let text = if makes { CREATE_INDEX } else { DROP_INDEX };
        let outcome = self.change_schema(node, text).await?;
        self.vectors.has_index = makes && matches!(outcome, Outcome::Acknowledged);
        Ok(())
    }

    async fn write_vectors(&mut self, node: &SimulatedNode) -> Held<()> {
        while self.vectors.under_way.len() as u64 > self.vectors.below(UNDER_WAY_MAX) {
            let index = self.vectors.below(self.vectors.under_way.len() as u64) as usize;
            let write = self.vectors.under_way.swap_remove(index);
            self.settle_vector(write).await?;
        }
        for _ in 0..1 + self.vectors.below(4) {
            let (places, version, text) = self.vectors.next_write();
            for place in &places {
                let row = self.vectors.rows.entry(*place).or_default();
                row.uncertain.push(version);
            }
            let answer = self.submit(node, &text, Execution::default(), WRITE_TIMEOUT + LATE_MAX);
            self.vectors.under_way.push(VectorWrite {
                places,
                version,
                text,
                answer,
            });
        }
        Ok(())
    }

    pub(super) async fn settle_vectors(&mut self) -> Held<()> {
        for write in std::mem::take(&mut self.vectors.under_way) {
            self.settle_vector(write).await?;
        }
        Ok(())
    }

    async fn settle_vector(&mut self, mut write: VectorWrite) -> Held<()> {
        let answer = (&mut write.answer).await.map_err(|error| error.to_string())??;
        let outcome = self.outcome(&answer, &write.text)?;
        self.vectors.settled(&write, &outcome);
        Ok(())
    }

    /// Asks a question; returns whether there was an answer, which then could be explained.
    async fn ask_vectors(&mut self, node: &SimulatedNode, question: &Question) -> Held<bool> {
        let text = question_text(question);
        let answer = self.submit(node, &text, Execution::default(), RANGE_TIMEOUT + LATE_MAX);
        match answer.await.map_err(|error| error.to_string())?? {
            Answer::Rows(rows) => {
                self.report.reads_checked += 1;
                let explained = self.vectors.explain(question, &rows);
                explained.map_err(|error| format!("{text}: {error}"))?;
                return Ok(true);
            }
            Answer::Error {
                code: ErrorCode::Invalid,
                ..
            } if !self.vectors.has_index => {}
            Answer::Error {
                code: ErrorCode::ReadFailure,
                message,
            } if message.contains("INDEX_NOT_AVAILABLE") => {}
            answer => {
                self.outcome(&answer, &text)?;
            }
        }
        Ok(false)
    }

    /// After a start: all that was acknowledged is found, while the index is filled from the rows and afterwards.
    pub(super) async fn check_vectors(&mut self, node: &SimulatedNode) -> Held<()> {
        if self.vectors.timestamp == 0 {
            return Ok(());
        }
        for pause in [0, 1] {
            tokio::time::sleep(std::time::Duration::from_secs(pause)).await;
            let mut question = self.vectors.question();
            question.limit = ALL;
            for _ in 0..READ_TRIES {
                if !self.vectors.has_index || self.ask_vectors(node, &question).await? {
                    break;
                }
            }
        }
        Ok(())
    }
}
