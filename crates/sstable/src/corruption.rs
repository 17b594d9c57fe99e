//! Bytes of a file that are not what its format or its checksums require.

use std::path::PathBuf;

#[derive(Debug)]
pub(crate) struct Corruption {
    pub file: PathBuf,
    pub offset: u64,
    pub wanted: &'static str,
    pub found: String,
}
