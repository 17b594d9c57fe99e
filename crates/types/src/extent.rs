//! How large a type is once everything that it names is spelled out, and how large it may be.
//!
//! A user type is a name where it is used, but class names in SSTables and the metadata of results spell it out at each
//! use: a type of two fields of a type of two fields of ... doubles with each statement.

use std::ops::Add;

use thiserror::Error;

use crate::cql_type::{CqlType, TYPE_DEPTH_MAX};

/// How deep a declared type may nest, counted in types from the outside in, user types spelled out. Class names nest up
/// to three levels deeper (composite key, reversed order, frozen) and must still be read back.
pub(crate) const DECLARED_DEPTH_MAX: usize = 32;

const _: () = assert!(DECLARED_DEPTH_MAX + 3 < TYPE_DEPTH_MAX);

/// Types in a declared type at most, user types spelled out at each use. Real schemas stay below some hundreds; a class
/// name of so many parts is at most 600 KB, which its reader (1 MiB) takes.
pub(crate) const DECLARED_PARTS_MAX: usize = 10_000;

/// How long the names in a declared type may be together, in bytes: those of user types, their keyspaces and fields, at
/// each use, and of custom classes. Class names have them in hex.
pub(crate) const DECLARED_NAME_BYTES_MAX: usize = 128 << 10;

/// Types at most in the columns of a table, or the result or the markers of a statement, together: a result's metadata is
/// made of them, for each protocol version, and a table may have 65,535 columns.
pub(crate) const COLUMNS_PARTS_MAX: usize = 100_000;

/// As [`DECLARED_NAME_BYTES_MAX`], of several columns together.
pub(crate) const COLUMNS_NAME_BYTES_MAX: usize = 2 << 20;

/// The size of a type, or of several types side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeExtent {
    pub depth: usize,
    pub parts: usize,
    pub name_bytes: usize,
}

/// Up to which size types are let pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentBounds {
    pub depth_max: usize,
    pub parts_max: usize,
    pub name_bytes_max: usize,
}

/// Bound that a type exceeds, in words that follow the name of what has the type.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeTooLarge {
    #[error(
        "nests deeper than {max} levels, user types included; flatten it, or keep the inner part as a blob"
    )]
    Depth { max: usize },
    #[error(
        "has more than {max} parts once user types are spelled out at each use; use fewer or smaller user types, or \
         keep part of it as a blob"
    )]
    Parts { max: usize },
    #[error(
        "has names of more than {max} bytes once user types are spelled out at each use; shorten the names of fields \
         and types, or use fewer"
    )]
    Names { max: usize },
}

impl ExtentBounds {
    /// Bounds of one declared type, or of the columns of a partition key, which share a class name.
    pub const DECLARED: ExtentBounds = ExtentBounds {
        depth_max: DECLARED_DEPTH_MAX,
        parts_max: DECLARED_PARTS_MAX,
        name_bytes_max: DECLARED_NAME_BYTES_MAX,
    };

    /// Bounds of all columns of a table or of a result.
    pub const COLUMNS: ExtentBounds = ExtentBounds {
        depth_max: TYPE_DEPTH_MAX,
        parts_max: COLUMNS_PARTS_MAX,
        name_bytes_max: COLUMNS_NAME_BYTES_MAX,
    };

    /// The extent of the types together. Looks at no more parts than the bounds allow, however large the types are.
    pub fn check<'a>(
        &self,
        types: impl IntoIterator<Item = &'a CqlType>,
    ) -> Result<TypeExtent, TypeTooLarge> {
        let mut extent = TypeExtent::default();
        types
            .into_iter()
            .try_for_each(|cql_type| self.measure(cql_type, 1, &mut extent))?;
        Ok(extent)
    }

    /// Checks the sum of two extents, for those who know both.
    pub fn check_sum(&self, first: TypeExtent, second: TypeExtent) -> Result<TypeExtent, TypeTooLarge> {
        let sum = first + second;
        self.check_extent(&sum)?;
        Ok(sum)
    }

    fn check_extent(&self, extent: &TypeExtent) -> Result<(), TypeTooLarge> {
        if extent.depth > self.depth_max {
            return Err(TypeTooLarge::Depth { max: self.depth_max });
        }
        if extent.parts > self.parts_max {
            return Err(TypeTooLarge::Parts { max: self.parts_max });
        }
        if extent.name_bytes > self.name_bytes_max {
            return Err(TypeTooLarge::Names {
                max: self.name_bytes_max,
            });
        }
        Ok(())
    }

    fn measure(&self, cql_type: &CqlType, depth: usize, extent: &mut TypeExtent) -> Result<(), TypeTooLarge> {
        extent.depth = extent.depth.max(depth);
        extent.parts += 1;
        extent.name_bytes += match cql_type {
            CqlType::UserDefined { definition, .. } => {
                let fields = definition.fields.iter().map(|(name, _)| name.len());
                definition.keyspace.len() + definition.name.len() + fields.sum::<usize>()
            }
            CqlType::Custom(class) => class.len(),
            _ => 0,
        };
        self.check_extent(extent)?;
        cql_type
            .sub_types()
            .try_for_each(|part| self.measure(part, depth + 1, extent))
    }
}

impl Add for TypeExtent {
    type Output = TypeExtent;

    fn add(self, other: TypeExtent) -> TypeExtent {
        TypeExtent {
            depth: self.depth.max(other.depth),
            parts: self.parts + other.parts,
            name_bytes: self.name_bytes + other.name_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cql_type::UserType;

    fn user_type(name: &str, fields: Vec<(Arc<str>, CqlType)>) -> CqlType {
        let definition = UserType {
            keyspace: "ks".into(),
            name: name.into(),
            fields,
        };
        CqlType::user_defined(Arc::new(definition), true)
    }

    fn doubled(levels: usize) -> CqlType {
        (0..levels).fold(CqlType::Int, |inner, level| {
            let fields = vec![("a".into(), inner.clone()), ("b".into(), inner)];
            user_type(&format!("t{level}"), fields)
        })
    }

    #[test]
    fn user_types_count_at_each_use() {
        let extent = ExtentBounds::DECLARED.check([&doubled(3)]).unwrap();
        // 1 + 2 + 4 types of names `ks`, `tN`, `a` and `b`, and 8 integers.
        let expected = TypeExtent {
            depth: 4,
            parts: 15,
            name_bytes: 7 * 6,
        };
        assert_eq!(extent, expected);
    }

    #[test]
    fn a_type_that_doubles_for_ever_is_refused_at_once() {
        let too_many = TypeTooLarge::Parts {
            max: DECLARED_PARTS_MAX,
        };
        assert_eq!(ExtentBounds::DECLARED.check([&doubled(28)]), Err(too_many));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels| (1..levels).fold(CqlType::Int, |inner, _| CqlType::list(inner, true));
        let check = |levels| ExtentBounds::DECLARED.check([&nested(levels)]);
        assert_eq!(check(DECLARED_DEPTH_MAX).unwrap().depth, DECLARED_DEPTH_MAX);
        let too_deep = TypeTooLarge::Depth {
            max: DECLARED_DEPTH_MAX,
        };
        assert_eq!(check(DECLARED_DEPTH_MAX + 1), Err(too_deep));
        assert_eq!(check(10_000), Err(too_deep));
    }

    #[test]
    fn class_names_of_the_largest_types_can_be_read_back() {
        let fields = DECLARED_PARTS_MAX - 1;
        let wide = (0..fields).map(|index| (format!("f{index:05}").into(), CqlType::Counter));
        let deepest = (1..DECLARED_DEPTH_MAX).fold(CqlType::Int, |inner, _| CqlType::list(inner, true));
        for cql_type in [user_type("t", wide.collect()), deepest] {
            ExtentBounds::DECLARED.check([&cql_type]).unwrap();
            let class = CqlType::key_marshal_class([&cql_type, &CqlType::Int].into_iter());
            let read = CqlType::key_types_from_marshal_class(&class).unwrap();
            assert_eq!(CqlType::key_marshal_class(read.iter()), class);
        }
        let long = user_type(
            "t",
            vec![("n".repeat(DECLARED_NAME_BYTES_MAX).into(), CqlType::Int)],
        );
        assert!(matches!(
            ExtentBounds::DECLARED.check([&long]),
            Err(TypeTooLarge::Names { .. })
        ));
    }
}
