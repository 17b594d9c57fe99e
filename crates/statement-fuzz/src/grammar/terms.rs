//! Values: literals of every type, markers, calls and arithmetic.

use helenus_storage_model::{Chance, random_value};
use helenus_types::CqlType;

use super::Grammar;

/// Literals of all kinds, some of them at the edge of their type or beyond it.
const LITERALS: [&str; 40] = [
    "0",
    "1",
    "-1",
    "127",
    "128",
    "2147483647",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775808",
    "99999999999999999999999999999999999999",
    "1.5",
    "-0.0",
    "1e10",
    "1e-320",
    "1e400",
    "NaN",
    "-NaN",
    "Infinity",
    "-Infinity",
    "true",
    "FALSE",
    "''",
    "'a'",
    "'it''s'",
    "$$dollar$$",
    "'\u{1F600}'",
    "0x",
    "0xcafe",
    "0xabc",
    "550e8400-e29b-41d4-a716-446655440000",
    "50554d6e-29bb-11e5-b345-feff819cdc9f",
    "1h30m",
    "P1Y2M",
    "-3d12h",
    "null",
    "'2020-02-29'",
    "'12:30:54.123456789'",
    "'::1'",
    "'127.0.0.1'",
    "'2020-02-29 12:00:00+0000'",
];

/// Native functions, whatever they take.
pub(super) const FUNCTIONS: [&str; 58] = [
    "abs",
    "exp",
    "log",
    "log10",
    "round",
    "count",
    "min",
    "max",
    "sum",
    "avg",
    "now",
    "uuid",
    "currenttimestamp",
    "currentdate",
    "currenttime",
    "currenttimeuuid",
    "current_timestamp",
    "to_date",
    "to_timestamp",
    "to_unix_timestamp",
    "min_timeuuid",
    "max_timeuuid",
    "minTimeuuid",
    "toDate",
    "toTimestamp",
    "toUnixTimestamp",
    "blob_as_int",
    "int_as_blob",
    "text_as_blob",
    "blobAsText",
    "bigint_as_blob",
    "token",
    "writetime",
    "ttl",
    "maxwritetime",
    "map_keys",
    "map_values",
    "collection_count",
    "collection_min",
    "collection_max",
    "collection_sum",
    "collection_avg",
    "similarity_cosine",
    "similarity_euclidean",
    "similarity_dot_product",
    "mask_default",
    "mask_null",
    "mask_replace",
    "mask_inner",
    "mask_outer",
    "mask_hash",
    "floor",
    "dateof",
    "unixtimestampof",
    "from_json",
    "to_json",
    "fromJson",
    "toJson",
];

const OPERATORS: [&str; 5] = ["+", "-", "*", "/", "%"];

/// Values of larger types take gigabytes here before they are cut to a request.
const VALUE_LEAVES_MAX: u64 = 1 << 16;

/// How many values without parts one of the type has, about.
fn leaves_of(cql_type: &CqlType) -> u64 {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => leaves_of(element).saturating_mul(3),
        CqlType::Map { key, value, .. } => {
            let both = leaves_of(key).saturating_add(leaves_of(value));
            both.saturating_mul(3)
        }
        CqlType::Tuple(components) => components.iter().map(leaves_of).fold(0, u64::saturating_add),
        CqlType::UserDefined { definition, .. } => {
            let fields = definition.fields.iter().map(|(_, field)| leaves_of(field));
            fields.fold(0, u64::saturating_add)
        }
        CqlType::Vector { element, dimension } => leaves_of(element).saturating_mul(u64::from(*dimension)),
        _ => 1,
    }
}

impl Grammar<'_> {
    pub(super) fn literal(&self, cql_type: &CqlType) -> String {
        if leaves_of(cql_type) > VALUE_LEAVES_MAX {
            return "null".to_owned();
        }
        cql_type.to_cql_literal(&random_value(self.chance, cql_type))
    }

    pub(super) fn any_literal(&self) -> String {
        match self.chance.below(60) {
            0 => format!("'{}'", "x".repeat(self.chance.count(4_000))),
            1 => "9".repeat(1 + self.chance.count(2_000)),
            2 => format!("0x{}", "ab".repeat(self.chance.count(2_000))),
            3 => format!("1e{}", self.chance.below(1_000_000_000)),
            4 => format!("0.{}1", "0".repeat(self.chance.count(1_000))),
            _ => self.one_of(&LITERALS).to_owned(),
        }
    }

    /// A value for a receiver of this type, mostly.
    pub(super) fn term(&self, cql_type: &CqlType) -> String {
        match self.chance.below(24) {
            0..4 => "?".to_owned(),
            4 => format!(":{}", self.word()),
            5 => "null".to_owned(),
            6 => self.any_term(self.depth()),
            7 => format!("({cql_type}) {}", self.literal(cql_type)),
            8 if self.chance.one_in(4) => self.arithmetic(self.literal(cql_type), self.literal(cql_type)),
            9 if self.chance.one_in(4) => self.call(self.depth()),
            _ => self.literal(cql_type),
        }
    }

    /// An expression of any type.
    pub(super) fn any_term(&self, depth: usize) -> String {
        if depth == 0 {
            return self.any_literal();
        }
        let inner = || self.any_term(depth - 1);
        // A deep one is a chain: one that branches at each level has no end.
        let list = || {
            if depth > super::DEPTH {
                inner()
            } else {
                self.several(3, ", ", inner)
            }
        };
        match self.chance.below(16) {
            0 => format!("[{}]", list()),
            1 => format!("{{{}}}", list()),
            2 => format!("{{{}: {}}}", self.any_literal(), inner()),
            3 => format!("{{{}: {}}}", self.word(), inner()),
            4 => format!("({})", list()),
            5 => format!("({}) {}", self.type_name(2), inner()),
            6 => format!("CAST({} AS {})", inner(), self.native_type()),
            7 => self.call(depth - 1),
            8 => self.arithmetic(inner(), self.any_literal()),
            9 => format!("-{}", inner()),
            10 => "?".to_owned(),
            _ if depth > super::DEPTH => format!("({})", inner()),
            _ => self.any_literal(),
        }
    }

    pub(super) fn arithmetic(&self, left: String, right: String) -> String {
        format!("{left} {} {right}", self.one_of(&OPERATORS))
    }

    fn call(&self, depth: usize) -> String {
        let keyspace = self.sometimes(10, &format!("{}.", self.one_of(&["system", "fuzz"])));
        let arguments = match self.chance.below(4) {
            0 => String::new(),
            _ if depth > super::DEPTH => self.any_term(depth),
            _ => self.several(3, ", ", || self.any_term(depth.min(2))),
        };
        format!("{keyspace}{}({arguments})", self.one_of(&FUNCTIONS))
    }
}

/// Makes the bytes that a marker of this type is bound to: mostly a value.
pub(crate) fn bound_value(chance: &Chance, cql_type: &CqlType) -> Option<Vec<u8>> {
    match chance.below(20) {
        0 => None,
        1 => Some(Vec::new()),
        2 => {
            let length = chance.count(20);
            Some(chance.bytes(length))
        }
        3 if chance.one_in(10) => {
            let length = chance.count(100_000);
            Some(chance.bytes(length))
        }
        _ if leaves_of(cql_type) > VALUE_LEAVES_MAX => None,
        _ => Some(random_value(chance, cql_type)),
    }
}
