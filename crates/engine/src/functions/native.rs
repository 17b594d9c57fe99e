//! Computing native functions.

use helenus_types::partition_key::write_partition_key;
use helenus_types::{CqlType, token_of};
use uuid::Uuid;

use super::clock::Clock;
use super::number::check_number;
use super::signature::{FunctionKind, NativeFunction, ScalarKind};
use super::{bytes, cast, collection, json, mask, math, operation, time, vector};
use crate::CqlError;

impl NativeFunction {
    /// Computes a scalar function. Aggregates are computed by accumulators.
    pub fn execute(&self, arguments: &[Option<&[u8]>], clock: Clock) -> Result<Option<Vec<u8>>, CqlError> {
        let FunctionKind::Scalar(kind) = &self.kind else {
            return Err(CqlError::server(format_args!("{self} is an aggregate")));
        };
        match kind {
            ScalarKind::Uuid => return Ok(Some(Uuid::new_v4().into_bytes().to_vec())),
            ScalarKind::Moment(moment) => return Ok(Some(moment.bytes(clock))),
            ScalarKind::FromBlob => return bytes::from_blob(self, arguments),
            ScalarKind::ToBlob => return Ok(arguments.first().copied().flatten().map(<[u8]>::to_vec)),
            ScalarKind::Mask(kind) => return mask::execute(*kind, self, arguments),
            ScalarKind::ToJson => {
                return json::to_json(self, arguments.first().copied().flatten()).map(Some);
            }
            _ => {}
        }
        // Every other function of a null is null; where an empty value means nothing it is as good as null.
        let mut present = Vec::with_capacity(arguments.len());
        for (argument, cql_type) in arguments.iter().zip(&self.argument_types) {
            match argument {
                Some(bytes) if bytes.is_empty() && self.takes_empty_for_null(cql_type) => return Ok(None),
                Some(bytes) => present.push(*bytes),
                None => return Ok(None),
            }
        }
        if kind.computes_numbers() {
            let mut numbers = present.iter().zip(&self.argument_types);
            numbers.try_for_each(|(bytes, cql_type)| check_number(cql_type, bytes))?;
        }
        match kind {
            ScalarKind::Time(kind) => time::execute(*kind, self, &present),
            ScalarKind::Cast => cast::execute(self, &present),
            ScalarKind::Math(kind) => math::execute(*kind, self, &present),
            ScalarKind::Operation(kind) => operation::execute(*kind, self, &present),
            ScalarKind::Negation => Ok(operation::negate(self, &present)),
            ScalarKind::Token(_) => Ok(token(&present)),
            ScalarKind::MapKeys => Ok(collection::map_keys(&present)),
            ScalarKind::MapValues => Ok(collection::map_values(&present)),
            ScalarKind::CollectionCount => Ok(collection::count(&present)),
            ScalarKind::CollectionAggregate(kind) => collection::aggregate(*kind, self, &present),
            ScalarKind::Similarity(kind) => vector::similarity(*kind, self, &present).map(Some),
            ScalarKind::FromJson => {
                json::from_json(self, present.first().copied().unwrap_or_default(), clock)
            }
            ScalarKind::Uuid
            | ScalarKind::Moment(_)
            | ScalarKind::FromBlob
            | ScalarKind::ToBlob
            | ScalarKind::ToJson
            | ScalarKind::Mask(_) => Ok(None),
        }
    }

    fn takes_empty_for_null(&self, cql_type: &CqlType) -> bool {
        !matches!(self.kind, FunctionKind::Scalar(ScalarKind::Token(_)))
            && cql_type.is_empty_value_meaningless()
    }
}

impl ScalarKind {
    /// Returns whether computing it takes longer than going through its arguments' bytes.
    fn computes_numbers(&self) -> bool {
        matches!(
            self,
            ScalarKind::Cast | ScalarKind::Math(_) | ScalarKind::Operation(_) | ScalarKind::Negation
        )
    }
}

/// The token of a partition key given by its columns.
fn token(components: &[&[u8]]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    write_partition_key(&mut key, components.iter().copied()).then(|| token_of(&key).0.to_be_bytes().to_vec())
}
