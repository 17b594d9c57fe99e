//! Terms against the comparators of their types.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::Liveness;
use helenus_rows::row::{CellRef, RowBuilder, RowRef};
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, IndexId, IndexKind, IndexMetadata, IndexTarget,
    TableId, TableKind, TableMetadata, TableParams,
};
use helenus_types::CqlType;
use helenus_types::value::{Decimal, write_collection, write_component};
use uuid::Uuid;

use crate::{ANY_TERM, IndexedColumn, TERM_BYTES_MAX, TermQuery};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }

    fn bytes(&mut self, length: usize, alphabet: &[u8]) -> Vec<u8> {
        (0..length)
            .map(|_| alphabet[self.below(alphabet.len())])
            .collect()
    }

    fn integer(&mut self) -> i64 {
        let shift = self.below(64);
        self.next().cast_signed() >> shift
    }
}

fn column_of(cql_type: &CqlType, target: IndexTarget, options: &[(&str, &str)]) -> IndexedColumn {
    let column = ColumnMetadata {
        id: ColumnId(1),
        name: "v".into(),
        kind: ColumnKind::Regular,
        position: 0,
        cql_type: cql_type.clone(),
        order: ClusteringOrder::Ascending,
    };
    let mut table = TableMetadata {
        keyspace: "ks".into(),
        name: "t".into(),
        id: TableId(Uuid::nil()),
        kind: TableKind::Regular,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: ColumnId(2),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params: TableParams::default(),
    };
    table.set_columns(vec![column]);
    let pairs = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let index = IndexMetadata {
        id: IndexId(Uuid::nil()),
        name: "i".into(),
        kind: IndexKind::StorageAttached,
        column: ColumnId(1),
        target,
        class_name: None,
        options: pairs.collect::<BTreeMap<_, _>>(),
    };
    IndexedColumn::of(&table, &index).unwrap()
}

fn term(column: &IndexedColumn, value: &[u8]) -> Vec<u8> {
    let mut term = Vec::new();
    column.push_value_term(&mut term, value);
    assert!(term.len() <= TERM_BYTES_MAX);
    term
}

/// As the index compares it.
fn collated(column: &IndexedColumn, value: &[u8]) -> Vec<u8> {
    let collation = column.collation();
    let collated = collation.as_ref().and_then(|collation| collation.apply(value));
    collated.map_or_else(|| value.to_vec(), Cow::into_owned)
}

fn value(random: &mut Random, cql_type: &CqlType) -> Vec<u8> {
    if cql_type.allows_empty() && random.below(12) == 0 {
        return Vec::new();
    }
    let length = random.below(5);
    match cql_type {
        CqlType::Text | CqlType::Ascii => random.bytes(length, b"\0\x01aAz"),
        CqlType::Inet => {
            let length = [4, 16][random.below(2)];
            random.bytes(length, &[0, 1, 0xff])
        }
        CqlType::Boolean => vec![random.below(2) as u8],
        CqlType::Tinyint => vec![random.next() as u8],
        CqlType::Smallint => (random.integer() as i16).to_be_bytes().to_vec(),
        CqlType::Int | CqlType::Date => (random.integer() as i32).to_be_bytes().to_vec(),
        CqlType::Bigint | CqlType::Timestamp => random.integer().to_be_bytes().to_vec(),
        CqlType::Time => (random.integer() & i64::MAX).to_be_bytes().to_vec(),
        CqlType::Float => match random.below(3) {
            0 => [0.0_f32, -0.0, f32::NAN, -f32::NAN, f32::INFINITY][random.below(5)]
                .to_be_bytes()
                .to_vec(),
            _ => (random.next() as u32).to_be_bytes().to_vec(),
        },
        CqlType::Double => match random.below(3) {
            0 => [0.0_f64, -0.0, f64::NAN, -f64::NAN, 1.5][random.below(5)]
                .to_be_bytes()
                .to_vec(),
            _ => random.next().to_be_bytes().to_vec(),
        },
        CqlType::Timeuuid | CqlType::Uuid => {
            let mut bytes = random.bytes(16, &[0, 1, 0x7f, 0x80, 0xff]);
            let version = match cql_type {
                CqlType::Timeuuid => 1,
                _ => [1, 4, 7][random.below(3)],
            };
            bytes[6] = bytes[6] & 0xf | version << 4;
            bytes
        }
        // Padded ones, too: equal values of different bytes.
        CqlType::Varint => {
            let mut bytes = random.bytes(length + 3, &[0, 0, 1, 0x7f, 0x80, 0xff, 0xff]);
            bytes.push(random.next() as u8);
            bytes
        }
        CqlType::Decimal => {
            let texts = [
                "1", "1.0", "1.00", "0", "0.000", "-1", "-1.0", "-1.5", "10", "1e1", "99.99", "1e30",
                "-1e-30",
            ];
            Decimal::parse(texts[random.below(texts.len())])
                .unwrap()
                .to_bytes()
        }
        CqlType::List { element, .. } => {
            let values: Vec<Vec<u8>> = (0..random.below(3)).map(|_| there(random, element)).collect();
            let mut out = Vec::new();
            write_collection(&mut out, values.len(), values.iter().map(|value| &**value));
            out
        }
        CqlType::Tuple(types) => {
            let mut out = Vec::new();
            for of in types.iter() {
                let component = (random.below(4) > 0).then(|| there(random, of));
                write_component(&mut out, component.as_deref());
            }
            out
        }
        other => panic!("no values of {other:?} are made"),
    }
}

fn there(random: &mut Random, cql_type: &CqlType) -> Vec<u8> {
    loop {
        let value = value(random, cql_type);
        if !value.is_empty() {
            return value;
        }
    }
}

fn scalars() -> Vec<CqlType> {
    vec![
        CqlType::Text,
        CqlType::Ascii,
        CqlType::Inet,
        CqlType::Boolean,
        CqlType::Tinyint,
        CqlType::Smallint,
        CqlType::Int,
        CqlType::Bigint,
        CqlType::Date,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::Float,
        CqlType::Double,
        CqlType::Timeuuid,
        CqlType::Uuid,
        CqlType::Varint,
        CqlType::Decimal,
    ]
}

#[test]
fn terms_sort_and_equal_as_their_values_do() {
    let mut random = Random(71);
    let compound = [
        CqlType::list(CqlType::Double, true),
        CqlType::tuple([CqlType::Int, CqlType::Text, CqlType::Decimal]),
    ];
    for cql_type in scalars().into_iter().chain(compound) {
        let column = column_of(&cql_type, IndexTarget::Simple, &[]);
        let values: Vec<Vec<u8>> = (0..150).map(|_| value(&mut random, &cql_type)).collect();
        for left in &values {
            for right in &values {
                assert_eq!(
                    term(&column, left).cmp(&term(&column, right)),
                    cql_type.compare(&collated(&column, left), &collated(&column, right)),
                    "{cql_type:?} {left:02x?} {right:02x?}"
                );
            }
        }
    }
}

/// A value of a range has a term within the query's, whatever is cut.
#[test]
fn ranges_of_terms_have_all_values_of_the_range() {
    let mut random = Random(73);
    for cql_type in scalars() {
        let column = column_of(&cql_type, IndexTarget::Simple, &[]);
        let mut make = || match cql_type {
            CqlType::Text if random.below(2) == 0 => {
                let length = TERM_BYTES_MAX - 2 + random.below(4);
                let tail = random.below(2) as u8;
                [vec![b'x'; length], vec![tail]].concat()
            }
            _ => value(&mut random, &cql_type),
        };
        for _ in 0..2000 {
            let (from, to, value) = (make(), make(), make());
            let compare = |left: &[u8], right: &[u8]| {
                cql_type.compare(&collated(&column, left), &collated(&column, right))
            };
            let is_in = compare(&from, &value).is_le() && compare(&value, &to).is_lt();
            let TermQuery::Range { from, to } =
                TermQuery::range(&column, Bound::Included(&from), Bound::Excluded(&to))
            else {
                panic!("{cql_type:?} has ranges")
            };
            let term = term(&column, &value);
            let is_found = from.unwrap().as_ref() <= &*term && &*term <= to.unwrap().as_ref();
            assert!(!is_in || is_found, "{cql_type:?} {value:02x?}");
        }
    }
    let list = column_of(&CqlType::list(CqlType::Int, true), IndexTarget::Full, &[]);
    assert_eq!(
        TermQuery::range(&list, Bound::Included(&[]), Bound::Unbounded),
        TermQuery::All
    );
}

#[test]
fn attached_indexes_compare_in_their_own_way() {
    let apply = |cql_type: &CqlType, options: &[(&str, &str)], value: &[u8]| {
        let column = column_of(cql_type, IndexTarget::Simple, options);
        let collation = column.collation()?;
        Some(collation.apply(value).map(Cow::into_owned))
    };
    let lower = [("case_sensitive", "false")];
    assert_eq!(apply(&CqlType::Text, &lower, b"Ab"), Some(Some(b"ab".to_vec())));
    assert_eq!(apply(&CqlType::Text, &[], b"Ab"), None);
    assert_eq!(apply(&CqlType::Boolean, &[], b""), None);
    let address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4];
    assert_eq!(
        apply(&CqlType::Inet, &[], &[1, 2, 3, 4]),
        Some(Some(address.to_vec()))
    );
    assert_eq!(apply(&CqlType::Inet, &[], &address), Some(Some(address.to_vec())));
    assert_eq!(apply(&CqlType::Int, &[], b""), Some(None));
    let mut legacy = column_of(&CqlType::Inet, IndexTarget::Simple, &[]);
    legacy.kind = IndexKind::Legacy;
    assert_eq!(legacy.collation(), None);
    assert_eq!(term(&legacy, &[1, 2, 3, 4]), [1, 1, 2, 3, 4]);
}

/// A decimal of a megabyte would take minutes to translate.
#[test]
fn values_that_cost_too_much_have_the_term_of_all_queries() {
    let mut huge = vec![0, 0, 0, 1];
    huge.resize(1 << 20, 7);
    let decimal = column_of(&CqlType::Decimal, IndexTarget::Simple, &[]);
    assert_eq!(term(&decimal, &huge), ANY_TERM);
    assert_eq!(TermQuery::equal(&decimal, &huge), TermQuery::All);
    let small = Decimal::parse("1").unwrap().to_bytes();
    let range = TermQuery::range(&decimal, Bound::Included(&small), Bound::Included(&huge));
    assert!(matches!(
        range,
        TermQuery::Range {
            from: Some(_),
            to: None
        }
    ));
    let folded = column_of(&CqlType::Text, IndexTarget::Simple, &[("ascii", "true")]);
    assert_eq!(term(&folded, &vec![b'x'; 1 << 20]), ANY_TERM);
    let text = column_of(&CqlType::Text, IndexTarget::Simple, &[]);
    assert_eq!(term(&text, &vec![b'x'; 1 << 20]).len(), TERM_BYTES_MAX);
}

fn terms_of(column: &IndexedColumn, cells: &[(Option<&[u8]>, &[u8])]) -> Vec<Vec<u8>> {
    let mut packed = Vec::new();
    let mut row = RowBuilder::new(&mut packed, Liveness::NONE, DeletionTime::LIVE);
    for (path, value) in cells {
        row.cell(CellRef {
            column: ColumnId(1),
            timestamp_us: 1,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            path: *path,
            value,
        });
    }
    let mut terms = Vec::new();
    let ended = column.row_terms(Some(&[]), RowRef::new(&packed), &mut Vec::new(), |term| {
        terms.push(term.to_vec());
        ControlFlow::Continue(())
    });
    assert!(ended.is_continue());
    terms
}

#[test]
fn collections_have_terms_of_what_is_indexed_of_them() {
    let map = |frozen| CqlType::map(CqlType::Text, CqlType::Int, frozen);
    let (key, number) = (b"key".as_slice(), 5_i32.to_be_bytes());
    let mut frozen = Vec::new();
    write_collection(&mut frozen, 1, [key, &number]);
    for target in [IndexTarget::Keys, IndexTarget::Values, IndexTarget::Entries] {
        let column = column_of(&map(false), target, &[]);
        let query = match target {
            IndexTarget::Keys => TermQuery::equal(&column, key),
            IndexTarget::Values => TermQuery::equal(&column, &number),
            _ => TermQuery::entry(&column, key, &number),
        };
        for cells in [[(Some(key), &number[..])], [(None, &frozen[..])]] {
            let [term] = &terms_of(&column, &cells)[..] else {
                panic!("one term")
            };
            assert_eq!(query, TermQuery::Equal(term.as_slice().into()), "{target:?}");
        }
    }
    let set = column_of(&CqlType::set(CqlType::Int, false), IndexTarget::Values, &[]);
    let terms = terms_of(&set, &[(Some(&number), &[])]);
    assert_eq!(
        TermQuery::equal(&set, &number),
        TermQuery::Equal(terms[0].as_slice().into())
    );
}

#[test]
fn texts_of_any_case_share_a_term() {
    let column = column_of(
        &CqlType::Text,
        IndexTarget::Simple,
        &[("case_sensitive", "false")],
    );
    assert_eq!(term(&column, "ÄBC".as_bytes()), term(&column, "äbc".as_bytes()));
    assert_eq!(
        TermQuery::range(&column, Bound::Included(b"a"), Bound::Unbounded),
        TermQuery::All
    );
}
