//! Parts at the same time, each in a process of its own whose output is shown when it has ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::{Line, Part};
use crate::program::Tally;
use crate::{TaskError, process, workspace};

/// Schedule of the parts, shared by the threads that run them.
struct Schedule {
    state: Mutex<State>,
    /// Something has ended: what waited for it may begin.
    news: Condvar,
}

struct State {
    waiting: Vec<&'static Part>,
    running: Vec<&'static Part>,
    ended: Vec<Line>,
}

/// Runs `parts` in their order, as far as they need not wait for each other, `jobs` at a time.
pub fn run(parts: &[&'static Part], jobs: usize) -> Result<Vec<Line>, TaskError> {
    // Before anything is built: building may replace this very file.
    let program = std::env::current_exe().map_err(|source| TaskError::File {
        path: PathBuf::from("/proc/self/exe"),
        source,
    })?;
    let folder = workspace::scratch("test");
    fs::create_dir_all(&folder).map_err(|source| TaskError::File {
        path: folder.clone(),
        source,
    })?;
    let schedule = Schedule {
        state: Mutex::new(State {
            waiting: parts.to_vec(),
            running: Vec::new(),
            ended: Vec::new(),
        }),
        news: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(part) = schedule.next() {
                    println!("== {}: begins", part.name);
                    let (line, output) = run_apart(part, &program, &folder);
                    schedule.end(part, line, &output);
                }
            });
        }
    });
    let mut lines = schedule.lock_state().ended.drain(..).collect::<Vec<_>>();
    lines.sort_by_key(|line| parts.iter().position(|part| part.name == line.name));
    Ok(lines)
}

impl Schedule {
    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next part that may begin, as soon as there is one; `None` when all have begun.
    fn next(&self) -> Option<&'static Part> {
        let mut state = self.lock_state();
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            if let Some(place) = state.startable() {
                let part = state.waiting.remove(place);
                state.running.push(part);
                return Some(part);
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Shows what a part has said, in one piece.
    fn end(&self, part: &Part, line: Line, output: &str) {
        let mut state = self.lock_state();
        println!("{}", output.trim_end());
        state.running.retain(|running| running.name != part.name);
        state.ended.push(line);
        self.news.notify_all();
    }
}

impl State {
    /// A part waits for those before it that have not ended; one that was not chosen holds nobody up.
    fn startable(&self) -> Option<usize> {
        if self.running.iter().any(|running| running.is_alone) {
            return None;
        }
        let is_open = |name: &str| {
            let mut open = self.running.iter().chain(&self.waiting);
            open.any(|open| open.name == name)
        };
        self.waiting.iter().position(|part| {
            (self.running.is_empty() || !part.is_alone) && !part.after.iter().any(|name| is_open(name))
        })
    }
}

/// The line of a part and what it said.
fn run_apart(part: &Part, program: &Path, folder: &Path) -> (Line, String) {
    let begun = Instant::now();
    let report = folder.join(format!("{}.json", part.name));
    let log = folder.join(format!("{}.log", part.name));
    let lost = |why: String| Line {
        name: part.name.to_owned(),
        tally: Tally {
            failed: 1,
            ..Tally::default()
        },
        elapsed: begun.elapsed(),
        note: Some(why),
    };
    // What an earlier run has left would be taken for this one's.
    let _nothing_to_remove = fs::remove_file(&report);
    let outputs = process::log_file(&log).and_then(|output| both(output, &log));
    let (output, errors) = match outputs {
        Ok(outputs) => outputs,
        Err(error) => return (lost(error.to_string()), String::new()),
    };
    let mut command = Command::new(program);
    command
        .args(["test", "--jobs", "1", "--only", part.name, "--report"])
        .arg(&report)
        .stdout(output)
        .stderr(errors);
    // Whether it failed is in the report.
    let ended = process::run(&mut command);
    let text = fs::read(&log).map_or_else(
        |error| error.to_string(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    );
    let said = text
        .rsplit_once("== summary")
        .map_or(text.as_str(), |(said, _)| said);
    let lines: Option<Vec<Line>> = fs::read(&report)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let line = lines.and_then(|lines| lines.into_iter().next());
    let line = line.unwrap_or_else(|| {
        lost(match ended {
            Ok(()) => "ended without a report".to_owned(),
            Err(error) => error.to_string(),
        })
    });
    (line, said.to_owned())
}

/// Output and errors go to one file, in the order in which they were said.
fn both(output: File, log: &Path) -> Result<(File, File), process::ProcessError> {
    let errors = output.try_clone().map_err(|source| process::ProcessError::Log {
        path: log.to_owned(),
        source,
    })?;
    Ok((output, errors))
}

#[cfg(test)]
mod tests {
    use super::super::part::ALL;
    use super::*;

    /// As many at a time as may run, each to its end: the rounds in which parts begin.
    fn rounds() -> Vec<Vec<&'static Part>> {
        let mut state = State {
            waiting: ALL.iter().collect(),
            running: Vec::new(),
            ended: Vec::new(),
        };
        let mut rounds = Vec::new();
        while !state.waiting.is_empty() {
            while let Some(place) = state.startable() {
                let part = state.waiting.remove(place);
                state.running.push(part);
            }
            assert!(!state.running.is_empty(), "parts wait for each other");
            assert!(state.running.len() == 1 || !state.running.iter().any(|part| part.is_alone));
            rounds.push(std::mem::take(&mut state.running));
        }
        rounds
    }

    #[test]
    fn every_part_begins_and_after_those_that_it_needs() {
        let rounds = rounds();
        let round = |name: &str| {
            rounds
                .iter()
                .position(|round| round.iter().any(|part| part.name == name))
        };
        for part in ALL {
            for needed in part.after {
                assert!(round(needed) < round(part.name), "{} before {needed}", part.name);
                assert!(round(needed).is_some(), "{needed} is no part");
            }
        }
        assert_eq!(rounds.iter().flatten().count(), ALL.len());
        assert!(rounds[1].len() > 1, "lints and the optimised build, side by side");
    }
}
