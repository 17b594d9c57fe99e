//! Which types may stand for which.

use crate::cql_type::CqlType;

impl CqlType {
    /// Returns whether values written as `previous` may be read as this type and keep their order: the rule for clustering
    /// columns and for what is inside sorted collections.
    pub fn is_compatible_with(&self, previous: &CqlType) -> bool {
        match (self, previous) {
            (CqlType::Blob, CqlType::Ascii | CqlType::Text) | (CqlType::Text, CqlType::Ascii) => true,
            (tuple, _) if tuple.tuple_components().is_some() => match previous.tuple_components() {
                Some(old) => components_compatible(tuple, previous, old, CqlType::is_compatible_with),
                None => false,
            },
            (
                CqlType::List {
                    element,
                    frozen: true,
                },
                CqlType::List {
                    element: old,
                    frozen: true,
                },
            )
            | (
                CqlType::Set {
                    element,
                    frozen: true,
                },
                CqlType::Set {
                    element: old,
                    frozen: true,
                },
            ) => element.is_compatible_with(old),
            (
                CqlType::Map {
                    key,
                    value,
                    frozen: true,
                },
                CqlType::Map {
                    key: old_key,
                    value: old_value,
                    frozen: true,
                },
            ) => key.is_compatible_with(old_key) && value.is_compatible_with(old_value),
            _ => self.is_multi_cell_compatible_with(previous),
        }
    }

    /// The same of types whose elements are cells of their own: only what names a cell is ordered.
    fn is_multi_cell_compatible_with(&self, previous: &CqlType) -> bool {
        match (self, previous) {
            (
                CqlType::List {
                    element,
                    frozen: false,
                },
                CqlType::List {
                    element: old,
                    frozen: false,
                },
            ) => element.is_serialization_compatible_with(old),
            (
                CqlType::Set {
                    element,
                    frozen: false,
                },
                CqlType::Set {
                    element: old,
                    frozen: false,
                },
            ) => element.is_compatible_with(old),
            (
                CqlType::Map {
                    key,
                    value,
                    frozen: false,
                },
                CqlType::Map {
                    key: old_key,
                    value: old_value,
                    frozen: false,
                },
            ) => key.is_compatible_with(old_key) && value.is_serialization_compatible_with(old_value),
            _ => self == previous,
        }
    }

    /// Returns whether values written as `previous` may be read as this type, whatever their order.
    pub fn is_value_compatible_with(&self, previous: &CqlType) -> bool {
        match (self, previous) {
            (CqlType::Blob, _)
            | (CqlType::Bigint, CqlType::Timestamp)
            | (CqlType::Timestamp | CqlType::Time, CqlType::Bigint)
            | (CqlType::Date, CqlType::Int)
            | (CqlType::Uuid, CqlType::Timeuuid)
            | (CqlType::Varint, CqlType::Int | CqlType::Bigint | CqlType::Timestamp) => true,
            (CqlType::UserDefined { .. }, CqlType::UserDefined { .. }) => {
                self.is_udt_value_compatible_with(previous)
            }
            (CqlType::UserDefined { .. }, _) => false,
            (CqlType::Tuple(_), _) => match previous.tuple_components() {
                Some(old) => components_compatible(self, previous, old, CqlType::is_value_compatible_with),
                None => false,
            },
            (
                CqlType::List {
                    element,
                    frozen: true,
                },
                CqlType::List {
                    element: old,
                    frozen: true,
                },
            ) => element.is_value_compatible_with(old),
            (
                CqlType::Map {
                    key,
                    value,
                    frozen: true,
                },
                CqlType::Map {
                    key: old_key,
                    value: old_value,
                    frozen: true,
                },
            ) => key.is_compatible_with(old_key) && value.is_value_compatible_with(old_value),
            _ => self.is_compatible_with(previous),
        }
    }

    /// Returns whether an SSTable written with `previous` can be read with this type.
    pub fn is_serialization_compatible_with(&self, previous: &CqlType) -> bool {
        self.is_value_compatible_with(previous)
            && self.value_length_if_fixed() == previous.value_length_if_fixed()
            && self.is_multi_cell() == previous.is_multi_cell()
    }

    fn is_udt_value_compatible_with(&self, previous: &CqlType) -> bool {
        let (
            CqlType::UserDefined { definition, frozen },
            CqlType::UserDefined {
                definition: old,
                frozen: old_frozen,
            },
        ) = (self, previous)
        else {
            return false;
        };
        frozen == old_frozen
            && definition.keyspace == old.keyspace
            && definition.fields.len() >= old.fields.len()
            && definition
                .fields
                .iter()
                .zip(&old.fields)
                .all(|((_, new), (_, old))| new.is_compatible_with(old))
    }

    /// How many components a tuple or UDT has. In Cassandra a UDT is a tuple with names.
    fn tuple_components(&self) -> Option<usize> {
        match self {
            CqlType::Tuple(components) => Some(components.len()),
            CqlType::UserDefined { definition, .. } => Some(definition.fields.len()),
            _ => None,
        }
    }
}

/// A tuple may gain components at its end, never lose any.
fn components_compatible(
    new: &CqlType,
    previous: &CqlType,
    previous_count: usize,
    compatible: fn(&CqlType, &CqlType) -> bool,
) -> bool {
    new.tuple_components()
        .is_some_and(|count| count >= previous_count)
        && new
            .sub_types()
            .zip(previous.sub_types())
            .all(|(new, old)| compatible(new, old))
}
