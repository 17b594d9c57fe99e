//! A history as a text: each step a line of how, from which seed and in which keyspace, and its statements below.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Steps that are sent to one node, from its start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Seed of the node: its shards, and whether it has a disk.
    pub seed: u64,
    pub steps: Vec<Step>,
}

/// One statement, or the statements of one BATCH message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub how: How,
    /// Seed of the values that are bound and of the sizes of pages.
    pub seed: u64,
    pub keyspace: Option<String>,
    pub texts: Vec<String>,
}

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Query,
    /// PREPARE, then EXECUTE some times.
    Prepared,
    /// Some of its statements by their ids.
    Batch,
}

#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ScriptError {
    line: usize,
    what: &'static str,
}

const HOWS: [(How, &str); 3] = [
    (How::Query, "query"),
    (How::Prepared, "prepared"),
    (How::Batch, "batch"),
];

/// In front of a statement's text.
const TEXT: &str = "| ";

impl How {
    pub fn name(self) -> &'static str {
        HOWS.iter()
            .find(|(how, _)| *how == self)
            .map_or("", |(_, name)| name)
    }
}

impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "node {}", self.seed)?;
        self.steps.iter().try_for_each(|step| step.fmt(f))
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let keyspace = self.keyspace.as_deref().unwrap_or("-");
        writeln!(f, "{} {} {keyspace}", self.how.name(), self.seed)?;
        self.texts
            .iter()
            .try_for_each(|text| writeln!(f, "{TEXT}{}", escaped(text)))
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut script = Script {
            seed: 0,
            steps: Vec::new(),
        };
        for (line, content) in (1..).zip(text.lines()) {
            let wrong = |what| ScriptError { line, what };
            if let Some(text) = content.strip_prefix(TEXT) {
                let step = script
                    .steps
                    .last_mut()
                    .ok_or(wrong("a statement without a step"))?;
                step.texts.push(unescaped(text));
                continue;
            }
            let mut words = content.splitn(3, ' ');
            let name = words.next().unwrap_or_default();
            let seed = words.next().and_then(|seed| seed.parse().ok());
            let seed = seed.ok_or(wrong("a step has a seed"))?;
            if name == "node" {
                script.seed = seed;
                continue;
            }
            let how = HOWS.iter().find(|(_, known)| *known == name).map(|(how, _)| *how);
            script.steps.push(Step {
                how: how.ok_or(wrong("a step is a query, prepared or a batch"))?,
                seed,
                keyspace: words
                    .next()
                    .filter(|keyspace| *keyspace != "-")
                    .map(str::to_owned),
                texts: Vec::new(),
            });
        }
        Ok(script)
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                other => out.extend(other),
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_it_was_written() {
        let step = |how, keyspace: Option<&str>, texts: &[&str]| Step {
            how,
            seed: 7,
            keyspace: keyspace.map(str::to_owned),
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        };
        let script = Script {
            seed: u64::MAX,
            steps: vec![
                step(How::Query, None, &["SELECT 'a\nb\\n\r'"]),
                step(How::Batch, Some("Fuzz C"), &["", "| x"]),
                step(How::Prepared, None, &["\u{0}\u{1F600}"]),
            ],
        };
        assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
    }
}
