//! `helenus bench goodput`, the servers that it is pointed at, one core each, and its reports, kept beside the pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use helenus_loadgen::goodput::GoodputReport;

use crate::compare::{files, programs};
use crate::node::{Launch, Node};
use crate::{TaskError, process, workspace};

pub const FOLDER: &str = "docs/measurements/goodput";

/// The load generator on its core, to be completed by the loads.
pub fn generator(core: &str, node: &Node) -> Command {
    let mut command = programs::helenus_on_cores(core);
    command.args(["bench", "goodput", "--hosts", &node.address().to_string()]);
    command
}

/// Completes the command by whom it measures and runs it, with its progress on a terminal; the generator's report.
pub fn measure(mut command: Command, node: &Node, label: &str) -> Result<GoodputReport, TaskError> {
    let json = workspace::scratch("goodput.json");
    let server = node.process_id().unwrap_or_default().to_string();
    command
        .args(["--server-pid", &server, "--label", label, "--json"])
        .arg(&json)
        .stdout(Stdio::null());
    process::run(&mut command)?;
    node.check_panics()?;
    files::read(&json)
}

/// Arguments common to the commands that make a page.
#[derive(clap::Args, Clone)]
pub struct ServerArguments {
    /// The server's binary instead of the release build
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The server's cores
    #[arg(long, default_value = "0")]
    pub server_cores: String,
    /// The generator's core
    #[arg(long, default_value = "1")]
    pub generator_core: String,
    /// Which clients
    #[arg(long, value_enum, value_delimiter = ',', default_value = "throw,default")]
    pub clients: Vec<Clients>,
    /// Measure nothing: draw the page anew from what was measured before
    #[arg(long)]
    pub draw: bool,
}

/// Overload behaviour that clients ask for when they connect.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Clients {
    /// Errors when the server is overloaded
    Throw,
    /// Nothing, as every driver
    Default,
}

impl Clients {
    pub const ALL: [Clients; 2] = [Clients::Throw, Clients::Default];

    pub fn name(self) -> &'static str {
        match self {
            Clients::Throw => "throw",
            Clients::Default => "default",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Clients::Throw => "clients with THROW_ON_OVERLOAD",
            Clients::Default => "every driver as it comes",
        }
    }
}

impl ServerArguments {
    /// A node with an empty data folder, on its cores.
    pub fn start(&self, options: &[&str]) -> Result<Node, TaskError> {
        let launch = Launch {
            binary: self.binary.clone(),
            ..Launch::default()
        };
        let mut all = vec!["--commitlog-sync", "periodic"];
        all.extend(options);
        let node = Node::launch("bench-goodput", &all, launch)?;
        node.keep_to_core(&self.server_cores)?;
        Ok(node)
    }

    /// Measures on the generator's core; what came of it.
    pub fn measure(
        &self,
        node: &Node,
        clients: Clients,
        label: &str,
        arguments: &[String],
    ) -> Result<GoodputReport, TaskError> {
        let mut command = generator(&self.generator_core, node);
        command.args(arguments);
        if clients == Clients::Default {
            command.arg("--default-clients");
        }
        measure(command, node, label)
    }
}

/// The stored report of this name; `None` if there is none yet.
pub fn stored(name: &str) -> Result<Option<GoodputReport>, TaskError> {
    let path = report_path(name);
    match path.exists() {
        true => files::read(&path).map(Some),
        false => Ok(None),
    }
}

/// Stores a report, with the curves, disturbances and mixes of before that were not measured again.
pub fn store(name: &str, mut report: GoodputReport) -> Result<(), TaskError> {
    if let Some(known) = stored(name)? {
        let curves = std::mem::take(&mut report.curves);
        report.curves = replaced(known.curves, curves, |curve| curve.workload);
        let disturbances = std::mem::take(&mut report.disturbances);
        report.disturbances = replaced(known.disturbances, disturbances, |one| (one.workload, one.kind));
        let mixes = std::mem::take(&mut report.mixes);
        report.mixes = replaced(known.mixes, mixes, |mix| (mix.kind, mix.workload));
    }
    let value = serde_json::to_value(&report).map_err(|error| TaskError::Report {
        text: error.to_string(),
    })?;
    files::write(report_path(name), &format!("{value:#}\n"))
}

/// Puts the entries measured now in the places of those known before, and new ones behind them.
fn replaced<T, K: PartialEq>(known: Vec<T>, measured: Vec<T>, key: fn(&T) -> K) -> Vec<T> {
    let mut all = known;
    for new in measured {
        match all.iter_mut().find(|old| key(old) == key(&new)) {
            Some(old) => *old = new,
            None => all.push(new),
        }
    }
    all
}

fn report_path(name: &str) -> PathBuf {
    workspace::path(FOLDER).join(format!("{name}.json"))
}

/// A picture beside the pages.
pub fn write_picture(name: &str, svg: &str) -> Result<(), TaskError> {
    files::write(format!("{FOLDER}/{name}.svg"), svg)
}

/// So much memory for a process and what the kernel keeps of its files.
pub struct MemoryLimit {
    group: PathBuf,
}

impl MemoryLimit {
    /// By a control group, which only root may make.
    pub fn of_process(process_id: u32, bytes: u64) -> Result<Self, TaskError> {
        let (root, limit) = match Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            true => ("/sys/fs/cgroup", "memory.max"),
            false => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        let group = Path::new(root).join(format!("helenus-goodput-{}", std::process::id()));
        let written = fs::create_dir_all(&group)
            .and_then(|()| fs::write(group.join(limit), bytes.to_string()))
            .and_then(|()| fs::write(group.join("cgroup.procs"), process_id.to_string()));
        let made = MemoryLimit { group };
        match written {
            Ok(()) => Ok(made),
            Err(source) => Err(TaskError::File {
                path: made.group.join(limit),
                source,
            }),
        }
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Works once its process has left, which is stopped before; what stays behind is empty.
        let _stays = fs::remove_dir(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_again_takes_its_own_place_on_the_page() {
        let known = vec![("reads", 1), ("writes", 2)];
        let measured = vec![("writes", 3), ("mixed", 4)];
        assert_eq!(
            replaced(known, measured, |pair| pair.0),
            [("reads", 1), ("writes", 3), ("mixed", 4)]
        );
    }
}
