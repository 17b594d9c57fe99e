//! `cargo xtask compare goodput statements`: what is answered in time of the statements that applications send, by clients that ask
//! for errors and by those that ask for nothing; in memory, on two shards, and from a disk.

use std::fmt::Write as _;

use clap::ValueEnum;
use helenus_loadgen::chart::short_number;
use helenus_loadgen::goodput::{self, Curve, GoodputReport, Point};

use super::server::{Clients, FOLDER, MemoryLimit, ServerArguments, store, stored, write_picture};
use crate::TaskError;
use crate::compare::{files, programs};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Where rows are and who owns them
    #[arg(long, value_enum, default_value_t = Variant::Memory)]
    variant: Variant,
    /// As of `helenus bench goodput` [default: those of the variant]
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// Seconds of each load
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Rounds in which the loads take turns
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Requests in flight on a connection at most [default: the protocol's bound]
    #[arg(long)]
    in_flight: Option<u32>,
    /// Keep the measurement as the old column, beside which the new one is shown
    #[arg(long)]
    before: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Variant {
    /// One shard, everything in memory
    Memory,
    /// Two shards: every request may have to cross to the other
    TwoShards,
    /// One shard with a twentieth of its data as its memory
    Cold,
}

/// Memory of the server that reads from disk, and of its process with what the kernel keeps of its files: with 256 MiB the
/// kernel ended it while it compacted what had been written (271 MiB of its own).
const COLD_MEMORY: &str = "128MiB";
const COLD_PROCESS_MIB: u64 = 512;

/// Twenty times the server's memory, and five times all that can be kept of it.
const COLD_DATA_MIB: u64 = 2_560;

const LOADS: [f64; 6] = [0.5, 0.8, 0.95, 2.0, 5.0, 10.0];

const STATEMENTS: &str = "point-read,point-write,slice,clustering-in,partition-in,scan,count,filtering";

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Memory => "statements",
            Variant::TwoShards => "two-shards",
            Variant::Cold => "cold",
        }
    }

    fn server_options(self) -> &'static [&'static str] {
        match self {
            Variant::Memory => &["--shards", "1"],
            Variant::TwoShards => &["--shards", "2"],
            Variant::Cold => &["--shards", "1", "--memory", COLD_MEMORY],
        }
    }

    fn workloads(self) -> String {
        match self {
            Variant::Memory => STATEMENTS.to_owned(),
            Variant::TwoShards => format!("{STATEMENTS},uniform-reads,uniform-writes"),
            Variant::Cold => "cold-reads".to_owned(),
        }
    }

    fn about(self) -> String {
        match self {
            Variant::Memory => "One shard; a table of a partition with 2,000 rows and of nine with one, all in memory.".to_owned(),
            Variant::TwoShards => "Two shards. A request whose partition the other shard owns crosses to it: half of the connections' \
                 for each of the eight statements, half of all where partitions are drawn from 10,000 (uniform, rows of five values)."
                .to_owned(),
            Variant::Cold => format!(
                "One shard with `--memory {COLD_MEMORY}`, in a control group of {COLD_PROCESS_MIB} MiB for the process and what the kernel \
                 keeps of its files; {COLD_DATA_MIB} MiB of rows of 1,000 bytes that do not compress, read by keys drawn at random."
            ),
        }
    }

    fn command(self) -> String {
        let variant = match self {
            Variant::Memory => "",
            Variant::TwoShards => " --variant two-shards",
            Variant::Cold => " --variant cold",
        };
        format!("cargo xtask compare goodput statements{variant}")
    }

    fn report(self, clients: Clients, is_before: bool) -> String {
        let before = if is_before { "-before" } else { "" };
        format!("{}-{}{before}", self.name(), clients.name())
    }
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if !arguments.server.draw {
        programs::build()?;
        for clients in &arguments.server.clients {
            measure(arguments, *clients)?;
        }
    }
    draw(arguments.variant)
}

fn measure(arguments: &Arguments, clients: Clients) -> Result<(), TaskError> {
    let variant = arguments.variant;
    let node = arguments.server.start(variant.server_options())?;
    let limit = match (variant, node.process_id()) {
        (Variant::Cold, Some(id)) => Some(MemoryLimit::of_process(id, COLD_PROCESS_MIB << 20)?),
        _ => None,
    };
    let workloads = match arguments.workload.is_empty() {
        true => variant.workloads(),
        false => arguments.workload.join(","),
    };
    let mut generator: Vec<String> = [
        "--workload",
        &workloads,
        "--requests",
        "small",
        "--multiples",
        &LOADS.map(|load| load.to_string()).join(","),
        "--duration",
        &format!("{}s", arguments.seconds),
        "--rounds",
        &arguments.rounds.to_string(),
        "--cold-mib",
        &COLD_DATA_MIB.to_string(),
    ]
    .map(str::to_owned)
    .into();
    if let Some(bound) = arguments.in_flight {
        generator.extend(["--in-flight".to_owned(), bound.to_string()]);
    }
    let before = if arguments.before { ", before" } else { "" };
    let label = format!(
        "{}{before}, server on core {}, generator on core {}",
        clients.about(),
        arguments.server.server_cores,
        arguments.server.generator_core
    );
    let report = arguments.server.measure(&node, clients, &label, &generator)?;
    node.stop()?;
    drop(limit);
    store(&variant.report(clients, arguments.before), report)
}

/// Puts everything that was measured on one page.
fn draw(variant: Variant) -> Result<(), TaskError> {
    let name = variant.name();
    let mut page = format!(
        "# Goodput of {}\n\n`{}`. {}\n\nA cell is what was in time a second, the median of the rounds; above the capacity with its share \
         of the best load at or below the capacity in the same round. What is due is sent unless its connection has as many requests in flight \
         as may be; which bounds and defaults that were is said above each table of the details. **The figures of before this page had at most \
         1,024 requests in flight on a connection**: of an overload such clients hold most back themselves. An asterisk: the generator could not \
         send nine tenths of that in time.\n",
        match variant {
            Variant::Memory => "statements",
            Variant::TwoShards => "statements on two shards",
            Variant::Cold => "reads from a disk",
        },
        variant.command(),
        variant.about()
    );
    let mut reports = Vec::new();
    for clients in Clients::ALL {
        let Some(now) = stored(&variant.report(clients, false))? else {
            continue;
        };
        let before = stored(&variant.report(clients, true))?;
        let _infallible = write!(
            page,
            "\n## {}\n\n{}",
            capitalised(clients.about()),
            table(before.as_ref(), &now)
        );
        reports.extend(before);
        reports.push(now);
    }
    write_picture(name, &goodput::to_svg(&reports))?;
    let _infallible = write!(
        page,
        "\n![goodput]({name}.svg)\n\n## Details\n{}",
        goodput::to_markdown(&reports)
    );
    files::write_page(&format!("{FOLDER}/{name}.md"), &page)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// A line for each workload, the old figures beside the new ones.
fn table(before: Option<&GoodputReport>, now: &GoodputReport) -> String {
    let mut text = "| in time a second | capacity |".to_owned();
    for load in LOADS {
        let _infallible = write!(text, " {load}x |");
    }
    text.push_str(" refused at 0.8x | p99 ms at 2x, 5x, 10x |\n|---|---|");
    text.push_str(&"---|".repeat(LOADS.len() + 2));
    text.push('\n');
    for curve in &now.curves {
        let old = before.and_then(|report| {
            let mut curves = report.curves.iter();
            curves.find(|old| old.workload == curve.workload)
        });
        let both = |value: &dyn Fn(&Curve) -> Option<String>| {
            let (old, now) = (old.and_then(value), value(curve).unwrap_or_default());
            match old {
                Some(old) => format!("{old} → **{now}**"),
                None => now,
            }
        };
        let _infallible = write!(
            text,
            "| {} | {} |",
            curve.workload.name(),
            both(&|curve| Some(short_number(curve.capacity_per_s)))
        );
        for load in LOADS {
            let cell = both(&|curve| curve.point(load).map(|point| cell(curve, point)));
            let _infallible = write!(text, " {cell} |");
        }
        let p99 = |curve: &Curve| {
            let at = |load: f64| {
                let point = curve.point(load);
                point.map_or(String::new(), |point| format!("{:.1}", point.p99_us as f64 / 1e3))
            };
            Some([2.0, 5.0, 10.0].map(at).join(", "))
        };
        let _infallible = writeln!(
            text,
            " {} | {} |",
            both(&|curve| curve.point(0.8).map(|point| short_number(point.refused_per_s))),
            both(&p99)
        );
    }
    text
}

fn cell(curve: &Curve, point: &Point) -> String {
    let share = match point.of_best {
        Some(share) if point.multiple > 1.0 => format!(" ({:.0} %)", 100.0 * share),
        _ => String::new(),
    };
    let is_short = point.not_generated_per_s > 0.1 * point.multiple * curve.capacity_per_s;
    let mark = if is_short { "*" } else { "" };
    format!("{}{mark}{share}", short_number(point.good_per_s))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(good_per_s: f64, not_generated_per_s: f64) -> GoodputReport {
        let point = |multiple: f64| {
            json!({ "multiple": multiple, "intended_per_s": 1000.0 * multiple, "sent_per_s": 0.0, "good_per_s": good_per_s,
                "of_best": 0.97, "late_per_s": 0.0, "refused_per_s": 3.0, "failed_per_s": 0.0, "held_back_per_s": 0.0,
                "not_generated_per_s": not_generated_per_s, "p50_us": 1, "p99_us": 5_500, "max_us": 1, "control_p99_us": 1,
                "server_cpu": null, "resident_bytes": null })
        };
        let report = json!({ "label": "x", "deadline_ms": 10.0, "connections": 16, "size": "small", "curves": [{ "workload": "count",
            "capacity_per_s": 1000.0, "points": LOADS.map(point), "recoveries": [], "resident": [] }] });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn the_old_figures_stand_beside_the_new_ones() {
        let table = table(Some(&report(0.0, 0.0)), &report(970.0, 0.0));
        assert!(
            table.contains("| count over a partition of 2,000 rows | 1k → **1k** | 0 → **970** |"),
            "{table}"
        );
        assert!(table.contains("0 (97 %) → **970 (97 %)**"), "{table}");
        assert!(
            table.contains("| 3 → **3** | 5.5, 5.5, 5.5 → **5.5, 5.5, 5.5** |"),
            "{table}"
        );
        let width = |line: &str| line.matches('|').count();
        let widths: Vec<usize> = table.lines().map(width).collect();
        assert!(widths.iter().all(|other| *other == widths[0]), "{table}");
    }

    #[test]
    fn a_load_that_could_not_be_sent_is_marked() {
        let table = table(None, &report(970.0, 2_000.0));
        assert!(
            table.contains("| 970* (97 %) |") && !table.contains('→'),
            "{table}"
        );
    }
}
