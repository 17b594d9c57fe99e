//! From a long history that fails to a short one that fails the same way.
//!
//! Delta debugging: parts are left out as long as what is left still fails, first large ones, then small ones. What a
//! step needs of others (its table, its rows) needs no model: without them it is refused by all nodes alike, the history
//! no longer fails, and the part stays.

use crate::batch;
use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::run::Report;
use crate::script::{Script, Step};
use crate::value::{Piece, Value};

/// Tries and keeps what still fails as the first run did.
struct Shrinker<'a> {
    attempt: &'a mut dyn FnMut(&Script) -> Report,
    script: Script,
    failure: Failure,
    runs_left: usize,
}

/// The smallest script found that fails as `failure` does, with its own failure. `attempt` runs a script; it is asked
/// `runs_max` times at most.
pub fn shrink(
    script: &Script,
    failure: &Failure,
    runs_max: usize,
    attempt: &mut dyn FnMut(&Script) -> Report,
) -> (Script, Failure) {
    let mut shrinker = Shrinker {
        attempt,
        script: script.clone(),
        failure: failure.clone(),
        runs_left: runs_max,
    };
    shrinker.cut_tail();
    shrinker.configurations();
    // Settings that do not matter and short values make every later run faster and every later part smaller.
    for _ in 0..2 {
        shrinker.steps();
        shrinker.settings();
        shrinker.parts();
        shrinker.values();
    }
    (shrinker.script, shrinker.failure)
}

impl Shrinker<'_> {
    /// Keeps the candidate if it fails in the same way.
    fn keeps(&mut self, candidate: Script) -> bool {
        if candidate == self.script || self.runs_left == 0 {
            return false;
        }
        self.runs_left -= 1;
        let found = (self.attempt)(&candidate).failure;
        let Some(failure) = found.filter(|failure| failure.kind == self.failure.kind) else {
            return false;
        };
        self.script = candidate;
        self.failure = failure;
        self.cut_tail();
        true
    }

    /// Removes the steps that follow the failure: they have no part in it.
    fn cut_tail(&mut self) {
        self.script
            .steps
            .truncate(self.failure.step.map_or(0, |step| step + 1));
    }

    fn configurations(&mut self) {
        // A node failed on its own, or two differ: one or two are enough, if any two are.
        let all = self.script.configurations.clone();
        let alone = all.iter().map(|one| vec![one.clone()]);
        let pairs = all
            .iter()
            .enumerate()
            .flat_map(|(index, one)| all[..index].iter().map(|other| vec![other.clone(), one.clone()]));
        for configurations in alone.chain(pairs).filter(|few| few.len() < all.len()) {
            let candidate = Script {
                configurations,
                ..self.script.clone()
            };
            if self.keeps(candidate) {
                return;
            }
        }
    }

    fn steps(&mut self) {
        let mut chunk = self.script.steps.len().div_ceil(2);
        while chunk > 0 {
            // From the end, where what is left out is needed by fewer others.
            let mut end = self.script.steps.len();
            while end > 0 && self.runs_left > 0 {
                let start = end.saturating_sub(chunk);
                let mut candidate = self.script.clone();
                candidate.steps.drain(start..end);
                self.keeps(candidate);
                end = start.min(self.script.steps.len());
            }
            chunk /= 2;
        }
    }

    /// Statements of batches, and columns of insertions.
    fn parts(&mut self) {
        for step in 0..self.script.steps.len() {
            for split in [batch::statements, batch::columns] {
                let mut index = 0;
                while let Some(Step::Statement(statement)) = self.script.steps.get(step)
                    && let Some(parts) = split(statement)
                    && parts.count() > index
                {
                    let mut candidate = self.script.clone();
                    if let Some(Step::Statement(statement)) = candidate.steps.get_mut(step) {
                        *statement = parts.without(index);
                    }
                    if !self.keeps(candidate) {
                        index += 1;
                    }
                }
            }
        }
    }

    /// Each setting of each configuration becomes the plain one.
    fn settings(&mut self) {
        let plainer: [fn(&mut Configuration); 8] = [
            |configuration| configuration.prepared = false,
            |configuration| configuration.walks = false,
            |configuration| configuration.page_rows = None,
            |configuration| configuration.shard_count = 1,
            |configuration| configuration.row_cache = true,
            |configuration| configuration.memory_mib = 64,
            |configuration| configuration.format = helenus_node::SsTableFormat::DEFAULT,
            |configuration| configuration.column_index_kib = 64,
        ];
        for place in 0..self.script.configurations.len() {
            for change in plainer {
                let mut candidate = self.script.clone();
                change(&mut candidate.configurations[place]);
                self.keeps(candidate);
            }
        }
    }

    fn values(&mut self) {
        for step in 0..self.script.steps.len() {
            let Some(Step::Statement(statement)) = self.script.steps.get(step) else {
                continue;
            };
            for place in 0..statement.values.len() {
                self.value(step, place);
            }
        }
    }

    /// One value: nothing, or with shorter pieces, down to the last byte.
    fn value(&mut self, step: usize, place: usize) {
        let value_of = |script: &Script| match script.steps.get(step) {
            Some(Step::Statement(statement)) => statement.values.get(place).cloned().flatten(),
            _ => None,
        };
        let with = |script: &Script, value: Value| {
            let mut candidate = script.clone();
            if let Some(Step::Statement(statement)) = candidate.steps.get_mut(step)
                && let Some(old) = statement.values.get_mut(place)
            {
                *old = Some(value);
            }
            candidate
        };
        let Some(value) = value_of(&self.script).filter(|value| value.bytes().len() > SHORT_BYTES) else {
            return;
        };
        for (index, piece) in value.0.iter().enumerate() {
            let mut gone = lengths(piece);
            let mut fewer = gone.next_back();
            while let Some(less) = fewer.take() {
                let Some(mut shorter) = value_of(&self.script) else {
                    return;
                };
                let Some(piece) = shorter.0.get_mut(index) else {
                    return;
                };
                let Some(cut) = shortened(piece, less) else {
                    fewer = gone.next_back();
                    continue;
                };
                *piece = cut;
                let candidate = with(&self.script, shorter);
                // Again as much where it went well, else half of it.
                fewer = if self.keeps(candidate) {
                    Some(less)
                } else {
                    gone.next_back()
                };
            }
        }
    }
}

/// Values of this length are short enough for whoever reads a script.
const SHORT_BYTES: usize = 16;

/// By how much a piece may become shorter: powers of two, the largest last.
fn lengths(piece: &Piece) -> std::vec::IntoIter<usize> {
    let length = match piece {
        Piece::Literal(_) => 0,
        Piece::Bytes { length, .. } | Piece::Letters { length, .. } => *length,
    };
    let steps: Vec<usize> = (0..usize::BITS)
        .map(|bit| 1 << bit)
        .take_while(|step| *step <= length)
        .collect();
    steps.into_iter()
}

fn shortened(piece: &Piece, less: usize) -> Option<Piece> {
    match piece {
        Piece::Literal(_) => None,
        Piece::Bytes { seed, length } => Some(Piece::Bytes {
            seed: *seed,
            length: length.checked_sub(less)?,
        }),
        Piece::Letters { seed, length } => Some(Piece::Letters {
            seed: *seed,
            length: length.checked_sub(less)?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use crate::script::{Event, Statement};

    /// Fails at the first restart after a statement with a value of 1,000 bytes and more.
    fn fails(script: &Script) -> Report {
        let is_long = |step: &Step| match step {
            Step::Statement(statement) => statement
                .values
                .iter()
                .flatten()
                .any(|value| value.bytes().len() >= 1_000),
            Step::Event(_) => false,
        };
        let written = script.steps.iter().position(is_long);
        let restarted = written.and_then(|written| {
            let rest = &script.steps[written..];
            let place = rest.iter().position(|step| *step == Step::Event(Event::Restart));
            Some(written + place?)
        });
        let failure = restarted.filter(|_| script.configurations.iter().any(|one| one.shard_count == 3));
        Report {
            steps: failure.map_or(script.steps.len(), |step| step + 1),
            failure: failure.map(|step| Failure {
                kind: FailureKind::Broken,
                step: Some(step),
                text: String::new(),
            }),
            ..Report::default()
        }
    }

    /// A history whose nodes answered other rows shrank to its first statement without what comes before it, which the nodes
    /// refuse with other texts.
    #[test]
    fn what_fails_in_another_way_is_no_smaller_form_of_a_history() {
        use crate::failure::Difference;
        let mut attempt = |script: &Script| {
            let differs = if script.steps.len() > 1 {
                Difference::Rows
            } else {
                Difference::Error
            };
            Report {
                steps: script.steps.len(),
                failure: script.steps.len().checked_sub(1).map(|step| Failure {
                    kind: FailureKind::Disagreement(differs),
                    step: Some(step),
                    text: String::new(),
                }),
                ..Report::default()
            }
        };
        let script: Script = "on memory\non disk\nflush\nflush\nflush".parse().unwrap();
        let failure = attempt(&script).failure.unwrap();
        let (small, failure) = shrink(&script, &failure, 100, &mut attempt);
        assert_eq!(small.steps.len(), 2);
        assert_eq!(failure.kind, FailureKind::Disagreement(Difference::Rows));
    }

    #[test]
    fn a_history_shrinks_to_what_makes_it_fail() {
        let statement = |length: usize| {
            Step::Statement(Statement {
                text: "INSERT INTO k.t (v) VALUES (?)".to_owned(),
                values: vec![Some(Value(vec![Piece::Bytes { seed: 1, length }]))],
            })
        };
        let mut script: Script = "on memory\non disk shards=2\non disk shards=3 format=da index=4 page=1"
            .parse()
            .unwrap();
        for number in 0..100 {
            script.steps.push(statement(number * 20));
            if number % 7 == 0 {
                script.steps.push(Step::Event(Event::Flush));
                script.steps.push(Step::Event(Event::Restart));
            }
        }
        let failure = fails(&script).failure.unwrap();
        let (small, failure) = shrink(&script, &failure, 1_000, &mut fails);
        assert_eq!(failure.step, Some(1));
        assert_eq!(
            small.to_string(),
            "on disk shards=3 cache=on memory=64 format=nb index=64\n\
             cql INSERT INTO k.t (v) VALUES (?)\n  bytes(1,1000)\n\
             restart\n"
        );
    }
}
