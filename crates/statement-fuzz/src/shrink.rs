//! A history that failed, without what it does not take to fail.

use crate::judge::{Bounds, Failure};
use crate::mutate::tokens;
use crate::round::replay;
use crate::script::Script;

/// The smallest history found in so many runs that fails in the same way, and how it does.
pub fn shrink(script: &Script, failure: &Failure, bounds: &Bounds, runs_max: usize) -> (Script, Failure) {
    let mut shrinking = Shrinking {
        script: script.clone(),
        failure: *failure,
        bounds,
        runs_left: runs_max,
    };
    shrinking.drop_steps();
    shrinking.drop_tokens();
    (shrinking.script, shrinking.failure)
}

struct Shrinking<'a> {
    script: Script,
    failure: Failure,
    bounds: &'a Bounds,
    runs_left: usize,
}

impl Shrinking<'_> {
    /// Returns whether the candidate fails as before; then it takes the place of what there was.
    fn accept(&mut self, candidate: Script) -> bool {
        if self.runs_left == 0 {
            return false;
        }
        self.runs_left -= 1;
        let outcome = replay(&candidate, self.bounds);
        match outcome.failure {
            Some(failure) if failure.is_like(&self.failure) => {
                self.failure = failure;
                self.script = outcome.script;
                true
            }
            _ => false,
        }
    }

    /// All but the last are what it takes to get there.
    fn drop_steps(&mut self) {
        let mut chunk = self.script.steps.len();
        while chunk > 0 && self.runs_left > 0 {
            let mut start = 0;
            while start + 1 < self.script.steps.len() {
                let end = (start + chunk).min(self.script.steps.len() - 1);
                let mut candidate = self.script.clone();
                candidate.steps.drain(start..end);
                if !self.accept(candidate) {
                    start = end;
                }
            }
            chunk /= 2;
        }
    }

    fn drop_tokens(&mut self) {
        let last = self.script.steps.len().saturating_sub(1);
        let texts = self.script.steps.last().map_or(0, |step| step.texts.len());
        for index in 0..texts {
            let Some(text) = self
                .script
                .steps
                .get(last)
                .and_then(|step| step.texts.get(index))
                .cloned()
            else {
                return;
            };
            let mut left: Vec<String> = tokens(&text).into_iter().map(str::to_owned).collect();
            let mut chunk = left.len() / 2;
            while chunk > 0 && self.runs_left > 0 {
                let mut start = 0;
                while start < left.len() {
                    let mut fewer = left.clone();
                    fewer.drain(start..(start + chunk).min(left.len()));
                    let mut candidate = self.script.clone();
                    candidate.steps[last].texts[index] = fewer.concat();
                    if self.accept(candidate) && self.script.steps.len() == last + 1 {
                        left = fewer;
                    } else {
                        start += chunk;
                    }
                }
                chunk /= 2;
            }
        }
    }
}
