//! CQL types as Arrow's (`Schema.fbs`).
//!
//! | CQL | Arrow |
//! |---|---|
//! | tinyint, smallint, int, bigint, counter | Int of 8, 16, 32, 64 bits |
//! | float, double, boolean | FloatingPoint, Bool |
//! | ascii, text, inet, and varint and decimal, which have no bound | Utf8 |
//! | blob, types of classes | Binary |
//! | uuid, timeuuid | FixedSizeBinary of 16, extension `arrow.uuid` |
//! | date, time, timestamp | Date in days, Time in nanoseconds, Timestamp in milliseconds UTC |
//! | duration | Interval of months, days and nanoseconds |
//! | list and set, vector, map | List, FixedSizeList, Map |
//! | tuple, user-defined type | Struct; a tuple's fields are named by their numbers |
//!
//! Each field says its CQL type under the key `cql_type`.

use helenus_types::CqlType;

use crate::flatbuffer::Table;
use crate::{Header, message};

/// Kinds of `Type`.
#[derive(Clone, Copy)]
enum Kind {
    Int = 2,
    FloatingPoint = 3,
    Binary = 4,
    Utf8 = 5,
    Bool = 6,
    Date = 8,
    Time = 9,
    Timestamp = 10,
    Interval = 11,
    List = 12,
    Struct = 13,
    FixedSizeBinary = 15,
    FixedSizeList = 16,
    Map = 17,
}

/// `Precision`.
const SINGLE: i16 = 1;
const DOUBLE: i16 = 2;
/// `DateUnit`.
const DAY: i16 = 0;
/// `TimeUnit`.
const MILLISECOND: i16 = 1;
const NANOSECOND: i16 = 3;
/// `IntervalUnit`.
const MONTH_DAY_NANO: i16 = 2;

/// The first message of a stream.
pub fn schema_message<'c>(columns: impl Iterator<Item = (&'c str, &'c CqlType)>) -> Vec<u8> {
    let fields = columns
        .map(|(name, cql_type)| field(name, cql_type, true))
        .collect();
    message(Header::Schema, Table::default().tables(1, fields), &[])
}

fn field(name: &str, cql_type: &CqlType, is_nullable: bool) -> Table {
    let (kind, parameters) = arrow_type(cql_type);
    let mut metadata = vec![entry("cql_type", &cql_type.to_string())];
    if matches!(cql_type, CqlType::Uuid | CqlType::Timeuuid) {
        metadata.push(entry("ARROW:extension:name", "arrow.uuid"));
        metadata.push(entry("ARROW:extension:metadata", ""));
    }
    Table::default()
        .text(0, name)
        .boolean(1, is_nullable)
        .union(2, kind as u8, parameters)
        .tables(5, children(cql_type))
        .tables(6, metadata)
}

fn entry(key: &str, value: &str) -> Table {
    Table::default().text(0, key).text(1, value)
}

fn arrow_type(cql_type: &CqlType) -> (Kind, Table) {
    let none = Table::default();
    let integer = |bits| (Kind::Int, Table::default().int(0, bits).boolean(1, true));
    match cql_type {
        CqlType::Tinyint => integer(8),
        CqlType::Smallint => integer(16),
        CqlType::Int => integer(32),
        CqlType::Bigint | CqlType::Counter => integer(64),
        CqlType::Float => (Kind::FloatingPoint, none.short(0, SINGLE)),
        CqlType::Double => (Kind::FloatingPoint, none.short(0, DOUBLE)),
        CqlType::Boolean => (Kind::Bool, none),
        CqlType::Ascii | CqlType::Text | CqlType::Inet | CqlType::Varint | CqlType::Decimal => {
            (Kind::Utf8, none)
        }
        CqlType::Blob | CqlType::Custom(_) | CqlType::Empty => (Kind::Binary, none),
        CqlType::Uuid | CqlType::Timeuuid => (Kind::FixedSizeBinary, none.int(0, 16)),
        CqlType::Date => (Kind::Date, none.short(0, DAY)),
        CqlType::Time => (Kind::Time, none.short(0, NANOSECOND).int(1, 64)),
        CqlType::Timestamp => (Kind::Timestamp, none.short(0, MILLISECOND).text(1, "UTC")),
        CqlType::Duration => (Kind::Interval, none.short(0, MONTH_DAY_NANO)),
        CqlType::List { .. } | CqlType::Set { .. } => (Kind::List, none),
        CqlType::Vector { dimension, .. } => (Kind::FixedSizeList, none.int(0, *dimension as i32)),
        CqlType::Map { .. } => (Kind::Map, none.boolean(0, false)),
        CqlType::Tuple(_) | CqlType::UserDefined { .. } => (Kind::Struct, none),
    }
}

fn children(cql_type: &CqlType) -> Vec<Table> {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Vector { element, .. } => {
            vec![field("item", element, true)]
        }
        CqlType::Map { key, value, .. } => {
            let members = vec![field("key", key, false), field("value", value, true)];
            let entries = Table::default()
                .text(0, "entries")
                .boolean(1, false)
                .union(2, Kind::Struct as u8, Table::default())
                .tables(5, members);
            vec![entries]
        }
        CqlType::Tuple(types) => {
            let numbered = types.iter().enumerate();
            numbered
                .map(|(number, part)| field(&number.to_string(), part, true))
                .collect()
        }
        CqlType::UserDefined { definition, .. } => {
            let fields = definition.fields.iter();
            fields.map(|(name, part)| field(name, part, true)).collect()
        }
        _ => Vec::new(),
    }
}
