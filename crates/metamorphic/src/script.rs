//! A history as text.
//!
//! ```text
//! # What it shows.
//! on memory shards=1 cache=on memory=64 format=nb index=64
//! on disk shards=2 cache=off memory=8 format=da index=4 page=3
//! cql CREATE TABLE k.t (p int PRIMARY KEY, v blob)
//! cql INSERT INTO k.t (p, v) VALUES (?, ?) USING TIMESTAMP 1
//!   0x00000001
//!   bytes(7,65536)
//! flush
//! restart
//! cql SELECT * FROM k.t
//! ```
//!
//! A statement's values follow it, one a line, indented; `null` is one.

use std::fmt;
use std::str::FromStr;

use crate::configuration::Configuration;
use crate::value::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The lines of the head, without their `#`.
    pub comment: Vec<String>,
    pub configurations: Vec<Configuration>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Statement(Statement),
    Event(Event),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// One line.
    pub text: String,
    /// For its markers, in their order; `None` is null.
    pub values: Vec<Option<Value>>,
}

/// Event of every node with a disk, between two statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Flush,
    /// A major compaction of every table, of what is in SSTables.
    Compact,
    Restart,
    /// The power fails; what was not synced may be gone.
    Kill,
    /// Another process takes the node's place, as `serve --replace` does: who reads pages goes on where they were, prepared
    /// statements are prepared again, and what was asked for just before is done once or not at all.
    Replace,
    /// A restart with the next of 1, 2, 3, 5 shards.
    Reshard,
    /// A restart that writes the next of the formats.
    Reformat,
    /// All tables are what a snapshot of them says, which was made just before.
    Restore,
    /// All tables are exported in the next of the formats, and imported in the place of what they had.
    Interchange,
    /// There is no room on the disk while everything is to be flushed; then there is, and the node starts again.
    FullDisk,
    /// So many syncs from now one fails. A shard whose log it was takes no write until the power fails, which is what
    /// happens next; whatever was acknowledged is there.
    FailedSync {
        after: u64,
    },
    /// A bit of a file of an SSTable is another one, until a restart. What is read meanwhile is right, or an error.
    FlippedBit {
        place: u64,
    },
    /// The wall clock of all nodes, also of those in memory; also backwards.
    Clock {
        seconds: i64,
    },
}

impl Event {
    /// Returns whether the node has something to complain of.
    pub(crate) fn breaks_something(self) -> bool {
        matches!(
            self,
            Event::Kill | Event::FullDisk | Event::FailedSync { .. } | Event::FlippedBit { .. }
        )
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct ScriptError {
    /// From 1.
    pub line: usize,
    pub reason: String,
}

impl fmt::Display for Script {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.comment {
            writeln!(out, "# {line}")?;
        }
        for configuration in &self.configurations {
            writeln!(out, "on {configuration}")?;
        }
        self.steps.iter().try_for_each(|step| writeln!(out, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Statement(statement) => statement.fmt(out),
            Step::Event(event) => event.fmt(out),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cql {}", self.text)?;
        for value in &self.values {
            match value {
                Some(value) => write!(out, "\n  {value}")?,
                None => write!(out, "\n  null")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Flush => out.write_str("flush"),
            Event::Compact => out.write_str("compact"),
            Event::Restart => out.write_str("restart"),
            Event::Kill => out.write_str("kill"),
            Event::Replace => out.write_str("replace"),
            Event::Reshard => out.write_str("reshard"),
            Event::Reformat => out.write_str("reformat"),
            Event::Restore => out.write_str("restore"),
            Event::Interchange => out.write_str("interchange"),
            Event::FullDisk => out.write_str("full"),
            Event::FailedSync { after } => write!(out, "unsynced {after}"),
            Event::FlippedBit { place } => write!(out, "flip {place}"),
            Event::Clock { seconds } => write!(out, "clock {seconds}"),
        }
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut script = Script::default();
        for (index, line) in text.lines().enumerate() {
            script.read_line(line.trim_end()).map_err(|reason| ScriptError {
                line: index + 1,
                reason,
            })?;
        }
        Ok(script)
    }
}

impl Script {
    fn read_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            self.comment.push(comment.trim_start().to_owned());
        } else if line.starts_with(' ') {
            let Some(Step::Statement(statement)) = self.steps.last_mut() else {
                return Err("a value without a statement above it".to_owned());
            };
            let value = match line.trim_start() {
                "null" => None,
                value => Some(value.parse()?),
            };
            statement.values.push(value);
        } else if let Some(configuration) = line.strip_prefix("on ") {
            self.configurations.push(configuration.parse()?);
        } else if let Some(text) = line.strip_prefix("cql ") {
            self.steps.push(Step::Statement(Statement {
                text: text.to_owned(),
                values: Vec::new(),
            }));
        } else if !line.is_empty() {
            self.steps.push(Step::Event(parse_event(line)?));
        }
        Ok(())
    }
}

fn parse_event(line: &str) -> Result<Event, String> {
    if let Some((word, number)) = line.split_once(' ') {
        let count = || number.parse().ok();
        let event = match word {
            "clock" => number.parse().ok().map(|seconds| Event::Clock { seconds }),
            "unsynced" => count().map(|after| Event::FailedSync { after }),
            "flip" => count().map(|place| Event::FlippedBit { place }),
            _ => None,
        };
        return event.ok_or_else(|| format!("{line:?} is no step"));
    }
    [
        Event::Flush,
        Event::Compact,
        Event::Restart,
        Event::Kill,
        Event::Replace,
        Event::Reshard,
        Event::Reformat,
        Event::Restore,
        Event::Interchange,
        Event::FullDisk,
    ]
    .into_iter()
    .find(|event| event.to_string() == line)
    .ok_or_else(|| format!("{line:?} is no step"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_it_was_written() {
        let text = "# What it shows.\n\
                    on disk shards=1 cache=on memory=64 format=nb index=64\n\
                    cql INSERT INTO k.t (p, v, w) VALUES (?, ?, ?)\n  0x00000001\n  null\n  bytes(7,65536)\n\
                    flush\nclock 61\nclock -86400\nunsynced 3\nflip 77\nrestore\nreplace\nkill\n\
                    cql SELECT * FROM k.t\n";
        let script: Script = text.parse().unwrap();
        assert_eq!(script.steps.len(), 10);
        assert_eq!(script.to_string(), text);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("flash", 1),
            ("flush\n  0x00", 2),
            ("\non tape", 2),
            ("clock soon", 1),
        ] {
            assert_eq!(text.parse::<Script>().unwrap_err().line, line, "{text}");
        }
    }
}
