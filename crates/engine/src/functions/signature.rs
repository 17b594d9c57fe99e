//! One native function with one signature.

use std::fmt;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::CqlType;
use helenus_vector::Similarity;

use super::kinds::{MaskKind, MathKind, Moment, OperationKind, TimeKind};
use crate::heap_bytes::{HeapBytes, flat_bytes};

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

    /// Returns whether each call gives a value that none before it gave.
    pub(crate) fn is_made(&self) -> bool {
        matches!(
            self.kind,
            FunctionKind::Scalar(ScalarKind::Uuid | ScalarKind::Moment(Moment::Timeuuid))
        )
    }

    pub(crate) fn is_to_json(&self) -> bool {
        matches!(self.kind, FunctionKind::Scalar(ScalarKind::ToJson))
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
