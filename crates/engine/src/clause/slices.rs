//! From restrictions on clustering columns to the slices of a partition, and from those on the key to keys.

use std::cmp::Ordering;

use helenus_rows::clustering::{
    ClusteringBound, ClusteringComparator, Components, Side, Slice, push_component,
};
use helenus_schema::{ClusteringOrder, TableMetadata};
use helenus_types::CqlType;
use helenus_types::partition_key::{partition_key_components, write_partition_key};

use super::restriction::{BoundTuple, Restriction, RestrictionKind, SliceBound};
use crate::CqlError;
use crate::term::{BoundValues, EvaluationContext};

/// How many keys or rows the lists of several INs may multiply to. Cassandra has no bound by default; the memory of
/// a node has.
const COMBINATIONS_MAX: usize = 100_000;

/// The longest value that a key column may have: its length is a u16.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// The slices that the restrictions, which name the clustering columns in order without gaps, leave of a partition:
/// in clustering order and disjoint.
pub fn slices(
    table: &TableMetadata,
    restrictions: &[Restriction],
    context: &EvaluationContext<'_>,
) -> Result<Vec<Slice>, CqlError> {
    if restrictions.is_empty() {
        return Ok(vec![Slice::covering(&[])]);
    }
    let comparator = ClusteringComparator::of(table);
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    let mut slices = Vec::new();
    let mut is_closed = false;
    for restriction in restrictions {
        match &restriction.kind {
            RestrictionKind::Slice { start, end } => {
                for prefix in &prefixes {
                    slices.extend(inequality_slices(
                        table,
                        &comparator,
                        restriction,
                        prefix,
                        (start, end),
                        context,
                    )?);
                }
                is_closed = true;
                break;
            }
            _ => prefixes = extend_prefixes(prefixes, &bound_tuples(restriction, context)?)?,
        }
    }
    if !is_closed {
        slices.extend(prefixes.iter().map(|prefix| Slice::covering(prefix)));
    }
    Ok(normalized(&comparator, slices))
}

/// The clustering keys (or prefixes) that equalities and INs name, in clustering order without repetitions.
pub fn clusterings(
    table: &TableMetadata,
    restrictions: &[Restriction],
    context: &EvaluationContext<'_>,
) -> Result<Vec<Vec<u8>>, CqlError> {
    if restrictions.is_empty() {
        return Ok(vec![Vec::new()]);
    }
    let comparator = ClusteringComparator::of(table);
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for restriction in restrictions {
        prefixes = extend_prefixes(prefixes, &bound_tuples(restriction, context)?)?;
    }
    prefixes.sort_by(|left, right| comparator.compare(left, right));
    prefixes.dedup_by(|left, right| comparator.compare(left, right) == Ordering::Equal);
    Ok(prefixes)
}

/// The partition keys that equalities and INs name, in the order of their values, without repetitions. They may
/// be empty, which `check_keys` refuses.
pub fn partition_keys(
    table: &TableMetadata,
    restrictions: &[Restriction],
    context: &EvaluationContext<'_>,
) -> Result<Vec<Vec<u8>>, CqlError> {
    let mut combinations: Vec<BoundTuple> = vec![Vec::new()];
    for restriction in restrictions {
        let tuples = bound_tuples(restriction, context)?;
        check_combinations(combinations.len().saturating_mul(tuples.len()))?;
        let extend = |prefix: &BoundTuple| {
            let extended = tuples
                .iter()
                .map(|tuple| prefix.iter().chain(tuple).cloned().collect::<BoundTuple>());
            extended.collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(extend).collect();
    }
    let types: Vec<&CqlType> = table
        .partition_key()
        .iter()
        .map(|column| &column.cql_type)
        .collect();
    let mut keys = Vec::with_capacity(combinations.len());
    for components in &combinations {
        let mut key = Vec::new();
        append_key(&mut key, components.iter().map(Vec::as_slice))?;
        keys.push(key);
    }
    if keys.len() > 1 {
        let compare = |left: &Vec<u8>, right: &Vec<u8>| {
            let components = |key| partition_key_components(key, types.len());
            let pairs = components(left).zip(components(right)).zip(&types);
            pairs
                .map(|((left, right), cql_type)| cql_type.compare(left, right))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        // Of keys of equal order (as 1 and 1.0 are) the first one written counts, as in Cassandra.
        keys.sort_by(compare);
        keys.dedup_by(|later, first| compare(later, first) == Ordering::Equal);
    }
    Ok(keys)
}

/// Returns the product of the lists of the INs among some restrictions, repetitions included; `None` where there is no IN.
pub(crate) fn in_product(restrictions: &[Restriction], values: &BoundValues<'_>) -> Option<u64> {
    let counts = restrictions
        .iter()
        .filter_map(|restriction| in_count(restriction, values));
    counts.reduce(u64::saturating_mul)
}

/// How many values an IN lists; `None` of anything else.
pub(crate) fn in_count(restriction: &Restriction, values: &BoundValues<'_>) -> Option<u64> {
    match &restriction.kind {
        RestrictionKind::In(terms) => Some(terms.count(values)),
        _ => None,
    }
}

/// Refuses partition keys that are empty, which only those of one column can be.
pub(crate) fn check_keys(keys: &[Vec<u8>]) -> Result<(), CqlError> {
    match keys.iter().any(Vec::is_empty) {
        true => Err(invalid!("Key may not be empty")),
        false => Ok(()),
    }
}

/// Appends a partition key, which must not be too long.
pub(crate) fn append_key<'a>(
    out: &mut Vec<u8>,
    components: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
) -> Result<(), CqlError> {
    let start = out.len();
    if !write_partition_key(out, components.clone()) {
        let longest = components.map(<[u8]>::len).max().unwrap_or(0);
        return Err(key_too_long(longest));
    }
    match out.len() - start {
        length if length > KEY_BYTES_MAX => Err(key_too_long(length)),
        _ => Ok(()),
    }
}

pub(crate) fn key_too_long(length: usize) -> CqlError {
    invalid!("Key length of {length} is longer than maximum of {KEY_BYTES_MAX}")
}

/// The values of an equality or an IN.
fn bound_tuples(
    restriction: &Restriction,
    context: &EvaluationContext<'_>,
) -> Result<Vec<BoundTuple>, CqlError> {
    let Restriction {
        columns,
        is_multi_column,
        kind,
    } = restriction;
    match kind {
        RestrictionKind::Equal(term) => Ok(vec![term.bind(columns, context)?]),
        RestrictionKind::In(terms) => terms.bind(columns, *is_multi_column, context),
        // Slices and CONTAINS are told apart by the callers.
        RestrictionKind::Slice { .. } | RestrictionKind::Contains { .. } => Ok(Vec::new()),
    }
}

fn extend_prefixes(prefixes: Vec<Vec<u8>>, tuples: &[BoundTuple]) -> Result<Vec<Vec<u8>>, CqlError> {
    check_combinations(prefixes.len().saturating_mul(tuples.len()))?;
    let mut extended = Vec::with_capacity(prefixes.len() * tuples.len());
    for prefix in &prefixes {
        for tuple in tuples {
            let mut key = prefix.clone();
            push_components(&mut key, tuple)?;
            extended.push(key);
        }
    }
    Ok(extended)
}

pub(crate) fn check_combinations(count: usize) -> Result<(), CqlError> {
    match count > COMBINATIONS_MAX {
        true => Err(invalid!(
            "The IN restrictions combine to {count} keys, more than {COMBINATIONS_MAX}"
        )),
        false => Ok(()),
    }
}

fn push_components(key: &mut Vec<u8>, components: &[Vec<u8>]) -> Result<(), CqlError> {
    for component in components {
        if component.len() > KEY_BYTES_MAX {
            return Err(key_too_long(component.len()));
        }
        push_component(key, component);
    }
    Ok(())
}

fn inequality_slices(
    table: &TableMetadata,
    comparator: &ClusteringComparator,
    restriction: &Restriction,
    prefix: &[u8],
    (start, end): (&Option<SliceBound>, &Option<SliceBound>),
    context: &EvaluationContext<'_>,
) -> Result<Vec<Slice>, CqlError> {
    let first = restriction.first_position();
    let one_sided = |bound: &Option<SliceBound>, is_lower: bool| -> Result<Vec<Slice>, CqlError> {
        let Some(bound) = bound else {
            return Ok(vec![Slice::covering(prefix)]);
        };
        // Null comes before every value: all are above it, none below.
        if bound.value.is_null(context)? {
            return Ok(if is_lower {
                vec![Slice::covering(prefix)]
            } else {
                Vec::new()
            });
        }
        let tuple = bound.value.bind(&restriction.columns, context)?;
        let orders = table.clustering()[first..].iter().map(|column| column.order);
        let slices = half_line(prefix, &tuple, orders, is_lower, bound.is_inclusive)?;
        Ok(normalized(comparator, slices))
    };
    let (above, below) = (one_sided(start, true)?, one_sided(end, false)?);
    Ok(intersection(comparator, &above, &below))
}

/// The rows whose columns after `prefix`, compared as a tuple of values, are above (or below) `tuple`. Where columns
/// are ordered both ways that is more than one slice: one for each column that may be the first to differ.
fn half_line(
    prefix: &[u8],
    tuple: &[Vec<u8>],
    orders: impl Iterator<Item = ClusteringOrder>,
    is_lower: bool,
    is_inclusive: bool,
) -> Result<Vec<Slice>, CqlError> {
    let mut slices = Vec::with_capacity(tuple.len());
    let mut equal = prefix.to_vec();
    for (index, (component, order)) in tuple.iter().zip(orders).enumerate() {
        let covering = Slice::covering(&equal);
        push_components(&mut equal, std::slice::from_ref(component))?;
        let includes_equal = is_inclusive && index + 1 == tuple.len();
        // Towards the end of the partition lie greater values, or smaller ones if the column descends.
        let is_towards_end = is_lower == (order == ClusteringOrder::Ascending);
        let side = if is_towards_end != includes_equal {
            Side::After
        } else {
            Side::Before
        };
        let bound = ClusteringBound {
            prefix: equal.as_slice().into(),
            side,
        };
        slices.push(match is_towards_end {
            true => Slice {
                start: bound,
                end: covering.end,
            },
            false => Slice {
                start: covering.start,
                end: bound,
            },
        });
    }
    Ok(slices)
}

fn compare(comparator: &ClusteringComparator, left: &ClusteringBound, right: &ClusteringBound) -> Ordering {
    // Two prefixes of which one covers the other are told apart by how many components they have.
    comparator.compare_bounds((&left.prefix, left.side), (&right.prefix, right.side))
}

/// In order, without empty ones, and joined where they touch.
fn normalized(comparator: &ClusteringComparator, mut slices: Vec<Slice>) -> Vec<Slice> {
    slices.retain(|slice| compare(comparator, &slice.start, &slice.end) == Ordering::Less);
    slices.sort_by(|left, right| compare(comparator, &left.start, &right.start));
    let mut joined: Vec<Slice> = Vec::with_capacity(slices.len());
    for slice in slices {
        match joined.last_mut() {
            // Neighbouring rows of an IN stay apart: a store finds single rows faster than slices.
            Some(last) if touches(comparator, last, &slice) => {
                if compare(comparator, &slice.end, &last.end) == Ordering::Greater {
                    last.end = slice.end;
                }
            }
            _ => joined.push(slice),
        }
    }
    joined
}

fn touches(comparator: &ClusteringComparator, earlier: &Slice, later: &Slice) -> bool {
    match compare(comparator, &later.start, &earlier.end) {
        Ordering::Less => true,
        Ordering::Equal => Components::new(&earlier.end.prefix).count() < comparator.component_count(),
        Ordering::Greater => false,
    }
}

fn intersection(comparator: &ClusteringComparator, left: &[Slice], right: &[Slice]) -> Vec<Slice> {
    let later = |a: &ClusteringBound, b: &ClusteringBound| {
        if compare(comparator, a, b) == Ordering::Less {
            b.clone()
        } else {
            a.clone()
        }
    };
    let earlier = |a: &ClusteringBound, b: &ClusteringBound| {
        if compare(comparator, a, b) == Ordering::Less {
            a.clone()
        } else {
            b.clone()
        }
    };
    let pairs = left
        .iter()
        .flat_map(|left| right.iter().map(move |right| (left, right)));
    let overlaps = pairs.map(|(left, right)| Slice {
        start: later(&left.start, &right.start),
        end: earlier(&left.end, &right.end),
    });
    overlaps
        .filter(|slice| compare(comparator, &slice.start, &slice.end) == Ordering::Less)
        .collect()
}

/// Makes the slices be one row, reusing what is there.
pub fn set_single_row(slices: &mut Vec<Slice>, clustering: &[u8]) {
    slices.truncate(1);
    match slices.first_mut() {
        Some(slice) => slice.cover(clustering),
        None => slices.push(Slice::covering(clustering)),
    }
}
