//! CQL's types as Stargate's clients know them.

use std::collections::HashMap;

use helenus_types::CqlType;

use super::proto::stargate::TypeSpec;
use super::proto::stargate::type_spec::{Basic, List, Map, Set, Spec, Tuple, Udt};

/// A vector is a list to them: they do not know it.
pub fn type_spec(data_type: &CqlType) -> TypeSpec {
    let boxed = |data_type: &CqlType| Some(Box::new(type_spec(data_type)));
    let spec = match data_type {
        CqlType::List { element, frozen } => Spec::List(Box::new(List {
            element: boxed(element),
            frozen: *frozen,
        })),
        CqlType::Vector { element, .. } => Spec::List(Box::new(List {
            element: boxed(element),
            frozen: true,
        })),
        CqlType::Set { element, frozen } => Spec::Set(Box::new(Set {
            element: boxed(element),
            frozen: *frozen,
        })),
        CqlType::Map { key, value, frozen } => Spec::Map(Box::new(Map {
            key: boxed(key),
            value: boxed(value),
            frozen: *frozen,
        })),
        CqlType::Tuple(elements) => Spec::Tuple(Tuple {
            elements: elements.iter().map(type_spec).collect(),
        }),
        CqlType::UserDefined { definition, frozen } => {
            let fields = definition.fields.iter();
            let fields = fields.map(|(name, field)| (name.to_string(), type_spec(field)));
            Spec::Udt(Udt {
                fields: fields.collect::<HashMap<_, _>>(),
                name: definition.name.to_string(),
                frozen: *frozen,
            })
        }
        native => Spec::Basic(basic(native) as i32),
    };
    TypeSpec { spec: Some(spec) }
}

fn basic(native: &CqlType) -> Basic {
    match native {
        CqlType::Ascii => Basic::Ascii,
        CqlType::Bigint => Basic::Bigint,
        CqlType::Blob => Basic::Blob,
        CqlType::Boolean => Basic::Boolean,
        CqlType::Counter => Basic::Counter,
        CqlType::Date => Basic::Date,
        CqlType::Decimal => Basic::Decimal,
        CqlType::Double => Basic::Double,
        CqlType::Duration => Basic::Duration,
        CqlType::Float => Basic::Float,
        CqlType::Inet => Basic::Inet,
        CqlType::Int => Basic::Int,
        CqlType::Smallint => Basic::Smallint,
        CqlType::Text => Basic::Varchar,
        CqlType::Time => Basic::Time,
        CqlType::Timestamp => Basic::Timestamp,
        CqlType::Timeuuid => Basic::Timeuuid,
        CqlType::Tinyint => Basic::Tinyint,
        CqlType::Uuid => Basic::Uuid,
        CqlType::Varint => Basic::Varint,
        _ => Basic::Custom,
    }
}
