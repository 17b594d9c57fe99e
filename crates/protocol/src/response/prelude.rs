//! Prelude of a response's message: a tracing id, warnings, a custom payload.

use crate::frame::EnvelopeFlags;
use crate::version::ProtocolVersion;
use crate::wire::{put_bytes_map, put_string_list};

/// The optional parts in front of a message. Its flags belong in the envelope's header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prelude<'a> {
    pub tracing_id: Option<[u8; 16]>,
    /// Left out in v3, which has no place for them.
    pub warnings: &'a [&'a str],
    /// Left out in v3, which has no place for it.
    pub custom_payload: &'a [(&'a str, Option<&'a [u8]>)],
}

impl Prelude<'_> {
    pub fn flags(&self, version: ProtocolVersion) -> EnvelopeFlags {
        let mut flags = EnvelopeFlags::NONE;
        if self.tracing_id.is_some() {
            flags = flags.with(EnvelopeFlags::TRACING);
        }
        if version >= ProtocolVersion::V4 && !self.warnings.is_empty() {
            flags = flags.with(EnvelopeFlags::WARNING);
        }
        if version >= ProtocolVersion::V4 && !self.custom_payload.is_empty() {
            flags = flags.with(EnvelopeFlags::CUSTOM_PAYLOAD);
        }
        flags
    }

    /// Appends the parts that [`Self::flags`] announces: call it right behind the envelope's header.
    pub fn write(&self, out: &mut Vec<u8>, version: ProtocolVersion) {
        if let Some(id) = &self.tracing_id {
            out.extend_from_slice(id);
        }
        let flags = self.flags(version);
        if flags.contains(EnvelopeFlags::WARNING) {
            put_string_list(out, self.warnings);
        }
        if flags.contains(EnvelopeFlags::CUSTOM_PAYLOAD) {
            put_bytes_map(out, self.custom_payload);
        }
    }
}
