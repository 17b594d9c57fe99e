//! Bringing a folder of SSTables into a table, such as a snapshot that Cassandra made: schema first, then every file
//! is read once, then all of them become the table's at one moment.

mod origin;
mod schema;
mod take;

pub use origin::Origin;
pub(crate) use origin::origin_of_folder;
pub use schema::{SchemaSource, TextSchema};
pub use take::{ImportOptions, Imported, Refused, import};

use std::path::PathBuf;

use helenus_storage::store::AdoptionError;

use crate::host::HostError;
use crate::target::TargetError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "{} does not say which table it is of; name it with --keyspace and --table",
        folder.display()
    )]
    UnknownTable { folder: PathBuf },
    #[error(
        "{} has statements about {found} beside the table {wanted} that it makes; an import executes none of them: take \
         them out of the file, and execute them yourself if they are wanted",
        path.display()
    )]
    ForeignStatement {
        path: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("{} makes no table", path.display())]
    NoTableInText { path: PathBuf },
    #[error(
        "{} makes {found}, but {wanted} was asked for; create the table and import into that",
        path.display()
    )]
    OtherTable {
        path: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("{keyspace}.{table} serves rows that are made from code and takes no files")]
    SystemTable { keyspace: String, table: String },
    #[error(
        "{count} of the SSTables cannot be taken, the first because: {first}; nothing was imported. --skip-bad takes the \
         rest, `helenus sstable scrub` saves what can be read"
    )]
    Bad { count: usize, first: String },
    #[error("none of the SSTables can be taken, the first because: {first}")]
    AllBad { first: String },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Adoption(#[from] AdoptionError),
    #[error(transparent)]
    Host(#[from] HostError),
}
