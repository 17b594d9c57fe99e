//! The type system of CQL: what a column, a bind marker or a selected expression may be.

use std::sync::Arc;

/// How deep a type may nest before it is refused, counted in types from the outside in. Cassandra has no such bound
/// and overflows its stack some thousands of levels down; 64 is far beyond any schema and safe on any thread here.
pub const TYPE_DEPTH_MAX: usize = 64;

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
    /// A type known only by the name of its Java class, as `'org.example.MyType'` declares it. Its values are
    /// taken as blobs.
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
    pub fn list(element: CqlType, frozen: bool) -> CqlType {
        CqlType::List {
            element: Arc::new(element),
            frozen,
        }
    }

    pub fn set(element: CqlType, frozen: bool) -> CqlType {
        CqlType::Set {
            element: Arc::new(element),
            frozen,
        }
    }

    pub fn map(key: CqlType, value: CqlType, frozen: bool) -> CqlType {
        CqlType::Map {
            key: Arc::new(key),
            value: Arc::new(value),
            frozen,
        }
    }

    /// A tuple's components are always frozen.
    pub fn tuple(components: impl IntoIterator<Item = CqlType>) -> CqlType {
        CqlType::Tuple(
            components
                .into_iter()
                .map(|component| component.freeze())
                .collect(),
        )
    }

    pub fn vector(element: CqlType, dimension: u32) -> CqlType {
        CqlType::Vector {
            element: Arc::new(element),
            dimension,
        }
    }

    pub fn user_defined(definition: Arc<UserType>, frozen: bool) -> CqlType {
        CqlType::UserDefined { definition, frozen }
    }

    pub fn is_collection(&self) -> bool {
        matches!(
            self,
            CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. }
        )
    }

    pub fn is_counter(&self) -> bool {
        matches!(self, CqlType::Counter)
    }

    pub fn is_user_defined(&self) -> bool {
        matches!(self, CqlType::UserDefined { .. })
    }

    pub fn is_tuple(&self) -> bool {
        matches!(self, CqlType::Tuple(_))
    }

    pub fn is_vector(&self) -> bool {
        matches!(self, CqlType::Vector { .. })
    }

    /// Returns whether a column of this type is stored as one cell per element or field (a non-frozen collection or UDT).
    pub fn is_multi_cell(&self) -> bool {
        match self {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::UserDefined { frozen, .. } => !frozen,
            _ => false,
        }
    }

    /// The length in bytes that every non-empty value has, for the types whose values SSTables and vectors store
    /// without a length. As in Cassandra this leaves out tinyint, smallint, date, time and counter, whose
    /// lengths never change either.
    pub fn value_length_if_fixed(&self) -> Option<usize> {
        match self {
            CqlType::Empty => Some(0),
            CqlType::Boolean => Some(1),
            CqlType::Int | CqlType::Float => Some(4),
            CqlType::Bigint | CqlType::Double | CqlType::Timestamp => Some(8),
            CqlType::Uuid | CqlType::Timeuuid => Some(16),
            CqlType::Vector { element, dimension } => {
                element.value_length_if_fixed()?.checked_mul(*dimension as usize)
            }
            _ => None,
        }
    }

    /// Returns whether a value of zero bytes is valid.
    pub fn allows_empty(&self) -> bool {
        !matches!(
            self,
            CqlType::Tinyint
                | CqlType::Smallint
                | CqlType::Date
                | CqlType::Time
                | CqlType::Duration
                | CqlType::Empty
                | CqlType::Vector { .. }
                | CqlType::List { .. }
                | CqlType::Set { .. }
                | CqlType::Map { .. }
                | CqlType::Custom(_)
        )
    }

    /// Returns whether a value of zero bytes says nothing, so that functions and arithmetic take it for null.
    pub fn is_empty_value_meaningless(&self) -> bool {
        matches!(
            self,
            CqlType::Boolean
                | CqlType::Bigint
                | CqlType::Counter
                | CqlType::Decimal
                | CqlType::Double
                | CqlType::Float
                | CqlType::Inet
                | CqlType::Int
                | CqlType::Timestamp
                | CqlType::Timeuuid
                | CqlType::Uuid
                | CqlType::Varint
        )
    }

    /// The direct parts: elements, key and value, components or field types.
    pub fn sub_types(&self) -> impl Iterator<Item = &CqlType> {
        let (first, second) = match self {
            CqlType::List { element, .. }
            | CqlType::Set { element, .. }
            | CqlType::Vector { element, .. } => (Some(&**element), None),
            CqlType::Map { key, value, .. } => (Some(&**key), Some(&**value)),
            _ => (None, None),
        };
        let components: &[CqlType] = match self {
            CqlType::Tuple(components) => components,
            _ => &[],
        };
        let fields: &[(Arc<str>, CqlType)] = match self {
            CqlType::UserDefined { definition, .. } => &definition.fields,
            _ => &[],
        };
        first
            .into_iter()
            .chain(second)
            .chain(components)
            .chain(fields.iter().map(|(_, field)| field))
    }

    /// The same type stored as one cell. Everything inside a frozen collection is frozen too; a UDT's fields stay
    /// as they were declared.
    #[must_use]
    pub fn freeze(&self) -> CqlType {
        match self {
            CqlType::List {
                element,
                frozen: false,
            } => CqlType::list(element.freeze(), true),
            CqlType::Set {
                element,
                frozen: false,
            } => CqlType::set(element.freeze(), true),
            CqlType::Map {
                key,
                value,
                frozen: false,
            } => CqlType::map(key.freeze(), value.freeze(), true),
            CqlType::UserDefined {
                definition,
                frozen: false,
            } => CqlType::user_defined(Arc::clone(definition), true),
            other => other.clone(),
        }
    }

    /// Returns whether the UDT `name` is this type or is used anywhere in it. Types of one schema share a keyspace.
    pub fn references_user_type(&self, name: &str) -> bool {
        if let CqlType::UserDefined { definition, .. } = self
            && &*definition.name == name
        {
            return true;
        }
        self.sub_types().any(|part| part.references_user_type(name))
    }

    /// Returns whether `duration` is part of the type; durations have no order, so such a type cannot be a key. As Cassandra it does not
    /// look into vectors, which it compares as bytes.
    pub fn references_duration(&self) -> bool {
        match self {
            CqlType::Duration => true,
            CqlType::Vector { .. } => false,
            _ => self.sub_types().any(CqlType::references_duration),
        }
    }

    /// The type after `ALTER TYPE`: every use of the UDT of that name becomes `updated`, each use keeping its own
    /// frozen flag.
    #[must_use]
    pub fn with_updated_user_type(&self, updated: &Arc<UserType>) -> CqlType {
        if !self.references_user_type(&updated.name) {
            return self.clone();
        }
        match self {
            CqlType::List { element, frozen } => {
                CqlType::list(element.with_updated_user_type(updated), *frozen)
            }
            CqlType::Set { element, frozen } => {
                CqlType::set(element.with_updated_user_type(updated), *frozen)
            }
            CqlType::Map { key, value, frozen } => CqlType::map(
                key.with_updated_user_type(updated),
                value.with_updated_user_type(updated),
                *frozen,
            ),
            CqlType::Tuple(components) => CqlType::tuple(
                components
                    .iter()
                    .map(|component| component.with_updated_user_type(updated)),
            ),
            CqlType::Vector { element, dimension } => {
                CqlType::vector(element.with_updated_user_type(updated), *dimension)
            }
            CqlType::UserDefined { definition, frozen } if definition.name == updated.name => {
                CqlType::user_defined(Arc::clone(updated), *frozen)
            }
            CqlType::UserDefined { definition, frozen } => {
                CqlType::user_defined(Arc::new(definition.with_updated_user_type(updated)), *frozen)
            }
            other => other.clone(),
        }
    }

    /// The type with every UDT replaced by the tuple of its fields: what a dropped column keeps, since the UDT may
    /// be dropped after it.
    #[must_use]
    pub fn expand_user_types(&self) -> CqlType {
        match self {
            CqlType::List { element, frozen } => CqlType::list(element.expand_user_types(), *frozen),
            CqlType::Set { element, frozen } => CqlType::set(element.expand_user_types(), *frozen),
            CqlType::Map { key, value, frozen } => {
                CqlType::map(key.expand_user_types(), value.expand_user_types(), *frozen)
            }
            CqlType::Vector { element, dimension } => {
                CqlType::vector(element.expand_user_types(), *dimension)
            }
            CqlType::Tuple(_) | CqlType::UserDefined { .. } => {
                CqlType::tuple(self.sub_types().map(CqlType::expand_user_types))
            }
            other => other.clone(),
        }
    }
}

impl UserType {
    pub fn field_position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| &**field == name)
    }

    #[must_use]
    pub fn with_updated_user_type(&self, updated: &Arc<UserType>) -> UserType {
        let fields = self.fields.iter();
        UserType {
            keyspace: Arc::clone(&self.keyspace),
            name: Arc::clone(&self.name),
            fields: fields
                .map(|(name, field)| (Arc::clone(name), field.with_updated_user_type(updated)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Arc<UserType> {
        Arc::new(UserType {
            keyspace: "ks".into(),
            name: "address".into(),
            fields: vec![("tags".into(), CqlType::list(CqlType::Text, false))],
        })
    }

    #[test]
    fn freezing_reaches_into_collections_but_not_into_user_types() {
        let nested = CqlType::list(
            CqlType::map(CqlType::Int, CqlType::user_defined(address(), false), false),
            false,
        );
        assert_eq!(
            nested.freeze().to_string(),
            "frozen<list<frozen<map<int, frozen<address>>>>>"
        );
        let fields = |cql_type: &CqlType| cql_type.sub_types().next().map(CqlType::to_string);
        let user = CqlType::user_defined(address(), false);
        assert_eq!(fields(&user.freeze()).as_deref(), Some("list<text>"));
    }

    #[test]
    fn an_altered_user_type_replaces_every_use_and_keeps_each_frozen_flag() {
        let mut altered = (*address()).clone();
        altered.fields.push(("zip".into(), CqlType::Int));
        let altered = Arc::new(altered);
        let user = |frozen| CqlType::user_defined(address(), frozen);
        let before = CqlType::map(CqlType::tuple([user(false)]), user(true), false);
        let after = before.with_updated_user_type(&altered);
        assert!(before.references_user_type("address") && !before.references_user_type("other"));
        assert_eq!(after.to_string(), before.to_string());
        assert_eq!(
            after.expand_user_types().to_string(),
            "map<frozen<tuple<frozen<tuple<list<text>, int>>>>, frozen<tuple<list<text>, int>>>"
                .replace("list<text>", "frozen<list<text>>")
        );
    }

    #[test]
    fn what_a_type_refers_to_is_found_at_any_depth() {
        let deep = |inner| CqlType::list(CqlType::tuple([CqlType::Int, CqlType::list(inner, true)]), true);
        assert!(deep(CqlType::Duration).references_duration() && !deep(CqlType::Int).references_duration());
        // Of a vector neither Cassandra nor a node knows what it holds.
        assert!(!deep(CqlType::vector(CqlType::Duration, 2)).references_duration());
    }
}
