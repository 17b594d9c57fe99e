//! Any text as a statement and as a type: no panic, no stack overflow, and an error's place lies in the text.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = helenus_cql::parse_statement(text)
        && let Some(position) = error.position
    {
        let line = text.split('\n').nth(position.line - 1).expect("the error's line is in the text");
        assert!(position.column <= line.encode_utf16().count());
    }
    if let Ok(type_name) = helenus_cql::parse_type(text) {
        // Class names and names of types are printed without quotes and escapes, as Cassandra prints them.
        let printed = type_name.to_string();
        if !text.contains(['\'', '"', '$']) {
            assert_eq!(helenus_cql::parse_type(&printed).as_ref(), Ok(&type_name));
        }
    }
});
