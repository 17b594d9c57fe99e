//! `helenus bench run` as a process of its own: how it is called, and what its report says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::{TaskError, workspace};

/// Fields of the report of `helenus bench run --json` that matter here.
#[derive(Deserialize)]
pub struct Figures {
    /// Requests answered in the whole run.
    pub ops: u64,
    pub errors: u64,
    pub errors_by_kind: BTreeMap<String, u64>,
    pub sent_again: u64,
}

impl Figures {
    pub fn parse(json: &str) -> Result<Figures, TaskError> {
        serde_json::from_str(json).map_err(|error| TaskError::Report {
            text: format!("{error} in a report of `helenus bench run`: {json:?}"),
        })
    }
}

/// The command for a load on these nodes and no others, to be completed by what it is to be.
pub fn command(addresses: &[SocketAddr]) -> Command {
    let mut command = Command::new(workspace::program("helenus"));
    add_arguments(&mut command, addresses);
    command
}

/// The same, kept to one core.
pub fn command_on_core(core: &str, addresses: &[SocketAddr]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(workspace::program("helenus"));
    add_arguments(&mut command, addresses);
    command
}

fn add_arguments(command: &mut Command, addresses: &[SocketAddr]) {
    let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    command
        .args(["bench", "run", "--quiet", "--only-these-hosts"])
        .args(["--hosts", &hosts.join(",")])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
}
