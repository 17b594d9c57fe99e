//! `cargo xtask compare instructions operations`: instructions per operation, counted by callgrind.

use crate::TaskError;
use crate::compare::{callgrind, files, programs};

#[derive(clap::Args)]
pub struct Arguments {
    /// Operations of the longer run; the shorter one does a third
    #[arg(long, default_value_t = 60_000)]
    operations: u64,
}

const REPORT: &str = "docs/measurements/insns.md";

/// Operations by indexes of the longer run.
const INDEXED_OPERATIONS: u64 = 6_000;

/// Operations whose allocations and tasks are counted.
const COUNTED_OPERATIONS: &str = "200000";

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let mut report = String::from(
        "# Instructions and allocations per operation, in process\n\n\
         `cargo xtask compare instructions operations`: `helenus-perf simple-query` under callgrind, from the bytes of an EXECUTE frame to \
         the bytes of its\nRESULT frame; 10,000 partitions of five 34-byte blobs, periodic commit log in memory.\n\n\
         | | instructions/op | allocations/op | tasks/op | ScyllaDB publishes |\n|---|---|---|---|---|\n",
    );
    for (name, flags, published) in [
        ("read", &[][..], "32,700 / 58.1 / 14.2"),
        ("read of a cached row", &["--cached"][..], "-"),
        (
            "read of an SSTable in memory",
            &["--flush"][..],
            "109,000 (cache miss)",
        ),
        (
            "read of an SSTable, cold",
            &["--cold"][..],
            "109,000 (cache miss)",
        ),
        ("write", &["--write"][..], "49,800 / 56.2 / -"),
        (
            "conditional update, applied",
            &["--lwt", "met"][..],
            "370,000 (read-modify-write)",
        ),
        ("conditional update, not applied", &["--lwt", "unmet"][..], "-"),
        ("increment of five counters", &["--counters"][..], "-"),
        ("the same above SSTables", &["--counters", "--flush"][..], "-"),
        (
            "write that moves its row in a view",
            &["--view", "moved"][..],
            "-",
        ),
        (
            "write to a view of the same key",
            &["--view", "same-key"][..],
            "-",
        ),
        (
            "write of a column that a view lacks",
            &["--view", "other-column"][..],
            "-",
        ),
        (
            "write that is logged (CDC)",
            &["--write", "--cdc", "delta"][..],
            "-",
        ),
        (
            "the same, with the row before and after",
            &["--write", "--cdc", "images"][..],
            "-",
        ),
        (
            "transfer between two shards, a transaction",
            &["--transfer"][..],
            "-",
        ),
        (
            "refusal of a write that has waited too long",
            &["--write", "--asked", "refused"][..],
            "40,615 (write timeout)",
        ),
    ] {
        eprintln!("{name}: two runs under callgrind");
        let per_operation = callgrind::instructions_per_operation(
            arguments.operations / 3,
            arguments.operations,
            |operations| callgrind::simple_query(flags, operations),
        )?;
        let counts = callgrind::report(&callgrind::simple_query(flags, COUNTED_OPERATIONS))?;
        let figure = |key: &str| {
            counts[key]
                .as_f64()
                .map_or(String::new(), |value| format!("{value:.2}"))
        };
        report.push_str(&format!(
            "| {name} | {per_operation} | {} | {} | {published} |\n",
            figure("allocations_per_op"),
            figure("tasks_per_op")
        ));
    }
    report.push_str(
        "\nOf a table of 10,000 rows with storage-attached indexes (`helenus-perf indexed`), in the memtable, one after the other:\n\n\
         | | instructions/op | allocations/op |\n|---|---|---|\n",
    );
    for (name, operation) in [
        ("write of a new row, no index", "write-unindexed"),
        ("write of a new row, one index of a bigint", "write"),
        ("a row by a value that no other has", "unique"),
        ("100 rows of two conditions of a tenth each", "both"),
        ("100 rows of a range", "range"),
    ] {
        eprintln!("{name}: two runs under callgrind");
        let arguments = |operations: &str| callgrind::indexed(operation, operations);
        let per_operation =
            callgrind::instructions_per_operation(INDEXED_OPERATIONS / 3, INDEXED_OPERATIONS, arguments)?;
        let counts = callgrind::report(&arguments("20000"))?;
        let allocations = counts["allocations_per_op"].as_f64().unwrap_or_default();
        report.push_str(&format!("| {name} | {per_operation} | {allocations:.2} |\n"));
    }
    files::publish(REPORT, &report)
}
