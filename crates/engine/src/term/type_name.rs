//! Type names inside statements: the targets of casts and type hints.

use helenus_cql::ast::{NativeType, TypeName};
use helenus_schema::Schema;
use helenus_types::{CqlType, ExtentBounds};

use crate::CqlError;

pub fn native_type(native: NativeType) -> CqlType {
    match native {
        NativeType::Ascii => CqlType::Ascii,
        NativeType::Bigint => CqlType::Bigint,
        NativeType::Blob => CqlType::Blob,
        NativeType::Boolean => CqlType::Boolean,
        NativeType::Counter => CqlType::Counter,
        NativeType::Date => CqlType::Date,
        NativeType::Decimal => CqlType::Decimal,
        NativeType::Double => CqlType::Double,
        NativeType::Duration => CqlType::Duration,
        NativeType::Float => CqlType::Float,
        NativeType::Inet => CqlType::Inet,
        NativeType::Int => CqlType::Int,
        NativeType::Smallint => CqlType::Smallint,
        NativeType::Text | NativeType::Varchar => CqlType::Text,
        NativeType::Time => CqlType::Time,
        NativeType::Timestamp => CqlType::Timestamp,
        NativeType::Timeuuid => CqlType::Timeuuid,
        NativeType::Tinyint => CqlType::Tinyint,
        NativeType::Uuid => CqlType::Uuid,
        NativeType::Varint => CqlType::Varint,
    }
}

/// The type a hint names. Unqualified user types belong to the table's keyspace.
pub(super) fn hinted_type(schema: &Schema, keyspace: &str, name: &TypeName) -> Result<CqlType, CqlError> {
    let cql_type = named_type(schema, keyspace, name)?;
    match ExtentBounds::DECLARED.check([&cql_type]) {
        Ok(_) => Ok(cql_type),
        Err(error) => Err(invalid!("The type of a type hint {error}")),
    }
}

fn named_type(schema: &Schema, keyspace: &str, name: &TypeName) -> Result<CqlType, CqlError> {
    let inner = |name: &TypeName| named_type(schema, keyspace, name);
    Ok(match name {
        TypeName::Native(native) => native_type(*native),
        TypeName::List(element) => CqlType::list(inner(element)?, false),
        TypeName::Set(element) => CqlType::set(inner(element)?, false),
        TypeName::Map(key, value) => CqlType::map(inner(key)?, inner(value)?, false),
        TypeName::Tuple(components) => {
            CqlType::tuple(components.iter().map(inner).collect::<Result<Vec<_>, _>>()?)
        }
        TypeName::Vector { element, dimension } => match u32::try_from(*dimension) {
            Ok(dimension @ 1..) => CqlType::vector(inner(element)?, dimension),
            _ => {
                return Err(invalid!(
                    "vectors may only have positive dimensions; given {dimension}"
                ));
            }
        },
        TypeName::Frozen(frozen) => inner(frozen)?.freeze(),
        TypeName::UserType {
            keyspace: named,
            name,
        } => {
            let keyspace = named.as_deref().unwrap_or(keyspace);
            let definition = schema
                .keyspace(keyspace)
                .and_then(|keyspace| keyspace.types.get(name.as_str()))
                .ok_or_else(|| invalid!("Unknown type {keyspace}.{name}"))?;
            CqlType::user_defined(definition.clone(), false)
        }
        TypeName::Custom(class) => CqlType::from_marshal_class(class)
            .map(|parsed| parsed.cql_type)
            .map_err(|error| invalid!("{error}"))?,
    })
}
