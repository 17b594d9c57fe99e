//! Restrictions of a WHERE clause on one column, or on several clustering columns at once.

use std::sync::Arc;

use helenus_protocol::request::Value;
use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_types::value::{CollectionElements, TupleComponents};

use crate::CqlError;
use crate::heap_bytes::{HeapBytes, allocation_bytes};
use crate::term::{BoundValues, Evaluated, EvaluationContext, Expression};

/// One restriction: all that the WHERE clause says of its columns, merged.
#[derive(Clone, Debug)]
pub struct Restriction {
    /// More than one only for clustering columns, in key order.
    pub columns: Vec<RestrictedColumn>,
    /// Written as a tuple, even if of one column.
    pub is_multi_column: bool,
    pub kind: RestrictionKind,
}

/// Restricted column, as far as binding values needs it.
#[derive(Clone, Debug)]
pub struct RestrictedColumn {
    pub column: Arc<ColumnMetadata>,
}

#[derive(Clone, Debug)]
pub enum RestrictionKind {
    Equal(TupleTerm),
    In(InTerm),
    Slice {
        start: Option<SliceBound>,
        end: Option<SliceBound>,
    },
    Contains {
        values: Vec<Expression>,
        keys: Vec<Expression>,
        entries: Vec<(Expression, Expression)>,
    },
}

/// A value for each column of a restriction.
#[derive(Clone, Debug)]
pub enum TupleTerm {
    Single(Expression),
    Components(Vec<Expression>),
    /// One marker for the whole tuple.
    Marker(Expression),
}

#[derive(Clone, Debug)]
pub enum InTerm {
    Values(Vec<TupleTerm>),
    /// One marker for the whole list.
    Marker(Expression),
}

#[derive(Clone, Debug)]
pub struct SliceBound {
    pub value: TupleTerm,
    pub is_inclusive: bool,
}

/// A value for each column, bound.
pub type BoundTuple = Vec<Vec<u8>>;

impl RestrictedColumn {
    pub fn position(&self) -> usize {
        usize::from(self.column.position)
    }

    pub fn name(&self) -> &str {
        &self.column.name
    }
}

impl Restriction {
    pub fn first(&self) -> &RestrictedColumn {
        // Relations name at least one column; the parser knows no empty tuple.
        &self.columns[0]
    }

    pub fn first_position(&self) -> usize {
        self.first().position()
    }

    pub fn end_position(&self) -> usize {
        self.first_position() + self.columns.len()
    }

    pub(crate) fn is_slice(&self) -> bool {
        matches!(self.kind, RestrictionKind::Slice { .. })
    }

    pub(crate) fn is_contains(&self) -> bool {
        matches!(self.kind, RestrictionKind::Contains { .. })
    }

    pub fn is_in(&self) -> bool {
        matches!(self.kind, RestrictionKind::In(_))
    }

    pub(crate) fn is_equal(&self) -> bool {
        matches!(self.kind, RestrictionKind::Equal(_))
    }

    pub fn is_static(&self) -> bool {
        self.first().column.kind == ColumnKind::Static
    }

    /// Refuses a slice that is bounded by null.
    pub fn check_bounds(&self, context: &EvaluationContext<'_>) -> Result<(), CqlError> {
        let RestrictionKind::Slice { start, end } = &self.kind else {
            return Ok(());
        };
        for bound in start.iter().chain(end) {
            if bound.value.is_null(context)? {
                let name = self.first().name();
                return Err(invalid!("Invalid null value in condition for column {name}"));
            }
        }
        Ok(())
    }

    fn column_names(&self) -> String {
        self.columns
            .iter()
            .map(RestrictedColumn::name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The columns that both name, as Cassandra lists them: with the space before the comma, in the order of a hash
    /// set, which for two columns mostly is the reverse.
    fn common_names(&self, other: &Restriction) -> String {
        let is_common = |column: &&RestrictedColumn| {
            other
                .columns
                .iter()
                .any(|theirs| theirs.column.id == column.column.id)
        };
        let common = self.columns.iter().rev().filter(is_common);
        common.map(RestrictedColumn::name).collect::<Vec<_>>().join(" ,")
    }

    /// Merges both into one restriction, if that is allowed.
    pub fn merge(self, other: Restriction) -> Result<Restriction, CqlError> {
        let is_multi_column = self.is_multi_column || other.is_multi_column;
        let named = if is_multi_column {
            self.common_names(&other)
        } else {
            self.column_names()
        };
        match (self.kind, other.kind) {
            (RestrictionKind::Equal(_), _) => Err(invalid!(
                "{named} cannot be restricted by more than one relation if it includes an Equal"
            )),
            (RestrictionKind::In(_), _) => Err(invalid!(
                "{named} cannot be restricted by more than one relation if it includes a IN"
            )),
            (
                RestrictionKind::Contains {
                    mut values,
                    mut keys,
                    mut entries,
                },
                RestrictionKind::Contains {
                    values: more_values,
                    keys: more_keys,
                    entries: more_entries,
                },
            ) => {
                values.extend(more_values);
                keys.extend(more_keys);
                entries.extend(more_entries);
                Ok(Restriction {
                    columns: self.columns,
                    is_multi_column: false,
                    kind: RestrictionKind::Contains {
                        values,
                        keys,
                        entries,
                    },
                })
            }
            (RestrictionKind::Contains { .. }, _) => Err(invalid!(
                "Collection column {named} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            )),
            (
                RestrictionKind::Slice { start, end },
                RestrictionKind::Slice {
                    start: other_start,
                    end: other_end,
                },
            ) => {
                check_same_start(&self.columns[0], &other.columns[0])?;
                let kind = RestrictionKind::Slice {
                    start: only_bound(start, other_start, "start", &named)?,
                    end: only_bound(end, other_end, "end", &named)?,
                };
                let columns = if self.columns.len() >= other.columns.len() {
                    self.columns
                } else {
                    other.columns
                };
                Ok(Restriction {
                    columns,
                    is_multi_column,
                    kind,
                })
            }
            (RestrictionKind::Slice { .. }, _) => Err(invalid!(
                "Column \"{named}\" cannot be restricted by both an equality and an inequality relation"
            )),
        }
    }
}

/// Slices that are merged have to start with the same column.
fn check_same_start(ours: &RestrictedColumn, theirs: &RestrictedColumn) -> Result<(), CqlError> {
    if ours.column.id == theirs.column.id {
        return Ok(());
    }
    let later = if ours.position() > theirs.position() {
        ours
    } else {
        theirs
    };
    Err(invalid!(
        "Column \"{}\" cannot be restricted by two inequalities not starting with the same column",
        later.name()
    ))
}

/// The bound of two slices on one side, which only one of them may have.
fn only_bound(
    ours: Option<SliceBound>,
    theirs: Option<SliceBound>,
    side: &str,
    named: &str,
) -> Result<Option<SliceBound>, CqlError> {
    match (ours, theirs) {
        (Some(_), Some(_)) => Err(invalid!(
            "More than one restriction was found for the {side} bound on {named}"
        )),
        (ours, theirs) => Ok(ours.or(theirs)),
    }
}

impl TupleTerm {
    /// Returns whether this is a single value, and null.
    pub fn is_null(&self, context: &EvaluationContext<'_>) -> Result<bool, CqlError> {
        match self {
            TupleTerm::Single(term) => Ok(term.evaluate(context)? == Evaluated::Null),
            TupleTerm::Components(_) | TupleTerm::Marker(_) => Ok(false),
        }
    }

    /// Values for the columns of a restriction, none of them null.
    pub fn bind(
        &self,
        columns: &[RestrictedColumn],
        context: &EvaluationContext<'_>,
    ) -> Result<BoundTuple, CqlError> {
        let name = |index: usize| columns.get(index).map_or("", RestrictedColumn::name);
        match self {
            TupleTerm::Single(term) => match term.evaluate(context)? {
                Evaluated::Null => Err(invalid!("Invalid null value in condition for column {}", name(0))),
                Evaluated::Unset => Err(invalid!("Invalid unset value for column {}", name(0))),
                Evaluated::Bytes(bytes) => Ok(vec![bytes.into_owned()]),
            },
            TupleTerm::Components(terms) => {
                let mut tuple = Vec::with_capacity(terms.len());
                for (index, term) in terms.iter().enumerate() {
                    match term.evaluate(context)? {
                        Evaluated::Null => {
                            return Err(invalid!("Invalid null value for column {}", name(index)));
                        }
                        Evaluated::Unset => {
                            return Err(invalid!("Invalid unset value for tuple field number {index}"));
                        }
                        Evaluated::Bytes(bytes) => tuple.push(bytes.into_owned()),
                    }
                }
                Ok(tuple)
            }
            TupleTerm::Marker(marker) => {
                let value = marker.evaluate(context)?;
                if value.is_unset() {
                    let names = columns
                        .iter()
                        .map(RestrictedColumn::name)
                        .collect::<Vec<_>>()
                        .join(",");
                    return Err(invalid!("Invalid unset value for tuple ({names})"));
                }
                let bytes = value
                    .bytes()
                    .ok_or_else(|| invalid!("Invalid null value for column {}", name(0)))?;
                split_tuple(bytes, columns)
            }
        }
    }
}

impl InTerm {
    /// How many values it lists, as far as that is known without looking at them: a value that is no list has none.
    pub fn count(&self, values: &BoundValues<'_>) -> u64 {
        let marker = match self {
            InTerm::Values(terms) => return terms.len() as u64,
            InTerm::Marker(marker) => marker,
        };
        match marker {
            Expression::Marker { index, .. } => match values.value(*index) {
                Value::Bytes(list) => {
                    CollectionElements::new(list, 1).map_or(0, |elements| elements.capacity_hint() as u64)
                }
                Value::Null | Value::Unset => 0,
            },
            _ => 0,
        }
    }

    pub fn bind(
        &self,
        columns: &[RestrictedColumn],
        is_multi_column: bool,
        context: &EvaluationContext<'_>,
    ) -> Result<Vec<BoundTuple>, CqlError> {
        let marker = match self {
            InTerm::Values(values) => {
                return values.iter().map(|value| value.bind(columns, context)).collect();
            }
            InTerm::Marker(marker) => marker,
        };
        let names = || {
            columns
                .iter()
                .map(RestrictedColumn::name)
                .collect::<Vec<_>>()
                .join(",")
        };
        let list = marker.evaluate(context)?;
        let bytes = match (&list, is_multi_column) {
            (Evaluated::Bytes(bytes), _) => bytes,
            (Evaluated::Null, true) => return Err(invalid!("Invalid null value for IN restriction")),
            (Evaluated::Null, false) => return Err(invalid!("Invalid null value for column {}", names())),
            (Evaluated::Unset, true) => return Err(invalid!("Invalid unset value for in({})", names())),
            (Evaluated::Unset, false) => return Err(invalid!("Invalid unset value for column {}", names())),
        };
        let elements = CollectionElements::new(bytes, 1).into_iter().flatten();
        elements
            .map(|element| match (element, is_multi_column) {
                (Some(tuple), true) => split_tuple(tuple, columns),
                (Some(value), false) => Ok(vec![value.to_vec()]),
                (None, _) => Err(invalid!("Invalid null value in condition for column {}", names())),
            })
            .collect()
    }
}

fn split_tuple(bytes: &[u8], columns: &[RestrictedColumn]) -> Result<BoundTuple, CqlError> {
    let components: Vec<Option<&[u8]>> = TupleComponents::new(bytes).collect();
    if components.len() > columns.len() {
        return Err(invalid!(
            "Tuple value contained too many fields (expected {}, got {})",
            columns.len(),
            components.len()
        ));
    }
    let component = |(component, column): (Option<&[u8]>, &RestrictedColumn)| {
        let name = column.name();
        component
            .map(<[u8]>::to_vec)
            .ok_or_else(|| invalid!("Invalid null value for column {name}"))
    };
    components.into_iter().zip(columns).map(component).collect()
}

impl HeapBytes for Restriction {
    fn heap_bytes(&self) -> usize {
        let kind = match &self.kind {
            RestrictionKind::Equal(tuple) => tuple.heap_bytes(),
            RestrictionKind::In(InTerm::Values(values)) => values.heap_bytes(),
            RestrictionKind::In(InTerm::Marker(marker)) => marker.heap_bytes(),
            RestrictionKind::Slice { start, end } => start.heap_bytes() + end.heap_bytes(),
            RestrictionKind::Contains {
                values,
                keys,
                entries,
            } => values.heap_bytes() + keys.heap_bytes() + entries.heap_bytes(),
        };
        self.columns.heap_bytes() + kind
    }
}

impl HeapBytes for RestrictedColumn {
    fn heap_bytes(&self) -> usize {
        allocation_bytes(size_of::<ColumnMetadata>())
    }
}

impl HeapBytes for TupleTerm {
    fn heap_bytes(&self) -> usize {
        match self {
            TupleTerm::Single(term) | TupleTerm::Marker(term) => term.heap_bytes(),
            TupleTerm::Components(terms) => terms.heap_bytes(),
        }
    }
}

impl HeapBytes for SliceBound {
    fn heap_bytes(&self) -> usize {
        self.value.heap_bytes()
    }
}
