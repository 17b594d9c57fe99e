//! Verifying an SSTable: every checksum, every row in its place, and what index, filter and statistics say of them.

mod contents;
mod digest;
mod finding;

pub use contents::Contents;
pub(crate) use contents::check_contents;
pub use finding::Finding;

use helenus_schema::TableMetadata;
use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use crate::target::{Target, TargetError};

/// Contents of one SSTable, and findings about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub file: String,
    #[serde(flatten)]
    pub contents: Contents,
    pub findings: Vec<Finding>,
}

impl Verification {
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Verifies one SSTable against itself; its table's types come from its own header.
pub fn verify(disk: &dyn Disk, target: &Target, progress: &dyn Progress) -> Verification {
    let mut verification = Verification {
        file: target.label(),
        contents: Contents::default(),
        findings: Vec::new(),
    };
    verification
        .findings
        .extend(digest::check_components(disk, target));
    verification.findings.extend(digest::check_digest(disk, target));
    let table = match target
        .metadata(disk)
        .and_then(|metadata| Ok(metadata.table("", "")?))
    {
        Ok(table) => table,
        Err(error) => {
            verification.findings.push(finding_of(error));
            return verification;
        }
    };
    match read(disk, target, &table, progress) {
        Ok((contents, findings)) => {
            verification.contents = contents;
            verification.findings.extend(findings);
        }
        Err(finding) => verification.findings.push(finding),
    }
    verification.findings.dedup();
    verification
}

fn read(
    disk: &dyn Disk,
    target: &Target,
    table: &TableMetadata,
    progress: &dyn Progress,
) -> Result<(Contents, Vec<Finding>), Finding> {
    let sstable = target.open(disk, table).map_err(finding_of)?;
    let (contents, mut findings) = check_contents(&sstable, table, &target.label(), progress)?;
    for fault in sstable.sidecar_faults() {
        let helenus_sstable::Sidecar::Component(component) = fault.sidecar else {
            continue;
        };
        let file = target.descriptor.path(&target.folder, component);
        findings.push(Finding::of_file(
            file.display().to_string(),
            "a component that can be read",
            fault.reason.clone(),
        ));
    }
    Ok((contents, findings))
}

fn finding_of(error: TargetError) -> Finding {
    match error {
        TargetError::Open(error) => Finding::from(error),
        other => Finding::of_file(String::new(), "an SSTable that can be opened", other.to_string()),
    }
}
