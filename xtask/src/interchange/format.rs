//! The versions of SSTables that are exchanged.

use helenus_sstable::{SsTableFormat, Version};
use helenus_storage_model::Era;

/// The version of this name.
pub fn parse(name: &str) -> Result<SsTableFormat, String> {
    let known = SsTableFormat::ALL.map(SsTableFormat::name).join(", ");
    let found = SsTableFormat::ALL
        .into_iter()
        .find(|format| format.name() == name);
    found.ok_or_else(|| format!("no version {name:?}; known: {known}"))
}

/// When things may be written and expire.
pub fn era(format: SsTableFormat) -> Era {
    if Version::from(format).has_unsigned_deletion_time() {
        Era::UNSIGNED
    } else {
        Era::SIGNED
    }
}

/// Lines of `cassandra.yaml` that make Cassandra write the version; it writes `nb` in place of `me`, which it can only
/// read.
pub fn settings(format: SsTableFormat) -> &'static [&'static str] {
    match format {
        SsTableFormat::Me | SsTableFormat::Nb => &[],
        SsTableFormat::Oa => &["storage_compatibility_mode: NONE"],
        SsTableFormat::Da => &[
            "storage_compatibility_mode: NONE",
            "sstable: {selected_format: bti}",
        ],
    }
}
