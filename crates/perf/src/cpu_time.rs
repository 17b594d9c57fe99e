//! How much processor time a process has used, from the operating system.

use std::io;

/// Clock ticks per second of `/proc/PID/stat`: 100 on every Linux that Rust runs on (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system time of all threads of a process, in seconds.
pub fn process_cpu_seconds(pid: u32) -> io::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command's name is in parentheses and may hold spaces; utime and stime are the 12th and 13th field behind it.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || {
        times
            .next()
            .and_then(|ticks| ticks.parse::<f64>().ok())
            .ok_or(io::ErrorKind::InvalidData)
    };
    Ok((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// Processor time of the calling thread, in seconds.
pub fn thread_cpu_seconds() -> io::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_ascii_whitespace().next();
    let nanoseconds: Option<f64> = nanoseconds.and_then(|text| text.parse().ok());
    nanoseconds
        .map(|nanoseconds| nanoseconds / 1e9)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The resident memory of a process, in bytes.
pub fn process_resident_bytes(pid: u32) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
    });
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
