//! The operator's commands against a running node, by the binary alone.

use std::path::Path;
use std::process::Command;

use super::Context;
use crate::TaskError;
use crate::node::{Node, Target};
use crate::process::{ProcessError, run_quietly};
use crate::program::Tally;
use crate::workspace;

const NODE: &str = "operator";

pub fn run(_: &Context) -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    let fixture = workspace::path("crates/sstable/tests/sstable/fixtures/types");
    let data = workspace::scratch(NODE).join("data");
    let node = Node::start(&Target::Helenus, NODE, &[])?;
    let on_node: [(&str, &[&str], &str); 7] = [
        (
            "import",
            &[
                "sstable",
                "import",
                "FIXTURE",
                "--keyspace",
                "shop",
                "--table",
                "types",
            ],
            "\"rows\":6",
        ),
        ("flush", &["flush"], "\"tables\":"),
        (
            "snapshot create",
            &["snapshot", "create", "--name", "one"],
            "\"sstables\":1",
        ),
        (
            "snapshot restore",
            &["snapshot", "restore", "--name", "one", "--replace"],
            "\"rows\":6",
        ),
        ("snapshot list", &["snapshot", "list"], "\"is_complete\":true"),
        ("compaction major", &["compaction", "major"], "\"tables\":1"),
        (
            "snapshot remove",
            &["snapshot", "remove", "--name", "one"],
            "\"name\":\"one\"",
        ),
    ];
    for (name, arguments, wanted) in on_node {
        let mut command = helenus(&fixture, arguments);
        command.args(["--json", "--data"]).arg(&data);
        tally.check(name, says(command, wanted));
    }
    node.stop()?;
    let on_files: [(&str, &[&str], &str); 3] = [
        ("sstable verify", &["sstable", "verify", "FIXTURE"], ": sound"),
        (
            "sstable dump",
            &["sstable", "dump", "-e", "FIXTURE"],
            "[ \"1\", \"one\" ]",
        ),
        (
            "sstable export",
            &["sstable", "export", "--format", "csv", "FIXTURE"],
            "1,one,all",
        ),
    ];
    for (name, arguments, wanted) in on_files {
        tally.check(name, says(helenus(&fixture, arguments), wanted));
    }
    Ok(tally)
}

fn helenus(fixture: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(workspace::program("helenus"));
    for argument in arguments {
        match *argument {
            "FIXTURE" => command.arg(fixture),
            other => command.arg(other),
        };
    }
    command
}

fn says(mut command: Command, wanted: &str) -> Result<(), String> {
    let output = run_quietly(&mut command).map_err(|error: ProcessError| error.to_string())?;
    if output.contains(wanted) {
        Ok(())
    } else {
        Err(format!("wanted {wanted}, found {output}"))
    }
}
