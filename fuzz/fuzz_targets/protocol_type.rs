//! A type's option: what was read and written once is written the same again, and nesting has an end.

#![no_main]

use helenus_protocol::ProtocolVersion;
use helenus_protocol::type_option::{put_type, read_type};
use helenus_protocol::wire::WireReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(data_type) = read_type(&mut WireReader::new(bytes)) else {
        return;
    };
    let mut written = Vec::new();
    put_type(&mut written, ProtocolVersion::V5, &data_type);
    // A class may nest deeper than options are read.
    let Ok(again) = read_type(&mut WireReader::new(&written)) else {
        return;
    };
    let mut rewritten = Vec::new();
    put_type(&mut rewritten, ProtocolVersion::V5, &again);
    assert_eq!(rewritten, written);
});
