//! Types of columns, and the few values of each that a history has: at the edges of their encodings, and near each other.

use helenus_storage_model::Chance;

/// Longer than the part of a value that an index has as its term.
const LONG_TEXT: usize = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Date,
    Decimal,
    Double,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    VarInt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Scalar(Scalar),
    List(Scalar),
    Set(Scalar),
    Map(Scalar, Scalar),
    /// Compared as a whole.
    FrozenList(Scalar),
    FrozenSet(Scalar),
    FrozenMap(Scalar, Scalar),
}

use Scalar::{
    Ascii, BigInt, Blob, Boolean, Date, Decimal, Double, Float, Inet, Int, SmallInt, Text, Time, TimeUuid,
    Timestamp, TinyInt, Uuid, VarInt,
};

const ALL: [Scalar; 18] = [
    Ascii, BigInt, Blob, Boolean, Date, Decimal, Double, Float, Inet, Int, SmallInt, Text, Time, TimeUuid,
    Timestamp, TinyInt, Uuid, VarInt,
];

/// Types of keys: values that are equal have equal bytes, so that it does not matter which of them a row shows.
const OF_KEYS: [Scalar; 10] = [
    Ascii, BigInt, Blob, Date, Int, SmallInt, Text, Timestamp, TinyInt, Uuid,
];

/// Literals of `text`: some are the same to indexes that make texts alike.
pub const TEXTS: [&str; 12] = [
    "''",
    "'a'",
    "'A'",
    "'á'",
    "'Á'",
    "'a\u{301}'",
    "'ab'",
    "'aB'",
    "'b'",
    "'ba'",
    "'0'",
    "'it''s'",
];

impl Scalar {
    pub fn any(chance: &Chance) -> Scalar {
        match chance.below(3) {
            0 => *chance.pick(&[Int, Text]),
            _ => *chance.pick(&ALL),
        }
    }

    pub fn of_key(chance: &Chance) -> Scalar {
        match chance.below(2) {
            0 => *chance.pick(&[Int, Text]),
            _ => *chance.pick(&OF_KEYS),
        }
    }

    /// Chooses a type for elements of sets and keys of maps: as [`Self::of_key`].
    fn of_element(chance: &Chance) -> Scalar {
        match Scalar::any(chance) {
            Decimal => Int,
            other => other,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Ascii => "ascii",
            BigInt => "bigint",
            Blob => "blob",
            Boolean => "boolean",
            Date => "date",
            Decimal => "decimal",
            Double => "double",
            Float => "float",
            Inet => "inet",
            Int => "int",
            SmallInt => "smallint",
            Text => "text",
            Time => "time",
            Timestamp => "timestamp",
            TimeUuid => "timeuuid",
            TinyInt => "tinyint",
            Uuid => "uuid",
            VarInt => "varint",
        }
    }

    /// Returns whether storage-attached indexes take it.
    pub fn can_be_attached(self) -> bool {
        self != Blob
    }

    /// Returns whether storage-attached indexes serve ranges of it.
    pub fn has_ranges(self) -> bool {
        !matches!(self, Ascii | Text | Boolean | Uuid | Blob)
    }

    pub fn literal(self, chance: &Chance) -> String {
        let few: &[&str] = match self {
            Ascii => &["''", "'a'", "'ab'", "'b'", "'ba'", "'0'", "'z'", "'it''s'"],
            Text => &TEXTS,
            BigInt => &[
                "-9223372036854775808",
                "-1",
                "0",
                "1",
                "255",
                "256",
                "9223372036854775807",
            ],
            Blob => &["0x", "0x00", "0x0000", "0x01", "0x0100", "0xff", "0xff00"],
            Boolean => &["true", "false"],
            Date => &["'1969-12-31'", "'1970-01-01'", "'2020-02-29'", "'2020-03-01'"],
            Decimal => &[
                "0", "0.0", "1", "1.0", "1.00", "-1", "-0.5", "10", "1E+10", "1E-10", "99.99",
            ],
            Double => &[
                "0.0",
                "-0.0",
                "1.5",
                "-1.5",
                "NaN",
                "Infinity",
                "-Infinity",
                "1e300",
                "5e-324",
            ],
            Float => &[
                "0.0",
                "-0.0",
                "1.5",
                "-1.5",
                "NaN",
                "Infinity",
                "-Infinity",
                "1e30",
            ],
            Inet => &[
                "'0.0.0.0'",
                "'10.0.0.1'",
                "'10.0.0.2'",
                "'127.0.0.1'",
                "'255.255.255.255'",
            ],
            Int => &[
                "-2147483648",
                "-1",
                "0",
                "1",
                "2",
                "3",
                "255",
                "256",
                "2147483647",
            ],
            SmallInt => &["-32768", "-1", "0", "1", "255", "256", "32767"],
            Time => &[
                "'00:00:00'",
                "'00:00:00.000000001'",
                "'12:00:00'",
                "'23:59:59.999999999'",
            ],
            Timestamp => &["-1", "0", "1", "1700000000000", "1700000000001"],
            TimeUuid => &[
                "00000000-0000-1000-8080-808080808080",
                "ffffffff-0000-1000-8080-808080808080",
                "00000000-0001-1000-8080-808080808080",
                "00000000-0000-1000-7f7f-7f7f7f7f7f7f",
            ],
            TinyInt => &["-128", "-1", "0", "1", "127"],
            Uuid => &[
                "00000000-0000-4000-8000-000000000000",
                "00000000-0000-1000-8080-808080808080",
                "ffffffff-ffff-4fff-bfff-ffffffffffff",
                "7fffffff-ffff-4fff-bfff-ffffffffffff",
            ],
            VarInt => &[
                "0",
                "1",
                "-1",
                "127",
                "128",
                "-128",
                "-129",
                "18446744073709551616",
            ],
        };
        match self {
            // They differ behind the end of their term.
            Ascii | Text if chance.one_in(10) => {
                format!("'{}{}'", "l".repeat(LONG_TEXT), chance.below(3))
            }
            _ => (*chance.pick(few)).to_owned(),
        }
    }
}

impl Type {
    pub fn any(chance: &Chance) -> Type {
        let scalar = || Scalar::any(chance);
        match chance.below(12) {
            0 => Type::List(scalar()),
            1 => Type::Set(Scalar::of_element(chance)),
            2 | 3 => Type::Map(Scalar::of_element(chance), scalar()),
            4 => Type::FrozenList(scalar()),
            5 => Type::FrozenSet(scalar()),
            6 => Type::FrozenMap(scalar(), scalar()),
            _ => Type::Scalar(scalar()),
        }
    }

    pub fn name(&self) -> String {
        match self {
            Type::Scalar(scalar) => scalar.name().to_owned(),
            Type::List(element) => format!("list<{}>", element.name()),
            Type::Set(element) => format!("set<{}>", element.name()),
            Type::Map(key, value) => format!("map<{}, {}>", key.name(), value.name()),
            Type::FrozenList(element) => format!("frozen<list<{}>>", element.name()),
            Type::FrozenSet(element) => format!("frozen<set<{}>>", element.name()),
            Type::FrozenMap(key, value) => format!("frozen<map<{}, {}>>", key.name(), value.name()),
        }
    }

    pub fn scalars(&self) -> Vec<Scalar> {
        match *self {
            Type::Scalar(one) | Type::List(one) | Type::Set(one) => vec![one],
            Type::FrozenList(one) | Type::FrozenSet(one) => vec![one],
            Type::Map(key, value) | Type::FrozenMap(key, value) => vec![key, value],
        }
    }

    pub fn literal(&self, chance: &Chance) -> String {
        let several = |write: &dyn Fn() -> String| {
            let parts: Vec<String> = (0..chance.count(4)).map(|_| write()).collect();
            parts.join(", ")
        };
        match *self {
            Type::Scalar(scalar) => scalar.literal(chance),
            Type::List(element) | Type::FrozenList(element) => {
                format!("[{}]", several(&|| element.literal(chance)))
            }
            Type::Set(element) | Type::FrozenSet(element) => {
                format!("{{{}}}", several(&|| element.literal(chance)))
            }
            Type::Map(key, value) | Type::FrozenMap(key, value) => {
                let entry = || format!("{}: {}", key.literal(chance), value.literal(chance));
                format!("{{{}}}", several(&entry))
            }
        }
    }
}
