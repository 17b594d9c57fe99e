//! `cargo xtask compare instructions admission`: what a request pays for admission when nothing is overloaded, in instructions.
//!
//! A whole node under callgrind, with admission and without. A connection sends a batch and waits for all its answers, so
//! the node finds the same requests in each read however slow it is; the difference of two runs is what the requests took.
//! What goes by the clock is left out, for callgrind is fifty times slower than the clock: counted is what the connections'
//! turns do, without the samples of hot partitions. Two runs then differ by a thousandth; of whole nodes, by a fiftieth.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::compare::{callgrind, files, programs};
use crate::node::ready_address;
use crate::process::Process;
use crate::{TaskError, process, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// Batches of the longer run; the shorter one has a fifth
    #[arg(long, default_value_t = 1_000)]
    batches: u64,
}

/// Functions that switch the counting when they are entered and when they are left.
const SWITCHES: [&str; 2] = [
    "*helenus_transport::connection::Connection*as*poll",
    "*HotPartitions::sample",
];

const REPORT: &str = "docs/measurements/goodput/cost.md";

/// Requests of a batch: fewer than what a turn does between two looks at the clock, which callgrind makes fifty times slower.
const REQUESTS_PER_BATCH: u64 = 7;

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let mut report = format!(
        "# What admission costs when nothing is overloaded\n\n\
         `cargo xtask compare instructions admission`: instructions that a connection's turns take for each request of five 34-byte values, \
         by callgrind\non a whole node (one shard, in memory); one connection sends {REQUESTS_PER_BATCH} requests at once and the \
         next {REQUESTS_PER_BATCH} when all are answered, so both find\nthe same requests in each read. Without: `--admission \
         off`, which refuses nothing; deadlines and what the turns say of themselves are\nthere in both. The samples of hot \
         partitions are in neither: they go by the clock. What all of it costs against a build without it\nis in \
         [the journal of admission](../admission.md).\n\n\
         | | with admission | without | more |\n|---|---|---|---|\n"
    );
    for (name, flags) in [("read", &[][..]), ("write", &["--write"][..])] {
        let [with, without] = ["on", "off"].map(|admission| per_request(admission, flags, arguments.batches));
        let (with, without) = (with?, without?);
        report.push_str(&format!(
            "| {name} | {with} | {without} | {:.2} % |\n",
            100.0 * (with as f64 / without.max(1) as f64 - 1.0)
        ));
    }
    files::publish(REPORT, &report)
}

fn per_request(admission: &str, flags: &[&str], batches: u64) -> Result<u64, TaskError> {
    let few = batches.div_ceil(5);
    let most = instructions(admission, flags, batches)?;
    let least = instructions(admission, flags, few)?;
    let requests = (batches - few) * REQUESTS_PER_BATCH;
    let per_request = most.saturating_sub(least) / requests.max(1);
    eprintln!("admission {admission} {flags:?}: {per_request}");
    Ok(per_request)
}

/// Counts the instructions of a node that is started, serves so many batches and is stopped.
fn instructions(admission: &str, flags: &[&str], batches: u64) -> Result<u64, TaskError> {
    let mut command = callgrind::command("admission-cost.out")?;
    command
        .arg("--log-fd=1")
        .arg("--collect-atstart=no")
        .args(SWITCHES.map(|function| format!("--toggle-collect={function}")))
        .arg(workspace::program("helenus"))
        .args(["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .args([
            "--shards",
            "1",
            "--in-memory",
            "--memory",
            "1GiB",
            "--admission",
            admission,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut node = Process::start(&mut command)?;
    let Some(output) = node.child().stdout.take() else {
        return Err(TaskError::Report {
            text: "valgrind has no output".to_owned(),
        });
    };
    let mut output = BufReader::new(output);
    let address = wait_until_ready(&mut output)?;
    process::run(
        Command::new(workspace::program("helenus-perf"))
            .args(["wire", "--address", &address.to_string()])
            .args([
                "--connections",
                "1",
                "--keys",
                "1000",
                "--batches",
                &batches.to_string(),
            ])
            .args(["--in-flight", &REQUESTS_PER_BATCH.to_string()])
            .args(flags)
            .stdout(Stdio::null()),
    )?;
    let _status = node.stop()?;
    let mut text = String::new();
    let _read = output.read_to_string(&mut text);
    callgrind::collected(&text).ok_or(TaskError::Report { text })
}

fn wait_until_ready(output: &mut impl BufRead) -> Result<SocketAddr, TaskError> {
    let mut seen = String::new();
    loop {
        let from = seen.len();
        match output.read_line(&mut seen) {
            Ok(1..) => {}
            _ => return Err(TaskError::Report { text: seen }),
        }
        if let Some(address) = ready_address(&seen[from..]) {
            return Ok(address);
        }
    }
}
