//! Keyspaces, tables, types, indexes, views, functions, aggregates and triggers.

use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_types::quoted_identifier;

use super::Grammar;

const REPLICATIONS: [&str; 4] = [
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
    "{'class': 'SimpleStrategy', 'replication_factor': 'x'}",
    "{'class': 'Nothing'}",
];

const OPTIONS: [&str; 31] = [
    "comment = 'a comment'",
    "gc_grace_seconds = 0",
    "gc_grace_seconds = -1",
    "default_time_to_live = 10",
    "default_time_to_live = 630720001",
    "bloom_filter_fp_chance = 0.5",
    "bloom_filter_fp_chance = 2",
    "caching = {'keys': 'ALL', 'rows_per_partition': '10'}",
    "caching = {'keys': 'SOME'}",
    "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 2}",
    "compaction = {'class': 'LeveledCompactionStrategy'}",
    "compaction = {'class': 'UnifiedCompactionStrategy'}",
    "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': 'x'}",
    "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    "compression = {'class': 'ZstdCompressor', 'compression_level': 99}",
    "compression = {'enabled': false}",
    "compression = {}",
    "crc_check_chance = 0.1",
    "speculative_retry = '99p'",
    "speculative_retry = 'MAX(99p, 50ms)'",
    "additional_write_policy = 'ALWAYS'",
    "memtable_flush_period_in_ms = 0",
    "min_index_interval = 128 AND max_index_interval = 2048",
    "read_repair = 'BLOCKING'",
    "per_partition_rate_limit = {'max_reads_per_second': 1000000}",
    "extensions = {'a': '0xcafe'}",
    "nonsense = 'value'",
    "cdc = false",
    "cdc = {'enabled': 'true'}",
    "cdc = {'enabled': 'true', 'preimage': 'full', 'postimage': 'true', 'ttl': '5'}",
    "cdc = {'enabled': 'true', 'preimage': 'true', 'delta': 'keys'}",
];

const JAVA: &str = "LANGUAGE java AS 'return 1;'";

/// Statements that a life begins with, so that there are tables from the first statement on.
pub(crate) fn first_statements() -> Vec<String> {
    let keyspaces = super::KEYSPACES.map(|keyspace| {
        format!(
            "CREATE KEYSPACE {} WITH replication = {}",
            quoted_identifier(keyspace),
            REPLICATIONS[0]
        )
    });
    let others = [
        "CREATE TYPE fuzz.f (a int, b text, c frozen<list<bigint>>)",
        "CREATE TABLE fuzz.a (k int PRIMARY KEY, v text)",
        "CREATE TABLE fuzz.b (k text, c int, d timeuuid, s text static, v blob, l list<int>, m map<text, bigint>, \
         e set<text>, PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)",
        "CREATE TABLE fuzz.c (a bigint, b uuid, c decimal, d varint, e double, f frozen<f>, g f, h tuple<int, text>, \
         v vector<float, 3>, k duration, PRIMARY KEY ((a, b), c, d))",
        "CREATE TABLE fuzz_b.d (k blob PRIMARY KEY, a ascii, b boolean, c date, d time, e timestamp, f inet, \
         g smallint, h tinyint, v frozen<map<int, frozen<list<text>>>>)",
        "CREATE INDEX ON fuzz.a (v) USING 'sai'",
        "CREATE INDEX ON fuzz.b (s)",
        "CREATE INDEX ON fuzz.b (l)",
        "CREATE INDEX ON fuzz.b (entries(m)) USING 'sai'",
        "CREATE INDEX ON fuzz.b (d) USING 'sai'",
        "CREATE INDEX ON fuzz.c (f)",
        "CREATE INDEX ON fuzz_b.d (f) USING 'sai'",
        "CREATE INDEX ON fuzz_b.d (full(v))",
        "CREATE TABLE fuzz.n (k int, c int, v vector<float, 3>, w vector<float, 3>, x int, PRIMARY KEY (k, c))",
        "CREATE INDEX ON fuzz.n (v) USING 'sai'",
        "CREATE INDEX ON fuzz.n (w) USING 'vector_index' WITH OPTIONS = {'similarity_function': 'euclidean', \
         'maximum_node_connections': '512', 'construction_beam_width': '3200'}",
        "CREATE INDEX ON fuzz.n (x) USING 'sai'",
        "CREATE TABLE fuzz.e (k int, c int, s int static, v text, d timestamp TTL, x bigint, PRIMARY KEY (k, c))",
    ];
    keyspaces.into_iter().chain(others.map(str::to_owned)).collect()
}

impl Grammar<'_> {
    pub(super) fn schema_change(&self) -> String {
        match self.chance.below(40) {
            0 | 1 => self.create_keyspace(),
            2 => format!(
                "ALTER KEYSPACE {}{} WITH {}",
                self.if_exists(),
                self.keyspace_name(),
                self.replication()
            ),
            3 if self.chance.one_in(4) => {
                format!("DROP KEYSPACE {}{}", self.if_exists(), self.keyspace_name())
            }
            4..12 if self.has_many_tables() => self.drop_table(),
            4..12 => self.create_table(),
            12..20 => self.alter_table(),
            20..22 => self.drop_table(),
            22..25 => self.create_type(),
            25..27 => self.alter_type(),
            27 => format!("DROP TYPE {}{}", self.if_exists(), self.user_type_name()),
            28 | 29 => self.create_index(),
            30 => format!("DROP INDEX {}{}", self.if_exists(), self.index_name()),
            31 | 32 => self.view(),
            33..36 => self.function(),
            36 | 37 => self.aggregate(),
            38 => self.trigger(),
            _ => self.create_table(),
        }
    }

    fn replication(&self) -> String {
        let durable = self.one_of(&[
            "",
            "",
            " AND durable_writes = true",
            " AND durable_writes = false",
        ]);
        format!("replication = {}{durable}", self.one_of(&REPLICATIONS))
    }

    fn create_keyspace(&self) -> String {
        format!(
            "CREATE KEYSPACE {}{} WITH {}",
            self.if_not_exists(),
            self.keyspace_name(),
            self.replication()
        )
    }

    fn create_table(&self) -> String {
        let bound = if self.chance.one_in(200) { 1_500 } else { 8 };
        let count = 1 + self.chance.count(bound);
        let column = |index: usize| format!("{}{index}", self.one_of(&["c", "v", "x"]));
        let names: Vec<String> = (0..count).map(column).collect();
        let key = 1 + self.chance.count(count.min(4));
        let mut definitions: Vec<String> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            // Keys are simple, mostly: others are refused.
            let depth = if index < key && !self.chance.one_in(10) {
                0
            } else {
                self.chance.count(3)
            };
            let is_static = if index >= key {
                self.sometimes(8, " static")
            } else {
                String::new()
            };
            let expiration = self.sometimes(30, " TTL");
            definitions.push(format!(
                "{name} {}{is_static}{expiration}{}",
                self.type_name(depth),
                self.mask()
            ));
        }
        let partition = 1 + self.chance.count(key);
        let clustering: Vec<&str> = names[partition..key.max(partition)]
            .iter()
            .map(String::as_str)
            .collect();
        let mut parts = vec![format!("({})", names[..partition].join(", "))];
        parts.extend(clustering.iter().map(|name| (*name).to_owned()));
        definitions.push(format!("PRIMARY KEY ({})", parts.join(", ")));
        let mut options: Vec<String> = Vec::new();
        if !clustering.is_empty() && self.chance.one_in(3) {
            let orders = clustering
                .iter()
                .map(|name| format!("{name} {}", self.one_of(&["ASC", "DESC"])));
            options.push(format!(
                "CLUSTERING ORDER BY ({})",
                orders.collect::<Vec<_>>().join(", ")
            ));
        }
        if self.chance.one_in(3) {
            options.push(self.several(3, " AND ", || self.one_of(&OPTIONS).to_owned()));
        }
        if self.chance.one_in(60) {
            options.push("COMPACT STORAGE".to_owned());
        }
        let with = if options.is_empty() {
            String::new()
        } else {
            format!(" WITH {}", options.join(" AND "))
        };
        format!(
            "CREATE TABLE {}{} ({}){with}",
            self.if_not_exists(),
            self.new_name(),
            definitions.join(", ")
        )
    }

    fn mask(&self) -> String {
        self.sometimes(
            60,
            self.one_of(&[" MASKED WITH DEFAULT", " MASKED WITH mask_inner(1, null)"]),
        )
    }

    fn alter_table(&self) -> String {
        let Some(table) = self.table() else {
            return format!("ALTER TABLE {} ADD a int", self.new_name());
        };
        let column = || match table
            .columns
            .iter()
            .rfind(|column| column.kind == ColumnKind::Regular)
        {
            Some(last) if self.chance.one_in(2) => quoted_identifier(&last.name).into_owned(),
            _ => self.column_name(table),
        };
        let action = match self.chance.below(12) {
            0..4 => format!(
                "ADD {}{}",
                self.if_not_exists(),
                self.several(3, ", ", || {
                    format!(
                        "{} {}{}",
                        self.word(),
                        self.type_name(2),
                        self.sometimes(6, " static")
                    )
                })
            ),
            4..6 => format!(
                "DROP {}{}{}",
                self.if_exists(),
                column(),
                self.sometimes(4, " USING TIMESTAMP 1")
            ),
            6 => format!(
                "RENAME {}{} TO {}",
                self.if_exists(),
                self.column_name(table),
                self.word()
            ),
            7 => format!("ALTER {} TYPE {}", column(), self.type_name(1)),
            8 => format!(
                "ALTER {}{} {}",
                self.if_exists(),
                column(),
                self.one_of(&["DROP MASKED", "MASKED WITH DEFAULT"])
            ),
            9 if self.chance.one_in(4) => "DROP COMPACT STORAGE".to_owned(),
            10 if self.chance.one_in(2) => "TTL NULL".to_owned(),
            10 => format!("TTL {}", column()),
            _ => format!(
                "WITH {}",
                self.several(3, " AND ", || self.one_of(&OPTIONS).to_owned())
            ),
        };
        format!("ALTER TABLE {}{} {action}", self.if_exists(), self.name_of(table))
    }

    fn drop_table(&self) -> String {
        format!("DROP TABLE {}{}", self.if_exists(), self.table_name())
    }

    fn create_type(&self) -> String {
        let bound = if self.chance.one_in(200) { 300 } else { 5 };
        let mut index = 0;
        let fields = self.several(bound, ", ", || {
            index += 1;
            format!("f{index} {}", self.type_name(self.chance.count(3)))
        });
        format!(
            "CREATE TYPE {}{} ({fields})",
            self.if_not_exists(),
            self.new_name()
        )
    }

    fn alter_type(&self) -> String {
        let action = match self.chance.below(4) {
            0 => format!(
                "RENAME {}{} TO {}",
                self.if_exists(),
                self.one_of(&["a", "b", "f1"]),
                self.word()
            ),
            1 => format!("ALTER {} TYPE {}", self.word(), self.native_type()),
            _ => format!(
                "ADD {}{} {}",
                self.if_not_exists(),
                self.word(),
                self.type_name(1)
            ),
        };
        format!(
            "ALTER TYPE {}{} {action}",
            self.if_exists(),
            self.user_type_name()
        )
    }

    fn create_index(&self) -> String {
        let table = self.table();
        let column = table.map_or_else(|| self.word(), |table| self.column_name(table));
        let on = table.map_or_else(|| self.table_name(), |table| self.name_of(table));
        let form = self.one_of(&["", "", "keys", "values", "entries", "full"]);
        let target = if form.is_empty() {
            column
        } else {
            format!("{form}({column})")
        };
        let using = self.one_of(&[
            "",
            " USING 'sai'",
            " USING 'StorageAttachedIndex' WITH OPTIONS = {'case_sensitive': 'false'}",
            " USING 'sai' WITH OPTIONS = {'similarity_function': 'dot_product', 'optimize_for': 'recall'}",
            " USING 'vector_index' WITH OPTIONS = {'search_beam_width': '3200'}",
        ]);
        let custom = self.sometimes(3, "CUSTOM ");
        format!(
            "CREATE {custom}INDEX {}{} ON {} ({target}){using}",
            self.if_not_exists(),
            self.sometimes(2, &self.word()),
            on
        )
    }

    /// One that there is, mostly.
    pub(super) fn index_name(&self) -> String {
        let indexes = self.table().map(|table| &table.indexes);
        match indexes.filter(|indexes| !indexes.is_empty()) {
            Some(indexes) => quoted_identifier(&self.chance.pick(indexes).name).into_owned(),
            None => self.new_name(),
        }
    }

    fn view(&self) -> String {
        match self.chance.below(4) {
            0 => format!("DROP MATERIALIZED VIEW {}{}", self.if_exists(), self.new_name()),
            1 => format!(
                "ALTER MATERIALIZED VIEW {}{} WITH {}",
                self.if_exists(),
                self.new_name(),
                self.one_of(&OPTIONS)
            ),
            2 => self.whole_view().unwrap_or_default(),
            _ => format!(
                "CREATE MATERIALIZED VIEW {}{} AS SELECT * FROM {} WHERE {} IS NOT NULL PRIMARY KEY ({})",
                self.if_not_exists(),
                self.new_name(),
                self.table_name(),
                self.word(),
                self.word()
            ),
        }
    }

    /// One with all that it must have, of a table that there is: mostly it is made.
    fn whole_view(&self) -> Option<String> {
        let table = self.table()?;
        let mut key: Vec<&ColumnMetadata> = table.clustering().iter().chain(table.partition_key()).collect();
        if !table.regulars().is_empty() && self.chance.one_in(2) {
            key.insert(0, self.chance.pick(table.regulars()));
        }
        let names: Vec<String> = key
            .iter()
            .map(|column| quoted_identifier(&column.name).to_string())
            .collect();
        let conditions: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
        Some(format!(
            "CREATE MATERIALIZED VIEW {}{}.{} AS SELECT {} FROM {}.{} WHERE {} PRIMARY KEY ({})",
            self.if_not_exists(),
            quoted_identifier(&table.keyspace),
            self.word(),
            if self.chance.one_in(3) {
                names.join(", ")
            } else {
                "*".to_owned()
            },
            quoted_identifier(&table.keyspace),
            quoted_identifier(&table.name),
            conditions.join(" AND "),
            names.join(", ")
        ))
    }

    fn function(&self) -> String {
        let name = self.new_name();
        if self.chance.one_in(3) {
            let types = self.sometimes(2, &format!("({})", self.type_name(1)));
            return format!("DROP FUNCTION {}{name}{types}", self.if_exists());
        }
        let arguments = self.several(3, ", ", || format!("{} {}", self.word(), self.type_name(1)));
        format!(
            "CREATE {}FUNCTION {name}({arguments}) {} ON NULL INPUT RETURNS {} {JAVA}",
            self.sometimes(3, "OR REPLACE "),
            self.one_of(&["CALLED", "RETURNS NULL"]),
            self.type_name(1)
        )
    }

    fn aggregate(&self) -> String {
        let name = self.new_name();
        if self.chance.one_in(3) {
            return format!("DROP AGGREGATE {}{name}", self.if_exists());
        }
        format!(
            "CREATE AGGREGATE {}{name}({}) SFUNC {} STYPE {}{} INITCOND {}",
            self.if_not_exists(),
            self.type_name(1),
            self.word(),
            self.type_name(1),
            self.sometimes(2, &format!(" FINALFUNC {}", self.word())),
            self.any_literal()
        )
    }

    fn trigger(&self) -> String {
        let (name, table) = (self.word(), self.table_name());
        match self.chance.below(2) {
            0 => format!("DROP TRIGGER {}{name} ON {table}", self.if_exists()),
            _ => format!(
                "CREATE TRIGGER {}{name} ON {table} USING 'a.b'",
                self.if_not_exists()
            ),
        }
    }
}
