//! `helenus bench run` against a running node, by the binary alone: what scripts read of it stays.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::Context;
use crate::TaskError;
use crate::node::{Node, Target};
use crate::process::run_quietly;
use crate::program::Tally;
use crate::workspace;

const NODE: &str = "load";

/// Keys that scripts rely on.
const KEYS: [&str; 5] = ["ops", "errors", "errors_by_kind", "ops_per_s", "latency_us"];
const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p999", "max"];

pub fn run(_: &Context) -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    let node = Node::start(&Target::Helenus, NODE, &[])?;
    let host = node.address().to_string();
    let folder = workspace::scratch(NODE);
    let page = folder.join("report.html");
    let runs: [(&str, &[&str]); 3] = [
        ("closed loop", &["--preset", "mixed", "--concurrency", "64"]),
        ("open loop", &["--preset", "read", "--rate", "500"]),
        (
            "many workers",
            &["--preset", "concurrent-client", "--concurrency", "5000"],
        ),
    ];
    let mut reports = Vec::new();
    for (name, arguments) in runs {
        let file = folder.join(format!("{}.json", reports.len()));
        let mut command = Command::new(workspace::program("helenus"));
        command
            .args(["bench", "run", "--quiet", "--hosts", &host, "--duration", "1s"])
            .args(["--warm-up", "0s", "--keys", "1000", "--json"])
            .arg(&file)
            .arg("--html")
            .arg(&page)
            .args(arguments);
        let run = run_quietly(&mut command).map_err(|error| error.to_string());
        let read = run.and_then(|_| fs::read_to_string(&file).map_err(|error| error.to_string()));
        tally.check(name, read.and_then(|text| check(&text)));
        reports.push(file);
    }
    let html = fs::read_to_string(&page).map_err(|error| error.to_string());
    tally.check(
        "a page without a network",
        html.and_then(|text| opens_alone(&text)),
    );
    let mut compare = Command::new(workspace::program("helenus"));
    compare.args(["bench", "compare"]).args(&reports[..2]);
    let compared = run_quietly(&mut compare).map_err(|error| error.to_string());
    tally.check("compare", compared.map(drop));
    node.stop()?;
    Ok(tally)
}

fn check(text: &str) -> Result<(), String> {
    let report: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let missing = KEYS.iter().find(|key| report.get(**key).is_none());
    let unmeasured = PERCENTILES
        .iter()
        .find(|name| report["latency_us"][**name].as_u64().is_none());
    if let Some(key) = missing.or(unmeasured) {
        return Err(format!("no {key} in {text}"));
    }
    if report["errors"] != 0 || report["ops"].as_u64().is_none_or(|ops| ops == 0) {
        return Err(format!("{} requests, {} errors", report["ops"], report["errors"]));
    }
    Ok(())
}

/// Nothing that a browser would fetch.
fn opens_alone(html: &str) -> Result<(), String> {
    let fetched = ["src=\"http", "href=\"http", "@import", "<link"];
    match fetched.iter().find(|what| html.contains(**what)) {
        Some(what) => Err(format!("the page has {what}")),
        None if html.contains("<svg") => Ok(()),
        None => Err("the page has no chart".to_owned()),
    }
}
