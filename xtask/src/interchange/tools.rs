//! Our files through Cassandra's offline tools: what `sstabledump` prints is the model, `sstableverify` finds nothing,
//! `sstablescrub` drops nothing and writes a file that dumps the same, and the metadata is what Cassandra itself writes
//! for the same contents.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_sstable::{Component, SsTableFormat, SsTableId, table_folder};
use helenus_storage_model::{Case, CaseKind, dump, schema_statements, without_layout, write};
use helenus_vfs::{Disk, RealDisk};

use super::format;
use super::outcome::{Outcome, Progress, Proof};
use crate::TaskError;
use crate::peer::ProofProgram;
use crate::workspace;

/// Above what Cassandra counts up from 1 for the files that it writes into the same folder.
const ID: SsTableId = SsTableId::Number(1 << 20);
/// The program keeps every table it saw; a fresh one after so many.
const CASES_PER_PROGRAM: usize = 200;
pub const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE interchange WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

pub fn prove(format: SsTableFormat, seeds: &[u64], outcome: &mut Outcome) -> Result<(), TaskError> {
    let name = format.name();
    let folder = workspace::scratch("interchange").join(format!("tools-{name}"));
    let mut progress = Progress::new(format!("{name} through the tools"), seeds.len());
    let failed_before = outcome.failed();
    for (batch_index, batch) in seeds.chunks(CASES_PER_PROGRAM).enumerate() {
        let mut program = ProofProgram::start(&folder, format::settings(format), "tools")?;
        // The program is there already or says so by the next answer.
        let _ = program.run(&["schema", CREATE_KEYSPACE])?;
        for (index, &seed) in batch.iter().enumerate() {
            let case = Case::new(seed, &format!("t{index}"), format::era(format));
            let result = check(&mut program, &folder, format, &case)?;
            if result.is_err() {
                keep(&folder, format, &case);
            }
            outcome.note(Proof::Tools, format, &case, &result);
            progress.show(
                batch_index * CASES_PER_PROGRAM + index + 1,
                outcome.failed() - failed_before,
            );
            let table_folder = table_folder(&program.data_folder(), &case.table.metadata);
            remove(&table_folder)?;
        }
    }
    Ok(())
}

/// The inner error is what is wrong with the case.
fn check(
    program: &mut ProofProgram,
    folder: &Path,
    format: SsTableFormat,
    case: &Case,
) -> Result<Result<(), String>, TaskError> {
    let table = &case.table.metadata;
    for statement in schema_statements(&case.table_now) {
        if let Err(fault) = program.run(&["schema", &statement])? {
            return Ok(Err(format!("{statement}: {fault}")));
        }
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let table_folder = table_folder(&program.data_folder(), table);
    let mut options = case.writer_options();
    options.format = format;
    let descriptor = match write(&disk, &table_folder, ID, table, &case.partitions, options) {
        Ok(info) => info.descriptor,
        Err(error) => return Ok(Err(error.to_string())),
    };
    copy(&table_folder, &folder.join("written"))?;
    let (dumped, rewritten) = (folder.join("dump.json"), folder.join("rewritten.json"));
    for old in [&dumped, &rewritten] {
        // There is none in the first round.
        let _ = fs::remove_file(old);
    }
    // A copy: sstabledump knows no table options, and removes a summary that was sampled otherwise than by default.
    let data_file = descriptor.path(&folder.join("written"), Component::Data);
    let words = ["dump", &data_file.to_string_lossy(), &dumped.to_string_lossy()];
    if let Err(fault) = program.run(&words)? {
        return Ok(Err(format!("sstabledump: {fault}")));
    }
    let has_markers = case.has_markers();
    let words = [
        "check",
        &table.keyspace,
        &table.name,
        if has_markers { "rewrite" } else { "scrub" },
        &rewritten.to_string_lossy(),
        &case.emptied_count().to_string(),
    ];
    let fault = program.run(&words)?;
    let wanted = dump(table, &case.partitions, now_s());
    let dumps = compare(&wanted, &dumped, "sstabledump");
    if dumps.is_err() {
        return Ok(dumps);
    }
    if fault.is_err() {
        return Ok(fault);
    }
    // What was dropped from the table is not written again.
    if case.kind != CaseKind::Dropped {
        let dumps = compare(&wanted, &rewritten, "sstabledump of what Cassandra wrote again");
        if dumps.is_err() {
            return Ok(dumps);
        }
    }
    Ok(Ok(()))
}

/// Compares the model's JSON with a tool's; says where they part.
pub fn compare(wanted: &str, file: &Path, what: &str) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{what}: {error}"))?;
    let found = without_layout(&text);
    if found == wanted {
        return Ok(());
    }
    let same = wanted
        .char_indices()
        .zip(found.chars())
        .find(|((_, wanted), found)| wanted != found)
        .map_or(wanted.len().min(found.len()), |((index, _), _)| index);
    let around = |text: &str| {
        let before: Vec<char> = text.get(..same).unwrap_or(text).chars().rev().take(300).collect();
        let after = text.get(same..).unwrap_or_default().chars().take(120);
        before.into_iter().rev().chain(after).collect::<String>()
    };
    Err(format!(
        "{what} differs at {same}: wanted {} found {}",
        around(wanted),
        around(&found)
    ))
}

pub fn now_s() -> u32 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// Keeps the files of a failed case for whoever looks into it.
fn keep(folder: &Path, format: SsTableFormat, case: &Case) {
    let kept = workspace::scratch("interchange").join(format!("failed-{}-{}", format.name(), case.seed));
    // Only a convenience: the seed makes the files again.
    let _ = copy(&folder.join("written"), &kept);
    let _ = fs::write(
        kept.join("schema.cql"),
        schema_statements(&case.table_now).join(";\n"),
    );
    let _ = fs::copy(folder.join("dump.json"), kept.join("dump.json"));
    let _ = fs::copy(folder.join("rewritten.json"), kept.join("rewritten.json"));
}

/// Replaces `to` by the files in `from`, without its folders.
pub fn copy(from: &Path, to: &Path) -> Result<(), TaskError> {
    remove(to)?;
    fs::create_dir_all(to).map_err(file_error(to))?;
    for entry in fs::read_dir(from).map_err(file_error(from))?.flatten() {
        if entry.path().is_dir() {
            continue;
        }
        let target = to.join(entry.file_name());
        fs::copy(entry.path(), &target).map_err(file_error(&target))?;
    }
    Ok(())
}

pub fn remove(folder: &Path) -> Result<(), TaskError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(file_error(folder)(error)),
        _ => Ok(()),
    }
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> TaskError + use<> {
    let path: PathBuf = path.to_path_buf();
    move |source| TaskError::File { path, source }
}
