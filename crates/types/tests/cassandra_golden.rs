//! Holds this crate against tables that Cassandra 5.0.5's own classes printed, run in UTC on Java 17.
//!
//! Columns are separated by tabs; the first line of each file names them. Text is escaped with backslashes. A column
//! that starts with `!` holds the message Cassandra refused with; `!?` means that it failed with an internal error,
//! where any refusal will do.

use std::cmp::Ordering;

use helenus_types::partition_key::{partition_key_components, write_partition_key};
use helenus_types::value::blob::{hex_decode, to_hex};
use helenus_types::value::vint::{read_unsigned_vint, read_vint, write_unsigned_vint, write_vint};
use helenus_types::{CqlType, ParsedClass, Token, token_of};

/// Every line's mismatch, so that one run shows them all.
#[derive(Default)]
struct Mismatches(Vec<String>);

impl Mismatches {
    fn check(&mut self, what: &str, wanted: &str, found: &str) {
        if wanted != found {
            self.0
                .push(format!("{what}\n  wanted {wanted}\n  found  {found}"));
        }
    }

    #[track_caller]
    fn none(self) {
        assert!(
            self.0.is_empty(),
            "{} mismatches:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
}

fn class(name: &str) -> ParsedClass {
    CqlType::from_marshal_class(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    hex_decode(hex).unwrap_or_else(|| panic!("not hex: {hex}"))
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                other => other.expect("an escape is two characters"),
            },
            other => other,
        });
    }
    out
}

/// Returns whether `found`, of ours, meets what Cassandra printed as `wanted`: an internal error of Cassandra's is met by any
/// refusal of ours.
fn meets(wanted: &str, found: &str) -> bool {
    wanted == found || wanted.starts_with("!?") && found.starts_with('!')
}

#[test]
fn class_names_and_properties() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/classes.tsv")) {
        let [
            name,
            cql_name,
            printed,
            length,
            allows_empty,
            meaningless,
            multi_cell,
        ] = row[..]
        else {
            panic!("seven columns: {row:?}");
        };
        let parsed = class(name);
        let cql_type = &parsed.cql_type;
        mismatches.check(name, cql_name, &cql_type.to_string());
        mismatches.check(name, printed, &parsed.to_marshal_class());
        let own_length = cql_type
            .value_length_if_fixed()
            .map_or("-1".to_owned(), |length| length.to_string());
        mismatches.check(&format!("{name} length"), length, &own_length);
        mismatches.check(
            &format!("{name} allows empty"),
            allows_empty,
            &cql_type.allows_empty().to_string(),
        );
        let own_meaningless = cql_type.is_empty_value_meaningless().to_string();
        mismatches.check(
            &format!("{name} empty is meaningless"),
            meaningless,
            &own_meaningless,
        );
        let own_multi_cell = (cql_type.is_multi_cell() && !parsed.is_reversed).to_string();
        mismatches.check(&format!("{name} multi-cell"), multi_cell, &own_multi_cell);
        // What is printed reads back as what it was, except that freezing hides what UDT fields inside were.
        mismatches.check(name, printed, &class(printed).to_marshal_class());
    }
    mismatches.none();
}

#[test]
fn text_to_values() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/text.tsv")) {
        let [name, text, wanted] = row[..] else {
            panic!("three columns: {row:?}");
        };
        let found = match class(name).cql_type.from_text(&unescape(text), 0) {
            Ok(value) => to_hex(&value),
            Err(error) => format!("!{error}"),
        };
        if !meets(&unescape(wanted), &found) {
            mismatches.check(&format!("{name} '{text}'"), &unescape(wanted), &found);
        }
    }
    mismatches.none();
}

#[test]
fn validation_literals_and_text() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/values.tsv")) {
        let [name, hex, validation, literal, text] = row[..] else {
            panic!("five columns: {row:?}");
        };
        let (cql_type, value) = (class(name).cql_type, bytes(hex));
        let found = match cql_type.validate(&value) {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("!{error}"),
        };
        // Bytes that are no value have no literal, but printing them must not panic.
        let own_literal = cql_type.to_cql_literal(&value);
        let own_text = cql_type
            .to_text(&value)
            .unwrap_or_else(|error| format!("!{error}"));
        if !meets(&unescape(validation), &found) {
            mismatches.check(&format!("{name} {hex} validation"), &unescape(validation), &found);
        }
        if literal != "-" && !literal.starts_with('!') {
            mismatches.check(&format!("{name} {hex} literal"), &unescape(literal), &own_literal);
        }
        if text != "-" && !text.starts_with('!') {
            mismatches.check(&format!("{name} {hex} text"), &unescape(text), &own_text);
        }
    }
    mismatches.none();
}

#[test]
fn floating_point_digits() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/floating.tsv")) {
        let [name, hex, text] = row[..] else {
            panic!("three columns: {row:?}");
        };
        let found = class(name).cql_type.to_text(&bytes(hex)).expect("a number");
        mismatches.check(&format!("{name} {hex}"), text, &found);
    }
    mismatches.none();
}

#[test]
fn order() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/order.tsv")) {
        let parsed = class(row[0]);
        // Values that compare as equal share a rank.
        let mut rank = 0;
        let ranked: Vec<(usize, Vec<u8>)> = row[1..]
            .iter()
            .map(|column| {
                let hex = column.strip_prefix('=').unwrap_or_else(|| {
                    rank += 1;
                    column
                });
                (rank, bytes(hex))
            })
            .collect();
        for (left_rank, left) in &ranked {
            for (right_rank, right) in &ranked {
                let ascending = parsed.cql_type.compare(left, right);
                let found = if parsed.is_reversed {
                    ascending.reverse()
                } else {
                    ascending
                };
                let wanted = left_rank.cmp(right_rank);
                let what = format!("{} {} {}", row[0], to_hex(left), to_hex(right));
                mismatches.check(&what, &format!("{wanted:?}"), &format!("{found:?}"));
            }
        }
    }
    mismatches.none();
}

#[test]
fn compatibility() {
    let table = include_str!("data/compatibility.tsv");
    let compatible: Vec<Vec<&str>> = rows(table).collect();
    let classes: Vec<&str> = rows(include_str!("data/classes.tsv"))
        .map(|row| row[0])
        .filter(|name| !name.starts_with("ReversedType"))
        .collect();
    let mut mismatches = Mismatches::default();
    for name in &classes {
        for previous_name in &classes {
            let row = compatible.iter().find(|row| row[..2] == [*name, *previous_name]);
            let wanted = row.map_or("false\tfalse\tfalse".to_owned(), |row| row[2..].join("\t"));
            let (cql_type, previous) = (class(name).cql_type, class(previous_name).cql_type);
            let found = format!(
                "{}\t{}\t{}",
                cql_type.is_compatible_with(&previous),
                cql_type.is_value_compatible_with(&previous),
                cql_type.is_serialization_compatible_with(&previous),
            );
            mismatches.check(&format!("{name} after {previous_name}"), &wanted, &found);
        }
    }
    mismatches.none();
}

#[test]
fn tokens() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/tokens.tsv")) {
        let [key, token, first, second] = row[..] else {
            panic!("four columns: {row:?}");
        };
        let Token(own_token) = token_of(&bytes(key));
        mismatches.check(key, token, &own_token.to_string());
        let hash = helenus_types::token::murmur3_x64_128(&bytes(key)).map(u64::cast_signed);
        mismatches.check(key, first, &hash[0].to_string());
        mismatches.check(key, second, &hash[1].to_string());
    }
    mismatches.none();
}

#[test]
fn vints() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/vints.tsv")) {
        let [value, unsigned, signed] = row[..] else {
            panic!("three columns: {row:?}");
        };
        let number: i64 = value.parse().expect("a number");
        let (mut own_unsigned, mut own_signed) = (Vec::new(), Vec::new());
        write_unsigned_vint(&mut own_unsigned, number.cast_unsigned());
        write_vint(&mut own_signed, number);
        mismatches.check(value, unsigned, &to_hex(&own_unsigned));
        mismatches.check(value, signed, &to_hex(&own_signed));
        assert_eq!(
            read_unsigned_vint(&mut own_unsigned.as_slice()),
            Some(number.cast_unsigned())
        );
        assert_eq!(read_vint(&mut own_signed.as_slice()), Some(number));
    }
    mismatches.none();
}

#[test]
fn partition_keys() {
    let mut mismatches = Mismatches::default();
    for row in rows(include_str!("data/keys.tsv")) {
        let [name, components, key] = row[..] else {
            panic!("three columns: {row:?}");
        };
        let types = CqlType::key_types_from_marshal_class(name).expect("a key class");
        mismatches.check(name, name, &CqlType::key_marshal_class(types.iter()));
        let components: Vec<Vec<u8>> = components.split(',').map(bytes).collect();
        let mut own_key = Vec::new();
        assert!(write_partition_key(
            &mut own_key,
            components.iter().map(Vec::as_slice)
        ));
        mismatches.check(name, key, &to_hex(&own_key));
        assert!(partition_key_components(&own_key, types.len()).eq(components.iter().map(Vec::as_slice)));
    }
    mismatches.none();
}

#[test]
fn equal_values_are_ordered_the_same_from_both_sides() {
    for row in rows(include_str!("data/values.tsv")) {
        let cql_type = class(row[0]).cql_type;
        let value = bytes(row[1]);
        assert_eq!(
            cql_type.compare(&value, &value),
            Ordering::Equal,
            "{} {}",
            row[0],
            row[1]
        );
    }
}
