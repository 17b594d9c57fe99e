//! Parts that the operator's commands share: a progress bar, and how they end.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use helenus_tools::progress::{Progress, Unit};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// A command did what was asked, and found something wrong with the data.
pub const FOUND_DAMAGE: u8 = 2;

/// On stderr, and only where that is a terminal: scripts and files see nothing of it.
pub struct Bar {
    bar: Mutex<Option<ProgressBar>>,
    is_shown: bool,
}

impl Bar {
    pub fn new() -> Self {
        Bar {
            bar: Mutex::new(None),
            is_shown: std::io::stderr().is_terminal(),
        }
    }

    fn replace(&self, bar: Option<ProgressBar>) {
        let mut current = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *current, bar) {
            old.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn begin(&self, task: &str, unit: Unit, total: u64) {
        if !self.is_shown {
            return;
        }
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), ProgressDrawTarget::stderr());
        let template = match (unit, total) {
            (Unit::Bytes, 1..) => "{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec} eta {eta}",
            (Unit::PerMille, 1..) => "{msg} [{bar:40}] {percent}% eta {eta}",
            (_, 1..) => "{msg} [{bar:40}] {pos}/{len} eta {eta}",
            (_, 0) => "{msg} {spinner} {pos}",
        };
        // Without the style the bar looks plain.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(task.to_owned());
        self.replace(Some(bar));
    }

    fn at(&self, done: u64) {
        if let Some(bar) = &*self.bar.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.replace(None);
    }
}

/// Prints one line of JSON.
pub fn print_json(value: &impl Serialize) -> ExitCode {
    match serde_json::to_string(value) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => fail("json", &error),
    }
}

/// Says what went wrong, on stderr.
pub fn fail(command: &str, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("helenus {command}: {error}");
    ExitCode::FAILURE
}

/// Bytes for people.
pub fn bytes_text(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
