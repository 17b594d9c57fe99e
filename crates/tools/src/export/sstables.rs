//! The same rows and deletions in files of another version.

use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_sstable::source::PartitionScanner;
use helenus_sstable::{
    EncodingStatsCollector, PageCache, SsTableFormat, SsTableId, SsTableWriter, WriterOptions,
};
use helenus_storage::compaction::{PurgeRule, Rewritten, rewrite_partition};
use helenus_vfs::Disk;

use super::{ExportError, Exported};
use crate::progress::{Progress, Unit};
use crate::scrub::next_number;
use crate::target::Target;

/// A pass reads every page once.
const CACHE_BYTES: usize = 4 << 20;

/// Writes each SSTable anew into a folder: nothing is merged and nothing is left out.
pub fn export_sstables(
    disk: &Arc<dyn Disk>,
    targets: &[Target],
    format: SsTableFormat,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Exported, ExportError> {
    let failed = |source| ExportError::Io {
        path: out.to_path_buf(),
        source,
    };
    disk.create_dir_all(out).map_err(failed)?;
    let mut exported = Exported::default();
    for target in targets {
        let table = Arc::new(target.metadata(&**disk)?.table("", "")?);
        let sstable = target.open(&**disk, &table)?;
        let layout = TableLayout::of(&table);
        let mut stats = EncodingStatsCollector::default();
        stats.merge(sstable.encoding_stats());
        let options = WriterOptions {
            partition_count_estimate: sstable.statistics().partition_count(),
            encoding_stats: stats.finish(),
            format,
            ..WriterOptions::of(&table)
        };
        let id = SsTableId::Number(next_number(&**disk, out).map_err(failed)?);
        let mut writer = SsTableWriter::new(Arc::clone(disk), out, id, &table, options)?;
        let mut scratch = Rewritten::default();
        let cache = PageCache::new(CACHE_BYTES);
        let slices = [Slice::all()];
        let (start, end) = PartitionRange::everything().bounds();
        let mut scanner = sstable.scan(&cache, start, end, &slices, false);
        progress.begin("exporting", Unit::Bytes, sstable.data_bytes());
        while scanner.advance()? {
            let (token, key) = scanner.position();
            let key = key.to_vec();
            progress.at(scanner.data_position().unwrap_or(0));
            let mut cursor = scanner.open_in_file()?;
            rewrite_partition(
                &layout,
                token,
                &key,
                &mut cursor,
                PurgeRule::KeepAll,
                (&mut writer).into(),
                &mut scratch,
            )?;
        }
        if writer.partition_count() == 0 {
            writer.abandon()?;
            continue;
        }
        let written = writer.finish()?;
        exported
            .files
            .push(out.join(written.descriptor.to_string()).display().to_string());
        exported.partitions += written.partition_count;
        exported.rows += written.row_count;
        exported.bytes += written.disk_bytes;
    }
    Ok(exported)
}
