//! `helenus-perf fast-forward`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use helenus_perf::fast_forward::{
    self, DataSet, FastForwardError, FastForwardOptions, FastForwardReport, Group, Population,
};
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Args)]
pub struct FastForwardArguments {
    /// Writes the data sets first; without it, they have to be there.
    #[arg(long)]
    populate: bool,
    /// Where the data sets are.
    #[arg(long, value_name = "DIR", default_value = "./perf-fast-forward-data")]
    data_directory: PathBuf,
    /// Groups of cases, by name and separated by commas [default: all].
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', value_parser = group)]
    run_tests: Vec<Group>,
    /// Prints the names of groups and data sets.
    #[arg(long)]
    list_tests: bool,
    /// Only groups that read these, separated by commas [default: all].
    #[arg(long, value_name = "DATASETS", value_delimiter = ',', value_parser = data_set)]
    datasets: Vec<DataSet>,
    /// With --populate: rows of each data set.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(i64::from(Population::ROWS_MIN)..=1 << 29))]
    rows: u32,
    /// With --populate: bytes of a row's value.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_size: usize,
    /// With --populate: granularity of the index inside a partition.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    column_index_size_in_kb: u32,
    /// With --populate: the SSTables' version.
    #[arg(long, value_name = "VERSION", default_value = "nb")]
    sstable_format: String,
    /// With --populate: LZ4 in chunks of 16 KiB.
    #[arg(long)]
    with_compression: bool,
    /// Keeps rows that were read in the row cache.
    #[arg(long)]
    enable_cache: bool,
    /// Else every reading begins with nothing in memory.
    #[arg(long)]
    keep_cache_across_test_cases: bool,
    /// How long each case is read again and again, in seconds; 0 reads it once.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    test_case_duration: f64,
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output_format: OutputFormat,
    /// Also writes the tables, and what ScyllaDB publishes beside them, as a page.
    #[arg(long, value_name = "FILE.md")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Text,
    Json,
}

pub fn run(arguments: &FastForwardArguments) -> ExitCode {
    if arguments.list_tests {
        for group in Group::ALL {
            println!("{} ({})", group.name(), group.data_set().name());
        }
        return ExitCode::SUCCESS;
    }
    match measure(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("helenus-perf fast-forward: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &FastForwardArguments) -> Result<(), FastForwardError> {
    if arguments.populate {
        populate(arguments)?;
    }
    let options = FastForwardOptions {
        data_folder: arguments.data_directory.clone(),
        groups: or_all(&arguments.run_tests, &Group::ALL),
        data_sets: or_all(&arguments.datasets, &DataSet::ALL),
        enable_cache: arguments.enable_cache,
        keep_cache_across_test_cases: arguments.keep_cache_across_test_cases,
        test_case_duration: Duration::try_from_secs_f64(arguments.test_case_duration).unwrap_or_default(),
    };
    let is_text = arguments.output_format == OutputFormat::Text;
    let report = fast_forward::run(&options, &crate::allocator::COUNTER, &mut |group| {
        if is_text {
            println!("{group}");
        }
    })?;
    if !is_text {
        print_json(&report);
    }
    if let Some(path) = &arguments.report {
        let page = report.to_markdown("helenus-perf fast-forward");
        std::fs::File::create(path)
            .and_then(|mut file| file.write_all(page.as_bytes()))
            .map_err(|source| FastForwardError::File {
                path: path.clone(),
                source,
            })?;
    }
    Ok(())
}

fn populate(arguments: &FastForwardArguments) -> Result<(), FastForwardError> {
    let population = Population {
        rows: arguments.rows,
        value_bytes: arguments.value_size,
        column_index_bytes: arguments.column_index_size_in_kb.saturating_mul(1024),
        sstable_format: arguments.sstable_format.clone(),
        with_compression: arguments.with_compression,
    };
    let bar = ProgressBar::new(u64::from(population.rows) * DataSet::ALL.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("populating {wide_bar} {pos}/{len} rows, {eta} left") {
        bar.set_style(style);
    }
    fast_forward::populate(&arguments.data_directory, &population, &mut |rows| {
        bar.set_position(rows);
    })?;
    bar.finish_and_clear();
    Ok(())
}

fn print_json(report: &FastForwardReport) {
    match serde_json::to_string_pretty(report) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("helenus-perf fast-forward: {error}"),
    }
}

fn or_all<T: Clone>(chosen: &[T], all: &[T]) -> Vec<T> {
    if chosen.is_empty() { all } else { chosen }.to_vec()
}

fn group(name: &str) -> Result<Group, String> {
    Group::parse(name).ok_or_else(|| {
        format!(
            "no such group; there are: {}",
            Group::ALL.map(Group::name).join(", ")
        )
    })
}

pub fn data_set(name: &str) -> Result<DataSet, String> {
    DataSet::parse(name).ok_or_else(|| {
        format!(
            "no such data set; there are: {}",
            DataSet::ALL.map(DataSet::name).join(", ")
        )
    })
}
