//! A table with a column of every type, and a value for each.

use std::sync::Arc;

use helenus_schema::{ColumnKind, TableMetadata};
use helenus_types::{CqlType, UserType};

use crate::support::{Column, NOW_US, table};

fn address_type(frozen: bool) -> CqlType {
    let fields = vec![("street".into(), CqlType::Text), ("number".into(), CqlType::Int)];
    let definition = UserType {
        keyspace: "ks".into(),
        name: "address".into(),
        fields,
    };
    CqlType::user_defined(Arc::new(definition), frozen)
}

/// One regular column of every type, with a value in its serialized form.
pub fn typed_values() -> Vec<(&'static str, CqlType, Vec<u8>)> {
    let list = |elements: &[&[u8]]| {
        let mut out = (elements.len() as u32).to_be_bytes().to_vec();
        for element in elements {
            out.extend_from_slice(&(element.len() as u32).to_be_bytes());
            out.extend_from_slice(element);
        }
        out
    };
    let tuple = |components: &[&[u8]]| list(components)[4..].to_vec();
    let uuid = 0x5044_2a50_0000_4000_8000_0000_0000_0001_u128.to_be_bytes();
    let timeuuid = 0x5044_2a50_8315_11ee_8000_0000_0000_0001_u128.to_be_bytes();
    let int = |number: i32| number.to_be_bytes();
    vec![
        ("t_ascii", CqlType::Ascii, b"ascii".to_vec()),
        ("t_bigint", CqlType::Bigint, (-5_i64).to_be_bytes().to_vec()),
        ("t_blob", CqlType::Blob, vec![0, 1, 0xff]),
        ("t_boolean", CqlType::Boolean, vec![1]),
        ("t_date", CqlType::Date, (0x8000_4d00_u32).to_be_bytes().to_vec()),
        (
            "t_decimal",
            CqlType::Decimal,
            [&2_i32.to_be_bytes()[..], &[0x04, 0xd2]].concat(),
        ),
        ("t_double", CqlType::Double, 1.5_f64.to_be_bytes().to_vec()),
        ("t_duration", CqlType::Duration, vec![2, 4, 6]),
        ("t_float", CqlType::Float, 0.25_f32.to_be_bytes().to_vec()),
        ("t_inet", CqlType::Inet, vec![127, 0, 0, 1]),
        ("t_int", CqlType::Int, int(42).to_vec()),
        ("t_smallint", CqlType::Smallint, 7_i16.to_be_bytes().to_vec()),
        ("t_text", CqlType::Text, "text \u{e4}".as_bytes().to_vec()),
        (
            "t_time",
            CqlType::Time,
            3_600_000_000_000_i64.to_be_bytes().to_vec(),
        ),
        (
            "t_timestamp",
            CqlType::Timestamp,
            (NOW_US / 1000).to_be_bytes().to_vec(),
        ),
        ("t_timeuuid", CqlType::Timeuuid, timeuuid.to_vec()),
        ("t_tinyint", CqlType::Tinyint, vec![0x80]),
        ("t_uuid", CqlType::Uuid, uuid.to_vec()),
        ("t_varint", CqlType::Varint, vec![1, 0]),
        (
            "f_list",
            CqlType::list(CqlType::Int, true),
            list(&[&int(1), &int(2)]),
        ),
        ("f_set", CqlType::set(CqlType::Text, true), list(&[b"a", b"b"])),
        ("f_map", CqlType::map(CqlType::Text, CqlType::Int, true), {
            let mut map = list(&[b"k", &int(9)]);
            map[..4].copy_from_slice(&1_u32.to_be_bytes());
            map
        }),
        (
            "f_tuple",
            CqlType::tuple([CqlType::Int, CqlType::Text]),
            tuple(&[&int(1), b"x"]),
        ),
        ("f_udt", address_type(true), tuple(&[b"Main", &int(5)])),
        (
            "f_vector",
            CqlType::vector(CqlType::Float, 2),
            [0.5_f32.to_be_bytes(), 2_f32.to_be_bytes()].concat(),
        ),
        (
            "f_texts",
            CqlType::vector(CqlType::Text, 2),
            vec![1, b'a', 2, b'b', b'c'],
        ),
    ]
}

pub fn types_table() -> TableMetadata {
    let mut columns = vec![
        Column("p1", ColumnKind::PartitionKey, CqlType::Int),
        Column("p2", ColumnKind::PartitionKey, CqlType::Text),
        Column("c1", ColumnKind::Clustering, CqlType::Text),
        Column("c2", ColumnKind::Clustering, CqlType::Timeuuid),
        Column(
            "s_map",
            ColumnKind::Static,
            CqlType::map(CqlType::Int, CqlType::Text, false),
        ),
        Column("s_text", ColumnKind::Static, CqlType::Text),
        Column("m_list", ColumnKind::Regular, CqlType::list(CqlType::Int, false)),
        Column(
            "m_map",
            ColumnKind::Regular,
            CqlType::map(CqlType::Text, CqlType::Int, false),
        ),
        Column("m_set", ColumnKind::Regular, CqlType::set(CqlType::Int, false)),
        Column("m_udt", ColumnKind::Regular, address_type(false)),
    ];
    columns.extend(
        typed_values()
            .into_iter()
            .map(|(name, of, _)| Column(name, ColumnKind::Regular, of)),
    );
    table("types", columns, &["c2"])
}
