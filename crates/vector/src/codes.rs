//! Vectors in eight bits a component.
//!
//! A code is a header and a byte for each component: component = offset + scale * byte. Codes lie in chunks that are never
//! moved: adding one never takes longer than filling a chunk does.

use crate::kernel::{dot, prefetch, products, products_with_each};
use crate::similarity::Similarity;

/// Codes in one piece of memory.
const CHUNK_CODES: usize = 1_024;
/// Distances that are computed at once to codes that lie together.
pub const TOGETHER: usize = 64;

/// Offset, scale, the sum of the bytes, and the square of the vector's length: each a float of four bytes.
const HEADER_BYTES: usize = 16;

#[derive(Debug)]
pub struct Codes {
    similarity: Similarity,
    dimension: usize,
    chunks: Vec<Box<[u8]>>,
    count: u32,
}

#[derive(Clone, Copy)]
struct Header {
    offset: f32,
    scale: f32,
    sum: f32,
    square: f32,
}

impl Header {
    fn of(code: &[u8]) -> (Header, &[u8]) {
        let (header, bytes) = code.split_at(HEADER_BYTES);
        let (fields, _) = header.as_chunks::<4>();
        let field = |index: usize| f32::from_ne_bytes(fields[index]);
        let header = Header {
            offset: field(0),
            scale: field(1),
            sum: field(2),
            square: field(3),
        };
        (header, bytes)
    }
}

impl Codes {
    pub fn new(similarity: Similarity, dimension: usize) -> Self {
        Codes {
            similarity,
            dimension,
            chunks: Vec::new(),
            count: 0,
        }
    }

    pub fn dimension(&self) -> usize {
        self.dimension
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    fn code_bytes(&self) -> usize {
        HEADER_BYTES + self.dimension
    }

    /// The code of a vector, which has as many components as all others.
    pub fn encode(&self, vector: &[f32]) -> Vec<u8> {
        let square = dot(vector, vector);
        // Of vectors that are compared by their direction that is all that is kept.
        let (factor, square) = match self.similarity {
            Similarity::Cosine if square > 0.0 && square.is_finite() => (square.sqrt().recip(), 1.0),
            Similarity::Cosine => normalising(vector),
            Similarity::DotProduct | Similarity::Euclidean => (1.0, square),
        };
        let (least, greatest) = vector
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, greatest), value| {
                (least.min(*value), greatest.max(*value))
            });
        let (least, greatest) = (least * factor, greatest * factor);
        let scale = ((greatest - least) / 255.0).max(f32::MIN_POSITIVE);
        let mut code = Vec::with_capacity(self.code_bytes());
        code.resize(HEADER_BYTES, 0);
        // What is out of the range of a byte is cut by the cast.
        code.extend(
            vector
                .iter()
                .map(|value| ((value * factor - least) / scale).round() as u8),
        );
        let sum: u32 = code[HEADER_BYTES..].iter().map(|byte| u32::from(*byte)).sum();
        for (field, value) in [least, scale, sum as f32, square].into_iter().enumerate() {
            code[field * 4..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        code
    }

    /// Takes in a code; returns its number.
    pub fn push(&mut self, code: &[u8]) -> u32 {
        let (number, bytes) = (self.count, self.code_bytes());
        let (chunk, place) = place_of(number);
        if chunk == self.chunks.len() {
            self.chunks.push(vec![0; CHUNK_CODES * bytes].into());
        }
        self.chunks[chunk][place * bytes..][..bytes].copy_from_slice(code);
        self.count += 1;
        number
    }

    #[inline]
    pub fn get(&self, number: u32) -> &[u8] {
        let bytes = self.code_bytes();
        let (chunk, place) = place_of(number);
        &self.chunks[chunk][place * bytes..][..bytes]
    }

    /// Loads codes that are to be compared next: the processor waits for all of them at once, instead of for each.
    #[inline]
    pub fn load(&self, nodes: &[u32]) {
        for node in nodes {
            prefetch(self.get(*node));
        }
    }

    /// How far two vectors are from each other: less is nearer, and may be less than nothing.
    #[inline]
    pub fn distance(&self, left: &[u8], right: &[u8]) -> f32 {
        let ((left, left_bytes), (right, right_bytes)) = (Header::of(left), Header::of(right));
        self.distance_by(left, right, products(left_bytes, right_bytes))
    }

    /// The distances from a code to as many as there is room for, from one on that were added one after the other. Returns how many there
    /// were: those that lie together.
    pub fn distances(&self, code: &[u8], first: u32, distances: &mut [f32; TOGETHER]) -> usize {
        let (chunk, place) = place_of(first);
        let count = (CHUNK_CODES - place)
            .min((self.count - first) as usize)
            .min(TOGETHER);
        let bytes = self.code_bytes();
        let rows = &self.chunks[chunk][place * bytes..][..count * bytes];
        let (left, left_bytes) = Header::of(code);
        let mut products = [0; TOGETHER];
        products_with_each(left_bytes, &rows[HEADER_BYTES..], bytes, &mut products[..count]);
        for ((row, product), distance) in rows.chunks(bytes).zip(products).zip(distances) {
            *distance = self.distance_by(left, Header::of(row).0, product);
        }
        count
    }

    #[inline]
    fn distance_by(&self, left: Header, right: Header, products: u32) -> f32 {
        let product = self.dimension as f32 * left.offset * right.offset
            + left.offset * right.scale * right.sum
            + right.offset * left.scale * left.sum
            + left.scale * right.scale * products as f32;
        match self.similarity {
            Similarity::Cosine | Similarity::DotProduct => -product,
            Similarity::Euclidean => left.square + right.square - 2.0 * product,
        }
    }
}

/// Returns factor and square of a vector whose square is no float.
fn normalising(vector: &[f32]) -> (f32, f32) {
    let square: f64 = vector
        .iter()
        .map(|value| f64::from(*value) * f64::from(*value))
        .sum();
    match square > 0.0 {
        true => (square.sqrt().recip() as f32, 1.0),
        false => (1.0, 0.0),
    }
}

#[inline]
fn place_of(number: u32) -> (usize, usize) {
    (number as usize / CHUNK_CODES, number as usize % CHUNK_CODES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn distances_of_codes_are_those_of_vectors_but_for_a_hundredth() {
        let mut random = Random::new(1);
        for similarity in [Similarity::Cosine, Similarity::DotProduct, Similarity::Euclidean] {
            for dimension in [1, 3, 16, 128, 769] {
                let codes = Codes::new(similarity, dimension);
                let mut vector = || -> Vec<f32> { (0..dimension).map(|_| random.normal() * 3.0).collect() };
                let (left, right) = (vector(), vector());
                let distance = codes.distance(&codes.encode(&left), &codes.encode(&right));
                let expected = -similarity.closeness(&left, &right);
                let extent = match similarity {
                    Similarity::Cosine => 1.0,
                    _ => dot(&left, &left).max(dot(&right, &right)),
                };
                assert!(
                    (distance - expected).abs() <= 0.01 * extent,
                    "{similarity:?} {dimension}: {distance} {expected}"
                );
            }
        }
    }

    #[test]
    fn vectors_without_extent_have_codes() {
        for vector in [[0.0, 0.0], [5.0, 5.0], [1e-30, 0.0], [1e17, -1e17]] {
            for similarity in [Similarity::Cosine, Similarity::DotProduct, Similarity::Euclidean] {
                let codes = Codes::new(similarity, 2);
                let code = codes.encode(&vector);
                assert!(
                    codes.distance(&code, &code).is_finite(),
                    "{similarity:?} {vector:?}"
                );
            }
        }
    }
}
