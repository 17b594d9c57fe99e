//! One column: values of one type in Arrow's physical layout, with what is nested in them.

use helenus_types::CqlType;
use helenus_types::value::duration::Duration;
use helenus_types::value::{CollectionElements, MapEntries, TupleComponents, VectorElements};

use crate::{ALIGNMENT, ArrowError};

/// Values of a column, and which of them are null.
pub struct Array {
    cql_type: CqlType,
    length: usize,
    nulls: usize,
    validity: Bits,
    values: Values,
}

enum Values {
    /// Values of so many bytes each, as [`write_fixed`] writes them.
    Fixed {
        width: usize,
        bytes: Vec<u8>,
    },
    Booleans(Bits),
    Variable {
        offsets: Offsets,
        bytes: Vec<u8>,
    },
    List {
        offsets: Offsets,
        element: Box<Array>,
    },
    FixedList {
        dimension: u32,
        element: Box<Array>,
    },
    Map {
        offsets: Offsets,
        key: Box<Array>,
        value: Box<Array>,
    },
    Struct(Vec<Array>),
}

/// Nodes and buffers of a record batch, in the order of a walk over its fields, each before its children.
#[derive(Default)]
pub struct Layout {
    /// Length and number of nulls.
    pub nodes: Vec<[i64; 2]>,
    /// Place in the body, and length.
    pub buffers: Vec<[i64; 2]>,
    pub body: Vec<u8>,
}

impl Layout {
    fn buffer(&mut self, bytes: &[u8]) {
        self.buffers.push([self.body.len() as i64, bytes.len() as i64]);
        self.body.extend(bytes);
        self.body.resize(self.body.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// Bits, the first of each byte its lowest.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    length: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.length % 8);
        }
        self.length += 1;
    }
}

/// Where the values of a column end in what holds them.
struct Offsets(Vec<i32>);

impl Offsets {
    fn push(&mut self, end: usize) -> Result<(), ArrowError> {
        let end = i32::try_from(end).map_err(|_| ArrowError::ColumnTooLong)?;
        self.0.push(end);
        Ok(())
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|offset| offset.to_le_bytes()).collect()
    }
}

impl Default for Offsets {
    fn default() -> Self {
        Offsets(vec![0])
    }
}

impl Values {
    fn new(cql_type: &CqlType) -> Self {
        let array = |cql_type| Box::new(Array::new(cql_type));
        match cql_type {
            CqlType::Boolean => Values::Booleans(Bits::default()),
            CqlType::List { element, .. } | CqlType::Set { element, .. } => Values::List {
                offsets: Offsets::default(),
                element: array(element),
            },
            CqlType::Vector { element, dimension } => Values::FixedList {
                dimension: *dimension,
                element: array(element),
            },
            CqlType::Map { key, value, .. } => Values::Map {
                offsets: Offsets::default(),
                key: array(key),
                value: array(value),
            },
            CqlType::Tuple(types) => Values::Struct(types.iter().map(Array::new).collect()),
            CqlType::UserDefined { definition, .. } => {
                let fields = definition.fields.iter();
                Values::Struct(fields.map(|(_, part)| Array::new(part)).collect())
            }
            _ => match fixed_width(cql_type) {
                Some(width) => Values::Fixed {
                    width,
                    bytes: Vec::new(),
                },
                None => Values::Variable {
                    offsets: Offsets::default(),
                    bytes: Vec::new(),
                },
            },
        }
    }
}

impl Array {
    pub fn new(cql_type: &CqlType) -> Self {
        Array {
            cql_type: cql_type.clone(),
            length: 0,
            nulls: 0,
            validity: Bits::default(),
            values: Values::new(cql_type),
        }
    }

    /// Adds a value in CQL's serialized form. An empty one of a type that has no such value is null.
    pub fn push(&mut self, value: Option<&[u8]>) -> Result<(), ArrowError> {
        let cql_type = &self.cql_type;
        let is_valid = match &mut self.values {
            Values::Fixed { width, bytes } => {
                let before = bytes.len();
                let is_valid = value.is_some_and(|value| write_fixed(cql_type, *width, value, bytes));
                bytes.resize(before + *width, 0);
                is_valid
            }
            Values::Booleans(bits) => {
                let byte = value.and_then(|value| value.first());
                bits.push(byte.is_some_and(|byte| *byte != 0));
                byte.is_some()
            }
            Values::Variable { offsets, bytes } => {
                if let Some(value) = value {
                    write_variable(cql_type, value, bytes)?;
                }
                offsets.push(bytes.len())?;
                value.is_some()
            }
            Values::List { offsets, element } => {
                let elements = value.and_then(|value| CollectionElements::new(value, 1));
                for value in elements.into_iter().flatten() {
                    element.push(value)?;
                }
                offsets.push(element.length)?;
                value.is_some()
            }
            Values::FixedList { dimension, element } => {
                element.push_vector(*dimension, value)?;
                value.is_some()
            }
            Values::Map {
                offsets,
                key,
                value: mapped,
            } => {
                let entries = value.and_then(MapEntries::new);
                for (each_key, each_value) in entries.into_iter().flatten() {
                    key.push(Some(each_key))?;
                    mapped.push(Some(each_value))?;
                }
                offsets.push(key.length)?;
                value.is_some()
            }
            Values::Struct(fields) => {
                let mut components = value.map(TupleComponents::new);
                for field in fields {
                    let component = components.as_mut().and_then(Iterator::next);
                    field.push(component.flatten())?;
                }
                value.is_some()
            }
        };
        self.validity.push(is_valid);
        self.nulls += usize::from(!is_valid);
        self.length += 1;
        Ok(())
    }

    /// Adds the elements of a vector of this array's type: as many nulls, if there is no vector.
    fn push_vector(&mut self, dimension: u32, vector: Option<&[u8]>) -> Result<(), ArrowError> {
        let end = self.length + dimension as usize;
        let element = self.cql_type.clone();
        let elements = vector.map(|vector| VectorElements::new(&element, dimension, vector));
        for value in elements.into_iter().flatten().take(dimension as usize) {
            self.push(Some(value))?;
        }
        while self.length < end {
            self.push(None)?;
        }
        Ok(())
    }

    pub fn lay_out(&self, layout: &mut Layout) {
        layout.node(self.length, &self.validity, self.nulls);
        match &self.values {
            Values::Fixed { bytes, .. } => layout.buffer(bytes),
            Values::Booleans(bits) => layout.buffer(&bits.bytes),
            Values::Variable { offsets, bytes } => {
                layout.buffer(&offsets.bytes());
                layout.buffer(bytes);
            }
            Values::List { offsets, element } => {
                layout.buffer(&offsets.bytes());
                element.lay_out(layout);
            }
            Values::FixedList { element, .. } => element.lay_out(layout),
            Values::Map { offsets, key, value } => {
                layout.buffer(&offsets.bytes());
                // The struct of key and value, which is never null.
                layout.node(key.length, &Bits::default(), 0);
                key.lay_out(layout);
                value.lay_out(layout);
            }
            Values::Struct(fields) => fields.iter().for_each(|field| field.lay_out(layout)),
        }
    }
}

impl Layout {
    /// Without nulls there is no bitmap.
    fn node(&mut self, length: usize, validity: &Bits, nulls: usize) {
        self.nodes.push([length as i64, nulls as i64]);
        self.buffer(if nulls > 0 { &validity.bytes } else { &[] });
    }
}

/// Bytes of each value of a type whose values have a fixed width in Arrow.
fn fixed_width(cql_type: &CqlType) -> Option<usize> {
    match cql_type {
        CqlType::Tinyint => Some(1),
        CqlType::Smallint => Some(2),
        CqlType::Int | CqlType::Float | CqlType::Date => Some(4),
        CqlType::Bigint | CqlType::Counter | CqlType::Double | CqlType::Time | CqlType::Timestamp => Some(8),
        CqlType::Uuid | CqlType::Timeuuid | CqlType::Duration => Some(16),
        _ => None,
    }
}

/// Appends a value of a fixed width; false, with nothing appended, if it is none of its type's.
fn write_fixed(cql_type: &CqlType, width: usize, value: &[u8], out: &mut Vec<u8>) -> bool {
    match cql_type {
        CqlType::Duration => {
            let Ok(duration) = Duration::from_bytes(value) else {
                return false;
            };
            out.extend(duration.months.to_le_bytes());
            out.extend(duration.days.to_le_bytes());
            out.extend(duration.nanoseconds.to_le_bytes());
        }
        _ if value.len() != width => return false,
        CqlType::Uuid | CqlType::Timeuuid => out.extend(value),
        // CQL's dates begin at -5877641-06-23 with 0 (native protocol v5, section 3: date); Arrow's are days since the Unix epoch.
        CqlType::Date => out.extend(
            value
                .iter()
                .enumerate()
                .rev()
                .map(|(index, byte)| if index == 0 { byte ^ 0x80 } else { *byte }),
        ),
        _ => out.extend(value.iter().rev()),
    }
    true
}

fn write_variable(cql_type: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Result<(), ArrowError> {
    match cql_type {
        CqlType::Inet | CqlType::Varint | CqlType::Decimal => {
            let mut text = String::new();
            cql_type.write_json(&mut text, value)?;
            out.extend(text.trim_matches('"').as_bytes());
        }
        // Text that older versions took without looking at it: readers of Arrow look.
        CqlType::Ascii | CqlType::Text => out.extend(String::from_utf8_lossy(value).as_bytes()),
        _ => out.extend(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn laid_out(array: &Array) -> Layout {
        let mut layout = Layout::default();
        array.lay_out(&mut layout);
        layout
    }

    #[test]
    fn integers_are_turned_around_and_nulls_are_bits() {
        let mut array = Array::new(&CqlType::Int);
        for value in [Some(&[0, 0, 1, 2][..]), None, Some(&[]), Some(&[0xff; 4])] {
            array.push(value).unwrap();
        }
        let layout = laid_out(&array);
        assert_eq!(layout.nodes, [[4, 2]]);
        assert_eq!(layout.buffers, [[0, 1], [8, 16]]);
        assert_eq!(layout.body[0], 0b1001);
        assert_eq!(
            layout.body[8..],
            [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]
        );
    }

    #[test]
    fn dates_are_days_since_the_epoch() {
        let mut array = Array::new(&CqlType::Date);
        array.push(Some(&(0x8000_0000_u32 - 2).to_be_bytes())).unwrap();
        assert_eq!(laid_out(&array).body, [0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn nulls_of_vectors_and_tuples_have_their_places_below() {
        let vector = CqlType::Vector {
            element: Arc::new(CqlType::Float),
            dimension: 3,
        };
        let mut array = Array::new(&CqlType::Tuple([vector, CqlType::Text].into()));
        array.push(None).unwrap();
        // A tuple that ends early.
        array.push(Some(&[0xff; 4])).unwrap();
        let layout = laid_out(&array);
        assert_eq!(layout.nodes, [[2, 1], [2, 2], [6, 6], [2, 2]]);
    }
}
