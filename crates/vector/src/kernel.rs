//! Sums over the components of two vectors, in lanes that compilers make vector instructions of.

/// Enough for two registers of 256 bits.
const LANES: usize = 16;

fn sum_of(left: &[f32], right: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            lanes[lane] += term(left[lane], right[lane]);
        }
    }
    let rest = left_rest.iter().zip(right_rest);
    lanes.iter().sum::<f32>() + rest.map(|(left, right)| term(*left, *right)).sum::<f32>()
}

pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    sum_of(left, right, |left, right| left * right)
}

pub fn square_distance(left: &[f32], right: &[f32]) -> f32 {
    sum_of(left, right, |left, right| (left - right) * (left - right))
}
