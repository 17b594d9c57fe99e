//! Digests that name statements and metadata.

use md5::{Digest, Md5};

/// Returns the MD5 of the parts one after the other.
pub(super) fn md5(parts: &[&str]) -> [u8; 16] {
    let mut hash = Md5::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}
