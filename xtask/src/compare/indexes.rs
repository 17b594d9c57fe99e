//! `cargo xtask compare indexes`: the same questions to storage-attached indexes, of vectors too, on Helenus and on Cassandra, one after the
//! other in one run.

use std::process::Command;

use serde_json::Value;

use super::{files, programs};
use crate::node::{Node, Target};
use crate::{TaskError, process, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// Rows whose columns are indexed
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
    /// Vectors of 128 components
    #[arg(long, default_value_t = 100_000)]
    vectors: u32,
    /// Different questions of each kind
    #[arg(long, default_value_t = 500)]
    questions: u32,
    /// Seconds that each question is asked by all connections
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Shards of the Helenus node
    #[arg(long, default_value_t = 1)]
    shards: u16,
    /// Java heap of Cassandra, as -Xmx takes it
    #[arg(long, default_value = "2g")]
    heap: String,
    /// Leave Cassandra out, and write no report
    #[arg(long)]
    without_cassandra: bool,
    /// Run Helenus a second time with searches of vectors of this beam, for a recall like Cassandra's
    #[arg(long)]
    search_beam: Option<u32>,
}

const REPORT: &str = "docs/measurements/indexes.md";
/// The page of a million vectors and more, which take Cassandra an hour.
const REPORT_OF_MILLIONS: &str = "docs/measurements/indexes-million.md";
const MILLION: u32 = 1_000_000;

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let shards = arguments.shards.to_string();
    let options = [
        "--shards",
        &shards,
        "--commitlog-sync",
        "periodic",
        "--memory",
        "4GiB",
    ];
    let mut reports = Vec::new();
    for beam in [None].into_iter().chain(arguments.search_beam.map(Some)) {
        let name = beam.map_or("Helenus".to_owned(), |beam| {
            format!("Helenus, search beam {beam}")
        });
        let node = Node::start(&Target::Helenus, "bench-indexes", &options)?;
        reports.push((name, measure(node, arguments, beam)?));
    }
    if !arguments.without_cassandra {
        // Its timeouts would end what its compilers have not seen yet.
        let lines = [
            "read_request_timeout: 60s",
            "range_request_timeout: 60s",
            "write_request_timeout: 60s",
        ];
        let node = Node::start_cassandra(&arguments.heap, &["--commitlog-sync", "periodic"], &lines)?;
        reports.push(("Cassandra 5.0".to_owned(), measure(node, arguments, None)?));
    }
    let report = render(arguments, &reports);
    match arguments.without_cassandra {
        true => println!("{report}"),
        false if arguments.vectors >= MILLION => files::publish(REPORT_OF_MILLIONS, &report)?,
        false => files::publish(REPORT, &report)?,
    }
    Ok(())
}

fn measure(node: Node, arguments: &Arguments, search_beam: Option<u32>) -> Result<Value, TaskError> {
    let mut command = Command::new(workspace::program("helenus-perf"));
    command.args(["indexes", "--json", "--address", &node.address().to_string()]);
    command.args(["--rows", &arguments.rows.to_string()]);
    command.args(["--vectors", &arguments.vectors.to_string()]);
    command.args(["--questions", &arguments.questions.to_string()]);
    command.args(["--duration-s", &arguments.seconds.to_string()]);
    if let Some(beam) = search_beam {
        command.args(["--search-beam", &beam.to_string()]);
    }
    if let Some(pid) = node.process_id() {
        command.args(["--server-pid", &pid.to_string()]);
    }
    let report = files::parse(&process::run_quietly(&mut command)?)?;
    node.check_panics()?;
    node.stop()?;
    Ok(report)
}

fn render(arguments: &Arguments, reports: &[(String, Value)]) -> String {
    let Arguments {
        rows,
        vectors,
        questions,
        seconds,
        shards,
        heap,
        search_beam,
        ..
    } = arguments;
    let beam = search_beam.map_or(String::new(), |beam| format!(" --search-beam {beam}"));
    let mut text = format!(
        "# The same questions to indexes of Helenus and of Cassandra 5.0\n\n\
         `cargo xtask compare indexes --rows {rows} --vectors {vectors} --questions {questions} --seconds {seconds} --shards {shards} --heap {heap}{beam}`:\n\
         indexes `USING 'sai'` on three columns of a table of {rows} rows and on {vectors} vectors of 128 components (`helenus_vector::sample`,\n\
         euclidean), as they were written, no flush between, half a minute of rest behind the vectors. Each of {questions} questions of a kind is asked one at a time, again and again, until that\n\
         gets no faster (at most 200 times), then by 4 connections with 4 under way on each, closed loop, server and client sharing the machine's two\n\
         cores. \"Wrong\" are errors and answers with another number of rows than there are. Hold as ratios only.\n\n\
         | question | server | answers/s | p50 us | p99 us | server CPU us each | wrong | recall@10 |\n|---|---|---|---|---|---|---|---|\n"
    );
    let count = reports
        .first()
        .and_then(|(_, report)| report["questions"].as_array())
        .map_or(0, Vec::len);
    for index in 0..count {
        for (server, report) in reports {
            text.push_str(&row(server, &report["questions"][index]));
        }
    }
    text.push_str("\n| | rows written/s | vectors written/s | resident MiB |\n|---|---|---|---|\n");
    for (server, report) in reports {
        let number = |name: &str| report[name].as_f64().unwrap_or_default();
        text.push_str(&format!(
            "| {server} | {:.0} | {:.0} | {:.0} |\n",
            number("rows_written_per_s"),
            number("vectors_written_per_s"),
            number("server_resident_bytes") / f64::from(1 << 20)
        ));
    }
    text
}

fn row(server: &str, report: &Value) -> String {
    let number = |name: &str| report[name].as_f64().unwrap_or_default();
    let recall = report["recall"]
        .as_f64()
        .map_or("-".to_owned(), |recall| format!("{recall:.3}"));
    format!(
        "| {} | {server} | {:.0} | {} | {} | {:.1} | {} | {recall} |\n",
        report["question"].as_str().unwrap_or_default(),
        number("answers_per_s"),
        number("latency_us_p50"),
        number("latency_us_p99"),
        number("server_cpu_us_per_answer"),
        number("wrong"),
    )
}
