//! Types as they are written.

use super::Grammar;

const NATIVE: [&str; 21] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
    "counter",
];

impl Grammar<'_> {
    pub(super) fn native_type(&self) -> &'static str {
        // A table with one counter takes nothing else.
        let bound = if self.chance.one_in(60) {
            NATIVE.len()
        } else {
            NATIVE.len() - 1
        };
        NATIVE[self.chance.count(bound)]
    }

    pub(super) fn type_name(&self, depth: usize) -> String {
        if depth == 0 {
            return self.native_type().to_owned();
        }
        let inner = || self.type_name(depth - 1);
        match self.chance.below(20) {
            0 | 1 => format!("list<{}>", self.frozen(inner())),
            2 | 3 => format!("set<{}>", self.frozen(inner())),
            4 | 5 => format!("map<{}, {}>", self.frozen(inner()), self.frozen(inner())),
            6 => format!("tuple<{}>", self.several(3, ", ", inner)),
            7 => format!(
                "vector<{}, {}>",
                inner(),
                self.one_of(&[1, 2, 3, 16, 256, 0, 8193])
            ),
            8 => format!("frozen<{}>", inner()),
            9 | 10 => self.frozen(self.user_type_name()),
            11 if self.chance.one_in(8) => "'org.apache.cassandra.db.marshal.Int32Type'".to_owned(),
            _ => self.native_type().to_owned(),
        }
    }

    fn frozen(&self, inner: String) -> String {
        if inner.contains(['<', '.']) && !inner.starts_with("frozen") && !self.chance.one_in(10) {
            return format!("frozen<{inner}>");
        }
        inner
    }
}
