//! Types as CQL prints them: in DESCRIBE, in `system_schema` and in error messages.

use std::fmt;

use crate::cql_type::CqlType;
use crate::identifier::quoted_identifier;

impl fmt::Display for CqlType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.native_name() {
            return out.write_str(name);
        }
        // Cassandra prints a tuple as frozen, although no other kind exists; a vector it does not.
        let is_frozen = match self {
            CqlType::Tuple(_) => true,
            CqlType::Vector { .. } | CqlType::Custom(_) => false,
            _ => !self.is_multi_cell(),
        };
        if is_frozen {
            out.write_str("frozen<")?;
        }
        match self {
            CqlType::List { element, .. } => write!(out, "list<{element}>")?,
            CqlType::Set { element, .. } => write!(out, "set<{element}>")?,
            CqlType::Map { key, value, .. } => write!(out, "map<{key}, {value}>")?,
            CqlType::Tuple(components) => {
                out.write_str("tuple<")?;
                for (index, component) in components.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(out, "{separator}{component}")?;
                }
                out.write_str(">")?;
            }
            CqlType::UserDefined { definition, .. } => out.write_str(&quoted_identifier(&definition.name))?,
            CqlType::Vector { element, dimension } => write!(out, "vector<{element}, {dimension}>")?,
            CqlType::Custom(class) => write!(out, "'{class}'")?,
            _ => {}
        }
        if is_frozen {
            out.write_str(">")?;
        }
        Ok(())
    }
}

impl CqlType {
    /// The native type of this CQL name, whatever its case.
    pub fn native(name: &str) -> Option<CqlType> {
        let lower = name.to_ascii_lowercase();
        if lower == "varchar" {
            return Some(CqlType::Text);
        }
        NATIVES
            .iter()
            .find(|(_, cql_name)| *cql_name == lower)
            .map(|(native, _)| native.clone())
    }

    /// The CQL name of a native type; none for compound and custom types.
    pub fn native_name(&self) -> Option<&'static str> {
        Some(match self {
            CqlType::Ascii => "ascii",
            CqlType::Bigint => "bigint",
            CqlType::Blob => "blob",
            CqlType::Boolean => "boolean",
            CqlType::Counter => "counter",
            CqlType::Date => "date",
            CqlType::Decimal => "decimal",
            CqlType::Double => "double",
            CqlType::Duration => "duration",
            CqlType::Empty => "empty",
            CqlType::Float => "float",
            CqlType::Inet => "inet",
            CqlType::Int => "int",
            CqlType::Smallint => "smallint",
            CqlType::Text => "text",
            CqlType::Time => "time",
            CqlType::Timestamp => "timestamp",
            CqlType::Timeuuid => "timeuuid",
            CqlType::Tinyint => "tinyint",
            CqlType::Uuid => "uuid",
            CqlType::Varint => "varint",
            CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::UserDefined { .. }
            | CqlType::Vector { .. }
            | CqlType::Custom(_) => return None,
        })
    }
}

/// `empty` is missing on purpose: Cassandra's grammar does not know it as a type.
const NATIVES: [(CqlType, &str); 20] = [
    (CqlType::Ascii, "ascii"),
    (CqlType::Bigint, "bigint"),
    (CqlType::Blob, "blob"),
    (CqlType::Boolean, "boolean"),
    (CqlType::Counter, "counter"),
    (CqlType::Date, "date"),
    (CqlType::Decimal, "decimal"),
    (CqlType::Double, "double"),
    (CqlType::Duration, "duration"),
    (CqlType::Float, "float"),
    (CqlType::Inet, "inet"),
    (CqlType::Int, "int"),
    (CqlType::Smallint, "smallint"),
    (CqlType::Text, "text"),
    (CqlType::Time, "time"),
    (CqlType::Timestamp, "timestamp"),
    (CqlType::Timeuuid, "timeuuid"),
    (CqlType::Tinyint, "tinyint"),
    (CqlType::Uuid, "uuid"),
    (CqlType::Varint, "varint"),
];
