//! The languages that the black-box tests are written in: which are here, and their packages.
//!
//! Packages are pinned in the repository and installed below `target/installed`, each install
//! remembered by a copy of the file that pinned it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{self, ProcessError};
use crate::workspace;

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
}

/// Runtime that a test needs on the machine before its packages can be installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runtime {
    Python,
    Java,
    Go,
    Node,
}

impl Runtime {
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "Python 3.8 to 3.11",
            Self::Java => "Java with Maven",
            Self::Go => "Go",
            Self::Node => "Node.js with npm",
        }
    }

    pub fn present(self) -> bool {
        match self {
            Self::Python => python().is_some(),
            Self::Java => {
                answers("java", "-version") && answers("javac", "-version") && answers("mvn", "-version")
            }
            Self::Go => answers("go", "version"),
            Self::Node => answers("node", "--version") && answers("npm", "--version"),
        }
    }
}

/// A Python that the Cassandra drivers run on as they come from PyPI: from 3.12 on, the standard
/// library lacks the `asyncore` module that they use when their C extensions are not built.
pub fn python() -> Option<PathBuf> {
    let pyenv = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/versions"));
    let mut candidates: Vec<PathBuf> = pyenv
        .and_then(|versions| fs::read_dir(versions).ok())
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path().join("bin/python3"))
                .collect()
        })
        .unwrap_or_default();
    candidates.sort();
    candidates.reverse();
    let named = ["python3.11", "python3.10", "python3.9", "python3.8", "python3"];
    named.iter().map(PathBuf::from).chain(candidates).find(|python| {
        let check = "import sys, venv, ensurepip, asyncore; assert (3, 8) <= sys.version_info < (3, 12)";
        succeeds(Command::new(python).args(["-W", "ignore", "-c", check]))
    })
}

/// Makes a virtual environment with the packages of a `requirements.txt` and returns its `bin`.
pub fn python_environment(name: &str, requirements: &Path) -> Result<PathBuf, RuntimeError> {
    let folder = workspace::installed().join(name);
    install_once(&folder, &[requirements], |folder| {
        let python = python().unwrap_or_else(|| PathBuf::from("python3"));
        process::run_quietly(Command::new(python).args(["-m", "venv"]).arg(folder))?;
        // The pure Python driver is what gets tested; compiling its C parts costs minutes.
        process::run_quietly(
            Command::new(folder.join("bin/python"))
                .env("CASS_DRIVER_NO_EXTENSIONS", "1")
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "-r",
                ])
                .arg(requirements),
        )?;
        Ok(())
    })?;
    Ok(folder.join("bin"))
}

/// Fetches what a `pom.xml` names and returns the class path, which points into Maven's repository.
pub fn maven_classpath(name: &str, pom: &Path) -> Result<String, RuntimeError> {
    let folder = workspace::installed().join("maven").join(name);
    let file = folder.join("classpath");
    let known = fs::read_to_string(&file).unwrap_or_default();
    if known.split(':').any(|jar| !Path::new(jar).exists()) {
        remove(&folder)?;
    }
    install_once(&folder, &[pom], |_| {
        process::run_quietly(
            Command::new("mvn")
                .args(["--quiet", "--batch-mode", "dependency:build-classpath", "--file"])
                .arg(pom)
                .arg(format!("-Dmdep.outputFile={}", file.display())),
        )?;
        Ok(())
    })?;
    fs::read_to_string(&file).map_err(|source| RuntimeError::File { path: file, source })
}

/// Installs what a `package-lock.json` pins and returns the folder that holds `node_modules`.
pub fn node_packages(name: &str, source: &Path) -> Result<PathBuf, RuntimeError> {
    let folder = workspace::installed().join(name);
    let pins = [source.join("package.json"), source.join("package-lock.json")];
    install_once(&folder, &[&pins[0], &pins[1]], |folder| {
        process::run_quietly(
            Command::new("npm")
                .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
                .current_dir(folder),
        )?;
        Ok(())
    })?;
    Ok(folder)
}

/// Compiles the sources in `folder/src` against what `folder/pom.xml` names and returns a `java`
/// command with their class path, to which the caller adds the main class.
pub fn java_program(name: &str, folder: &Path) -> Result<Command, RuntimeError> {
    let packages = maven_classpath(name, &folder.join("pom.xml"))?;
    let classes = workspace::built(name);
    remove(&classes)?;
    let fail = |path: &Path| {
        let path = path.to_path_buf();
        move |source| RuntimeError::File { path, source }
    };
    fs::create_dir_all(&classes).map_err(fail(&classes))?;
    let source_folder = folder.join("src");
    let entries = fs::read_dir(&source_folder).map_err(fail(&source_folder))?;
    let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "java"));
    process::run_quietly(
        Command::new("javac")
            .args([
                "-encoding",
                "UTF-8",
                "-Xlint:all,-processing,-classfile",
                "-Werror",
                "-cp",
                &packages,
                "-d",
            ])
            .arg(&classes)
            .args(sources),
    )?;
    let mut java = Command::new("java");
    java.args(["-Dfile.encoding=UTF-8", "-cp"])
        .arg(format!("{}:{packages}", classes.display()));
    Ok(java)
}

/// Builds the Go module in `folder`, whose `go.sum` pins its packages, and returns its program.
pub fn go_program(name: &str, folder: &Path) -> Result<Command, RuntimeError> {
    Ok(Command::new(go(&["build"], name, folder, ".")?))
}

/// Builds the program of a package that the Go module in `folder` pins.
pub fn go_package(name: &str, folder: &Path, package: &str) -> Result<PathBuf, RuntimeError> {
    go(&["build"], name, folder, package)
}

/// Builds the tests of a package that the Go module in `folder` pins.
pub fn go_tests(name: &str, folder: &Path, package: &str) -> Result<PathBuf, RuntimeError> {
    go(&["test", "-c", "-vet=off"], name, folder, package)
}

/// Where the sources of a package are that the Go module in `folder` pins: its tests expect to run there.
pub fn go_package_folder(folder: &Path, package: &str) -> Result<PathBuf, RuntimeError> {
    let mut list = Command::new("go");
    list.args(["list", "-mod=readonly", "-f", "{{.Dir}}", package])
        .current_dir(folder);
    Ok(PathBuf::from(process::run_quietly(&mut list)?.trim()))
}

fn go(verb: &[&str], name: &str, folder: &Path, package: &str) -> Result<PathBuf, RuntimeError> {
    let program = workspace::built(name).join("program");
    process::run_quietly(
        Command::new("go")
            .args(verb)
            .args(["-mod=readonly", "-o"])
            .arg(&program)
            .arg(package)
            .current_dir(folder),
    )?;
    Ok(program)
}

/// Runs `install` on an emptied folder unless the folder was installed from these very pins.
///
/// The pins are copied to the folder first and a mark is written last, so an install that was
/// interrupted is done again.
fn install_once(
    folder: &Path,
    pins: &[&Path],
    install: impl FnOnce(&Path) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    let mut wanted = Vec::new();
    for pin in pins {
        let text = fs::read(pin).map_err(|source| RuntimeError::File {
            path: pin.to_path_buf(),
            source,
        })?;
        wanted.push((pin.file_name().unwrap_or_default().to_owned(), text));
    }
    let mark = folder.join(".installed");
    let current = |(name, text): &(std::ffi::OsString, Vec<u8>)| {
        fs::read(folder.join(name)).is_ok_and(|installed| installed == *text)
    };
    if mark.exists() && wanted.iter().all(current) {
        return Ok(());
    }
    eprintln!(
        "  installing {}",
        folder.strip_prefix(workspace::root()).unwrap_or(folder).display()
    );
    remove(folder)?;
    let fail = |source| RuntimeError::File {
        path: folder.to_path_buf(),
        source,
    };
    fs::create_dir_all(folder).map_err(fail)?;
    for (name, text) in &wanted {
        fs::write(folder.join(name), text).map_err(fail)?;
    }
    install(folder)?;
    fs::write(&mark, "").map_err(fail)
}

fn remove(folder: &Path) -> Result<(), RuntimeError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(RuntimeError::File {
            path: folder.to_path_buf(),
            source,
        }),
        _ => Ok(()),
    }
}

fn answers(program: &str, argument: &str) -> bool {
    succeeds(Command::new(program).arg(argument))
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
