//! Distributions of one metric, as Prometheus has histograms: cumulative buckets, a sum and a count.

use std::fmt::Display;

use super::series::{Sample, labels_text};

/// The distributions of one metric by their labels; those that count nothing are left out.
pub struct Distributions {
    names: &'static [&'static str],
    distributions: Vec<Distribution>,
}

struct Distribution {
    labels: String,
    bounds: Vec<f64>,
    /// One more than there are bounds: the last takes the rest.
    counts: Vec<u64>,
    sum: f64,
}

impl Distributions {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Distributions {
            names,
            distributions: Vec::new(),
        }
    }

    /// Adds to the distribution with these values of the labels: `counts` of what is above one bound and not above the next. The
    /// bounds of one metric are always the same.
    pub fn add(
        &mut self,
        labels: &[&dyn Display],
        bounds: impl Iterator<Item = f64>,
        counts: &[u64],
        sum: f64,
    ) {
        if counts.iter().all(|count| *count == 0) {
            return;
        }
        let labels = labels_text(self.names, labels);
        let known = self.distributions.iter_mut().find(|known| known.labels == labels);
        match known {
            Some(known) => {
                known.sum += sum;
                for (known, count) in known.counts.iter_mut().zip(counts) {
                    *known += count;
                }
            }
            None => self.distributions.push(Distribution {
                labels,
                bounds: bounds.collect(),
                counts: counts.to_vec(),
                sum,
            }),
        }
    }

    pub(super) fn into_samples(self, name: &str) -> Vec<Sample> {
        let mut samples = Vec::new();
        for distribution in self.distributions {
            distribution.append(name, &mut samples);
        }
        samples
    }
}

impl Distribution {
    fn append(self, name: &str, samples: &mut Vec<Sample>) {
        let bounds = self.bounds.iter().map(f64::to_string);
        let bounds = bounds.chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, of_bucket) in bounds.zip(&self.counts) {
            count += of_bucket;
            samples.push(Sample {
                name: format!("{name}_bucket"),
                labels: format!("{},le=\"{bound}\"", self.labels),
                value: count as f64,
            });
        }
        for (suffix, value) in [("sum", self.sum), ("count", count as f64)] {
            samples.push(Sample {
                name: format!("{name}_{suffix}"),
                labels: self.labels.clone(),
                value,
            });
        }
    }
}
