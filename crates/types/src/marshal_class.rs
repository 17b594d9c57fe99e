//! Types as Java class names: the form in SSTable headers, in custom type declarations and in dropped columns.
//!
//! The grammar is `Class` or `Class(parameter, ...)`. Names without a dot mean `org.apache.cassandra.db.marshal`.
//! A UDT's parameters are its keyspace, its name in hex, then `field-name-in-hex:type` pairs; a vector's are the
//! element and the dimension, which Cassandra prints as `VectorType(element , dimension)`.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use thiserror::Error;

use crate::cql_type::{CqlType, TYPE_DEPTH_MAX, UserType};
use crate::value::blob::{hex_decode, write_hex};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// The longest class name read, in bytes: far above what any real schema prints, it only bounds hostile headers.
const CLASS_NAME_BYTES_MAX: usize = 1 << 20;

/// Column type that a class name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedClass {
    pub cql_type: CqlType,
    /// True if the class was wrapped in `ReversedType`: a clustering column in descending order.
    pub is_reversed: bool,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassNameError {
    #[error("Syntax error parsing '{class}' at char {offset}: {reason}")]
    Syntax {
        class: String,
        offset: usize,
        reason: &'static str,
    },
    #[error("type nests deeper than {TYPE_DEPTH_MAX} levels")]
    TooDeep,
    #[error("class name of {bytes} bytes is longer than {CLASS_NAME_BYTES_MAX}")]
    TooLong { bytes: usize },
}

impl CqlType {
    /// The class name as `AbstractType.toString` prints it in Cassandra 5.0.
    pub fn to_marshal_class(&self) -> String {
        let mut out = String::new();
        self.write_marshal_class(&mut out, false);
        out
    }

    /// Reads a class name; a class that Cassandra does not ship becomes [`CqlType::Custom`].
    pub fn from_marshal_class(class: &str) -> Result<ParsedClass, ClassNameError> {
        let mut parser = Parser::new(class)?;
        let parsed = parser.parse_column(0)?;
        parser.finish()?;
        Ok(parsed)
    }

    /// Returns the column type of a class that Cassandra ships without a CQL name for it: `DateType` is a timestamp, and the
    /// classes of Thrift's time keep their names. `None` for those of others.
    pub fn legacy_class(class: &str) -> Option<CqlType> {
        let simple = class.strip_prefix(PACKAGE)?;
        let name = simple.split('(').next().unwrap_or_default();
        match name {
            "DateType" => Some(CqlType::Timestamp),
            "LexicalUUIDType" if name == simple => Some(CqlType::Custom(class.into())),
            "CompositeType" => {
                let parts = CqlType::key_types_from_marshal_class(class).ok()?;
                (!parts.is_empty()).then(|| CqlType::Custom(class.into()))
            }
            "DynamicCompositeType" => Some(CqlType::Custom(class.into())),
            _ => None,
        }
    }

    /// The native type whose values and text a legacy class shares; their order is another.
    pub(crate) fn native_form(&self) -> Option<CqlType> {
        match self {
            CqlType::Custom(class) if class.strip_prefix(PACKAGE) == Some("LexicalUUIDType") => {
                Some(CqlType::Uuid)
            }
            _ => None,
        }
    }

    /// The types of a partition key from the key class of an SSTable header: the parts of a `CompositeType`, or the
    /// one type there is.
    pub fn key_types_from_marshal_class(class: &str) -> Result<Vec<CqlType>, ClassNameError> {
        let mut parser = Parser::new(class)?;
        let name = parser.class_name()?;
        let types = if name == "CompositeType" {
            parser.parameters(0)?
        } else {
            vec![parser.parse_type(name, 0)?]
        };
        parser.finish()?;
        Ok(types)
    }

    /// The class name of a partition key with these columns, the reverse of
    /// [`CqlType::key_types_from_marshal_class`].
    pub fn key_marshal_class<'a>(types: impl ExactSizeIterator<Item = &'a CqlType>) -> String {
        let is_composite = types.len() != 1;
        let mut out = String::new();
        if is_composite {
            out.push_str(PACKAGE);
            out.push_str("CompositeType(");
        }
        for (index, part) in types.enumerate() {
            if index > 0 {
                out.push(',');
            }
            part.write_marshal_class(&mut out, false);
        }
        if is_composite {
            out.push(')');
        }
        out
    }

    /// `ignore_freezing` is set inside anything frozen, where Cassandra leaves the inner `FrozenType` out.
    fn write_marshal_class(&self, out: &mut String, ignore_freezing: bool) {
        if let CqlType::Custom(class) = self {
            out.push_str(class);
            return;
        }
        let is_freezable = self.is_collection() || self.is_user_defined();
        let is_frozen = is_freezable && !self.is_multi_cell();
        let inner = ignore_freezing || is_frozen;
        let wraps = is_frozen && !ignore_freezing;
        if wraps {
            out.push_str(PACKAGE);
            out.push_str("FrozenType(");
        }
        out.push_str(PACKAGE);
        out.push_str(self.class_simple_name());
        match self {
            CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
                write_parameters(out, self, inner)
            }
            CqlType::Tuple(_) => write_parameters(out, self, true),
            CqlType::Vector { element, dimension } => {
                out.push('(');
                element.write_marshal_class(out, ignore_freezing);
                // Writing to a String cannot fail.
                let _ = write!(out, " , {dimension})");
            }
            CqlType::UserDefined { definition, .. } => definition.write_class_parameters(out, inner),
            _ => {}
        }
        if wraps {
            out.push(')');
        }
    }

    fn class_simple_name(&self) -> &str {
        match self {
            CqlType::Ascii => "AsciiType",
            CqlType::Bigint => "LongType",
            CqlType::Blob => "BytesType",
            CqlType::Boolean => "BooleanType",
            CqlType::Counter => "CounterColumnType",
            CqlType::Date => "SimpleDateType",
            CqlType::Decimal => "DecimalType",
            CqlType::Double => "DoubleType",
            CqlType::Duration => "DurationType",
            CqlType::Empty => "EmptyType",
            CqlType::Float => "FloatType",
            CqlType::Inet => "InetAddressType",
            CqlType::Int => "Int32Type",
            CqlType::Smallint => "ShortType",
            CqlType::Text => "UTF8Type",
            CqlType::Time => "TimeType",
            CqlType::Timestamp => "TimestampType",
            CqlType::Timeuuid => "TimeUUIDType",
            CqlType::Tinyint => "ByteType",
            CqlType::Uuid => "UUIDType",
            CqlType::Varint => "IntegerType",
            CqlType::List { .. } => "ListType",
            CqlType::Set { .. } => "SetType",
            CqlType::Map { .. } => "MapType",
            CqlType::Tuple(_) => "TupleType",
            CqlType::UserDefined { .. } => "UserType",
            CqlType::Vector { .. } => "VectorType",
            CqlType::Custom(class) => class,
        }
    }
}

impl UserType {
    fn write_class_parameters(&self, out: &mut String, ignore_freezing: bool) {
        out.push('(');
        out.push_str(&self.keyspace);
        out.push(',');
        write_hex(out, self.name.as_bytes());
        for (name, field) in &self.fields {
            out.push(',');
            write_hex(out, name.as_bytes());
            out.push(':');
            field.write_marshal_class(out, ignore_freezing);
        }
        out.push(')');
    }
}

impl ParsedClass {
    pub fn to_marshal_class(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for ParsedClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.cql_type.to_marshal_class();
        if self.is_reversed {
            write!(out, "{PACKAGE}ReversedType({base})")
        } else {
            out.write_str(&base)
        }
    }
}

fn write_parameters(out: &mut String, of: &CqlType, ignore_freezing: bool) {
    out.push('(');
    for (index, part) in of.sub_types().enumerate() {
        if index > 0 {
            out.push(',');
        }
        part.write_marshal_class(out, ignore_freezing);
    }
    out.push(')');
}

/// A cursor over the class name. Every method leaves it behind what it read.
struct Parser<'a> {
    class: &'a str,
    offset: usize,
}

impl<'a> Parser<'a> {
    fn new(class: &'a str) -> Result<Parser<'a>, ClassNameError> {
        if class.len() > CLASS_NAME_BYTES_MAX {
            return Err(ClassNameError::TooLong { bytes: class.len() });
        }
        Ok(Parser { class, offset: 0 })
    }

    fn parse_column(&mut self, depth: usize) -> Result<ParsedClass, ClassNameError> {
        let name = self.class_name()?;
        if name != "ReversedType" {
            let cql_type = self.parse_type(name, depth)?;
            return Ok(ParsedClass {
                cql_type,
                is_reversed: false,
            });
        }
        let cql_type = self.only_parameter(depth)?;
        Ok(ParsedClass {
            cql_type,
            is_reversed: true,
        })
    }

    /// The type whose class name has just been read, parameters and all.
    fn parse_type(&mut self, name: &'a str, depth: usize) -> Result<CqlType, ClassNameError> {
        if depth >= TYPE_DEPTH_MAX {
            return Err(ClassNameError::TooDeep);
        }
        Ok(match name {
            "ListType" => CqlType::list(self.only_parameter(depth)?.freeze(), false),
            "SetType" => CqlType::set(self.only_parameter(depth)?.freeze(), false),
            "MapType" => {
                let parts: [CqlType; 2] = self
                    .parameters(depth)?
                    .try_into()
                    .map_err(|_| self.syntax("MapType takes exactly 2 type parameters"))?;
                let [key, value] = parts.map(|part| part.freeze());
                CqlType::map(key, value, false)
            }
            "TupleType" => CqlType::tuple(self.parameters(depth)?),
            "FrozenType" => self.only_parameter(depth)?.freeze(),
            "UserType" => self.user_type(depth)?,
            "VectorType" => self.vector(depth)?,
            // Nothing but a column's own type may be reversed, and key composites are read by their own function.
            "ReversedType" => return Err(self.syntax("ReversedType is not allowed inside another type")),
            "CompositeType" | "DynamicCompositeType" => self.opaque(name)?,
            native => match native_of_class(native) {
                Some(cql_type) => cql_type,
                None => self.opaque(native)?,
            },
        })
    }

    /// The class name without its package if it is Cassandra's own.
    fn class_name(&mut self) -> Result<&'a str, ClassNameError> {
        self.skip_blank();
        let name = self.identifier();
        if name.is_empty() {
            return Err(self.syntax("expected a class name"));
        }
        self.skip_blank();
        Ok(name.strip_prefix(PACKAGE).unwrap_or(name))
    }

    fn parameters(&mut self, depth: usize) -> Result<Vec<CqlType>, ClassNameError> {
        self.expect(b'(')?;
        let mut types = Vec::new();
        while !self.skip_to_parameter()? {
            let name = self.class_name()?;
            types.push(self.parse_type(name, depth + 1)?);
        }
        Ok(types)
    }

    fn only_parameter(&mut self, depth: usize) -> Result<CqlType, ClassNameError> {
        let parts: [CqlType; 1] = self
            .parameters(depth)?
            .try_into()
            .map_err(|_| self.syntax("expected exactly one type parameter"))?;
        let [part] = parts;
        Ok(part)
    }

    fn vector(&mut self, depth: usize) -> Result<CqlType, ClassNameError> {
        self.expect(b'(')?;
        let name = self.class_name()?;
        let element = self.parse_type(name, depth + 1)?.freeze();
        if element == CqlType::Empty {
            // Elements of no bytes would let any dimension fit any value, and reading it never end.
            return Err(self.syntax("the elements of a vector cannot be empty"));
        }
        if self.skip_to_parameter()? {
            return Err(self.syntax("expected the dimension of the vector"));
        }
        let dimension: u32 = self
            .identifier()
            .parse()
            .ok()
            .filter(|dimension| (1..=i32::MAX as u32).contains(dimension))
            .ok_or_else(|| self.syntax("the dimension of a vector must be a positive 32-bit integer"))?;
        self.skip_blank();
        self.expect(b')')?;
        Ok(CqlType::vector(element, dimension))
    }

    fn user_type(&mut self, depth: usize) -> Result<CqlType, ClassNameError> {
        self.expect(b'(')?;
        if self.skip_to_parameter()? {
            return Err(self.syntax("expected a keyspace"));
        }
        let keyspace = self.identifier();
        if self.skip_to_parameter()? {
            return Err(self.syntax("expected the name of the type"));
        }
        let name = self.hex_identifier()?;
        let mut fields = Vec::new();
        while !self.skip_to_parameter()? {
            let field = self.hex_identifier()?;
            self.skip_blank();
            self.expect(b':')?;
            let class = self.class_name()?;
            fields.push((field, self.parse_type(class, depth + 1)?));
        }
        let definition = UserType {
            keyspace: keyspace.into(),
            name,
            fields,
        };
        Ok(CqlType::user_defined(Arc::new(definition), false))
    }

    /// A class of unknown meaning, kept as it was written, parameters included.
    fn opaque(&mut self, name: &'a str) -> Result<CqlType, ClassNameError> {
        let start = self.offset;
        if self.peek() == Some(b'(') {
            let mut open = 0_usize;
            loop {
                match self.peek() {
                    Some(b'(') => open += 1,
                    Some(b')') => open -= 1,
                    Some(_) => {}
                    None => return Err(self.syntax("unexpected end of string")),
                }
                self.offset += 1;
                if open == 0 {
                    break;
                }
            }
        }
        let parameters = self.class.get(start..self.offset).unwrap_or_default();
        let package = if name.contains('.') { "" } else { PACKAGE };
        Ok(CqlType::Custom(format!("{package}{name}{parameters}").into()))
    }

    fn hex_identifier(&mut self) -> Result<Arc<str>, ClassNameError> {
        let bytes = hex_decode(self.identifier()).ok_or_else(|| self.syntax("expected a name in hex"))?;
        let name = String::from_utf8(bytes).map_err(|_| self.syntax("expected a name in UTF-8"))?;
        Ok(name.into())
    }

    fn identifier(&mut self) -> &'a str {
        let rest = self.class.get(self.offset..).unwrap_or_default();
        let length = rest
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || b"-+._&".contains(&byte)))
            .unwrap_or(rest.len());
        self.offset += length;
        &rest[..length]
    }

    /// Skips blanks and at most one comma; true if what follows was the closing bracket, now read.
    fn skip_to_parameter(&mut self) -> Result<bool, ClassNameError> {
        self.skip_blank();
        if self.peek() == Some(b',') {
            self.offset += 1;
            self.skip_blank();
        }
        match self.peek() {
            None => Err(self.syntax("unexpected end of string")),
            Some(b')') => {
                self.offset += 1;
                Ok(true)
            }
            Some(_) => Ok(false),
        }
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n')) {
            self.offset += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.class.as_bytes().get(self.offset).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), ClassNameError> {
        if self.peek() != Some(byte) {
            return Err(self.syntax(match byte {
                b'(' => "expected '('",
                b')' => "expected ')'",
                _ => "expecting ':' token",
            }));
        }
        self.offset += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ClassNameError> {
        self.skip_blank();
        if self.offset == self.class.len() {
            Ok(())
        } else {
            Err(self.syntax("unexpected characters after the type"))
        }
    }

    fn syntax(&self, reason: &'static str) -> ClassNameError {
        ClassNameError::Syntax {
            class: self.class.to_owned(),
            offset: self.offset,
            reason,
        }
    }
}

fn native_of_class(simple_name: &str) -> Option<CqlType> {
    Some(match simple_name {
        "AsciiType" => CqlType::Ascii,
        "LongType" => CqlType::Bigint,
        "BytesType" => CqlType::Blob,
        "BooleanType" => CqlType::Boolean,
        "CounterColumnType" => CqlType::Counter,
        "SimpleDateType" => CqlType::Date,
        "DecimalType" => CqlType::Decimal,
        "DoubleType" => CqlType::Double,
        "DurationType" => CqlType::Duration,
        "EmptyType" => CqlType::Empty,
        "FloatType" => CqlType::Float,
        "InetAddressType" => CqlType::Inet,
        "Int32Type" => CqlType::Int,
        "ShortType" => CqlType::Smallint,
        "UTF8Type" => CqlType::Text,
        "TimeType" => CqlType::Time,
        "TimestampType" => CqlType::Timestamp,
        "TimeUUIDType" | "LegacyTimeUUIDType" => CqlType::Timeuuid,
        "ByteType" => CqlType::Tinyint,
        "UUIDType" => CqlType::Uuid,
        "IntegerType" => CqlType::Varint,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(class: &str) -> Result<ParsedClass, ClassNameError> {
        CqlType::from_marshal_class(class)
    }

    #[test]
    fn unknown_classes_are_kept_as_they_were_written() {
        for class in ["org.example.Other", "org.example.Other(a => b, (c))"] {
            let parsed = parse(class).unwrap();
            assert_eq!(parsed.cql_type, CqlType::Custom(class.into()));
            assert_eq!(parsed.cql_type.to_string(), format!("'{class}'"));
            assert_eq!(parsed.to_marshal_class(), class);
        }
        let date = parse("DateType").unwrap().cql_type;
        assert_eq!(
            date,
            CqlType::Custom("org.apache.cassandra.db.marshal.DateType".into())
        );
    }

    #[test]
    fn nesting_stops_at_its_bound() {
        let nested = |levels: usize| format!("{}Int32Type{}", "ListType(".repeat(levels), ")".repeat(levels));
        assert!(parse(&nested(TYPE_DEPTH_MAX - 1)).is_ok());
        assert_eq!(parse(&nested(TYPE_DEPTH_MAX)), Err(ClassNameError::TooDeep));
        assert_eq!(parse(&nested(100_000)), Err(ClassNameError::TooDeep));
    }

    #[test]
    fn what_is_no_class_name_is_refused() {
        for class in [
            "",
            "(",
            "ListType",
            "ListType(",
            "ListType()",
            "ListType(Int32Type",
            "ListType(Int32Type,Int32Type)",
            "ListType(Int32Type))",
            "MapType(Int32Type)",
            "ListType(ReversedType(Int32Type))",
            "VectorType(Int32Type)",
            "VectorType(Int32Type , 0)",
            "VectorType(Int32Type , 4294967296)",
            "VectorType(EmptyType , 2147483647)",
            "UserType(ks)",
            "UserType(ks,zz)",
            "UserType(ks,61,62)",
            "UserType(ks,61,62:",
            "UserType(ks,61,ff:Int32Type)",
            "org.example.Open(",
        ] {
            assert!(
                matches!(parse(class), Err(ClassNameError::Syntax { .. })),
                "{class}"
            );
        }
    }

    #[test]
    fn every_cut_of_a_class_name_is_refused_without_panic() {
        let class = "UserType(ks,61,62:FrozenType(MapType(Int32Type,VectorType(FloatType , 3))))";
        for cut in "UserType(".len()..class.len() {
            assert!(parse(&class[..cut]).is_err(), "{cut}");
        }
    }
}
