//! One native function with one signature.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::partition_key::write_partition_key;
use helenus_types::value::TimeuuidGenerator;
use helenus_types::{CqlType, token_of};
use helenus_vector::Similarity;
use uuid::Uuid;

use super::mask::MaskKind;
use super::math::MathKind;
use super::number::check_number;
use super::operation::OperationKind;
use super::time::{Moment, TimeKind};
use super::{bytes, cast, collection, json, mask, math, operation, time, vector};
use crate::CqlError;
use crate::heap_bytes::{HeapBytes, flat_bytes};
use crate::term::Receiver;

/// A native function as a call resolved it.
#[derive(Clone, Debug)]
pub struct NativeFunction {
    /// Without the keyspace, which is always `system`.
    pub name: &'static str,
    pub argument_types: Vec<CqlType>,
    pub return_type: CqlType,
    pub kind: FunctionKind,
}

#[derive(Clone, Debug)]
pub enum FunctionKind {
    Scalar(ScalarKind),
    Aggregate(AggregateKind),
}

#[derive(Clone, Debug)]
pub enum ScalarKind {
    Uuid,
    /// `now` and its kin.
    Moment(Moment),
    Time(TimeKind),
    Cast,
    ToBlob,
    FromBlob,
    Math(MathKind),
    Operation(OperationKind),
    Negation,
    /// The token of this table's partition key.
    Token(Arc<TableMetadata>),
    MapKeys,
    MapValues,
    CollectionCount,
    /// The aggregate over a collection's elements.
    CollectionAggregate(AggregateKind),
    Similarity(Similarity),
    Mask(MaskKind),
    ToJson,
    FromJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    CountRows,
    Count,
    Sum,
    Average,
    Minimum,
    Maximum,
}

/// Clock of functions of time: the time of the request, so that a statement sees one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Microseconds since 1970 by the server's clock.
    pub server_timestamp_us: i64,
}

impl Clock {
    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.server_timestamp_us / 1_000
    }
}

thread_local! {
    /// Timeuuids of this shard never repeat and always ascend.
    static TIMEUUIDS: RefCell<TimeuuidGenerator> =
        RefCell::new(TimeuuidGenerator::new(Uuid::new_v4().as_u64_pair().0));
}

/// The next timeuuid of this thread at that time.
pub(crate) fn next_timeuuid(clock: Clock) -> [u8; 16] {
    TIMEUUIDS.with_borrow_mut(|timeuuids| timeuuids.next(clock.server_timestamp_us))
}

impl NativeFunction {
    pub(super) fn scalar(
        name: &'static str,
        kind: ScalarKind,
        argument_types: impl Into<Vec<CqlType>>,
        return_type: CqlType,
    ) -> Self {
        let kind = FunctionKind::Scalar(kind);
        NativeFunction {
            name,
            argument_types: argument_types.into(),
            return_type,
            kind,
        }
    }

    pub(super) fn aggregate(
        name: &'static str,
        kind: AggregateKind,
        argument_types: impl Into<Vec<CqlType>>,
        return_type: CqlType,
    ) -> Self {
        let kind = FunctionKind::Aggregate(kind);
        NativeFunction {
            name,
            argument_types: argument_types.into(),
            return_type,
            kind,
        }
    }

    /// Returns whether it decodes JSON, a text as long as clients like.
    pub(crate) fn decodes_json(&self) -> bool {
        matches!(self.kind, FunctionKind::Scalar(ScalarKind::FromJson))
    }

    pub(crate) fn is_aggregate(&self) -> bool {
        self.as_aggregate().is_some()
    }

    pub(crate) fn as_aggregate(&self) -> Option<AggregateKind> {
        match self.kind {
            FunctionKind::Aggregate(kind) => Some(kind),
            FunctionKind::Scalar(_) => None,
        }
    }

    pub fn qualified_name(&self) -> QualifiedFunctionName {
        QualifiedFunctionName(self.name)
    }

    /// Returns the receiver of the argument at `index`; bind markers are named by it.
    pub(crate) fn argument_receiver(&self, index: usize) -> Receiver {
        let cql_type = self.argument_types.get(index).cloned().unwrap_or(CqlType::Blob);
        Receiver::new(format!("arg{index}({})", self.qualified_name()), cql_type)
    }

    /// The name of a result column that holds this function of columns with those names.
    pub fn column_name(&self, arguments: &[String]) -> String {
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        match &self.kind {
            FunctionKind::Aggregate(AggregateKind::CountRows) => "count".to_owned(),
            FunctionKind::Scalar(ScalarKind::Cast) => {
                format!("cast({} as {})", argument(0), self.return_type)
            }
            FunctionKind::Scalar(ScalarKind::Operation(operation)) => {
                format!("{} {} {}", argument(0), operation.symbol(), argument(1))
            }
            FunctionKind::Scalar(ScalarKind::Negation) => format!("-{}", argument(0)),
            _ => format!("{}({})", self.qualified_name(), arguments.join(", ")),
        }
    }

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

/// Prints `system.max`.
#[derive(Clone, Copy, Debug)]
pub struct QualifiedFunctionName(&'static str);

impl fmt::Display for QualifiedFunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system.{}", self.0)
    }
}

/// The signature, as messages list it: `system.max : (int) -> int`.
impl fmt::Display for NativeFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : (", self.qualified_name())?;
        for (index, argument_type) in self.argument_types.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{argument_type}")?;
        }
        write!(f, ") -> {}", self.return_type)
    }
}

impl HeapBytes for NativeFunction {
    fn heap_bytes(&self) -> usize {
        flat_bytes(&self.argument_types)
    }
}
