//! How alike two vectors are.

use std::fmt;

use crate::kernel::{dot, square_distance};

/// The greatest component that Cassandra indexes: products of these are still numbers.
const COMPONENT_MAX: f32 = 1e17;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Similarity {
    Cosine,
    DotProduct,
    Euclidean,
}

/// Why a vector has no place in an order by similarity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VectorFault {
    NotFinite { index: usize, value: f32 },
    OutOfBounds { index: usize, value: f32 },
    Zero,
}

impl Similarity {
    /// In any case, as index options have it.
    pub fn of_name(name: &str) -> Option<Self> {
        [
            ("COSINE", Similarity::Cosine),
            ("DOT_PRODUCT", Similarity::DotProduct),
            ("EUCLIDEAN", Similarity::Euclidean),
        ]
        .into_iter()
        .find_map(|(known, similarity)| name.eq_ignore_ascii_case(known).then_some(similarity))
    }

    /// Computes the closeness by which vectors are ordered, the likest first: greater is nearer. Not a number only for vectors
    /// that have a [`VectorFault`].
    pub fn closeness(self, left: &[f32], right: &[f32]) -> f32 {
        match self {
            Similarity::Cosine => cosine(left, right),
            Similarity::DotProduct => dot(left, right),
            Similarity::Euclidean => -square_distance(left, right),
        }
    }

    /// Between 0 and 1 for what is normalised, as Lucene scores it.
    pub fn score(self, left: &[f32], right: &[f32]) -> f32 {
        let closeness = self.closeness(left, right);
        match self {
            Similarity::Cosine | Similarity::DotProduct => (1.0 + closeness) / 2.0,
            Similarity::Euclidean => 1.0 / (1.0 - closeness),
        }
    }

    /// Returns the fault that keeps a vector out of an index.
    pub fn fault(self, vector: &[f32]) -> Option<VectorFault> {
        for (index, value) in vector.iter().copied().enumerate() {
            if !value.is_finite() {
                return Some(VectorFault::NotFinite { index, value });
            }
            if value.abs() > COMPONENT_MAX {
                return Some(VectorFault::OutOfBounds { index, value });
            }
        }
        let is_zero = self == Similarity::Cosine && vector.iter().all(|value| *value == 0.0);
        is_zero.then_some(VectorFault::Zero)
    }
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let squares = f64::from(dot(left, left)) * f64::from(dot(right, right));
    let cosine = f64::from(dot(left, right)) / squares.sqrt();
    if squares > 0.0 && cosine.is_finite() {
        return cosine as f32;
    }
    // Squares that are too small or too great for a float.
    let wide = |left: &[f32], right: &[f32]| -> f64 {
        let products = left.iter().zip(right);
        products
            .map(|(left, right)| f64::from(*left) * f64::from(*right))
            .sum()
    };
    (wide(left, right) / (wide(left, left) * wide(right, right)).sqrt()) as f32
}

impl fmt::Display for VectorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorFault::NotFinite { index, value } if value.is_nan() => {
                write!(f, "non-finite value at vector[{index}]=NaN")
            }
            VectorFault::NotFinite { index, value } => {
                let sign = if *value < 0.0 { "-" } else { "" };
                write!(f, "non-finite value at vector[{index}]={sign}Infinity")
            }
            VectorFault::OutOfBounds { index, value } => {
                write!(f, "Out-of-bounds value at vector[{index}]={value:E}")
            }
            VectorFault::Zero => {
                f.write_str("Zero vectors cannot be indexed or queried with cosine similarity")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_lucene() {
        let (left, right) = ([1.0, 0.0, 0.0], [1.0, 0.1, 0.2]);
        assert_eq!(Similarity::Cosine.score(&left, &right), 0.9879501);
        assert_eq!(Similarity::Euclidean.score(&left, &right), 0.952381);
        assert_eq!(
            Similarity::DotProduct.score(&[0.1, 0.0, 0.0], &[0.5, 0.4, 0.3]),
            0.525
        );
    }

    #[test]
    fn what_has_no_place_is_told_in_cassandras_words() {
        let text =
            |similarity: Similarity, vector: &[f32]| similarity.fault(vector).map(|fault| fault.to_string());
        assert_eq!(text(Similarity::Cosine, &[0.0, 1e-30]), None);
        assert_eq!(text(Similarity::Euclidean, &[0.0, 0.0]), None);
        let zero = "Zero vectors cannot be indexed or queried with cosine similarity";
        assert_eq!(text(Similarity::Cosine, &[0.0, -0.0]).as_deref(), Some(zero));
        let infinite = text(Similarity::Euclidean, &[0.0, f32::NEG_INFINITY]);
        assert_eq!(
            infinite.as_deref(),
            Some("non-finite value at vector[1]=-Infinity")
        );
        let far = text(Similarity::DotProduct, &[1e30]);
        assert_eq!(far.as_deref(), Some("Out-of-bounds value at vector[0]=1E30"));
    }

    #[test]
    fn vectors_too_short_for_floats_have_a_cosine() {
        assert_eq!(Similarity::Cosine.closeness(&[1e-30, 0.0], &[3.0, 0.0]), 1.0);
    }
}
