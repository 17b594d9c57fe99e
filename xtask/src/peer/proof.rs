//! `tests/peer/src/SstableProof.java`: Cassandra's offline tools for many tables in one Java process.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use super::{PeerError, jars, tool};
use crate::process::{self, Process};
use crate::{runtime, workspace};

const PROGRAM: &str = "SstableProof";

/// A running proof program with a data folder of its own.
pub struct ProofProgram {
    _process: Process,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    folder: PathBuf,
}

impl ProofProgram {
    /// Starts the program below `folder`, which is emptied. `settings` are lines for its `cassandra.yaml`.
    pub fn start(folder: &Path, settings: &[&str], mode: &str) -> Result<Self, PeerError> {
        let classes = compile()?;
        let fail = |source| PeerError::File {
            path: folder.to_path_buf(),
            source,
        };
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(fail)?;
        }
        let configuration = format!("{}{}\n", tool::CONFIGURATION, settings.join("\n"));
        jars::write(&folder.join("cassandra.yaml"), &configuration)?;
        jars::write(&folder.join("logback.xml"), tool::NO_LOGGING)?;
        let log = process::log_file(&folder.join("log"))?;
        let mut java = jars::java_with(&classes)?;
        tool::configure(&mut java, folder);
        java.arg(PROGRAM)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut process = Process::start(&mut java)?;
        let child = process.child();
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(PeerError::ProofEnded {
                log_tail: String::new(),
            });
        };
        Ok(ProofProgram {
            _process: process,
            input,
            answers: BufReader::new(output).lines(),
            folder: folder.to_path_buf(),
        })
    }

    /// Where the tables' folders are.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Runs one command; the error is the fault it found.
    pub fn run(&mut self, words: &[&str]) -> Result<Result<(), String>, PeerError> {
        let line = words.join("\t").replace('\n', " ");
        let sent = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        match (sent, self.answers.next()) {
            (Ok(()), Some(Ok(answer))) if answer == "ok" => Ok(Ok(())),
            (Ok(()), Some(Ok(answer))) => Ok(Err(answer)),
            _ => Err(PeerError::ProofEnded {
                log_tail: process::log_tail(&self.folder.join("log"), 20),
            }),
        }
    }
}

/// Compiles the program against Cassandra's jars and returns the folder of its classes.
fn compile() -> Result<PathBuf, PeerError> {
    let pom = workspace::path("tests/peer/pom.xml");
    let packages = runtime::maven_classpath("cassandra", &pom)?;
    let classes = workspace::built("peer");
    fs::create_dir_all(&classes).map_err(|source| PeerError::File {
        path: classes.clone(),
        source,
    })?;
    // The jars name others in their manifests, which Maven keeps elsewhere.
    let lints = "-Xlint:all,-processing,-classfile,-path";
    process::run_quietly(
        Command::new("javac")
            .args(["-encoding", "UTF-8", lints, "-Werror", "-cp", &packages, "-d"])
            .arg(&classes)
            .arg(workspace::path(&format!("tests/peer/src/{PROGRAM}.java"))),
    )?;
    Ok(classes)
}
