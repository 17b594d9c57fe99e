//! Stored vectors as numbers.

use helenus_vector::Similarity;

use crate::CqlError;

/// Refuses what an index of vectors has no place for.
pub(crate) fn check_indexed_vector(similarity: Similarity, stored: &[u8]) -> Result<(), CqlError> {
    let mut vector = Vec::new();
    floats(stored, &mut vector);
    match similarity.fault(&vector) {
        Some(fault) => Err(invalid!("{fault}")),
        None => Ok(()),
    }
}

/// The components of a serialized vector.
pub fn floats(bytes: &[u8], out: &mut Vec<f32>) {
    let (components, _) = bytes.as_chunks::<4>();
    out.clear();
    out.extend(components.iter().map(|component| f32::from_be_bytes(*component)));
}
