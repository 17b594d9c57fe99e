//! `helenus serve --detach`: the node in a process of its own, which is left running once it is ready, and named.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// Argument that is not passed on.
const DETACH: &str = "--detach";

/// Ends as the node has said that it is ready, or with the node, which has said why.
pub fn run() -> ExitCode {
    match start() {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("helenus: cannot start a process of its own for the node: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> io::Result<ExitCode> {
    let mut node = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1).filter(|argument| argument != DETACH))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Interrupting whoever started it is not meant for the node.
        .process_group(0)
        .spawn()?;
    let mut ready = String::new();
    if let Some(output) = node.stdout.take() {
        BufReader::new(output).read_line(&mut ready)?;
    }
    // A node says one line there, and only when it is ready.
    if ready.is_empty() {
        let ended = node.wait()?;
        return Ok(ended
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from));
    }
    print!("{ready}");
    println!("process {}", node.id());
    Ok(ExitCode::SUCCESS)
}
