//! `helenus sstable`: looking into files, checking them, and bringing them in.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use helenus_tools::control::Request;
use helenus_tools::dump::{DumpError, DumpOptions, Shape, dump};
use helenus_tools::target::{Target, TargetError, Targets};
use helenus_tools::verify::verify;
use helenus_vfs::{Clock, RealDisk, SystemClock};

use crate::operation::{NodeArguments, TableArguments};
use crate::snapshot::answer;
use crate::terminal::{Bar, FOUND_DAMAGE, fail, print_json};

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum SsTableCommand {
    /// The content as JSON, byte for byte as Cassandra's sstabledump prints it.
    Dump(DumpArguments),
    /// Check everything: checksums, order, index, filter, statistics. Exit code 2 if something is wrong.
    Verify(VerifyArguments),
    /// Adopt a folder of SSTables, such as a snapshot of Cassandra's, into a table of a node.
    Import(ImportArguments),
}

const EXAMPLES: &str = "Examples:
  helenus sstable dump nb-1-big-Data.db            all of it
  helenus sstable dump -k 42 -t nb-1-big-Data.db   one partition, times as numbers
  helenus sstable verify data/shop/cart-5a1c...    every SSTable of a table
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
    /// What the table held goes.
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
        SsTableCommand::Import(arguments) => run_import(arguments),
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

fn targets(disk: &RealDisk, paths: &[PathBuf]) -> Result<Vec<Target>, TargetError> {
    let mut targets = Vec::new();
    for path in paths {
        targets.extend(Targets::find(disk, path)?.all()?);
    }
    Ok(targets)
}
