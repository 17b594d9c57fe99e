//! How much of four traces the cache has, beside other orders of eviction, and beside the best that one could do who knew the future.

mod policies;

use policies::{best, best_fixed, least_frequently_used, least_recently_used, s3_fifo};

use crate::block::segmented_pages::SegmentedPages;

const PAGE_BYTES: usize = 4 << 10;
/// Pages that each may hold; overheads are left out.
const CACHE_PAGES: usize = 2_000;
const PAGES: u64 = 20_000;
const REQUESTS: usize = 200_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Page `n` is asked for in proportion to `n^-0.99`.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new() -> Self {
        let mut sum = 0.0;
        let weights = (1..=PAGES).map(|page| {
            sum += (page as f64).powf(-0.99);
            sum
        });
        Zipf(weights.collect())
    }

    fn next(&self, random: &mut Random) -> u64 {
        let at = random.fraction() * self.0.last().unwrap();
        // Neighbours in popularity are not neighbours in the files.
        (self.0.partition_point(|sum| *sum < at) as u64).wrapping_mul(7_919) % PAGES
    }
}

fn zipf() -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(), Random(1));
    (0..REQUESTS).map(|_| zipf.next(&mut random)).collect()
}

/// A tenth of the requests goes once over pages that nobody comes back to.
fn zipf_and_scans() -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(), Random(2));
    let mut passed = PAGES;
    let requests = (0..REQUESTS).map(|at| match at % 20_000 < 2_000 {
        true => {
            passed += 1;
            passed
        }
        false => zipf.next(&mut random),
    });
    requests.collect()
}

/// Requests whose popular pages change four times.
fn shifting() -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(), Random(3));
    let shift = |at: usize| (at / (REQUESTS / 5)) as u64 * 5_003;
    let requests = (0..REQUESTS).map(|at| (zipf.next(&mut random) + shift(at)) % PAGES);
    requests.collect()
}

/// A set a tenth larger than the cache, all of it alike.
fn uniform() -> Vec<u64> {
    let mut random = Random(4);
    let pages = CACHE_PAGES as u64 * 11 / 10;
    (0..REQUESTS).map(|_| random.next() % pages).collect()
}

/// In percent, after the cache has filled.
fn rate(trace: &[u64], mut is_hit: impl FnMut(usize, u64) -> bool) -> f64 {
    let warm = trace.len() / 4;
    let hits = trace
        .iter()
        .enumerate()
        .filter(|(at, page)| is_hit(*at, **page) && *at >= warm);
    hits.count() as f64 * 100.0 / (trace.len() - warm) as f64
}

fn segmented(trace: &[u64]) -> f64 {
    let mut cache = SegmentedPages::new(CACHE_PAGES * (PAGE_BYTES + 128));
    let bytes = [7; PAGE_BYTES];
    rate(trace, |_, page| {
        let is_hit = cache.find((1, page), true).is_some();
        if !is_hit {
            cache.insert((1, page), &bytes);
        }
        is_hit
    })
}

#[test]
fn popular_pages_stay_whatever_passes_by() {
    println!(
        "| trace | least recently used | S3-FIFO | least frequently used | segments | best that stays | best |\n\
         |---|---|---|---|---|---|---|"
    );
    let measured = [
        ("zipf 0.99", zipf()),
        ("zipf 0.99 and scans", zipf_and_scans()),
        ("shifting", shifting()),
        ("uniform", uniform()),
    ]
    .map(|(name, trace)| {
        let (recency, segments) = (least_recently_used(&trace), segmented(&trace));
        println!(
            "| {name} | {recency:.1} | {:.1} | {:.1} | {segments:.1} | {:.1} | {:.1} |",
            s3_fifo(&trace),
            least_frequently_used(&trace),
            best_fixed(&trace),
            best(&trace)
        );
        [recency, segments]
    });
    let [zipf, scans, shifting, uniform] = measured.map(|[recency, segments]| segments - recency);
    // Each part of the order is worth half a point or more of one of them.
    assert!(
        zipf > 2.9 && scans > 5.8 && shifting > 1.0,
        "{zipf:.1} {scans:.1} {shifting:.1}"
    );
    // Of pages that are all alike no order is better than another, but for what is copied.
    assert!(uniform > -3.0, "{uniform:.1}");
}
