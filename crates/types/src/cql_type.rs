//! The type system of CQL: what a column, a bind marker or a selected expression may be.

use std::sync::Arc;

/// A CQL type, native or compound. Cheap to clone: compound types share their parts.
///
/// "Frozen" belongs to the type because it decides how a value is stored: a frozen collection is one cell, a
/// non-frozen ("multi-cell") one has a cell per element. Tuples and vectors are always stored as one cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    /// `EmptyType`: the value of a dense table without regular columns. Never declared in CQL.
    Empty,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    List {
        element: Arc<CqlType>,
        frozen: bool,
    },
    Set {
        element: Arc<CqlType>,
        frozen: bool,
    },
    Map {
        key: Arc<CqlType>,
        value: Arc<CqlType>,
        frozen: bool,
    },
    Tuple(Arc<[CqlType]>),
    UserDefined {
        definition: Arc<UserType>,
        frozen: bool,
    },
    /// `vector<element, dimension>`; `dimension` counts elements and is at least 1.
    Vector {
        element: Arc<CqlType>,
        dimension: u32,
    },
    /// A type known only by the name of its Java class, as `'org.example.MyType'` declares it.
    Custom(Arc<str>),
}

/// A user-defined type: `CREATE TYPE keyspace.name (field type, ...)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    pub keyspace: Arc<str>,
    pub name: Arc<str>,
    /// In declaration order; `ALTER TYPE ... ADD` only ever appends.
    pub fields: Vec<(Arc<str>, CqlType)>,
}

impl CqlType {
    pub fn is_collection(&self) -> bool {
        matches!(
            self,
            CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. }
        )
    }

    /// Whether a column of this type is stored as one cell per element or field (a non-frozen collection or UDT).
    pub fn is_multi_cell(&self) -> bool {
        match self {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::UserDefined { frozen, .. } => !frozen,
            _ => false,
        }
    }
}
