//! Choices of the compaction strategies: each file in `testdata/compaction` has SSTables and questions, and after `----` the
//! answers. Set `REWRITE_GOLDEN=1` to write the files anew from what the strategies say, and read the difference.
//!
//! | line | means |
//! |---|---|
//! | `strategy NAME OPTION=VALUE..` | the table's options; forgets the SSTables before |
//! | `moment now=.. grace=.. memtable=.. flush=.. parts=.. idle=LEVEL..COUNT yield=PART` | when and where it is asked |
//! | `NUMBER size=.. level=.. tokens=FROM..TO keys=FROM..TO ts=MIN..MAX dead=SHARE until=.. made=.. busy` | an SSTable; tokens in percent of the ring |
//! | `choose`, `pending`, `waiting`, `major`, `major split` | the question |

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use helenus_sstable::Cardinality;
use helenus_storage::compaction::{
    Candidate, CompactionOptions, IdleLevels, MergeYield, Moment, Split, Task,
};
use helenus_types::Token;

struct Scene {
    options: CompactionOptions,
    moment: Moment,
    candidates: Vec<Candidate>,
}

fn size(text: &str) -> u64 {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().unwrap() * factor
}

/// A place on the ring, in percent.
fn token(percent: &str) -> Token {
    let place = percent.parse::<f64>().unwrap() / 100.0 * 2.0_f64.powi(64) - 2.0_f64.powi(63);
    Token(place as i64)
}

fn range(text: &str) -> (&str, &str) {
    text.split_once("..").unwrap_or((text, text))
}

impl Scene {
    fn new() -> Self {
        Scene {
            options: CompactionOptions::parse(&BTreeMap::new()),
            moment: Moment {
                now_s: 1_000_000,
                gc_before_s: 900_000,
                memtable_timestamp_min: i64::MAX,
                flush_bytes: 0,
                ring_parts: 1,
                idle_levels: IdleLevels::default(),
                merge_yield: MergeYield {
                    part: 1.0,
                    is_measured: false,
                },
            },
            candidates: Vec::new(),
        }
    }

    /// The answer, if the line is a question.
    fn line(&mut self, line: &str) -> Option<String> {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        let pairs = words
            .clone()
            .map(|word| word.split_once('=').unwrap_or((word, "")));
        match first {
            "strategy" => {
                let mut options: BTreeMap<String, String> = pairs
                    .skip(1)
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                options.insert("class".to_owned(), format!("{}CompactionStrategy", words.next()?));
                self.options = CompactionOptions::parse(&options);
                self.candidates.clear();
            }
            "moment" => pairs.for_each(|(name, value)| self.moment_is(name, value)),
            "choose" => return Some(describe(self.options.choose(&self.candidates, &self.moment))),
            "pending" => {
                let pending = self.options.pending(&self.candidates, &self.moment);
                return Some(format!("{pending} pending\n"));
            }
            "waiting" => {
                let waiting = self.options.waiting(&self.candidates, &self.moment);
                return Some(format!("{waiting} waiting\n"));
            }
            "major" => {
                let split_output = words.next() == Some("split");
                return Some(describe(self.options.major(&self.candidates, split_output)));
            }
            number => {
                let mut candidate = Candidate {
                    generation: number.parse().unwrap_or_else(|_| panic!("{line}")),
                    bytes: 100 << 20,
                    level: 0,
                    timestamp_min: 1,
                    timestamp_max: 1,
                    local_deletion_s_max: u32::MAX,
                    first: token("0"),
                    last: token("100"),
                    partitions: 1_000,
                    keys: None,
                    droppable_tombstones: 0.0,
                    created_at_s: 0,
                    is_busy: false,
                };
                pairs.for_each(|(name, value)| set(&mut candidate, name, value));
                self.candidates.push(candidate);
            }
        }
        None
    }

    fn moment_is(&mut self, name: &str, value: &str) {
        match name {
            "now" => self.moment.now_s = value.parse().unwrap(),
            "grace" => self.moment.gc_before_s = self.moment.now_s - value.parse::<u32>().unwrap(),
            "memtable" => self.moment.memtable_timestamp_min = value.parse().unwrap(),
            "flush" => self.moment.flush_bytes = size(value),
            "idle" => {
                let (level, count) = range(value);
                self.moment.idle_levels.0[level.parse::<usize>().unwrap()] = count.parse().unwrap();
            }
            "yield" => self.moment.merge_yield.part = value.parse().unwrap(),
            "parts" => self.moment.ring_parts = value.parse().unwrap(),
            _ => panic!("moment {name}"),
        }
    }
}

fn set(candidate: &mut Candidate, name: &str, value: &str) {
    match name {
        "size" => candidate.bytes = size(value),
        "level" => candidate.level = value.parse().unwrap(),
        "tokens" => {
            let (first, last) = range(value);
            (candidate.first, candidate.last) = (token(first), token(last));
        }
        "ts" => {
            let (min, max) = range(value);
            candidate.timestamp_min = min.parse().unwrap();
            candidate.timestamp_max = max.parse().unwrap();
        }
        "keys" => {
            let (from, to) = range(value);
            let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
            let mut keys = Cardinality::new();
            (from..to).for_each(|key| keys.add(&key.to_be_bytes()));
            candidate.partitions = to - from;
            candidate.keys = Some(Arc::new(keys.sketch()));
        }
        "dead" => candidate.droppable_tombstones = value.parse().unwrap(),
        "until" => candidate.local_deletion_s_max = value.parse().unwrap(),
        "made" => candidate.created_at_s = value.parse().unwrap(),
        "busy" => candidate.is_busy = true,
        _ => panic!("an SSTable has no {name}"),
    }
}

fn describe(task: Option<Task>) -> String {
    let Some(task) = task else {
        return "nothing\n".to_owned();
    };
    let mut text = String::new();
    if task.is_relabelling {
        writeln!(
            text,
            "relabel {:?} as of level {}",
            task.inputs, task.output.level
        )
        .unwrap();
    } else if !task.inputs.is_empty() {
        let split = match task.output.split {
            Split::Whole => "one SSTable".to_owned(),
            Split::BySize { sstable_bytes } => format!("SSTables of {} KiB", sstable_bytes >> 10),
            Split::ByShard { shards } => format!("{shards} shards"),
            Split::Halving {
                sstable_bytes_min, ..
            } => {
                format!("halves down to {} MiB", sstable_bytes_min >> 20)
            }
        };
        writeln!(
            text,
            "merge {:?} into level {}, {split}",
            task.inputs, task.output.level
        )
        .unwrap();
    }
    if !task.expired.is_empty() {
        writeln!(text, "drop {:?}", task.expired).unwrap();
    }
    text
}

/// The file with the answers that the strategies give.
fn answered(text: &str) -> String {
    let mut scene = Scene::new();
    let mut out = String::new();
    let mut is_answer = false;
    for line in text.lines() {
        if is_answer {
            // Up to the empty line after it.
            is_answer = !line.is_empty();
            if is_answer {
                continue;
            }
        }
        if line == "----" {
            is_answer = true;
            continue;
        }
        out.push_str(line);
        out.push('\n');
        if let Some(answer) = scene.line(line.split('#').next().unwrap()) {
            out.push_str("----\n");
            out.push_str(&answer);
        }
    }
    out
}

#[test]
fn strategies_choose_as_the_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/compaction");
    let mut questions = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let found = answered(&text);
        questions += found.matches("\n----\n").count();
        if std::env::var_os("REWRITE_GOLDEN").is_some() {
            std::fs::write(&path, &found).unwrap();
        } else {
            assert_eq!(found, text, "{}", path.display());
        }
    }
    assert!(questions > 40, "{questions} questions are too few to be all");
}
