//! Reports of programs as they are read, pages as they are written, and the runs that a page is made from.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{TaskError, workspace};

/// A program's report of JSON.
pub fn parse<T: DeserializeOwned>(json: &str) -> Result<T, TaskError> {
    serde_json::from_str(json).map_err(|error| TaskError::Report {
        text: format!("{error} in {json:?}"),
    })
}

pub fn read_text(path: &Path) -> Result<String, TaskError> {
    fs::read_to_string(path).map_err(|source| TaskError::File {
        path: path.to_owned(),
        source,
    })
}

/// A report in a file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, TaskError> {
    serde_json::from_str(&read_text(path)?).map_err(|error| TaskError::Report {
        text: format!("{}: {error}", path.display()),
    })
}

pub fn create_folder(path: &Path) -> Result<(), TaskError> {
    fs::create_dir_all(path).map_err(|source| TaskError::File {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file of the project, or any other with its whole path, and the folders above it.
pub fn write(name: impl AsRef<Path>, text: &str) -> Result<(), TaskError> {
    let path = workspace::root().join(name);
    path.parent().map_or(Ok(()), create_folder)?;
    fs::write(&path, text).map_err(|source| TaskError::File { path, source })
}

/// Writes a page into the project, where it is kept beside the code that it measured.
pub fn write_page(name: &str, text: &str) -> Result<(), TaskError> {
    write(name, text)?;
    println!("written to {name}");
    Ok(())
}

/// Shows a page, too.
pub fn publish(name: &str, text: &str) -> Result<(), TaskError> {
    println!("{text}");
    write_page(name, text)
}

/// The runs that a file of the project has, one a line; none if there is no file yet.
pub fn known_runs<T: DeserializeOwned>(name: &str) -> Result<Vec<T>, TaskError> {
    let text = fs::read_to_string(workspace::path(name)).unwrap_or_default();
    text.lines().map(parse).collect()
}

pub fn keep_runs<T: Serialize>(name: &str, runs: &[T]) -> Result<(), TaskError> {
    let lines = runs.iter().filter_map(|run| serde_json::to_string(run).ok());
    let text: String = lines.map(|line| line + "\n").collect();
    write_page(name, &text)
}
