//! Bytes that are no values, and orders over them: nothing may panic, and sorting needs a total order even of what a
//! corrupt file holds.

use std::cmp::Ordering;

use helenus_types::CqlType;

const CLASSES: [&str; 30] = [
    "AsciiType",
    "LongType",
    "BytesType",
    "BooleanType",
    "CounterColumnType",
    "SimpleDateType",
    "DecimalType",
    "DoubleType",
    "DurationType",
    "EmptyType",
    "FloatType",
    "InetAddressType",
    "Int32Type",
    "ShortType",
    "UTF8Type",
    "TimeType",
    "TimestampType",
    "TimeUUIDType",
    "ByteType",
    "UUIDType",
    "IntegerType",
    "ListType(Int32Type)",
    "SetType(UTF8Type)",
    "MapType(ByteType,IntegerType)",
    "TupleType(Int32Type,TupleType(ByteType,UTF8Type))",
    "UserType(ks,61,62:Int32Type,63:FrozenType(ListType(ByteType)))",
    "VectorType(FloatType , 2)",
    "VectorType(UTF8Type , 2)",
    "VectorType(VectorType(BooleanType , 2147483647) , 2147483647)",
    "ListType(FrozenType(ListType(DecimalType)))",
];

/// SplitMix64, so that a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Bytes in which small and extreme lengths are frequent.
    fn bytes(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..self.below(6) {
            match self.below(5) {
                0 => out.extend_from_slice(&(self.below(4) as u32).to_be_bytes()),
                1 => out.extend_from_slice(&[0xff; 4]),
                2 => out.extend_from_slice(&[0x7f, 0xff, 0xff, 0xff]),
                3 => out.push(self.below(3) as u8),
                _ => out.extend_from_slice(&self.next().to_be_bytes()[..self.next() as usize % 9]),
            }
        }
        out
    }
}

fn types() -> impl Iterator<Item = CqlType> {
    CLASSES.iter().map(|class| {
        let parsed = CqlType::from_marshal_class(class).unwrap_or_else(|error| panic!("{class}: {error}"));
        parsed.cql_type
    })
}

#[test]
fn reading_and_printing_never_panic() {
    let mut random = Random(1);
    for cql_type in types() {
        for _ in 0..3_000 {
            let value = random.bytes();
            let is_valid = cql_type.validate(&value).is_ok();
            let text = cql_type.to_text(&value);
            assert!(!is_valid || text.is_ok(), "{cql_type} {value:?}");
            let _ = cql_type.to_cql_literal(&value);
        }
    }
}

#[test]
fn text_never_panics_and_what_it_makes_is_valid() {
    const PARTS: [&str; 24] = [
        "1",
        "0",
        "-",
        "+",
        ".",
        ":",
        "T",
        " ",
        "P",
        "Y",
        "mo",
        "ms",
        "e",
        "E9",
        "99999999999",
        "@",
        "\\",
        "Z",
        "NaN",
        "2020-01-31",
        "é",
        "08:12",
        "ffff",
        "::",
    ];
    let mut random = Random(2);
    for cql_type in types() {
        for _ in 0..3_000 {
            let count = random.below(6);
            let text: String = (0..count)
                .map(|_| PARTS[random.below(PARTS.len() as u64) as usize])
                .collect();
            // Hex and the parts of tuples are read as they come and checked when they are used.
            let is_native = cql_type.sub_types().next().is_none() && !cql_type.is_counter();
            if let Ok(value) = cql_type.from_text(&text, 0)
                && is_native
                && !value.is_empty()
            {
                assert_eq!(cql_type.validate(&value), Ok(()), "{cql_type} '{text}'");
            }
        }
    }
}

#[test]
fn the_order_of_any_bytes_is_total() {
    let mut random = Random(3);
    for cql_type in types() {
        let values: Vec<Vec<u8>> = (0..60).map(|_| random.bytes()).collect();
        for left in &values {
            for middle in &values {
                let order = cql_type.compare(left, middle);
                assert_eq!(
                    order,
                    cql_type.compare(middle, left).reverse(),
                    "{cql_type} {left:?} {middle:?}"
                );
                for right in &values {
                    let is_chain =
                        order != Ordering::Greater && cql_type.compare(middle, right) != Ordering::Greater;
                    assert!(
                        !is_chain || cql_type.compare(left, right) != Ordering::Greater,
                        "{cql_type} {left:?} {middle:?} {right:?}"
                    );
                }
            }
        }
    }
}
