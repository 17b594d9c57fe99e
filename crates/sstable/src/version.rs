//! The versions of SSTables, and what sets them apart.
//!
//! A version is the two letters that a file name begins with. The facts below are those of Cassandra 5.0; which bytes
//! follow from them stands in `docs/formats/sstable.md`.

use std::fmt;

use helenus_schema::SsTableFormat;

/// Every version that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Cassandra 3.0.0: rows as they are today.
    Ma,
    /// 3.0.7: where the commit log was when the file began.
    Mb,
    /// 3.0.8: intervals of the commit log.
    Mc,
    /// 3.0.18 and 3.11.4: smallest and largest clustering can be trusted.
    Md,
    /// 3.0.25 and 3.11.11, and what ScyllaDB writes: the node that wrote the file.
    Me,
    /// 4.0 before its release: checksums in Statistics.db, another bloom filter.
    Na,
    /// 4.0 to 5.0.
    Nb,
    /// 5.0 where it need not be read by 4.x: times up to 2106, covered slice, first and last key in Statistics.db.
    Oa,
    /// 5.0 with tries as indexes; otherwise as `oa`.
    Da,
}

/// How a file is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexForm {
    /// Index.db and Summary.db.
    Big,
    /// Partitions.db and Rows.db.
    Bti,
}

impl IndexForm {
    /// As in a file name.
    pub fn name(self) -> &'static str {
        match self {
            IndexForm::Big => "big",
            IndexForm::Bti => "bti",
        }
    }
}

impl Version {
    pub const ALL: [Version; 9] = [
        Version::Ma,
        Version::Mb,
        Version::Mc,
        Version::Md,
        Version::Me,
        Version::Na,
        Version::Nb,
        Version::Oa,
        Version::Da,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Version::Ma => "ma",
            Version::Mb => "mb",
            Version::Mc => "mc",
            Version::Md => "md",
            Version::Me => "me",
            Version::Na => "na",
            Version::Nb => "nb",
            Version::Oa => "oa",
            Version::Da => "da",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }

    pub fn index_form(self) -> IndexForm {
        if self == Version::Da {
            IndexForm::Bti
        } else {
            IndexForm::Big
        }
    }

    /// Statistics.db says up to where the commit log was flushed.
    pub(crate) fn has_commit_log_lower_bound(self) -> bool {
        self >= Version::Mb
    }

    pub(crate) fn has_commit_log_intervals(self) -> bool {
        self >= Version::Mc
    }

    /// Statistics.db has a smallest and a largest clustering prefix, without their kinds.
    pub(crate) fn has_legacy_min_max(self) -> bool {
        self < Version::Oa
    }

    /// Those cover all that the file holds. Before, range deletions could lie outside of them.
    pub(crate) fn has_accurate_min_max(self) -> bool {
        self >= Version::Md
    }

    /// Statistics.db has the slice that all rows and range deletions lie in, with the kinds of its bounds.
    pub(crate) fn has_covered_slice(self) -> bool {
        self >= Version::Oa
    }

    pub(crate) fn has_originating_host_id(self) -> bool {
        self == Version::Me || self >= Version::Nb
    }

    pub(crate) fn has_pending_repair(self) -> bool {
        self >= Version::Na
    }

    pub(crate) fn has_is_transient(self) -> bool {
        self >= Version::Na
    }

    /// Each component of Statistics.db, and its table of contents, has a CRC32.
    pub fn has_metadata_checksum(self) -> bool {
        self >= Version::Na
    }

    /// CompressionInfo.db has a length from which chunks are stored as they are.
    pub(crate) fn has_compressed_bytes_max(self) -> bool {
        self >= Version::Na
    }

    /// The words of Filter.db are written as big-endian numbers.
    pub(crate) fn has_big_endian_filter_words(self) -> bool {
        self < Version::Na
    }

    /// Statistics.db says whether any partition was deleted whole.
    pub(crate) fn has_partition_deletion_marker(self) -> bool {
        self >= Version::Oa
    }

    /// Statistics.db has the first and the last partition key.
    pub(crate) fn has_key_range(self) -> bool {
        self >= Version::Oa
    }

    /// Statistics.db has the share of the token space that the file covers.
    pub(crate) fn has_token_space_coverage(self) -> bool {
        self >= Version::Oa
    }

    /// Deletion times are unsigned numbers of seconds, which end in 2106 and not in 2038, and a whole deletion that
    /// deletes nothing takes one byte.
    pub fn has_unsigned_deletion_time(self) -> bool {
        self >= Version::Oa
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl From<SsTableFormat> for Version {
    fn from(format: SsTableFormat) -> Self {
        match format {
            SsTableFormat::Me => Version::Me,
            SsTableFormat::Nb => Version::Nb,
            SsTableFormat::Oa => Version::Oa,
            SsTableFormat::Da => Version::Da,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_by_their_letters_and_order() {
        assert!(Version::ALL.is_sorted());
        for version in Version::ALL {
            assert_eq!(Version::parse(version.name()), Some(version));
        }
        assert_eq!(Version::parse("lb"), None);
        assert_eq!(Version::parse("ob"), None);
        assert!(Version::Me.has_originating_host_id() && !Version::Na.has_originating_host_id());
        assert!(Version::Nb.has_legacy_min_max() && !Version::Da.has_legacy_min_max());
    }

    #[test]
    fn formats_are_named_as_their_versions() {
        for format in SsTableFormat::ALL {
            assert_eq!(Version::from(format).name(), format.name());
        }
    }
}
