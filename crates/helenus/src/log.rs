//! The log of `helenus serve`: a line on stderr for each event of the node.

use std::fmt::Write as _;

use helenus_events::{Event, EventListener, Field, Level};
use helenus_types::value::timestamp::format_timestamp_json;
use helenus_vfs::{Clock, SystemClock};
use serde_json::{Map, Value};

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, where it comes from, what happened.
    #[default]
    Text,
    /// For programs: one object a line.
    Json,
}

/// Writes events as they happen.
#[derive(Debug)]
pub struct Log {
    format: LogFormat,
    clock: SystemClock,
}

impl Log {
    pub fn new(format: LogFormat) -> Self {
        Log {
            format,
            clock: SystemClock::new(),
        }
    }
}

impl EventListener for Log {
    fn event(&self, event: &Event<'_>) {
        let time_ms = self.clock.wall_us() / 1_000;
        eprintln!("{}", line(self.format, time_ms, event));
    }
}

fn line(format: LogFormat, time_ms: i64, event: &Event<'_>) -> String {
    let time = format_timestamp_json(time_ms);
    match format {
        LogFormat::Text => {
            let mut text = String::new();
            // Control characters of names that clients chose would end the line, or write on a terminal.
            for character in event.to_string().chars() {
                match character.is_control() {
                    true => text.extend(character.escape_default()),
                    false => text.push(character),
                }
            }
            let mut line = String::new();
            let _infallible = write!(
                line,
                "{time} {:<5} {}: {text}",
                name_of(event.level()),
                event.target()
            );
            line
        }
        LogFormat::Json => {
            let mut object = Map::new();
            let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
            put("time", time.into());
            put("level", name_of(event.level()).into());
            put("target", event.target().into());
            put("event", event.name().into());
            put("message", event.to_string().into());
            event.fields(&mut |name, field| {
                let value = match field {
                    Field::Text(text) => text.to_string().into(),
                    Field::Number(number) => number.into(),
                    Field::Flag(flag) => flag.into(),
                };
                put(name, value);
            });
            Value::Object(object).to_string()
        }
    }
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::Info => "INFO",
        Level::Warn => "WARN",
        Level::Error => "ERROR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: Event<'static> = Event::NotFlushed {
        shard: 3,
        keyspace: "k",
        table: "two\nlines",
        error: &"no space left",
    };

    #[test]
    fn a_line_of_text_is_one_line() {
        let line = line(LogFormat::Text, 1_600_000_000_123, &EVENT);
        let head = "2020-09-13 12:26:40.123Z ERROR storage: shard 3: k.two\\nlines cannot be flushed";
        assert!(line.starts_with(head), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn an_object_has_what_the_event_has() {
        let line = line(LogFormat::Json, 1_600_000_000_123, &EVENT);
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["level"], "ERROR");
        assert_eq!(object["event"], "not_flushed");
        assert_eq!(object["target"], "storage");
        assert_eq!(object["shard"], 3);
        assert_eq!(object["table"], "two\nlines");
        assert!(object["message"].as_str().unwrap().contains("no space left"));
    }
}
