//! The files that an SSTable consists of.

use crate::version::IndexForm;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    Data,
    /// Where partitions are, in the `big` form: a list.
    Index,
    /// Where partitions are, in the `bti` form: a trie.
    Partitions,
    /// Where the rows of large partitions are, in the `bti` form.
    Rows,
    Filter,
    CompressionInfo,
    Statistics,
    /// Decimal CRC32 of the whole data file.
    Digest,
    /// Chunk checksums of an uncompressed data file.
    Crc,
    Summary,
    /// CRC32s of what the format itself leaves unchecked: ours, ignored by Cassandra, absent from its files.
    Checksums,
    /// The rows of large partitions, by block: ours, ignored by Cassandra, absent from its files.
    Blocks,
    /// Where the first partition of each page of Data.db is: ours, ignored by Cassandra, absent from its files.
    Fences,
    /// Written last, by rename: an SSTable exists if its TOC does.
    Toc,
}

impl Component {
    pub const ALL: [Component; 14] = [
        Component::Data,
        Component::Index,
        Component::Partitions,
        Component::Rows,
        Component::Filter,
        Component::CompressionInfo,
        Component::Statistics,
        Component::Digest,
        Component::Crc,
        Component::Summary,
        Component::Checksums,
        Component::Blocks,
        Component::Fences,
        Component::Toc,
    ];

    pub fn file_suffix(self) -> &'static str {
        match self {
            Component::Data => "Data.db",
            Component::Index => "Index.db",
            Component::Partitions => "Partitions.db",
            Component::Rows => "Rows.db",
            Component::Filter => "Filter.db",
            Component::CompressionInfo => "CompressionInfo.db",
            Component::Statistics => "Statistics.db",
            Component::Digest => "Digest.crc32",
            Component::Crc => "CRC.db",
            Component::Summary => "Summary.db",
            Component::Checksums => "Checksums.db",
            Component::Blocks => "Blocks.db",
            Component::Fences => "Fences.db",
            Component::Toc => "TOC.txt",
        }
    }

    pub fn by_file_suffix(suffix: &str) -> Option<Self> {
        Component::ALL
            .into_iter()
            .find(|component| component.file_suffix() == suffix)
    }

    /// Without these nothing can be read; the others can be made again or done without.
    pub fn mandatory(form: IndexForm) -> &'static [Component] {
        match form {
            IndexForm::Big => &[Component::Data, Component::Index, Component::Statistics],
            IndexForm::Bti => &[
                Component::Data,
                Component::Partitions,
                Component::Rows,
                Component::Statistics,
            ],
        }
    }
}
