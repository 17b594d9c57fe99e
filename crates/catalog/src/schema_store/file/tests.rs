use std::path::Path;

use helenus_cql::parse_statement;
use helenus_schema::TableId;
use helenus_types::CqlType;
use helenus_vfs::{Disk, MemoryDisk};
use uuid::Uuid;

use super::super::stored_schema::STORED_COLUMN_BOUNDS;
use super::super::types_beyond_bounds;
use super::*;
use crate::ddl::{DdlContext, apply, schema_statement};
use crate::system::schema_version;

const STATEMENTS: [&str; 13] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1} AND durable_writes = 'no'",
    "CREATE TYPE ks.z (a int)",
    "CREATE TYPE ks.b (x frozen<z>, t tuple<int, frozen<z>>)",
    "CREATE TABLE ks.t (p1 int, p2 text, c timeuuid, s vector<float, 3> static, v map<text, frozen<b>>, u b, d blob, \
     PRIMARY KEY ((p1, p2), c)) WITH CLUSTERING ORDER BY (c DESC) AND bloom_filter_fp_chance = 0.017 AND comment = 'ä'",
    "CREATE TABLE ks.counts (p int PRIMARY KEY, n counter, m counter)",
    "ALTER TABLE ks.t DROP v USING TIMESTAMP 7",
    "ALTER TABLE ks.t ADD w frozen<set<int>>",
    "ALTER TYPE ks.z ADD b text",
    "ALTER TABLE ks.counts DROP n",
    "CREATE TABLE ks.base (p int PRIMARY KEY, v text)",
    "CREATE MATERIALIZED VIEW ks.\"View\" AS SELECT * FROM ks.base WHERE p IN (1, 2) AND v IS NOT NULL PRIMARY KEY (v, p) WITH comment = 'c'",
    "CREATE TABLE ks.expiring (p int PRIMARY KEY, \"At\" timestamp TTL, b int)",
    "ALTER KEYSPACE system_auth WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
];

fn store() -> (Arc<MemoryDisk>, SchemaStore) {
    let disk = Arc::new(MemoryDisk::default());
    let directory = Path::new("/data").to_owned();
    disk.create_dir_all(&directory).unwrap();
    (Arc::clone(&disk), SchemaStore::new(disk, directory))
}

fn changed(mut schema: Schema, statements: &[&str]) -> Schema {
    for (index, statement) in statements.iter().enumerate() {
        let context = DdlContext {
            session_keyspace: None,
            now_us: 1_000_000,
            new_table_id: TableId(Uuid::from_u128(index as u128 + 1)),
            data_center: "datacenter1",
            materialized_views: true,
            default_index: helenus_schema::IndexKind::Legacy,
        };
        let statement = schema_statement(parse_statement(statement).unwrap()).unwrap();
        let outcome = apply(&schema, &statement, &context).unwrap();
        schema = Schema::clone(&outcome.transition.unwrap().schema);
    }
    schema
}

#[test]
fn a_saved_schema_is_loaded_as_it_was() {
    let (_, store) = store();
    let empty = store.load().unwrap();
    assert_eq!(empty.version, 0);
    let schema = changed(empty.clone(), &STATEMENTS);
    assert_eq!(schema.version, STATEMENTS.len() as u64);
    store.save(&schema).unwrap();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.version, schema.version);
    assert_eq!(loaded.keyspaces, schema.keyspaces);
    assert_eq!(schema_version(&loaded), schema_version(&schema));
    assert_ne!(schema_version(&loaded), schema_version(&empty));
}

/// Earlier releases refuse what they do not know.
#[test]
fn a_ttl_column_is_stored_only_where_there_is_one() {
    let (_, store) = store();
    let schema = changed(store.load().unwrap(), &STATEMENTS);
    let with = encode_schema(&schema);
    assert_eq!(with.matches("expiration_column").count(), 1);
    assert!(with.contains("\"expiration_column\": \"At\""));
    let without = changed(schema, &["ALTER TABLE ks.expiring TTL NULL"]);
    assert!(!encode_schema(&without).contains("expiration_column"));
    let damaged = with.replace("\"expiration_column\": \"At\"", "\"expiration_column\": \"q\"");
    let stored: StoredSchema = serde_json::from_str(&damaged).unwrap();
    let refused = stored.add_to(&mut Schema::default()).unwrap_err();
    assert_eq!(refused, "table ks.expiring: column q is missing");
}

#[test]
fn the_schema_version_depends_on_the_content_only() {
    let (_, store) = store();
    let empty = store.load().unwrap();
    let detour = [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
        "DROP KEYSPACE k",
    ];
    let returned = changed(empty.clone(), &detour);
    assert_eq!(returned.version, 2);
    assert_eq!(schema_version(&returned), schema_version(&empty));
}

#[test]
fn a_second_save_replaces_the_first_and_survives_a_left_over_file() {
    let (disk, store) = store();
    let first = changed(store.load().unwrap(), &STATEMENTS[..1]);
    store.save(&first).unwrap();
    disk.create(Path::new("/data/schema.next"))
        .unwrap()
        .append(b"half")
        .unwrap();
    let second = changed(first, &STATEMENTS[1..]);
    store.save(&second).unwrap();
    assert_eq!(store.load().unwrap().keyspaces, second.keyspaces);
    assert!(!disk.exists(Path::new("/data/schema.next")).unwrap());
}

fn with_content(content: &[u8]) -> SchemaStoreError {
    let (disk, store) = store();
    disk.create(Path::new("/data/schema"))
        .unwrap()
        .append(content)
        .unwrap();
    store.load().unwrap_err()
}

#[test]
fn other_versions_and_damage_are_refused_with_their_place() {
    assert!(matches!(
        with_content(b"helenus-schema 2 00000000 0\n"),
        SchemaStoreError::UnknownVersion { version: 2, .. }
    ));
    assert!(matches!(
        with_content(b""),
        SchemaStoreError::Corrupt { offset: 0, .. }
    ));
    assert!(matches!(
        with_content(b"helenus-schema x 00000000 0\n"),
        SchemaStoreError::Corrupt { offset: 15, .. }
    ));
    assert!(matches!(
        with_content(b"helenus-schema 1 00000000 3\n{}"),
        SchemaStoreError::Corrupt { offset: 28, .. }
    ));
    let schema = changed(store().1.load().unwrap(), &STATEMENTS);
    let good = encode_file(&schema);
    for position in (0..good.len()).step_by(97) {
        let mut damaged = good.clone();
        damaged[position] ^= 0x10;
        let error = with_content(&damaged);
        assert!(
            matches!(
                error,
                SchemaStoreError::Corrupt { .. } | SchemaStoreError::UnknownVersion { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_schema_that_does_not_add_up_is_refused() {
    let keyspace =
        r#""name": "k", "durable_writes": true, "replication_class": "S", "replication_options": {}"#;
    let table = |columns: &str| {
        format!(
            r#"{{"version": 1, "keyspaces": [{{{keyspace}, "tables": [{{"name": "t", "next_column_id": 2, "params": {{}},
            "id": "5a1c395e-b41f-11e5-9f22-ba0be0483c18", "columns": [{columns}]}}]}}]}}"#
        )
    };
    let cases = [
        (table(""), "no partition key"),
        (
            table(r#"{"id": 2, "name": "p", "kind": "partition_key", "type": "int"}"#),
            "exceed the next one",
        ),
        (
            table(r#"{"id": 0, "name": "p", "kind": "partition_key", "position": 1, "type": "int"}"#),
            "have gaps",
        ),
        (
            table(r#"{"id": 0, "name": "p", "kind": "partition_key", "type": "nope"}"#),
            "Unknown type k.nope",
        ),
    ];
    for (content, reason) in cases {
        let checksum = crc32fast::hash(content.as_bytes());
        let file = format!("helenus-schema 1 {checksum:08x} {}\n{content}", content.len());
        let error = with_content(file.as_bytes()).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Schemas of releases that let types nest and double without a bound: the node ran out of stack or memory as soon as
/// it started. Their oversized parts are blobs now, also after the schema has been saved again.
#[test]
fn types_larger_than_can_be_declared_are_loaded_as_blobs() {
    let keyspace =
        r#""name": "k", "durable_writes": true, "replication_class": "S", "replication_options": {}"#;
    let mut types = vec![r#"{"name": "d0", "fields": [["a", "int"]]}"#.to_owned()];
    types.push(types[0].replace("d0", "w0"));
    for level in 1..=70 {
        let below = level - 1;
        types.push(format!(
            r#"{{"name": "d{level}", "fields": [["a", "frozen<d{below}>"]]}}"#
        ));
        types.push(format!(
            r#"{{"name": "w{level}", "fields": [["a", "frozen<w{below}>"], ["b", "frozen<w{below}>"]]}}"#
        ));
    }
    let columns = [
        ("d", "frozen<d70>"),
        ("w", "list<frozen<w70>>"),
        ("x", "list<frozen<d30>>"),
    ];
    let columns = (1..).zip(columns).map(|(id, (name, cql_type))| {
        format!(r#", {{"id": {id}, "name": "{name}", "kind": "regular", "type": "{cql_type}"}}"#)
    });
    let content = format!(
        r#"{{"version": 1, "keyspaces": [{{{keyspace}, "types": [{}], "tables": [{{"name": "t", "next_column_id": 4,
        "params": {{}}, "id": "5a1c395e-b41f-11e5-9f22-ba0be0483c18",
        "columns": [{{"id": 0, "name": "p", "kind": "partition_key", "type": "int"}}{}]}}]}}]}}"#,
        types.join(", "),
        columns.collect::<String>()
    );
    let checksum = crc32fast::hash(content.as_bytes());
    let file = format!("helenus-schema 1 {checksum:08x} {}\n{content}", content.len());
    let (disk, store) = store();
    disk.create(Path::new("/data/schema"))
        .unwrap()
        .append(file.as_bytes())
        .unwrap();
    let schema = store.load().unwrap();
    for cql_type in schema
        .table("k", "t")
        .unwrap()
        .columns
        .iter()
        .map(|column| &column.cql_type)
    {
        STORED_COLUMN_BOUNDS.check([cql_type]).unwrap();
        let class = cql_type.to_marshal_class();
        assert!(CqlType::from_marshal_class(&class).is_ok(), "{class}");
    }
    let beyond = types_beyond_bounds(&schema);
    assert!(beyond.contains(&"type k.d31, field a".to_owned()), "{beyond:?}");
    assert!(beyond.contains(&"type k.w12, field b".to_owned()), "{beyond:?}");
    store.save(&schema).unwrap();
    assert_eq!(store.load().unwrap().keyspaces, schema.keyspaces);
    let schema = changed(
        schema,
        &["ALTER TABLE k.t DROP d", "DROP TABLE k.t", "DROP TYPE k.d70"],
    );
    assert!(schema.table("k", "t").is_none());
}
