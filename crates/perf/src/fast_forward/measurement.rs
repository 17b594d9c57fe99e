//! Cost of one reading, and the figures of many readings of one case.

use helenus_sstable::ReadCost;
use serde::Serialize;

/// One reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub seconds: f64,
    pub frags: u64,
    pub cost: ReadCost,
    pub row_cache_hits: u64,
    pub row_cache_misses: u64,
    pub row_cache_fills: u64,
    pub allocations: u64,
    /// `None` where the processor does not tell.
    pub instructions: Option<u64>,
    /// Processor time by the time that went by while it was taken, which is a little longer than the reading.
    pub cpu_share: f64,
}

/// The 22 columns. Counts are those of the reading with the median duration; the statistics of rows a second are over
/// all readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Columns {
    pub time_s: f64,
    pub iterations: u64,
    pub frags: u64,
    pub frags_per_s: f64,
    /// The median absolute deviation.
    pub frags_per_s_mad: f64,
    pub frags_per_s_max: f64,
    pub frags_per_s_min: f64,
    pub aio_average: f64,
    pub aio: u64,
    pub aio_kib: f64,
    /// How often the reading waited for the disk.
    pub blocked: u64,
    /// Pages that were read ahead and not used.
    pub dropped: u64,
    pub index_hits: u64,
    pub index_misses: u64,
    pub index_blocks: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub cache_blocks: u64,
    pub allocations: u64,
    pub tasks: u64,
    pub instructions_per_frag: Option<f64>,
    /// Percent of one core.
    pub cpu: f64,
}

impl Sample {
    fn frags_per_s(&self) -> f64 {
        self.frags as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

impl Columns {
    /// Computes the columns of at least one reading; `None` without any.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let mut by_time = samples.to_vec();
        by_time.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
        let sample = *by_time.get(by_time.len() / 2)?;
        let speeds: Vec<f64> = samples.iter().map(Sample::frags_per_s).collect();
        let speed = sample.frags_per_s();
        let deviations = speeds.iter().map(|other| (other - speed).abs()).collect();
        let cost = sample.cost;
        let aio_sum: u64 = samples.iter().map(|sample| sample.cost.reads).sum();
        Some(Columns {
            time_s: sample.seconds,
            iterations: samples.len() as u64,
            frags: sample.frags,
            frags_per_s: speed,
            frags_per_s_mad: median(deviations),
            frags_per_s_max: speeds.iter().copied().fold(0.0, f64::max),
            frags_per_s_min: speeds.iter().copied().fold(f64::INFINITY, f64::min),
            aio_average: aio_sum as f64 / samples.len() as f64,
            aio: cost.reads,
            aio_kib: cost.read_bytes as f64 / 1024.0,
            blocked: cost.index_blocks + cost.cache_blocks,
            dropped: cost.dropped,
            index_hits: cost.index_hits,
            index_misses: cost.index_misses,
            index_blocks: cost.index_blocks,
            cache_hits: sample.row_cache_hits,
            cache_misses: sample.row_cache_misses,
            cache_blocks: sample.row_cache_fills,
            allocations: sample.allocations,
            tasks: 0,
            instructions_per_frag: sample
                .instructions
                .map(|count| count as f64 / sample.frags.max(1) as f64),
            cpu: sample.cpu_share * 100.0,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_median_reading() {
        let sample = |seconds, reads| Sample {
            seconds,
            frags: 100,
            cost: ReadCost {
                reads,
                ..ReadCost::default()
            },
            ..Sample::default()
        };
        let columns = Columns::of(&[sample(4.0, 9), sample(1.0, 1), sample(2.0, 5)]).unwrap();
        assert_eq!((columns.time_s, columns.aio, columns.aio_average), (2.0, 5, 5.0));
        assert_eq!((columns.frags_per_s, columns.frags_per_s_mad), (50.0, 25.0));
        assert_eq!((columns.frags_per_s_max, columns.frags_per_s_min), (100.0, 25.0));
    }
}
