//! FlatBuffers, as far as Arrow's metadata need them: tables of scalars, texts, tables and vectors, written front to back with each
//! child behind its parent (FlatBuffers, "Internals").

/// A table that is being made. Fields have the numbers of their order in the schema.
#[derive(Debug, Default)]
pub struct Table {
    fields: Vec<(u16, Field)>,
}

#[derive(Debug)]
enum Field {
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Text(String),
    Table(Table),
    Tables(Vec<Table>),
    /// Vector of structs of two longs.
    Pairs(Vec<[i64; 2]>),
}

impl Field {
    /// Bytes in the table itself, which is also the alignment there. What is behind the table has an offset in it.
    fn inline_bytes(&self) -> usize {
        match self {
            Field::Byte(_) => 1,
            Field::Short(_) => 2,
            Field::Int(_) | Field::Text(_) | Field::Table(_) | Field::Tables(_) | Field::Pairs(_) => 4,
            Field::Long(_) => 8,
        }
    }
}

/// The widest scalar: tables begin at a multiple of it.
const TABLE_ALIGNMENT: usize = 8;
const OFFSET_BYTES: usize = 4;

impl Table {
    fn field(mut self, number: u16, field: Field) -> Self {
        self.fields.push((number, field));
        self
    }

    pub fn boolean(self, number: u16, value: bool) -> Self {
        self.field(number, Field::Byte(u8::from(value)))
    }

    pub fn short(self, number: u16, value: i16) -> Self {
        self.field(number, Field::Short(value))
    }

    pub fn int(self, number: u16, value: i32) -> Self {
        self.field(number, Field::Int(value))
    }

    pub fn long(self, number: u16, value: i64) -> Self {
        self.field(number, Field::Long(value))
    }

    pub fn text(self, number: u16, text: impl Into<String>) -> Self {
        self.field(number, Field::Text(text.into()))
    }

    pub fn tables(self, number: u16, tables: Vec<Table>) -> Self {
        self.field(number, Field::Tables(tables))
    }

    pub fn pairs(self, number: u16, pairs: Vec<[i64; 2]>) -> Self {
        self.field(number, Field::Pairs(pairs))
    }

    /// A union has two fields: which table it is, and the table.
    pub fn union(self, number: u16, kind: u8, table: Table) -> Self {
        self.field(number, Field::Byte(kind))
            .field(number + 1, Field::Table(table))
    }

    /// The buffer whose root is this table.
    pub fn finish(&self) -> Vec<u8> {
        let mut out = vec![0; OFFSET_BYTES];
        let root = self.write(&mut out);
        point(&mut out, 0, root);
        out
    }

    /// Writes the table with all it holds. Where it begins.
    fn write(&self, out: &mut Vec<u8>) -> usize {
        let (places, inline_bytes) = self.layout();
        let slots = self
            .fields
            .iter()
            .map(|(number, _)| number + 1)
            .max()
            .unwrap_or(0);
        let vtable_bytes = 4 + 2 * usize::from(slots);
        let begin = (out.len() + vtable_bytes).next_multiple_of(TABLE_ALIGNMENT);
        let vtable = begin - vtable_bytes;
        out.resize(begin + inline_bytes, 0);
        set(out, vtable, &(vtable_bytes as u16).to_le_bytes());
        set(out, vtable + 2, &(inline_bytes as u16).to_le_bytes());
        set(out, begin, &(vtable_bytes as i32).to_le_bytes());
        for ((number, field), place) in self.fields.iter().zip(&places) {
            set(
                out,
                vtable + 4 + 2 * usize::from(*number),
                &(*place as u16).to_le_bytes(),
            );
            field.write(out, begin + place);
        }
        begin
    }

    /// Where in the table each field is, and how long the table is.
    fn layout(&self) -> (Vec<usize>, usize) {
        // The offset of the vtable comes first.
        let mut end = OFFSET_BYTES;
        let places = self.fields.iter().map(|(_, field)| {
            let bytes = field.inline_bytes();
            let place = end.next_multiple_of(bytes);
            end = place + bytes;
            place
        });
        let places = places.collect();
        (places, end)
    }
}

impl Field {
    /// Writes the field at its place in its table, and what it points to at the end.
    fn write(&self, out: &mut Vec<u8>, place: usize) {
        match self {
            Field::Byte(value) => set(out, place, &[*value]),
            Field::Short(value) => set(out, place, &value.to_le_bytes()),
            Field::Int(value) => set(out, place, &value.to_le_bytes()),
            Field::Long(value) => set(out, place, &value.to_le_bytes()),
            Field::Table(table) => {
                let begin = table.write(out);
                point(out, place, begin);
            }
            Field::Text(text) => {
                let begin = begin_vector(out, text.len(), 1);
                point(out, place, begin);
                out.extend(text.as_bytes());
                out.push(0);
            }
            Field::Pairs(pairs) => {
                let begin = begin_vector(out, pairs.len(), 8);
                point(out, place, begin);
                out.extend(pairs.iter().flatten().flat_map(|long| long.to_le_bytes()));
            }
            Field::Tables(tables) => {
                let begin = begin_vector(out, tables.len(), OFFSET_BYTES);
                point(out, place, begin);
                let first = out.len();
                out.resize(first + OFFSET_BYTES * tables.len(), 0);
                for (index, table) in tables.iter().enumerate() {
                    let begin = table.write(out);
                    point(out, first + OFFSET_BYTES * index, begin);
                }
            }
        }
    }
}

/// Writes a vector's length so that its elements are aligned. Where the vector begins.
fn begin_vector(out: &mut Vec<u8>, count: usize, alignment: usize) -> usize {
    let elements = (out.len() + OFFSET_BYTES).next_multiple_of(alignment.max(OFFSET_BYTES));
    out.resize(elements - OFFSET_BYTES, 0);
    out.extend((count as u32).to_le_bytes());
    elements - OFFSET_BYTES
}

/// Offsets count from where they are.
fn point(out: &mut [u8], place: usize, target: usize) {
    set(out, place, &((target - place) as u32).to_le_bytes());
}

fn set(out: &mut [u8], place: usize, bytes: &[u8]) {
    out[place..place + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_as_the_format_says() {
        let inner = Table::default().text(0, "abc");
        let table = Table::default().boolean(1, true).long(0, -2).union(2, 9, inner);
        let wanted: Vec<u8> = [
            // The root begins at 16.
            &[16, 0, 0, 0][..],
            // Its vtable: 12 bytes, of a table of 24; fields at 8, 4, 16 and 20.
            &[12, 0, 24, 0, 8, 0, 4, 0, 16, 0, 20, 0],
            // The vtable is 12 before; the boolean and the long; the union's kind, and its table 12 behind.
            &[12, 0, 0, 0, 1, 0, 0, 0],
            &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[9, 0, 0, 0, 12, 0, 0, 0],
            // The inner table's vtable.
            &[0, 0, 6, 0, 8, 0, 4, 0],
            &[6, 0, 0, 0, 4, 0, 0, 0],
            &[3, 0, 0, 0, b'a', b'b', b'c', 0],
        ]
        .concat();
        assert_eq!(table.finish(), wanted);
    }

    #[test]
    fn elements_of_vectors_are_aligned() {
        for length in 0..9 {
            let table = Table::default()
                .text(0, "x".repeat(length))
                .pairs(1, vec![[1, 2], [3, 4]]);
            let bytes = table.finish();
            let first = [1_i64.to_le_bytes(), 2_i64.to_le_bytes()].concat();
            let place = bytes.windows(16).position(|window| window == first).unwrap();
            assert_eq!(place % 8, 0, "{length}");
        }
    }
}
