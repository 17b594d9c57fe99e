//! Figures of a measured process: its threads' times from Linux, and the values of a page of figures.

use std::fs;
use std::path::PathBuf;

use crate::TaskError;

/// Since the thread began, by the scheduler's own accounts.
pub struct ThreadTime {
    pub id: String,
    /// As Linux keeps it, 15 bytes.
    pub name: String,
    pub nanoseconds: u64,
}

/// Reads the times of all threads of a process. One that ends meanwhile is left out.
pub fn thread_times(process_id: u32) -> Result<Vec<ThreadTime>, TaskError> {
    let path = PathBuf::from(format!("/proc/{process_id}/task"));
    let failed = |source| TaskError::File {
        path: path.clone(),
        source,
    };
    let mut times = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else {
            continue;
        };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let nanoseconds = text.split_ascii_whitespace().next();
        times.push(ThreadTime {
            id: entry.file_name().to_string_lossy().into_owned(),
            name,
            nanoseconds: nanoseconds.and_then(|word| word.parse().ok()).unwrap_or(0),
        });
    }
    Ok(times)
}

/// The number in the line that begins with `name`; of several, their sum.
pub fn value_of(text: &str, name: &str) -> f64 {
    text.lines()
        .filter(|line| line.starts_with(name))
        .filter_map(|line| line.split_whitespace().find_map(|word| word.parse::<f64>().ok()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_of_several_shards_is_their_sum() {
        let page =
            "helenus_disk_reads_total{shard=\"0\"} 3\nhelenus_disk_reads_total{shard=\"1\"} 4\nother 9\n";
        assert_eq!(value_of(page, "helenus_disk_reads_total"), 7.0);
        assert_eq!(value_of("VmRSS:\t  12 kB\n", "VmRSS:"), 12.0);
    }

    #[test]
    fn the_threads_of_this_process_are_found() {
        let times = thread_times(std::process::id()).unwrap();
        assert!(
            times
                .iter()
                .any(|thread| thread.nanoseconds > 0 && !thread.name.is_empty())
        );
    }
}
