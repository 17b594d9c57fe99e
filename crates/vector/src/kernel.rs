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

#[inline(always)]
fn sum_of_products(left: &[u8], right: &[u8]) -> u32 {
    let products = left.iter().zip(right);
    products
        .map(|(left, right)| u32::from(*left) * u32::from(*right))
        .sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_of_products_avx2(left: &[u8], right: &[u8]) -> u32 {
    sum_of_products(left, right)
}

/// The sum of the products of bytes: at most 65,536 of them, so that it is a number of 32 bits.
#[inline]
pub fn products(left: &[u8], right: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature that the function was compiled for.
        return unsafe { sum_of_products_avx2(left, right) };
    }
    sum_of_products(left, right)
}
