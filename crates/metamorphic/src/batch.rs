//! Parts of a generated statement, to leave some of them out: the statements of a batch, the columns of an INSERT.
//!
//! Works on the text. No generated text holds `; ` or `?` but as a separator and as a marker.

use crate::script::Statement;
use crate::value::Value;

/// A statement in parts, each with the values of its markers.
#[derive(Debug)]
pub struct Parts {
    parts: Vec<(String, Vec<Option<Value>>)>,
    join: fn(&[String]) -> String,
    head: String,
    tail: String,
}

/// `None` if it is no batch of several statements.
pub fn statements(statement: &Statement) -> Option<Parts> {
    let (head, rest) = statement.text.split_once(" USING TIMESTAMP ")?;
    let (timestamp, rest) = rest.split_once(' ')?;
    let body = rest.strip_suffix("APPLY BATCH")?;
    let texts: Vec<String> = body
        .split_terminator("; ")
        .map(|text| format!("{text}; "))
        .collect();
    let parts = with_values(texts, &statement.values)?;
    (head.starts_with("BEGIN ") && parts.len() > 1).then(|| Parts {
        parts,
        join: <[String]>::concat,
        head: format!("{head} USING TIMESTAMP {timestamp} "),
        tail: "APPLY BATCH".to_owned(),
    })
}

/// Splits an INSERT by itself into its columns; `None` for everything else.
pub fn columns(statement: &Statement) -> Option<Parts> {
    let (head, rest) = statement.text.split_once(" (")?;
    let (names, rest) = rest.split_once(") VALUES (")?;
    let (markers, tail) = rest.split_once(')')?;
    let texts: Vec<String> = names.split(", ").map(str::to_owned).collect();
    let is_plain = head.starts_with("INSERT ") && markers.split(", ").all(|marker| marker == "?");
    if !is_plain || texts.len() != statement.values.len() {
        return None;
    }
    Some(Parts {
        parts: texts
            .into_iter()
            .zip(&statement.values)
            .map(|(name, value)| (name, vec![value.clone()]))
            .collect(),
        join: |names| {
            let markers = vec!["?"; names.len()].join(", ");
            format!("{}) VALUES ({markers}", names.join(", "))
        },
        head: format!("{head} ("),
        tail: format!("){tail}"),
    })
}

impl Parts {
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    pub fn without(&self, index: usize) -> Statement {
        let left = || {
            let parts = self.parts.iter().enumerate();
            parts.filter(|(place, _)| *place != index).map(|(_, part)| part)
        };
        let texts: Vec<String> = left().map(|(text, _)| text.clone()).collect();
        Statement {
            text: format!("{}{}{}", self.head, (self.join)(&texts), self.tail),
            values: left().flat_map(|(_, values)| values.iter().cloned()).collect(),
        }
    }
}

/// Each text with the values of its markers; `None` if there are more or fewer.
fn with_values(texts: Vec<String>, values: &[Option<Value>]) -> Option<Vec<(String, Vec<Option<Value>>)>> {
    let mut rest = values;
    let mut parts = Vec::new();
    for text in texts {
        let (own, others) = rest.split_at_checked(text.matches('?').count())?;
        parts.push((text, own.to_vec()));
        rest = others;
    }
    rest.is_empty().then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str, count: u8) -> Statement {
        Statement {
            text: text.to_owned(),
            values: (0..count).map(|byte| Some(Value::literal(vec![byte]))).collect(),
        }
    }

    #[test]
    fn a_batch_is_left_without_a_statement() {
        let batch = statement(
            "BEGIN UNLOGGED BATCH USING TIMESTAMP 5 INSERT INTO t (a, b) VALUES (?, ?); DELETE FROM t WHERE a = ?; \
             APPLY BATCH",
            3,
        );
        let parts = statements(&batch).unwrap();
        assert_eq!(parts.count(), 2);
        let left = parts.without(0);
        assert_eq!(
            left.text,
            "BEGIN UNLOGGED BATCH USING TIMESTAMP 5 DELETE FROM t WHERE a = ?; APPLY BATCH"
        );
        assert_eq!(left.values, [Some(Value::literal(vec![2]))]);
        assert!(statements(&left).is_none());
    }

    #[test]
    fn an_insertion_is_left_without_a_column() {
        let insert = statement("INSERT INTO k.t (a, \"B c\") VALUES (?, ?) USING TIMESTAMP 7", 2);
        let left = columns(&insert).unwrap().without(0);
        assert_eq!(
            left.text,
            "INSERT INTO k.t (\"B c\") VALUES (?) USING TIMESTAMP 7"
        );
        assert_eq!(left.values, [Some(Value::literal(vec![1]))]);
        assert!(columns(&statement("SELECT a FROM t WHERE a IN (?)", 1)).is_none());
    }
}
