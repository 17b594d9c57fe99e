//! gRPC's own interop clients at the door's HTTP/2 and gRPC, with the `TestService` that they call.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Context;
use super::doors::{self, Door};
use crate::process::{self, Process};
use crate::program::{self, Tally};
use crate::{TaskError, runtime};

/// Every case of `google.golang.org/grpc/interop/client` but those that need credentials of a cloud, or load reports (ORCA).
const CASES: [&str; 17] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "pick_first_unary",
    "rpc_soak",
    "channel_soak",
];

/// Time limit of one case; each takes some milliseconds.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

const TEST_SERVICE: &[&str] = &["--grpc-test-service"];

pub fn go(context: &Context) -> Result<Tally, TaskError> {
    let package = "google.golang.org/grpc/interop/client";
    let client = runtime::go_package("grpc-interop", &doors::go_tools(), package)?;
    let door = Door::start(context, "grpc-interop", TEST_SERVICE)?;
    let mut tally = Tally::default();
    for case in CASES {
        tally.check(case, run_case(&client, &door.address, case));
    }
    door.stop("grpc-interop", &mut tally);
    Ok(tally)
}

fn run_case(client: &Path, address: &str, case: &str) -> Result<(), String> {
    let port = address.rsplit(':').next().unwrap_or_default();
    let log = program::log_path(&format!("grpc-interop-{case}"));
    let mut command = Command::new(client);
    command
        .args([
            "-server_host",
            "127.0.0.1",
            "-server_port",
            port,
            "-test_case",
            case,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(process::log_file(&log).map_err(|error| error.to_string())?);
    let mut running = Process::start(&mut command).map_err(|error| error.to_string())?;
    let ended = running.wait_until(Instant::now() + CASE_TIMEOUT);
    match ended.map_err(|error| error.to_string())? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{status}: {}", process::log_tail(&log, 5))),
        None => Err("did not end".to_owned()),
    }
}

/// All cases of one process; they speak as other drivers do.
pub fn java(context: &Context) -> Result<Tally, TaskError> {
    let mut command = runtime::java_program("grpc-java", &doors::folder("grpc-java"))?;
    command.arg("InteropTest");
    doors::run("grpc-java", command, TEST_SERVICE, context)
}
