//! One partition beyond 2 GiB, where offsets no longer fit in 31 bits: verified and dumped by Cassandra, and read by
//! us from both ends and the middle, in bounded memory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use helenus_sstable::{Component, SsTable, SsTableFormat, SsTableId, table_folder};
use helenus_storage_model::{LargePartition, LargeRead, schema_statements};
use helenus_vfs::{Disk, RealDisk};

use super::format;
use super::tools::{CREATE_KEYSPACE, remove};
use crate::peer::ProofProgram;
use crate::{TaskError, process, workspace};

/// 2.1 GB of huge values between 34 MB of small ones.
const LARGE: LargePartition = LargePartition {
    rows: 400_000,
    huge_every: 3_100,
    huge_bytes: 16 << 20,
};
/// Most memory of reading, in bytes: some huge values at a time, far below the partition.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Proves each version with the compressor it is usual with and without; the report's lines.
pub fn prove() -> Result<String, TaskError> {
    let mut report = "## One large partition\n\n\
        | version | compressor | rows | Data.db | written | sstableverify -e | sstabledump | read by us, memory |\n\
        |---|---|---:|---:|---:|---:|---:|---|\n"
        .to_owned();
    for (format, compressor) in [
        (SsTableFormat::Nb, Some("LZ4Compressor")),
        (SsTableFormat::Da, None),
    ] {
        report += &prove_one(format, compressor)?;
    }
    Ok(report)
}

fn prove_one(format: SsTableFormat, compressor: Option<&str>) -> Result<String, TaskError> {
    let folder = workspace::scratch("interchange").join(format!("large-{}", format.name()));
    let mut program = ProofProgram::start(&folder, format::settings(format), "tools")?;
    let table = LARGE.table("large", compressor);
    program.run(&["schema", CREATE_KEYSPACE])?.map_err(failure)?;
    for statement in schema_statements(&table) {
        program.run(&["schema", &statement])?.map_err(failure)?;
    }
    let metadata = &table.metadata;
    let data_folder = table_folder(&program.data_folder(), metadata);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let start = Instant::now();
    let info = LARGE
        .write(&disk, &data_folder, SsTableId::Number(1 << 20), metadata, format)
        .map_err(|error| failure(error.to_string()))?;
    let written_s = start.elapsed().as_secs_f64();
    eprintln!("  {}: {} bytes of rows written", format.name(), info.data_bytes);

    let read = read_by_us(&disk, &data_folder, &info, metadata)?;
    eprintln!("  {}: {read}", format.name());

    let start = Instant::now();
    program
        .run(&["verify", &metadata.keyspace, &metadata.name])?
        .map_err(failure)?;
    let verified_s = start.elapsed().as_secs_f64();
    eprintln!("  {}: verified", format.name());

    let start = Instant::now();
    let data_file = info.descriptor.path(&data_folder, Component::Data);
    let counted = dump_and_count(&mut program, &data_file, &folder.join("dump"))?;
    let wanted = Counted {
        rows: u64::from(LARGE.rows),
        digits: 2 * LARGE.value_bytes(),
    };
    if counted != wanted {
        return Err(failure(format!("sstabledump has {counted:?} of {wanted:?}")));
    }
    let dumped_s = start.elapsed().as_secs_f64();
    drop(program);
    remove(&folder)?;
    Ok(format!(
        "| {} | {} | {} | {:.2} GB of rows | {written_s:.0} s | clean, {verified_s:.0} s | every row and digit, {dumped_s:.0} s \
         | {read} |\n",
        format.name(),
        compressor.unwrap_or("none"),
        info.row_count,
        info.data_bytes as f64 / 1e9,
    ))
}

/// The first, the last, the middle and rows beside a huge one, in both directions; then all of them in both.
fn read_by_us(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    info: &helenus_sstable::SsTableInfo,
    table: &helenus_schema::TableMetadata,
) -> Result<String, TaskError> {
    let told = |error: &dyn std::fmt::Display| failure(error.to_string());
    let sstable = SsTable::open(&**disk, folder, info.descriptor, table).map_err(|error| told(&error))?;
    let before = resident_bytes("VmRSS:");
    // Resets the peak, where the kernel lets us.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let start = Instant::now();
    let places = [
        0,
        1,
        LARGE.huge_every - 1,
        LARGE.rows / 2,
        LARGE.rows - LARGE.huge_every,
        LARGE.rows - 3,
    ];
    for reversed in [false, true] {
        for place in places {
            let read = LARGE
                .read_around(&sstable, place, reversed)
                .map_err(|error| told(&error))?;
            if (read.rows, read.wrong) != (3, 0) {
                return Err(failure(format!("row {place}, reversed {reversed}: {read:?}")));
            }
        }
    }
    let places_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for reversed in [false, true] {
        let read = LARGE.read_all(&sstable, reversed).map_err(|error| told(&error))?;
        let wanted = LargeRead {
            rows: LARGE.rows,
            value_bytes: LARGE.value_bytes(),
            wrong: 0,
        };
        if read != wanted {
            return Err(failure(format!(
                "all, reversed {reversed}: {read:?} of {wanted:?}"
            )));
        }
    }
    let scans_s = start.elapsed().as_secs_f64();
    let grown = resident_bytes("VmHWM:").saturating_sub(before);
    if grown > MEMORY_BYTES_MAX {
        return Err(failure(format!("reading took {grown} bytes of memory")));
    }
    Ok(format!(
        "12 places {places_s:.1} s, scan and reversed scan {scans_s:.0} s, {} MiB",
        grown >> 20
    ))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    rows: u64,
    /// Hexadecimal ones, of all values.
    digits: u64,
}

/// The dump goes through a pipe: it is twice the partition.
fn dump_and_count(program: &mut ProofProgram, data_file: &Path, pipe: &Path) -> Result<Counted, TaskError> {
    process::run(Command::new("mkfifo").arg(pipe))?;
    let reader = {
        let pipe = pipe.to_path_buf();
        thread::spawn(move || File::open(pipe).map(|pipe| count(BufReader::with_capacity(1 << 16, pipe))))
    };
    let words = ["dump", &data_file.to_string_lossy(), &pipe.to_string_lossy()];
    program.run(&words)?.map_err(failure)?;
    match reader.join() {
        Ok(Ok(counted)) => Ok(counted),
        _ => Err(failure("the dump cannot be read".to_owned())),
    }
}

fn count(mut dump: impl BufRead) -> Counted {
    const VALUE: &str = "\"value\" : \"0x";
    let mut counted = Counted::default();
    let mut line = Vec::new();
    // A line is a value at most.
    let line_bytes_max = 4 * LARGE.huge_bytes as u64;
    loop {
        line.clear();
        match dump.by_ref().take(line_bytes_max).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return counted,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        counted.rows += u64::from(text.contains("\"type\" : \"row\""));
        if let Some((_, value)) = text.split_once(VALUE) {
            counted.digits += value.split('"').next().map_or(0, str::len) as u64;
        }
    }
}

fn resident_bytes(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

fn failure(reason: String) -> TaskError {
    TaskError::Interchange { reason }
}
