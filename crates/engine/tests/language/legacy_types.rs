//! Types by the names of Cassandra's classes, as schemas of Thrift's time have them.

use helenus_types::CqlType;

use crate::node::{Shards, options};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

fn column_type(shards: &Shards, table: &str) -> CqlType {
    let table = shards.schema.table("ks", table).unwrap();
    table.column("v").unwrap().cql_type.clone()
}

/// `'CompositeType(...)'`, `'DateType'` and `'LexicalUUIDType'` were a SyntaxError.
#[test]
fn classes_that_cassandra_ships_are_types() {
    let mut shards = Shards::new(1);
    let composite = "CompositeType(org.apache.cassandra.db.marshal.UTF8Type,Int32Type)";
    let cases = [
        (
            "a",
            "DateType",
            CqlType::Timestamp.to_string(),
            "'2024-01-01 00:00:00+0000'",
        ),
        (
            "b",
            "LexicalUUIDType",
            format!("'{PACKAGE}LexicalUUIDType'"),
            "00000000-0000-0000-0000-000000000001",
        ),
        (
            "c",
            composite,
            format!("'{PACKAGE}{composite}'"),
            "0x000161000004000000010000",
        ),
        ("d", "Int32Type", "int".to_owned(), "1"),
        ("e", "ListType(Int32Type)", "list<int>".to_owned(), "[1]"),
    ];
    for (table, class, expected, value) in cases {
        for class in [class.to_owned(), format!("{PACKAGE}{class}")] {
            for statement in [
                format!("CREATE TABLE {table} (p int PRIMARY KEY, v '{class}')"),
                format!("INSERT INTO {table} (p, v) VALUES (1, {value})"),
            ] {
                shards.execute(&statement, &options(None)).unwrap();
            }
            assert_eq!(column_type(&shards, table).to_string(), expected);
            let drop = format!("DROP TABLE {table}");
            shards.execute(&drop, &options(None)).unwrap();
        }
    }
}

#[test]
fn other_classes_are_refused() {
    let mut shards = Shards::new(1);
    let order = "is not supported, so they cannot be";
    for (definition, reason) in [
        (
            "p int PRIMARY KEY, v 'NoSuchType'",
            "Unable to find abstract-type class",
        ),
        (
            "p int PRIMARY KEY, v 'org.example.Other'",
            "Unable to find abstract-type class",
        ),
        (
            "p int PRIMARY KEY, v 'ListType(org.example.Other)'",
            "Unable to find abstract-type class",
        ),
        (
            "p int PRIMARY KEY, v 'CompositeType(Int32Type'",
            "Error setting type",
        ),
        (
            "p int PRIMARY KEY, v 'CompositeType()'",
            "Unable to find abstract-type class",
        ),
        ("p int, v 'LexicalUUIDType', PRIMARY KEY (p, v)", order),
        ("p int PRIMARY KEY, v set<'LexicalUUIDType'>", order),
        ("p int PRIMARY KEY, v map<'CompositeType(Int32Type)', int>", order),
    ] {
        let statement = format!("CREATE TABLE t ({definition})");
        let error = shards.execute(&statement, &options(None)).unwrap_err();
        assert!(error.to_string().contains(reason), "{definition}: {error}");
    }
    shards
        .execute(
            "CREATE TABLE t (p int PRIMARY KEY, v 'LexicalUUIDType')",
            &options(None),
        )
        .unwrap();
    let error = shards
        .execute("INSERT INTO t (p, v) VALUES (1, 0x01)", &options(None))
        .unwrap_err();
    assert!(
        error.to_string().contains("Unable to make UUID from '01'"),
        "{error}"
    );
}
