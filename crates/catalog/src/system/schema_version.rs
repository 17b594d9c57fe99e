//! The fingerprint by which drivers see that the schema changed.

use helenus_schema::Schema;
use helenus_types::token::murmur3_x64_128;
use uuid::Uuid;

use crate::schema_store::encode_schema;

/// A uuid made from everything users created: equal schemas have equal ones, whatever way led to them. The form is that
/// of a name-based uuid (version 3), as Cassandra's; the hash is not, since nobody can recompute it anyway.
pub fn schema_version(schema: &Schema) -> Uuid {
    let content = encode_schema(&Schema {
        version: 0,
        keyspaces: schema.keyspaces.clone(),
    });
    let [high, low] = murmur3_x64_128(content.as_bytes());
    let mut bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}
