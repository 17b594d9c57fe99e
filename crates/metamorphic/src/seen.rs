//! Answers as a client sees them, and how two of them differ.

use std::collections::BTreeSet;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Column, Rows};

use crate::failure::Difference;

/// Characters of a row or a text that reports show at most.
const SHOWN_CHARACTERS_MAX: usize = 400;

/// Serialized values, `None` for null.
pub type Row = Vec<Option<Vec<u8>>>;

/// Result of a statement, as a client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Done,
    /// All pages together; each warning once.
    Rows {
        columns: Vec<Column>,
        rows: Vec<Row>,
        warnings: BTreeSet<String>,
    },
    Error {
        code: ErrorCode,
        message: String,
    },
}

impl Seen {
    pub fn of(answer: Answer) -> Seen {
        match answer {
            Answer::Error { code, message } => Seen::Error { code, message },
            _ => Seen::Done,
        }
    }

    /// Adds the next page of an answer, of which there is `None` before the first.
    pub fn add_page(all: &mut Option<Seen>, page: Rows) {
        let page_warnings = page.warnings.into_iter();
        let page_warnings = page_warnings.filter(|warning| is_of_statement(warning));
        match all {
            Some(Seen::Rows { rows, warnings, .. }) => {
                rows.extend(page.rows);
                warnings.extend(page_warnings);
            }
            _ => {
                *all = Some(Seen::Rows {
                    columns: page.columns,
                    rows: page.rows,
                    warnings: page_warnings.collect(),
                });
            }
        }
    }
}

/// Returns whether a warning is independent of the pages that are asked for.
fn is_of_statement(warning: &str) -> bool {
    !warning.starts_with("Top-K queries do not support paging")
}

/// The first place where two answers differ.
pub fn difference(first: &Seen, other: &Seen) -> (Difference, String) {
    let (
        Seen::Rows {
            columns,
            rows,
            warnings,
        },
        Seen::Rows {
            columns: other_columns,
            rows: other_rows,
            warnings: other_warnings,
        },
    ) = (first, other)
    else {
        let difference = match (first, other) {
            (Seen::Error { .. }, Seen::Error { .. }) => Difference::Error,
            _ => Difference::Kind,
        };
        let text = format!("answers {}, the first node {}", summary(other), summary(first));
        return (difference, text);
    };
    if columns != other_columns {
        let text = format!("columns {other_columns:?}, on the first node {columns:?}");
        return (Difference::Columns, text);
    }
    if warnings != other_warnings {
        let text = format!("warnings {other_warnings:?}, on the first node {warnings:?}");
        return (Difference::Warnings, text);
    }
    (Difference::Rows, rows_differ("the first node", rows, other_rows))
}

pub fn rows_differ(whose: &str, rows: &[Row], other_rows: &[Row]) -> String {
    let place = rows
        .iter()
        .zip(other_rows)
        .position(|(row, other)| row != other)
        .unwrap_or(rows.len().min(other_rows.len()));
    let shown = |rows: &[Row]| rows.get(place).map_or("none".to_owned(), |row| show(row));
    let mut text = format!(
        "{} rows, of {whose} {}; row {}: {}, of {whose}: {}",
        other_rows.len(),
        rows.len(),
        place + 1,
        shown(other_rows),
        shown(rows)
    );
    if let (Some(row), Some(other)) = (rows.get(place), other_rows.get(place))
        && let Some(column) = row.iter().zip(other).position(|(value, other)| value != other)
        && let (Some(value), Some(other)) = (&row[column], &other[column])
    {
        let common = value
            .iter()
            .zip(other)
            .take_while(|(byte, other)| byte == other)
            .count();
        let behind = |value: &[u8]| show(&[value.get(common..).map(<[u8]>::to_vec)]);
        text.push_str(&format!(
            "; value {} differs from byte {common} on: {}, of {whose}: {}",
            column + 1,
            behind(other),
            behind(value)
        ));
    }
    text
}

fn summary(seen: &Seen) -> String {
    match seen {
        Seen::Done => "done".to_owned(),
        Seen::Rows { rows, .. } => format!("{} rows", rows.len()),
        Seen::Error { code, message } => shortened(&format!("{code:?}: {message}")),
    }
}

fn show(row: &[Option<Vec<u8>>]) -> String {
    let value = |value: &Option<Vec<u8>>| match value {
        None => "null".to_owned(),
        Some(bytes) => {
            let shown = bytes.get(..24).unwrap_or(bytes);
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            match bytes.len() {
                length @ 25.. => format!("0x{digits}..({length} bytes)"),
                _ => format!("0x{digits}"),
            }
        }
    };
    let values: Vec<String> = row.iter().map(value).collect();
    shortened(&format!("({})", values.join(", ")))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
