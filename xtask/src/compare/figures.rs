//! Figures of a measured process as Linux keeps them, the values of a page of figures, and medians.

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

/// User and system time of a process; 0 for one that is gone. The ticks are hundredths of a second on every Linux.
pub fn cpu_seconds(process_id: u32) -> f64 {
    cpu_seconds_in(&proc_file(process_id, "stat"))
}

fn cpu_seconds_in(stat: &str) -> f64 {
    let (_, behind_name) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most that was resident of a process; 0 for one that is gone.
pub fn resident_bytes_max(process_id: u32) -> u64 {
    value_of(&proc_file(process_id, "status"), "VmHWM:") as u64 * 1024
}

/// A file that Linux keeps of a process; empty for one that is gone.
pub fn proc_file(process_id: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{process_id}/{name}")).unwrap_or_default()
}

/// The middle one, of two the later; not a number where there is none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 1 2 3";
        assert_eq!(cpu_seconds_in(stat), 3.0);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
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
