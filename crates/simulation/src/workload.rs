//! Statements of a simulated client: a few partitions of a few rows, so that they meet.

use std::collections::BTreeMap;

use helenus_test_node::Rows;
use helenus_vfs::{Random, SeededRandom};

use crate::model::{Effect, Partition, Row, Text};

pub const PARTITIONS: u64 = 6;
const ROWS: u64 = 8;

/// Chooses the effect of one statement, and its partition.
pub fn effect(random: &SeededRandom) -> (i32, Effect) {
    let c = random.below(ROWS) as i32;
    let w = random.below(1_000_000) as i32;
    let effect = match random.below(12) {
        0 => Effect::DeleteRow { c },
        1 => Effect::DeleteFrom { c },
        2 => Effect::DeletePartition,
        3 | 4 => Effect::Update { c, w },
        _ => {
            let length = 1 + random.below(3_000) as usize;
            let v = Text(format!("{w:x<length$}"));
            Effect::Insert { c, v, w }
        }
    };
    (random.below(PARTITIONS) as i32, effect)
}

/// Returns whether some statement may have written a text, as [`effect`] makes them.
pub(crate) fn is_written_text(text: &Text) -> bool {
    let digits = text.0.trim_end_matches('x');
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// On different rows: statements of a batch share its timestamp, so the order in a row would be another one.
pub fn effects_of_batch(random: &SeededRandom) -> Vec<(i32, Effect)> {
    let mut parts: Vec<(i32, Effect)> = Vec::new();
    for _ in 0..2 + random.below(4) {
        let (partition, effect) = effect(random);
        let is_new = |row: i32| {
            !parts
                .iter()
                .any(|(p, other)| *p == partition && other.row() == Some(row))
        };
        if effect.row().is_some_and(is_new) {
            parts.push((partition, effect));
        }
    }
    if parts.is_empty() {
        parts.push(effect(random));
    }
    parts
}

/// Makes the text of one part, or of a batch: LOGGED if it is whole. `beside` is one more statement of the batch.
pub fn statement_text(
    table: &str,
    timestamp: usize,
    parts: &[(i32, Effect)],
    is_whole: bool,
    beside: Option<&str>,
) -> String {
    let text = |(p, effect): &(i32, Effect), using: &str| match effect {
        Effect::Insert { c, v, w } => {
            format!(
                "INSERT INTO k.{table} (p, c, v, w) VALUES ({p}, {c}, '{}', {w}){using}",
                v.0
            )
        }
        Effect::Update { c, w } => format!("UPDATE k.{table}{using} SET w = {w} WHERE p = {p} AND c = {c}"),
        Effect::DeleteRow { c } => format!("DELETE FROM k.{table}{using} WHERE p = {p} AND c = {c}"),
        Effect::DeleteFrom { c } => format!("DELETE FROM k.{table}{using} WHERE p = {p} AND c >= {c}"),
        Effect::DeletePartition => format!("DELETE FROM k.{table}{using} WHERE p = {p}"),
    };
    if let ([part], None) = (parts, beside) {
        return text(part, &format!(" USING TIMESTAMP {timestamp}"));
    }
    let statements = parts.iter().map(|part| text(part, ""));
    let statements = statements.chain(beside.map(str::to_owned));
    let statements: Vec<String> = statements.map(|statement| statement + ";").collect();
    let unlogged = if is_whole { "" } else { "UNLOGGED " };
    format!(
        "BEGIN {unlogged}BATCH USING TIMESTAMP {timestamp} {} APPLY BATCH",
        statements.join(" ")
    )
}

/// Adds rows of `SELECT p, c, v, w`. The error says which came twice.
pub fn collect_rows(page: &Rows, partitions: &mut BTreeMap<i32, Partition>) -> Result<(), String> {
    for row in &page.rows {
        let [p, c, v, w] = row.as_slice() else {
            return Err(format!("four columns were asked for, not {row:?}"));
        };
        let found = Row {
            is_inserted: false,
            v: v.as_ref().map(|v| Text(String::from_utf8_lossy(v).into_owned())),
            w: w.as_deref().map(int),
        };
        let key = |value: &Option<Vec<u8>>| int(value.as_deref().expect("keys are never null"));
        if partitions
            .entry(key(p))
            .or_default()
            .insert(key(c), found)
            .is_some()
        {
            return Err(format!("row {row:?} came twice"));
        }
    }
    Ok(())
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().expect("an int has four bytes"))
}
