//! Single bits flipped in every component of every format, and files cut short or missing: what is read is right, or
//! it is refused with the file, the offset, what was wanted and what was found.
//!
//! `cargo xtask bit-flips` runs the long form and writes `docs/measurements/bit-flips.md`, by these variables:
//! `HELENUS_BIT_FLIPS_FILES`, `HELENUS_BIT_FLIPS` (per component), `HELENUS_BIT_FLIPS_SEED` and
//! `HELENUS_BIT_FLIPS_REPORT`.

mod campaign;
mod reading;

use std::fmt::Write as _;

use helenus_sstable::{Component, SsTableFormat};

use campaign::{Campaign, Count};

/// Some seconds in a debug build.
const FILES_SHORT: u64 = 5;
const FLIPS_SHORT: u64 = 12;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[test]
fn damage_is_detected_or_harmless() {
    let files = setting("HELENUS_BIT_FLIPS_FILES", FILES_SHORT);
    let flips = setting("HELENUS_BIT_FLIPS", FLIPS_SHORT);
    let first = setting("HELENUS_BIT_FLIPS_SEED", 1);
    let mut campaign = Campaign::new(first, flips);
    // A panic that is caught is counted; its text would drown everything else.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for seed in first..first + files {
        campaign.run(seed, &SsTableFormat::ALL);
        eprintln!(
            "{} of {files} files, {} complaints",
            seed - first + 1,
            campaign.complaints.len()
        );
    }
    std::panic::set_hook(hook);
    let report = report(&campaign, files, flips, first);
    if let Some(path) = std::env::var_os("HELENUS_BIT_FLIPS_REPORT") {
        std::fs::write(&path, &report).unwrap();
    }
    let flipped: usize = campaign.counts.values().map(|count| count.flips).sum();
    let detected: usize = campaign.counts.values().map(|count| count.detected).sum();
    assert!(flipped > 0 && detected > 0);
    let shown: Vec<&String> = campaign.complaints.iter().take(20).collect();
    assert!(
        campaign.complaints.is_empty(),
        "{}: {shown:#?}",
        campaign.complaints.len()
    );
}

/// Reading took 1.1 to 2.6 times the memory that the files' sizes account for: damaged lengths of data made room for chunks
/// that were not as long, and index blocks that overlapped were read as one.
#[test]
fn damaged_lengths_take_no_memory() {
    use SsTableFormat::{Da, Me, Nb, Oa};
    let flips = [
        (9109, Me, Component::CompressionInfo, 239),
        (9109, Nb, Component::CompressionInfo, 271),
        (9112, Oa, Component::CompressionInfo, 302),
        (9111, Me, Component::Index, 2360),
        (9111, Me, Component::Index, 7640),
        (9111, Oa, Component::Index, 3312),
    ];
    for (seed, format, component, bit) in flips {
        assert_eq!(Campaign::flip(seed, format, component, bit), Ok("detected"));
    }
    assert_eq!(Campaign::flip(9111, Da, Component::Rows, 10309), Ok("harmless"));
}

fn report(campaign: &Campaign, files: u64, flips: u64, seed: u64) -> String {
    let mut out = format!(
        "# Flipped bits\n\n`cargo xtask bit-flips --files {files} --flips {flips} --seed {seed}`: one bit at a time, then \
         everything read: scans and point reads in both directions, slices, missing keys. Detected: refused with file, \
         offset, wanted and found. Refused: by name, such as another compressor. Harmless: all rows as written. Wrong \
         rows can come only from files without our Checksums.db, where the format has no checksum. Faults are panics, \
         reads without end, errors of another kind and allocations beyond the file's size.\n\n\
         | files | format | compressor | component | flips | detected | refused | harmless | wrong | faults | cuts | cuts \
         detected |\n|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for ((origin, format, compressor, component), count) in &campaign.counts {
        let Count {
            flips,
            detected,
            refused,
            harmless,
            wrong,
            faults,
            cuts,
            cuts_detected,
        } = count;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {origin:?} | {format} | {compressor} | {component} | {flips} | {detected} | {refused} | {harmless} | \
             {wrong} | {faults} | {cuts} | {cuts_detected} |"
        );
    }
    let _ = writeln!(out, "\n{} complaints.", campaign.complaints.len());
    for complaint in campaign.complaints.iter().take(100) {
        let _ = writeln!(out, "- {complaint}");
    }
    out
}
