//! An application that somebody else wrote: Temporal sets up and upgrades its schema with its own tool, and runs the tests
//! of its Cassandra persistence: conditional batches, paging, TTL, collections, user types, indexes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Context;
use crate::node::Node;
use crate::process::{self, Process};
use crate::program::{self, Tally};
use crate::{TaskError, runtime, workspace};

const SERVER: &str = "go.temporal.io/server";
const KEYSPACE: &str = "temporal";
/// They take half a minute, most of it waiting for what expires.
const TESTS_SECONDS_MAX: u64 = 300;
/// Number of tests of the version that `go.mod` pins; fewer mean that some were not found.
const TESTS_MIN: usize = 228;
/// Tests that write something for one second and look whether it is there. A time to live ends where a second of the clock
/// does, in Cassandra too: what is written in the last milliseconds of one is gone when it is read.
const RACING_TESTS: [&str; 2] = [
    "TestClusterMembershipUpsertCanReadAny",
    "TestClusterMembershipUpsertExpiresCorrectly",
];
const RACING_SUITE: &str = "^TestCassandraClusterMetadataPersistence$";
/// The second turns between two requests once in a hundred times or less.
const RACES_MAX: usize = 3;

pub fn run(context: &Context) -> Result<Tally, TaskError> {
    let module = workspace::path("tests/applications/temporal");
    let tool = runtime::go_package("temporal-tool", &module, &format!("{SERVER}/cmd/tools/cassandra"))?;
    let tests = format!("{SERVER}/common/persistence/tests");
    let program = runtime::go_tests("temporal-tests", &module, &tests)?;
    let folder = runtime::go_package_folder(&module, &tests)?;
    let mut node = Node::start(&context.target, "temporal", &[])?;
    let mut tally = Tally::default();
    set_up_schema(&tool, &folder, &node, &mut tally);
    persistence(&program, &folder, &node, &mut tally)?;
    tally.check("temporal left no panic in the server", node.check_panics());
    // Whoever persists its workflows here finds its schema after a restart too.
    node.restart()?;
    let update = update_schema(&folder);
    tally.check(
        "temporal's schema after a restart",
        run_tool(&tool, &node, &update),
    );
    tally.check("temporal: the server stops cleanly", node.stop());
    Ok(tally)
}

/// As its documentation tells operators: a keyspace, the first version, and one upgrade after the other.
fn set_up_schema(tool: &Path, folder: &Path, node: &Node, tally: &mut Tally) {
    let steps = [
        vec![
            "create-keyspace".to_owned(),
            "--keyspace".to_owned(),
            KEYSPACE.to_owned(),
        ],
        vec!["setup-schema".to_owned(), "-v".to_owned(), "0.0".to_owned()],
        update_schema(folder),
    ];
    for step in steps {
        tally.check(&format!("temporal {}", step[0]), run_tool(tool, node, &step));
    }
}

fn update_schema(folder: &Path) -> Vec<String> {
    let versions = folder.join("../../../schema/cassandra/temporal/versioned");
    vec![
        "update-schema".to_owned(),
        "-d".to_owned(),
        versions.display().to_string(),
    ]
}

fn run_tool(tool: &Path, node: &Node, arguments: &[String]) -> Result<(), TaskError> {
    let address = node.address();
    process::run_quietly(
        Command::new(tool)
            .args(["--endpoint", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            .args(["--keyspace", KEYSPACE])
            .args(arguments),
    )?;
    Ok(())
}

/// Runs the tests; those that race against the second by themselves, for as often as it may turn meanwhile.
fn persistence(program: &Path, folder: &Path, node: &Node, tally: &mut Tally) -> Result<(), TaskError> {
    let racing = format!("{RACING_SUITE}/^({})$", RACING_TESTS.join("|"));
    let log = program::log_path("temporal");
    let others = run_tests(
        (program, folder, node),
        &["-test.run", "^TestCassandra", "-test.skip", &racing],
        &log,
    )?;
    let racing_log = program::log_path("temporal-racing");
    let mut raced = Tests::default();
    for _ in 0..RACES_MAX {
        raced = run_tests((program, folder, node), &["-test.run", &racing], &racing_log)?;
        if raced.failed.is_empty() {
            break;
        }
    }
    // Those that are named, and the one that they are parts of.
    let have_raced = raced.is_whole && raced.passed > RACING_TESTS.len();
    let enough = others.is_whole && others.passed + raced.passed >= TESTS_MIN && have_raced;
    for tests in [others, raced] {
        tally.passed += tests.passed;
        tally.failed += tests.failed.len();
        tally.skipped += tests.skipped;
        for name in tests.failed {
            println!("  FAIL {name}");
        }
    }
    let ended = if enough {
        Ok(())
    } else {
        Err(format!("{}\n{}", said(&log), said(&racing_log)))
    };
    tally.check("temporal's tests of its persistence", ended);
    Ok(())
}

/// Outcome of one run of the test program: each test, and each part of one.
#[derive(Debug, Default)]
struct Tests {
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
    /// False if the program did not end well.
    is_whole: bool,
}

fn run_tests(
    (program, folder, node): (&Path, &Path, &Node),
    chosen: &[&str],
    log: &Path,
) -> Result<Tests, TaskError> {
    let address = node.address();
    let mut command = Command::new(program);
    command
        .arg("-test.v")
        .args(chosen)
        .arg(format!("-test.timeout={TESTS_SECONDS_MAX}s"))
        .current_dir(folder)
        .env("CASSANDRA_SEEDS", address.ip().to_string())
        .env("CASSANDRA_PORT", address.port().to_string())
        .stdin(Stdio::null())
        .stdout(process::log_file(log)?)
        .stderr(Stdio::null());
    let mut running = Process::start(&mut command)?;
    let ended = running.wait_until(Instant::now() + Duration::from_secs(2 * TESTS_SECONDS_MAX))?;
    drop(running);
    let text = fs::read_to_string(log).map_err(|source| TaskError::File {
        path: log.to_owned(),
        source,
    })?;
    let mut tests = Tests {
        is_whole: ended.is_some_and(|status| status.success()),
        ..Tests::default()
    };
    for line in text.lines().map(str::trim_start) {
        if let Some(name) = line.strip_prefix("--- FAIL: ") {
            tests.failed.push(name.to_owned());
        } else if line.starts_with("--- PASS: ") {
            tests.passed += 1;
        } else if line.starts_with("--- SKIP: ") {
            tests.skipped += 1;
        }
    }
    Ok(tests)
}

fn said(log: &Path) -> String {
    format!("log {}:\n{}", log.display(), process::log_tail(log, 15))
}
