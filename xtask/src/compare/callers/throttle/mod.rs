//! `cargo xtask compare callers throttle`: the limit that the client finds beside limits that were chosen by hand, in turns within
//! one run, so that what else the machine does meets all of them; on Helenus, on Cassandra, and where the server's speed
//! changes. Each part of the page can be measured by itself.

mod runs;
mod slices;

use clap::ValueEnum;

use crate::compare::{files, programs};
use crate::node::Target;
use crate::{TaskError, workspace};

const REPORT: &str = "docs/measurements/concurrency/throttle.md";

#[derive(clap::Args)]
pub struct Arguments {
    /// Workers with one read at a time each
    #[arg(long, default_value_t = 4096)]
    workers: u32,
    /// Runs; each begins with another of the limits
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// Seconds of each phase of a run; half of them are the adaptive limit's
    #[arg(long, default_value_t = 12)]
    seconds: u32,
    /// Seconds of load before all measurements, in which a virtual machine compiles what is hot
    #[arg(long, default_value_t = 15)]
    warm_up: u32,
    /// Limits chosen by hand
    #[arg(long, value_delimiter = ',', default_value = "256,1024,4096")]
    limits: Vec<usize>,
    /// Parts to measure; the page keeps what it has of the others
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "helenus,cassandra,change"
    )]
    part: Vec<Part>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Helenus,
    Cassandra,
    /// Helenus at full speed, at half, and at full again.
    Change,
}

impl Part {
    const ALL: [Part; 3] = [Part::Helenus, Part::Cassandra, Part::Change];

    fn title(self) -> &'static str {
        match self {
            Part::Helenus => "Helenus",
            Part::Cassandra => "Cassandra 5.0",
            Part::Change => "Helenus at full speed, at half, and at full again",
        }
    }

    fn target(self) -> Target {
        match self {
            Part::Helenus | Part::Change => Target::Helenus,
            Part::Cassandra => Target::Cassandra,
        }
    }

    /// Returns the names of a run's phases.
    fn phases(self) -> &'static [&'static str] {
        match self {
            Part::Helenus | Part::Cassandra => &["steady"],
            Part::Change => &["full", "half", "full again"],
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    for part in &arguments.part {
        let slices = runs::measure(*part, arguments)?;
        let section = how(*part, arguments) + &slices::render(&slices, part.phases());
        println!("{section}");
        let old = std::fs::read_to_string(workspace::path(REPORT)).unwrap_or_default();
        files::write_page(REPORT, &page_with(&old, *part, &section))?;
    }
    Ok(())
}

/// The page with one part of it replaced, or added.
fn page_with(old: &str, part: Part, section: &str) -> String {
    let title = |part: Part| format!("\n## {}\n\n", part.title());
    let mut page = HEAD.to_owned();
    for known in Part::ALL {
        let body = if known == part {
            Some(section)
        } else {
            let after = old.split_once(&title(known)).map(|(_, after)| after);
            after.map(|after| after.split("\n## ").next().unwrap_or(after))
        };
        if let Some(body) = body {
            page.push_str(&title(known));
            page.push_str(body.trim_end());
            page.push('\n');
        }
    }
    page
}

const HEAD: &str = "# The limit that the client finds, beside limits chosen by hand\n\n\
    Within each run the fixed limits take turns of 0.3 s with the adaptive one, which has every other turn and learns nothing\n\
    in between; the first tenth of a turn does not count, nor do the adaptive limit's first two seconds of a phase.\n\
    Client and server share the machine: hold as ratios only. Latency is the caller's, its wait for a turn included; p99 is\n\
    the median of that of each tenth of a second, and that of the worst tenth of these.\n";

fn how(part: Part, arguments: &Arguments) -> String {
    let Arguments {
        workers,
        rounds,
        seconds,
        warm_up,
        limits,
        ..
    } = arguments;
    let limits: Vec<String> = limits.iter().map(usize::to_string).collect();
    let name = part.to_possible_value();
    let (phases, cores) = match part {
        Part::Helenus | Part::Cassandra => ("", "They share all cores."),
        Part::Change => (
            " each at full speed, at half and at full again",
            "The server has one core and the client another; a process that only burns time comes onto the\nserver's core \
             in the middle phase.",
        ),
    };
    format!(
        "`cargo xtask compare callers throttle --part {} --workers {workers} --rounds {rounds} --seconds {seconds} --warm-up \
         {warm_up} --limits {}`\n\n{workers} workers, each with one read of one row at a time; one thread of `helenus bench \
         run`. {rounds} runs of {seconds} s{phases}.\n{cores}\n\n",
        name.as_ref().map_or("", |value| value.get_name()),
        limits.join(","),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_measured_again_leaves_the_others_as_they_are() {
        let page = page_with("", Part::Change, "changes\n");
        let page = page_with(&page, Part::Helenus, "| 1 |\n| 2 |\n");
        let page = page_with(&page, Part::Helenus, "| 3 |\n");
        let wanted = format!(
            "{HEAD}\n## Helenus\n\n| 3 |\n\n## {}\n\nchanges\n",
            Part::Change.title()
        );
        assert_eq!(page, wanted);
    }
}
