//! Sums over the components of two vectors, in lanes that processors have instructions for, and loading memory ahead.

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

/// Sixteen products by four instructions: those that compilers make of it by themselves have half of that.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_of_products_avx2(left: &[u8], right: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm256_add_epi32, _mm256_madd_epi16, _mm256_setzero_si256};

    let (left_chunks, left_rest) = left.as_chunks::<16>();
    let (right_chunks, right_rest) = right.as_chunks::<16>();
    let mut sums = _mm256_setzero_si256();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(widened(left), widened(right)));
    }
    sum_of_lanes(sums) + sum_of_products(left_rest, right_rest)
}

/// Bytes as numbers of 16 bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn widened(bytes: &[u8; 16]) -> std::arch::x86_64::__m256i {
    use std::arch::x86_64::{_mm_set_epi64x, _mm256_cvtepu8_epi16};

    let number = u128::from_le_bytes(*bytes);
    _mm256_cvtepu8_epi16(_mm_set_epi64x((number >> 64) as i64, number as i64))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_of_lanes(lanes: std::arch::x86_64::__m256i) -> u32 {
    use std::arch::x86_64::{
        _mm_add_epi32, _mm_cvtsi128_si32, _mm_shuffle_epi32, _mm256_castsi256_si128, _mm256_extracti128_si256,
    };

    let high = _mm256_extracti128_si256::<1>(lanes);
    let four = _mm_add_epi32(_mm256_castsi256_si128(lanes), high);
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two));
    _mm_cvtsi128_si32(one).cast_unsigned()
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

/// Products of one row of bytes with each of several that lie `stride` bytes apart.
pub fn products_with_each(left: &[u8], rows: &[u8], stride: usize, products: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature that the function was compiled for.
        return unsafe { products_with_each_avx2(left, rows, stride, products) };
    }
    for (product, row) in products.iter_mut().zip(rows.chunks(stride)) {
        *product = sum_of_products(left, &row[..left.len()]);
    }
}

/// One call for all of them: that of one row takes as long as its products.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products_with_each_avx2(left: &[u8], rows: &[u8], stride: usize, products: &mut [u32]) {
    for (product, row) in products.iter_mut().zip(rows.chunks(stride)) {
        *product = sum_of_products_avx2(left, &row[..left.len()]);
    }
}

/// Has the processor load what is gone through soon, without a wait for it: of what is longer, the beginning, since the rest is
/// loaded as it is gone through.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    const LINE_BYTES: usize = 64;
    const LINES_MAX: usize = 4;
    for line in bytes.chunks(LINE_BYTES).take(LINES_MAX) {
        prefetch_line(&line[0]);
    }
    // It may begin anywhere in a line.
    if let Some(last) = bytes.last() {
        prefetch_line(last);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line(byte: &u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: it accesses nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
}

/// Reads it, which processors do for several at once.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch_line(byte: &u8) {
    std::hint::black_box(*byte);
}

#[cfg(test)]
mod tests {
    use super::{products, products_with_each, sum_of_products};
    use crate::random::Random;

    #[test]
    fn products_are_those_of_each_component() {
        let mut random = Random::new(1);
        for length in 0..200 {
            let mut bytes = || -> Vec<u8> { (0..length).map(|_| random.below(256) as u8).collect() };
            let (left, right) = (bytes(), bytes());
            assert_eq!(
                products(&left, &right),
                sum_of_products(&left, &right),
                "{length}"
            );
        }
        let rows: Vec<u8> = (0..700).map(|_| random.below(256) as u8).collect();
        let mut each = [0; 7];
        products_with_each(&rows[..90], &rows, 100, &mut each);
        for (row, product) in rows.chunks(100).zip(each) {
            assert_eq!(product, sum_of_products(&rows[..90], &row[..90]));
        }
        let longest = vec![u8::MAX; 65_536];
        assert_eq!(products(&longest, &longest), 65_536 * 255 * 255);
    }
}
