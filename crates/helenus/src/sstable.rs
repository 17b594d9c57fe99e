//! `helenus sstable`: looking into files, checking them, and bringing them in.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use helenus_schema::TableMetadata;
use helenus_sstable::SsTableFormat;
use helenus_tools::control::Request;
use helenus_tools::dump::{DumpError, DumpOptions, Shape, dump};
#[cfg(feature = "parquet")]
use helenus_tools::export::export_parquet;
use helenus_tools::export::{ExportError, Exported, export_csv, export_sstables};
use helenus_tools::import::{ImportError, TextSchema};
use helenus_tools::metadata::metadata;
use helenus_tools::node_schema::table_of_node;
use helenus_tools::scrub::{Scrubbed, scrub};
use helenus_tools::target::{Target, TargetError, Targets};
use helenus_tools::verify::verify;
use helenus_vfs::{Clock, Disk, RealDisk, SystemClock};

use crate::operation::{NodeArguments, TableArguments};
use crate::snapshot::answer;
use crate::terminal::{Bar, FOUND_DAMAGE, bytes_text, fail, print_json};

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum SsTableCommand {
    /// The content as JSON, byte for byte as Cassandra's sstabledump prints it.
    Dump(DumpArguments),
    /// Check everything: checksums, order, index, filter, statistics. Exit code 2 if something is wrong.
    Verify(VerifyArguments),
    /// Metadata of an SSTable: times, histograms, types. As Cassandra's sstablemetadata.
    Metadata(MetadataArguments),
    /// Save what is good of damaged SSTables into new ones. No node may run on the folder.
    Scrub(ScrubArguments),
    /// The rows in another form: SSTables of another version, or CSV.
    Export(ExportArguments),
    /// Adopt a folder of SSTables, such as a snapshot of Cassandra's, into a table of a node.
    Import(ImportArguments),
    /// Those that a running node refused when it started: their tables are served without them.
    Refused {
        #[command(flatten)]
        node: NodeArguments,
    },
}

const EXAMPLES: &str = "Examples:
  helenus sstable dump nb-1-big-Data.db            all of it
  helenus sstable dump -k 42 -t nb-1-big-Data.db   one partition, times as numbers
  helenus sstable verify data/shop/cart-5a1c...    every SSTable of a table
  helenus sstable metadata nb-1-big-Data.db
  helenus sstable scrub data/shop/cart-5a1c...     keep what is good; the originals stay in a snapshot
  helenus sstable export --format me --out /tmp/me data/shop/cart-5a1c...
  helenus sstable export --format csv data/shop/cart-5a1c... > cart.csv
  helenus sstable import /backup/shop/cart-5a1c395eb41f11e59f22ba0be0483c18/snapshots/monday";

#[derive(Args)]
pub struct DumpArguments {
    /// A file of an SSTable, or a folder of them.
    path: PathBuf,
    /// Only this partition; may be given several times. Columns of the key are joined by colons.
    #[arg(short, long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Not this partition; may be given several times.
    #[arg(short = 'x', long = "exclude", value_name = "KEY")]
    excluded: Vec<String>,
    /// Times as numbers instead of dates.
    #[arg(short = 't', long)]
    raw_timestamps: bool,
    /// A line of JSON for each partition.
    #[arg(short, long, conflicts_with_all = ["internal", "enumerate_keys"])]
    lines: bool,
    /// A line of text for each row.
    #[arg(short = 'd', long, conflicts_with = "enumerate_keys")]
    internal: bool,
    /// The keys alone.
    #[arg(short, long)]
    enumerate_keys: bool,
}

#[derive(Args)]
pub struct MetadataArguments {
    /// Files of SSTables, or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// A line of JSON for each SSTable.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct ScrubArguments {
    /// Files of SSTables, or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Write the new SSTables there and leave the old ones; else they take the place of the old ones, which stay in
    /// snapshots/pre-scrub-<milliseconds>.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A line of JSON for each SSTable.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct ExportArguments {
    /// A file of an SSTable, or a folder of them: those are merged for csv and parquet, kept apart else.
    path: PathBuf,
    #[arg(long)]
    format: ExportFormat,
    /// Where to [default for csv: standard output].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// For the names of key columns, instead of the folder's schema.cql.
    #[arg(long, value_name = "FILE.cql")]
    schema: Option<PathBuf>,
    /// One line of JSON about what was written.
    #[arg(long, requires = "out")]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ExportFormat {
    /// For Cassandra 3.11 and ScyllaDB.
    Me,
    /// For Cassandra 4.0 and later.
    Nb,
    /// For Cassandra 5.0.
    Oa,
    /// For Cassandra 5.0, with tries as indexes.
    Da,
    /// The live rows, as cqlsh's COPY has them.
    Csv,
    /// The live rows, in Parquet's types: numbers, times, dates, uuids and blobs as such; varint, decimal, inet and
    /// duration as text; collections, tuples, user types and vectors as JSON.
    Parquet,
}

#[derive(Args)]
pub struct VerifyArguments {
    /// Files of SSTables, or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// A line of JSON for each SSTable.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct ImportArguments {
    /// The folder with the files; a schema.cql in it makes the table if the node has none.
    folder: PathBuf,
    #[command(flatten)]
    tables: TableArguments,
    /// Makes the table, instead of the folder's schema.cql.
    #[arg(long, value_name = "FILE.cql")]
    schema: Option<PathBuf>,
    /// Take the good SSTables where others are bad, instead of none.
    #[arg(long)]
    skip_bad: bool,
    /// Copy the files instead of linking them.
    #[arg(long)]
    copy: bool,
    /// Remove what the table held.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    node: NodeArguments,
}

pub fn run(command: &SsTableCommand) -> ExitCode {
    match command {
        SsTableCommand::Dump(arguments) => match run_dump(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            // The reader of a pipe has seen enough.
            Err(DumpError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                ExitCode::SUCCESS
            }
            Err(error) => fail("sstable dump", &error),
        },
        SsTableCommand::Verify(arguments) => run_verify(arguments),
        SsTableCommand::Metadata(arguments) => run_metadata(arguments),
        SsTableCommand::Scrub(arguments) => run_scrub(arguments),
        SsTableCommand::Export(arguments) => match run_export(arguments) {
            Ok(code) => code,
            Err(error) => fail("sstable export", &error),
        },
        SsTableCommand::Import(arguments) => run_import(arguments),
        SsTableCommand::Refused { node } => answer("sstable refused", node, &Request::RefusedSsTables {}),
    }
}

fn run_dump(arguments: &DumpArguments) -> Result<(), DumpError> {
    let disk = RealDisk::new();
    let options = DumpOptions {
        shape: match (arguments.lines, arguments.internal, arguments.enumerate_keys) {
            (true, ..) => Shape::Lines,
            (_, true, _) => Shape::Internal,
            (.., true) => Shape::Keys,
            _ => Shape::Json,
        },
        keys: arguments.keys.clone(),
        excluded_keys: arguments.excluded.clone(),
        raw_times: arguments.raw_timestamps,
        now_s: SystemClock::new().wall_s(),
    };
    let bar = Bar::new();
    let mut out = BufWriter::new(std::io::stdout().lock());
    for target in targets(&disk, std::slice::from_ref(&arguments.path))? {
        dump(&disk, &target, &options, &mut out, &bar)?;
        if options.shape != Shape::Internal {
            out.write_all(b"\n")?;
        }
    }
    Ok(out.flush()?)
}

fn run_verify(arguments: &VerifyArguments) -> ExitCode {
    let disk = RealDisk::new();
    let targets = match targets(&disk, &arguments.paths) {
        Ok(targets) => targets,
        Err(error) => return fail("sstable verify", &error),
    };
    let mut is_sound = true;
    for target in targets {
        let bar = Bar::new();
        let verification = verify(&disk, &target, &bar);
        drop(bar);
        is_sound &= verification.is_sound();
        if arguments.json {
            print_json(&verification);
            continue;
        }
        let contents = verification.contents;
        println!(
            "{}: {} ({} partitions, {} rows, {} cells, {} range tombstone bounds)",
            verification.file,
            if verification.is_sound() {
                "sound"
            } else {
                "DAMAGED"
            },
            contents.partitions,
            contents.rows,
            contents.cells,
            contents.range_tombstones
        );
        for finding in &verification.findings {
            println!("  {finding}");
        }
    }
    if is_sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FOUND_DAMAGE)
    }
}

fn run_metadata(arguments: &MetadataArguments) -> ExitCode {
    let disk = RealDisk::new();
    let now_s = SystemClock::new().wall_s();
    let all = || {
        for target in targets(&disk, &arguments.paths)? {
            let found = metadata(&disk, &target, now_s)?;
            if arguments.json {
                print_json(&found);
            } else {
                println!("{found}");
            }
        }
        Ok::<(), TargetError>(())
    };
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail("sstable metadata", &error),
    }
}

fn run_scrub(arguments: &ScrubArguments) -> ExitCode {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let found = match targets(&*disk, &arguments.paths) {
        Ok(targets) => targets,
        Err(error) => return fail("sstable scrub", &error),
    };
    let backup = format!("pre-scrub-{}", SystemClock::new().wall_us() / 1000);
    let mut has_lost = false;
    for target in found {
        if arguments.out.is_none() && is_in_use(&target) {
            return fail(
                "sstable scrub",
                &format!(
                    "a node uses {}; stop it, or name another folder with --out",
                    target.folder.display()
                ),
            );
        }
        let bar = Bar::new();
        let scrubbed = scrub(&disk, &target, arguments.out.as_deref(), &backup, &bar);
        drop(bar);
        match scrubbed {
            Err(error) => {
                has_lost = true;
                fail("sstable scrub", &error);
            }
            Ok(scrubbed) => {
                has_lost |= !scrubbed.dropped.is_empty();
                if arguments.json {
                    print_json(&scrubbed);
                } else {
                    print_scrubbed(&scrubbed);
                }
            }
        }
    }
    if has_lost {
        ExitCode::from(FOUND_DAMAGE)
    } else {
        ExitCode::SUCCESS
    }
}

fn print_scrubbed(scrubbed: &Scrubbed) {
    println!(
        "{}: {} partitions and {} rows saved in {}; the original is in {}",
        scrubbed.file,
        scrubbed.partitions,
        scrubbed.rows,
        scrubbed.output.as_deref().unwrap_or("no file"),
        scrubbed.original
    );
    if let Some(damage) = &scrubbed.index_damage {
        println!("  the index is damaged ({damage}); nothing is lost by that alone");
    }
    for dropped in &scrubbed.dropped {
        println!(
            "  dropped from {} to {}, key {}: {}",
            dropped.from,
            dropped.to.map_or_else(|| "?".to_owned(), |to| to.to_string()),
            dropped.key.as_deref().unwrap_or("unknown"),
            dropped.reason
        );
    }
}

/// Returns whether a node runs on the data folder that a table's folder is in: `<data folder>/data/<keyspace>/<table>`.
fn is_in_use(target: &Target) -> bool {
    let folder = std::path::absolute(&target.folder).unwrap_or_else(|_| target.folder.clone());
    folder
        .ancestors()
        .nth(3)
        .is_some_and(helenus_tools::control::is_served)
}

fn run_export(arguments: &ExportArguments) -> Result<ExitCode, ExportError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let found = targets(&*disk, std::slice::from_ref(&arguments.path))?;
    let format = match arguments.format {
        ExportFormat::Me => SsTableFormat::Me,
        ExportFormat::Nb => SsTableFormat::Nb,
        ExportFormat::Oa => SsTableFormat::Oa,
        ExportFormat::Da => SsTableFormat::Da,
        ExportFormat::Csv => return run_export_csv(arguments, &disk, &found),
        ExportFormat::Parquet => return run_export_parquet(arguments, &disk, &found),
    };
    let Some(out) = &arguments.out else {
        return Ok(fail(
            "sstable export",
            &"SSTables need a folder; name one with --out",
        ));
    };
    let bar = Bar::new();
    let exported = export_sstables(&disk, &found, format, out, &bar)?;
    drop(bar);
    Ok(report_export(arguments, &exported))
}

/// The rows' table: by a schema.cql, else by the schema of the node whose folder it is, else by what the first file says.
fn table_of(
    arguments: &ExportArguments,
    disk: &Arc<dyn Disk>,
    found: &[Target],
) -> Result<Arc<TableMetadata>, ExportError> {
    let first = found.first().ok_or(ExportError::Nothing)?;
    match TextSchema::find(&**disk, &first.folder, arguments.schema.as_deref())? {
        Some(text) => Ok(text.table_metadata()?),
        None => match table_of_node(disk, &std::path::absolute(&first.folder)?).map_err(ImportError::from)? {
            Some(table) => Ok(table),
            None => Ok(Arc::new(first.metadata(&**disk)?.table("", "table")?)),
        },
    }
}

#[cfg(feature = "parquet")]
fn run_export_parquet(
    arguments: &ExportArguments,
    disk: &Arc<dyn Disk>,
    found: &[Target],
) -> Result<ExitCode, ExportError> {
    let table = table_of(arguments, disk, found)?;
    let Some(out) = &arguments.out else {
        return Ok(fail(
            "sstable export",
            &"Parquet needs a folder; name one with --out",
        ));
    };
    let now_s = SystemClock::new().wall_s();
    std::fs::create_dir_all(out)?;
    let path = out.join(format!("{}.parquet", table.name));
    let mut file = BufWriter::new(std::fs::File::create_new(&path)?);
    let bar = Bar::new();
    let mut exported = export_parquet(&**disk, found, &table, now_s, &mut file, &bar)?;
    file.flush()?;
    drop(bar);
    exported.files.push(path.display().to_string());
    Ok(report_export(arguments, &exported))
}

#[cfg(not(feature = "parquet"))]
fn run_export_parquet(_: &ExportArguments, _: &Arc<dyn Disk>, _: &[Target]) -> Result<ExitCode, ExportError> {
    Err(ExportError::NoParquet)
}

fn run_export_csv(
    arguments: &ExportArguments,
    disk: &Arc<dyn Disk>,
    found: &[Target],
) -> Result<ExitCode, ExportError> {
    let table = table_of(arguments, disk, found)?;
    let now_s = SystemClock::new().wall_s();
    let bar = Bar::new();
    let Some(out) = &arguments.out else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        export_csv(&**disk, found, &table, now_s, &mut out, &bar)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(out)?;
    let path = out.join(format!("{}.csv", table.name));
    let mut file = BufWriter::new(std::fs::File::create_new(&path)?);
    let mut exported = export_csv(&**disk, found, &table, now_s, &mut file, &bar)?;
    file.flush()?;
    drop(bar);
    exported.files.push(path.display().to_string());
    Ok(report_export(arguments, &exported))
}

fn report_export(arguments: &ExportArguments, exported: &Exported) -> ExitCode {
    if arguments.json {
        return print_json(exported);
    }
    println!(
        "{} partitions, {} rows, {} in {}",
        exported.partitions,
        exported.rows,
        bytes_text(exported.bytes),
        exported.files.join(", ")
    );
    ExitCode::SUCCESS
}

fn run_import(arguments: &ImportArguments) -> ExitCode {
    // The node may run elsewhere than this command does.
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let request = Request::Import {
        folder: absolute(&arguments.folder),
        tables: arguments.tables.choice(),
        schema_file: arguments.schema.as_ref().map(absolute),
        skip_bad: arguments.skip_bad,
        copy: arguments.copy,
        replace: arguments.replace,
    };
    answer("sstable import", &arguments.node, &request)
}

fn targets(disk: &dyn Disk, paths: &[PathBuf]) -> Result<Vec<Target>, TargetError> {
    let mut targets = Vec::new();
    for path in paths {
        targets.extend(Targets::find(disk, path)?.all()?);
    }
    Ok(targets)
}
