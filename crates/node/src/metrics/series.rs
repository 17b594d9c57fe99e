//! The values of one metric by their labels.

use std::collections::HashMap;
use std::fmt::{Display, Write};

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    /// As the exposition format writes them: `shard="0",kind="read"`.
    pub labels: String,
    pub value: f64,
}

/// The values of one metric by their labels.
pub struct Series {
    names: &'static [&'static str],
    values: Vec<(String, f64)>,
    places: HashMap<String, usize>,
}

impl Series {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Series {
            names,
            values: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Adds to the series with these values of the labels, in the order in which the metric declares them. Two things may have
    /// the same labels, as a table has that was dropped and made again: their sum is shown, since Prometheus takes no page on
    /// which a series is twice.
    pub fn add(&mut self, labels: &[&dyn Display], value: f64) {
        let labels = labels_text(self.names, labels);
        match self.places.get(&labels) {
            Some(&place) => self.values[place].1 += value,
            None => {
                self.places.insert(labels.clone(), self.values.len());
                self.values.push((labels, value));
            }
        }
    }

    /// Labels as text with their values, in the order of their first [`Series::add`].
    pub(super) fn into_values(self) -> Vec<(String, f64)> {
        self.values
    }
}

/// Labels with their values, as the exposition format has them.
pub(super) fn labels_text(names: &[&str], values: &[&dyn Display]) -> String {
    let mut text = String::new();
    for (name, value) in names.iter().zip(values) {
        let separator = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{separator}{name}=\"{}\"", escaped(&value.to_string()));
    }
    text
}

/// A label's value as the exposition format has it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
