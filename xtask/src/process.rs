//! Child processes: started in a group of their own, logged to a file, never left behind.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a process gets to leave after SIGTERM before SIGKILL follows.
const STOP_GRACE: Duration = Duration::from_secs(30);
/// Cassandra prints its whole configuration on one line; nobody reads beyond this.
const LOG_LINE_CHARS_MAX: usize = 300;
/// How often a waiting loop looks again.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("cannot wait for {program}: {source}")]
    Wait { program: String, source: io::Error },
    #[error("{program} ended with {status}")]
    Failed { program: String, status: ExitStatus },
    #[error("{program} did not leave within {} s", STOP_GRACE.as_secs())]
    StillRunning { program: String },
    #[error("log file {path}: {source}")]
    Log { path: PathBuf, source: io::Error },
}

/// A child process that owns its process group; dropping it kills the whole group.
pub struct Process {
    child: Child,
    program: String,
    ended: bool,
}

impl Process {
    /// Starts `command` as the leader of a new process group.
    pub fn start(command: &mut Command) -> Result<Self, ProcessError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .process_group(0)
            .spawn()
            .map_err(|source| ProcessError::Start {
                program: program.clone(),
                source,
            })?;
        Ok(Self {
            child,
            program,
            ended: false,
        })
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has left already.
    pub fn finished(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        let status = self.child.try_wait().map_err(|source| ProcessError::Wait {
            program: self.program.clone(),
            source,
        })?;
        self.ended |= status.is_some();
        Ok(status)
    }

    /// Waits until the process leaves or `deadline` passes.
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>, ProcessError> {
        loop {
            let status = self.finished()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Asks the process to stop (SIGTERM) and waits for it.
    pub fn stop(&mut self) -> Result<ExitStatus, ProcessError> {
        if let Some(status) = self.finished()? {
            return Ok(status);
        }
        send_signal("TERM", &self.id().to_string());
        match self.wait_until(Instant::now() + STOP_GRACE)? {
            Some(status) => Ok(status),
            None => {
                self.kill();
                Err(ProcessError::StillRunning {
                    program: self.program.clone(),
                })
            }
        }
    }

    /// SIGKILL to the whole group: the process gets no chance to write anything more.
    pub fn kill(&mut self) {
        if !self.ended {
            send_signal("KILL", &format!("-{}", self.id()));
            // A child that was killed is always there to be waited for; nothing is left to report.
            let _ = self.child.wait();
            self.ended = true;
        }
    }

    /// Gives up ownership: the process outlives this one.
    pub fn detach(mut self) -> u32 {
        self.ended = true;
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `command` to its end with this process' own output streams.
pub fn run(command: &mut Command) -> Result<(), ProcessError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|source| ProcessError::Start {
            program: program.clone(),
            source,
        })?;
    if status.success() {
        Ok(())
    } else {
        Err(ProcessError::Failed { program, status })
    }
}

/// Runs `command` to its end, keeping quiet unless it fails.
pub fn run_quietly(command: &mut Command) -> Result<String, ProcessError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ProcessError::Start {
            program: program.clone(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    eprint!("{text}{}", String::from_utf8_lossy(&output.stderr));
    Err(ProcessError::Failed {
        program,
        status: output.status,
    })
}

/// Opens a fresh log file, making the folders above it.
pub fn log_file(path: &Path) -> Result<File, ProcessError> {
    let fail = |source| ProcessError::Log {
        path: path.to_path_buf(),
        source,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fail)?;
    }
    File::create(path).map_err(fail)
}

/// The last lines of a log, each cut to a readable length, to be shown when its writer failed.
pub fn log_tail(path: &Path, lines: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let start = all.len().saturating_sub(lines);
    let tail = all.get(start..).unwrap_or_default();
    tail.iter()
        .map(|line| line.chars().take(LOG_LINE_CHARS_MAX).collect())
        .collect::<Vec<String>>()
        .join("\n")
}

/// Sends a signal by name to a process id, or to a group when `whom` starts with `-`.
pub fn send_signal(name: &str, whom: &str) {
    static SENDER: Mutex<Option<SignalSender>> = Mutex::new(None);
    let mut sender = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    if sender.is_none() {
        *sender = SignalSender::start();
    }
    if sender
        .as_mut()
        .is_some_and(|sender| sender.send(name, whom).is_some())
    {
        return;
    }
    *sender = None;
    // The receiver may be gone already, which is what the sender wants anyway.
    let _ = Command::new("kill")
        .args(["-s", name, "--", whom])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// A shell that sends signals when it is told to. Starting a process for each takes a millisecond or two of processor time, just
/// when what the signal does is measured.
struct SignalSender {
    // Ends with its input.
    _shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl SignalSender {
    fn start() -> Option<SignalSender> {
        let mut shell = Command::new("sh")
            .args([
                "-c",
                "while read -r name whom; do kill -s $name -- $whom; echo; done",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (input, output) = (shell.stdin.take()?, BufReader::new(shell.stdout.take()?));
        Some(SignalSender {
            _shell: shell,
            input,
            output,
        })
    }

    /// Returns when it has been sent; `None` if the shell is gone.
    fn send(&mut self, name: &str, whom: &str) -> Option<()> {
        writeln!(self.input, "{name} {whom}").ok()?;
        let mut answer = String::new();
        (self.output.read_line(&mut answer).ok()? > 0).then_some(())
    }
}
