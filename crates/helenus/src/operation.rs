//! Requests of operators: through the control socket where a node runs on the data folder, else on the files
//! themselves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use helenus_tools::control::{Answer, ClientError, ExecuteError, Request, ask, execute, is_served};
use helenus_tools::host::{HostError, TableChoice};
use helenus_tools::progress::Progress;
use helenus_tools::stopped_node::StoppedNode;
use helenus_vfs::{RealDisk, SystemClock};

#[derive(Args)]
pub struct NodeArguments {
    /// The node's data folder; the node may be running or not.
    #[arg(long, value_name = "DIR", default_value = "./helenus-data")]
    pub data: PathBuf,
    /// One line of JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct TableArguments {
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// A table of --keyspace, or KEYSPACE.TABLE.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    #[error("{} is no data folder; name one with --data", folder.display())]
    NoFolder { folder: PathBuf },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("no node runs on {}; this needs one", folder.display())]
    NeedsNode { folder: PathBuf },
}

impl TableArguments {
    pub fn choice(&self) -> TableChoice {
        TableChoice::of(self.keyspace.as_deref(), self.table.as_deref())
    }
}

/// Carries out a request on whoever has the data.
pub fn perform(data: &Path, request: &Request, progress: &dyn Progress) -> Result<Answer, OperationError> {
    if is_served(data) {
        return Ok(ask(data, request, progress)?);
    }
    if !data.is_dir() {
        return Err(OperationError::NoFolder {
            folder: data.to_path_buf(),
        });
    }
    if request.needs_node() {
        return Err(OperationError::NeedsNode {
            folder: data.to_path_buf(),
        });
    }
    let node = StoppedNode::open(Arc::new(RealDisk::new()), Arc::new(SystemClock::new()), data)?;
    Ok(execute(&node, request, progress)?)
}
