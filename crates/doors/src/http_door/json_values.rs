//! Values in JSON, in the forms that `INSERT JSON` takes.

use helenus_node::handle::Column;
use helenus_types::CqlType;
use helenus_types::json::JsonValue;
use helenus_values::BoundValues;
use helenus_vfs::Clock;
use serde_json::value::RawValue;

use super::bounded::{Bounded, BoundedMap};
use crate::failure::Failure;
use crate::statements::Values;

/// The values of a request: in order, by name, or none.
pub struct JsonValues<'a> {
    given: Given<'a>,
    /// Milliseconds since the Unix epoch that the timestamp `now` stands for.
    now_ms: i64,
}

enum Given<'a> {
    InOrder(Bounded<&'a RawValue>),
    ByName(BoundedMap<&'a RawValue>),
}

impl<'a> JsonValues<'a> {
    pub fn of(raw: Option<&'a RawValue>, clock: &dyn Clock) -> Result<Self, Failure> {
        let given = match raw.map(RawValue::get) {
            None | Some("null") => Given::InOrder(Bounded::default()),
            Some(text) if text.starts_with('{') => Given::ByName(parsed(text)?),
            Some(text) => Given::InOrder(parsed(text)?),
        };
        Ok(JsonValues {
            given,
            now_ms: clock.wall_us() / 1_000,
        })
    }

    fn value(&self, index: usize, marker: &Column) -> Result<&'a RawValue, Failure> {
        match &self.given {
            Given::InOrder(values) => values.0.get(index).copied().ok_or(String::new()),
            Given::ByName(values) => values
                .0
                .get(&marker.name)
                .copied()
                .ok_or(format!(" {}", marker.name)),
        }
        .map_err(|name| Failure::Invalid(format!("There is no value for the marker{name} at {index}")))
    }

    fn encode(&self, marker: &Column, value: &RawValue) -> Result<Option<Vec<u8>>, Failure> {
        let invalid = |error: &dyn std::fmt::Display| {
            Failure::Invalid(format!("Error decoding JSON value for {}: {error}", marker.name))
        };
        let value = JsonValue::parse(value.get()).map_err(|error| invalid(&error))?;
        if value.is_null() {
            return Ok(None);
        }
        let data_type = match &marker.data_type {
            // JSON has no counters, but what is added to one is a number.
            CqlType::Counter => &CqlType::Bigint,
            other => other,
        };
        let decoded = data_type.decode_json(value, self.now_ms);
        decoded.map(Some).map_err(|error| invalid(&error))
    }
}

fn parsed<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    let parsed = serde_json::from_str(text);
    parsed.map_err(|error| Failure::Malformed(format!("The values cannot be read: {error}")))
}

impl Values for JsonValues<'_> {
    fn is_empty(&self) -> bool {
        match &self.given {
            Given::InOrder(values) => values.0.is_empty(),
            Given::ByName(values) => values.0.is_empty(),
        }
    }

    fn bind(&self, markers: &[Column]) -> Result<BoundValues, Failure> {
        if let Given::InOrder(values) = &self.given
            && values.0.len() > markers.len()
        {
            let (wanted, found) = (markers.len(), values.0.len());
            return Err(Failure::Invalid(format!(
                "the statement has {wanted} markers, and {found} values were given"
            )));
        }
        let mut bound = BoundValues::new();
        for (index, marker) in markers.iter().enumerate() {
            let value = self.encode(marker, self.value(index, marker)?)?;
            bound.push_serialized(value.as_deref())?;
        }
        Ok(bound)
    }
}
