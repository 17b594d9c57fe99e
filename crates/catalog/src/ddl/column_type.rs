//! From a type as written to the type of a column: user types are looked up, nesting rules checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use helenus_cql::ast::{NativeType, TypeName};
use helenus_types::{CqlType, ExtentBounds, UserType};

use helenus_engine::CqlError;
use helenus_engine::term::native_type;

/// The class that stands for a stored type larger than any that can be declared now: its values are taken as blobs.
pub(crate) const TYPE_BEYOND_BOUNDS: &str = "helenus.TypeBeyondBounds";

type UserTypes = BTreeMap<Arc<str>, Arc<UserType>>;

/// The type that `written` means in a statement on `keyspace`, whose user types are `user_types`.
pub(crate) fn resolve_type(
    written: &TypeName,
    keyspace: &str,
    user_types: &UserTypes,
) -> Result<CqlType, CqlError> {
    Resolver { keyspace, user_types }.resolve(written, false)
}

/// As [`resolve_type`], of what a statement declares, which has bounds. `user` is what has the type.
pub(super) fn declared_type(
    written: &TypeName,
    keyspace: &str,
    user_types: &UserTypes,
    user: fmt::Arguments<'_>,
) -> Result<CqlType, CqlError> {
    let cql_type = resolve_type(written, keyspace, user_types)?;
    match ExtentBounds::DECLARED.check([&cql_type]) {
        Ok(_) => Ok(cql_type),
        Err(error) => Err(invalid!("The type of {user} {error}")),
    }
}

struct Resolver<'a> {
    keyspace: &'a str,
    user_types: &'a UserTypes,
}

impl Resolver<'_> {
    /// `frozen` is set inside `frozen<>`, which freezes everything within.
    fn resolve(&self, written: &TypeName, frozen: bool) -> Result<CqlType, CqlError> {
        match written {
            TypeName::Native(native) => Ok(native_type(*native)),
            TypeName::Frozen(inner) if !supports_freezing(inner) => Err(CqlError::syntax_rule(format_args!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got {})",
                Written::new(inner)
            ))),
            TypeName::Frozen(inner) => self.resolve(inner, true),
            TypeName::List(element) | TypeName::Set(element) => {
                self.check_collection(written, frozen)?;
                let element = self.resolve(element, frozen)?;
                Ok(match written {
                    TypeName::Set(_) => {
                        check_order(&element, "in a set")?;
                        CqlType::set(element, frozen)
                    }
                    _ => CqlType::list(element, frozen),
                })
            }
            TypeName::Map(key, value) => {
                self.check_collection(written, frozen)?;
                let key = self.resolve(key, frozen)?;
                check_order(&key, "keys of a map")?;
                Ok(CqlType::map(key, self.resolve(value, frozen)?, frozen))
            }
            TypeName::Tuple(components) => {
                let components = components.iter().map(|component| {
                    if is_native(component, NativeType::Counter) {
                        return Err(CqlError::invalid(format_args!(
                            "Counters are not allowed inside tuples"
                        )));
                    }
                    self.resolve(component, true)
                });
                Ok(CqlType::tuple(components.collect::<Result<Vec<_>, _>>()?))
            }
            TypeName::Vector { element, dimension } => {
                // The elements share one cell either way; Cassandra keeps them as written, even inside `frozen<>`.
                let element = self.resolve(element, false)?;
                match u32::try_from(*dimension) {
                    Ok(dimension) if dimension > 0 => Ok(CqlType::vector(element, dimension)),
                    _ => Err(CqlError::invalid(format_args!(
                        "vectors may only have positive dimensions; given {dimension}"
                    ))),
                }
            }
            TypeName::UserType { keyspace, name } => self.user_type(keyspace.as_deref(), name, frozen),
            TypeName::Custom(class) => custom_type(class),
        }
    }

    fn user_type(
        &self,
        written_keyspace: Option<&str>,
        name: &str,
        frozen: bool,
    ) -> Result<CqlType, CqlError> {
        let keyspace = self.keyspace;
        if let Some(other) = written_keyspace
            && other != keyspace
        {
            return Err(CqlError::invalid(format_args!(
                "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {other}; user types can \
                 only be used in the keyspace they are defined in"
            )));
        }
        match self.user_types.get(name) {
            Some(definition) => Ok(CqlType::user_defined(Arc::clone(definition), frozen)),
            None => Err(CqlError::invalid(format_args!("Unknown type {keyspace}.{name}"))),
        }
    }

    /// Refuses parts that a collection may not hold, in Cassandra's order.
    fn check_collection(&self, collection: &TypeName, frozen: bool) -> Result<(), CqlError> {
        let (key, value) = match collection {
            TypeName::Map(key, value) => (Some(&**key), &**value),
            TypeName::List(element) | TypeName::Set(element) => (None, &**element),
            _ => return Ok(()),
        };
        let shown = Written {
            type_name: collection,
            frozen,
            keyspace: None,
        };
        check_nested(value, frozen, &shown)?;
        if [Some(value), key]
            .into_iter()
            .flatten()
            .any(|part| is_native(part, NativeType::Counter))
        {
            return Err(CqlError::invalid(format_args!(
                "Counters are not allowed inside collections: {shown}"
            )));
        }
        if matches!(collection, TypeName::Set(_)) && is_native(value, NativeType::Duration) {
            return Err(CqlError::invalid(format_args!(
                "Durations are not allowed inside sets: {shown}"
            )));
        }
        let Some(key) = key else { return Ok(()) };
        if is_native(key, NativeType::Duration) {
            return Err(CqlError::invalid(format_args!(
                "Durations are not allowed as map keys: {shown}"
            )));
        }
        check_nested(key, frozen, &shown)
    }
}

/// Inside a collection that is not frozen, collections and user types must be.
fn check_nested(inner: &TypeName, frozen: bool, outer: &Written<'_>) -> Result<(), CqlError> {
    match inner {
        TypeName::List(_) | TypeName::Set(_) | TypeName::Map(..) if !frozen => Err(CqlError::invalid(
            format_args!("Non-frozen collections are not allowed inside collections: {outer}"),
        )),
        TypeName::UserType { .. } if !frozen => Err(CqlError::invalid(format_args!(
            "Non-frozen UDTs are not allowed inside collections: {outer}"
        ))),
        _ => Ok(()),
    }
}

/// A class name in quotes: types that Cassandra itself ships become what they are in CQL; others cannot run here.
fn custom_type(class: &str) -> Result<CqlType, CqlError> {
    if class == TYPE_BEYOND_BOUNDS {
        return Ok(CqlType::Custom(class.into()));
    }
    let unknown = || {
        let full = match class.contains('.') {
            true => class.to_owned(),
            false => format!("org.apache.cassandra.db.marshal.{class}"),
        };
        CqlError::syntax_rule(format_args!(
            "Error setting type {class}: Unable to find abstract-type class '{full}'"
        ))
    };
    match CqlType::from_marshal_class(class) {
        Ok(parsed) if parsed.is_reversed => Err(unknown()),
        Ok(parsed) => match parsed.cql_type {
            CqlType::Custom(class) => CqlType::legacy_class(&class).ok_or_else(unknown),
            cql_type if has_custom_part(&cql_type) => Err(unknown()),
            cql_type => Ok(cql_type),
        },
        Err(error) => Err(CqlError::syntax_rule(format_args!(
            "Error setting type {class}: {error}"
        ))),
    }
}

fn has_custom_part(cql_type: &CqlType) -> bool {
    cql_type
        .sub_types()
        .any(|part| matches!(part, CqlType::Custom(_)) || has_custom_part(part))
}

/// Refuses what would have to be in the order of a legacy class, which is known to Cassandra only.
pub(super) fn check_order(cql_type: &CqlType, user: &str) -> Result<(), CqlError> {
    // What was stored stays as it is, and what is too large is refused for that.
    let is_stored = matches!(cql_type, CqlType::Custom(class) if **class == *TYPE_BEYOND_BOUNDS);
    if is_stored || ExtentBounds::DECLARED.check([cql_type]).is_err() {
        return Ok(());
    }
    match matches!(cql_type, CqlType::Custom(_)) || has_custom_part(cql_type) {
        true => Err(CqlError::invalid(format_args!(
            "The order of values of type {cql_type} is not supported, so they cannot be {user}; use a type with a CQL name"
        ))),
        false => Ok(()),
    }
}

pub(super) fn is_native(written: &TypeName, native: NativeType) -> bool {
    matches!(written, TypeName::Native(found) if *found == native)
}

pub(super) fn supports_freezing(written: &TypeName) -> bool {
    !matches!(written, TypeName::Native(_) | TypeName::Custom(_))
}

/// A type as Cassandra's messages repeat it.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    type_name: &'a TypeName,
    frozen: bool,
    /// Put in front of user types that name none, as messages show them once the type has been looked up.
    keyspace: Option<&'a str>,
}

impl<'a> Written<'a> {
    pub(super) fn new(type_name: &'a TypeName) -> Self {
        Written {
            type_name,
            frozen: false,
            keyspace: None,
        }
    }

    pub(super) fn qualified(type_name: &'a TypeName, keyspace: &'a str) -> Self {
        Written {
            type_name,
            frozen: false,
            keyspace: Some(keyspace),
        }
    }
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { frozen, keyspace, .. } = *self;
        let inner = |type_name| Written {
            type_name,
            frozen,
            keyspace,
        };
        let (open, close) = if frozen { ("frozen<", ">") } else { ("", "") };
        match self.type_name {
            TypeName::Native(native) => f.write_str(native.name()),
            TypeName::List(element) => write!(f, "{open}list<{}>{close}", inner(element)),
            TypeName::Set(element) => write!(f, "{open}set<{}>{close}", inner(element)),
            TypeName::Map(key, value) => write!(f, "{open}map<{}, {}>{close}", inner(key), inner(value)),
            TypeName::Tuple(components) => {
                f.write_str("tuple<")?;
                for (index, component) in components.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(
                        f,
                        "{separator}{}",
                        Written {
                            frozen: true,
                            ..inner(component)
                        }
                    )?;
                }
                f.write_str(">")
            }
            TypeName::Vector { element, dimension } => {
                let element = Written {
                    frozen: false,
                    ..inner(element)
                };
                write!(f, "vector<{element}, {dimension}>")
            }
            TypeName::Frozen(frozen) => Written {
                frozen: true,
                ..inner(frozen)
            }
            .fmt(f),
            TypeName::UserType {
                keyspace: written,
                name,
            } => match written.as_deref().or(keyspace) {
                Some(keyspace) => write!(f, "{open}{keyspace}.{name}{close}"),
                None => write!(f, "{open}{name}{close}"),
            },
            TypeName::Custom(class) => write!(f, "'{class}'"),
        }
    }
}
