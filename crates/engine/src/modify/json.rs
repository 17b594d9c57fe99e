//! `INSERT JSON`: one text that names columns and their values.

use std::sync::Arc;

use helenus_cql::ast::{JsonDefault, JsonValue as JsonTerm};
use helenus_protocol::request::Value;
use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_types::CqlType;
use helenus_types::json::{JsonError, JsonObject, JsonValue, MapParsed, shown, unquoted_name};
use helenus_types::utf8::from_utf8;

use super::operation::{Change, Operation};
use crate::CqlError;
use crate::execute::QueryOptions;
use crate::heap_bytes::{HeapBytes, flat_bytes};
use crate::select::json_effort;
use crate::term::{BoundValues, Expression, Receiver, Typing};

/// A text that is bound: its columns' values are put behind the bound ones whenever the statement is executed.
#[derive(Clone, Debug)]
pub struct JsonSource {
    marker: usize,
    default: JsonDefault,
    columns: Vec<JsonTarget>,
}

#[derive(Clone, Debug)]
struct JsonTarget {
    name: Arc<str>,
    cql_type: CqlType,
}

/// Value that a text gives one column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decoded {
    Value(Vec<u8>),
    Null,
    Unset,
}

/// Values that a text gives its columns, decoded.
#[derive(Debug)]
pub struct DecodedRow(Vec<Decoded>);

/// Values that an INSERT gives the columns of its table, whatever it is written as.
#[derive(Debug, Default)]
pub(super) struct Inserted<'t> {
    pub keys: Vec<(&'t ColumnMetadata, Expression)>,
    pub operations: Vec<(&'t ColumnMetadata, Operation)>,
    pub json: Option<Box<JsonSource>>,
}

impl JsonTarget {
    fn of(column: &ColumnMetadata) -> Self {
        JsonTarget {
            name: Arc::clone(&column.name),
            cql_type: column.cql_type.clone(),
        }
    }
}

/// All columns of the table, those that the text does not name as well.
pub(super) fn insert_json<'a>(
    typing: &Typing<'a>,
    term: &JsonTerm,
    default: JsonDefault,
) -> Result<Inserted<'a>, CqlError> {
    let table = typing.scope.table;
    let columns: Vec<JsonTarget> = table.columns.iter().map(JsonTarget::of).collect();
    let mut inserted = Inserted::default();
    let values: Vec<Expression> = match term {
        JsonTerm::Text(text) => {
            let decoded = decode(text, &columns, default, typing.scope.now.now_ms())?;
            decoded.into_iter().map(Decoded::into_expression).collect()
        }
        JsonTerm::Marker(marker) => {
            let receiver = Receiver::new("[json]", CqlType::Text);
            typing.scope.bind(marker.index, marker.name.as_deref(), &receiver);
            let count = columns.len();
            inserted.json = Some(Box::new(JsonSource {
                marker: marker.index,
                default,
                columns,
            }));
            (0..count)
                .map(|index| Expression::Decoded {
                    from_end: count - index,
                })
                .collect()
        }
    };
    for (column, value) in table.columns.iter().zip(values) {
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => inserted.keys.push((column, value)),
            ColumnKind::Static | ColumnKind::Regular => {
                let operation = Operation::new(column, Change::Set(value));
                inserted.operations.push((column, operation));
            }
        }
    }
    Ok(inserted)
}

impl Decoded {
    fn into_expression(self) -> Expression {
        match self {
            Decoded::Value(bytes) => Expression::Constant(Some(bytes.into_boxed_slice())),
            Decoded::Null => Expression::NULL,
            Decoded::Unset => Expression::UNSET,
        }
    }

    fn as_value(&self) -> Value<'_> {
        match self {
            Decoded::Value(bytes) => Value::Bytes(bytes),
            Decoded::Null => Value::Null,
            Decoded::Unset => Value::Unset,
        }
    }
}

impl DecodedRow {
    /// The bound values with those of the columns behind them.
    pub fn behind<'v>(&'v self, values: &BoundValues<'v>) -> BoundValues<'v> {
        BoundValues::positional(values.iter().chain(self.0.iter().map(Decoded::as_value)))
    }
}

impl JsonSource {
    /// How much there is to decode, in rows that are built meanwhile.
    pub fn effort(&self, values: &BoundValues<'_>) -> u64 {
        json_effort([values.value(self.marker)])
    }
}

impl JsonSource {
    /// Decodes the text of an `INSERT JSON ?`.
    pub(super) fn decoded(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<DecodedRow, CqlError> {
        let bytes = match values.value(self.marker) {
            Value::Bytes(bytes) => bytes,
            Value::Null => return Err(no_map()),
            Value::Unset => b"",
        };
        let text = from_utf8(bytes).map_err(|_| invalid!("String didn't validate."))?;
        let decoded = decode(text, &self.columns, self.default, options.clock().now_ms())?;
        Ok(DecodedRow(decoded))
    }
}

fn no_map() -> CqlError {
    invalid!("Got null for INSERT JSON values")
}

fn decode(
    text: &str,
    columns: &[JsonTarget],
    default: JsonDefault,
    now_ms: i64,
) -> Result<Vec<Decoded>, CqlError> {
    let parsed = JsonValue::parse_map(text).map_err(|error| {
        invalid!(
            "Could not decode JSON string as a map: {}. (String was: {})",
            error.with_class(),
            shown(text)
        )
    })?;
    let MapParsed::Object(object) = parsed else {
        return Err(no_map());
    };
    let (given, unknown) = by_column(object, columns);
    let mut decoded = Vec::with_capacity(columns.len());
    for (value, column) in given.into_iter().zip(columns) {
        decoded.push(match (value, default) {
            (None, JsonDefault::Null) => Decoded::Null,
            (None, JsonDefault::Unset) => Decoded::Unset,
            (Some(value), _) if value.is_null() => Decoded::Null,
            (Some(value), _) => Decoded::Value(column.decode(value, now_ms)?),
        });
    }
    match unknown {
        Some(name) => Err(invalid!(
            "JSON values map contains unrecognized column: {}",
            shown(&name)
        )),
        None => Ok(decoded),
    }
}

impl JsonTarget {
    fn decode(&self, value: JsonValue<'_>, now_ms: i64) -> Result<Vec<u8>, CqlError> {
        let decoded = self.cql_type.decode_json(value, now_ms);
        decoded.map_err(|error| match error {
            JsonError::Duration(error) => invalid!("{error}"),
            error => invalid!("Error decoding JSON value for {}: {error}", self.name),
        })
    }
}

/// The value that each column is given, and the first name that is no column's. A name that has to be brought to lower case or
/// out of quotes counts more than one that is a column's as it is; of equal ones the last does.
fn by_column<'a>(
    object: JsonObject<'a>,
    columns: &[JsonTarget],
) -> (Vec<Option<JsonValue<'a>>>, Option<String>) {
    let places: std::collections::HashMap<&str, usize> = columns
        .iter()
        .enumerate()
        .map(|(place, column)| (&*column.name, place))
        .collect();
    let mut given: Vec<Option<(JsonValue<'_>, bool)>> = vec![None; columns.len()];
    let (mut unknown, mut unknown_renamed) = (None, None);
    for (name, value) in object.entries() {
        let meant = unquoted_name(&name);
        let is_renamed = meant != name;
        match places.get(&*meant) {
            Some(&place) => {
                let known = &mut given[place];
                if is_renamed || known.is_none_or(|(_, is_renamed)| !is_renamed) {
                    *known = Some((value, is_renamed));
                }
            }
            None if is_renamed => unknown_renamed = unknown_renamed.or_else(|| Some(meant.into_owned())),
            None => unknown = unknown.or_else(|| Some(meant.into_owned())),
        }
    }
    let given = given.into_iter().map(|given| given.map(|(value, _)| value));
    (given.collect(), unknown.or(unknown_renamed))
}

impl HeapBytes for JsonSource {
    fn heap_bytes(&self) -> usize {
        flat_bytes(&self.columns)
    }
}
