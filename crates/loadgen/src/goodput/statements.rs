//! The statements that applications send, over one small table in memory: what they cost differs by a factor of five hundred.

use helenus_protocol::request::{BindValues, QueryParameters, write_query};
use helenus_protocol::{Consistency, Opcode};

use super::wire::{VERSION, WireClient, WireError, frame};
use super::workload::GoodputWorkload;

/// The table of statements, and one of a greedy load, with the same rows.
pub const TABLE: &str = "g.h";
pub const OTHER_TABLE: &str = "g.other";

/// The partition that statements go to, unless they go to several.
pub const PARTITION: u32 = 0;

/// Rows of a partition that has many.
const ROWS: u32 = 2_000;

/// Partitions of one row: those from 1 on.
const PARTITIONS: u32 = 9;

/// Returns the statement to prepare, about the `partition` with many rows; `None` for a workload of other tables.
pub fn text(workload: GoodputWorkload, table: &str, partition: u32) -> Option<String> {
    let select = |rest: &str| {
        let rest = rest.replace("FROM", &format!("FROM {table}"));
        Some(format!(
            "SELECT {}",
            rest.replace("k=0", &format!("k={partition}"))
        ))
    };
    match workload {
        GoodputWorkload::PointRead => select("v FROM WHERE k=0 AND c=1"),
        GoodputWorkload::PointWrite => Some(format!("UPDATE {table} SET v=3 WHERE k={partition} AND c=1")),
        GoodputWorkload::Slice => select("v FROM WHERE k=0 AND c>100 LIMIT 50"),
        GoodputWorkload::ClusteringIn => select("v FROM WHERE k=0 AND c IN (1,2,3,4,5,6,7,8,9,10)"),
        GoodputWorkload::PartitionIn => select("v FROM WHERE k IN (1,2,3,4,5,6,7,8,9) AND c=5"),
        GoodputWorkload::Scan => select("v FROM LIMIT 100"),
        GoodputWorkload::Count => select("count(v) FROM WHERE k=0"),
        GoodputWorkload::Filtering => select("v FROM WHERE v=77 ALLOW FILTERING"),
        GoodputWorkload::SinglePartition
        | GoodputWorkload::UniformWrites
        | GoodputWorkload::UniformReads
        | GoodputWorkload::HotPartition
        | GoodputWorkload::ColdReads => None,
    }
}

/// Makes the table and its rows, which may be there already; `partitions` have many.
pub fn fill(client: &mut WireClient, table: &str, partitions: &[u32]) -> Result<(), WireError> {
    client.query(
        "CREATE KEYSPACE IF NOT EXISTS g WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    client.query(&format!(
        "CREATE TABLE IF NOT EXISTS {table} (k int, c int, v int, PRIMARY KEY (k, c))"
    ))?;
    let many = partitions
        .iter()
        .flat_map(|partition| (1..=ROWS).map(|row| (*partition, row, row)));
    let single = (1..=PARTITIONS).map(|partition| (partition, 5, partition));
    let inserts = many.chain(single).map(|(k, c, v)| {
        let text = format!("INSERT INTO {table} (k, c, v) VALUES ({k}, {c}, {v})");
        let parameters = QueryParameters::new(Consistency::One);
        frame(Opcode::Query, |out| {
            write_query(out, VERSION, &text, &parameters, BindValues::NONE);
        })
    });
    let inserts = inserts.collect::<Result<Vec<_>, _>>()?;
    client.fill(inserts.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another generator sends the same: figures of both can be put beside each other.
    #[test]
    fn statements_are_the_agreed_ones_over_either_table() {
        let texts: Vec<String> = GoodputWorkload::STATEMENTS
            .iter()
            .filter_map(|workload| text(*workload, TABLE, PARTITION))
            .collect();
        assert_eq!(texts.len(), 8);
        assert_eq!(texts[0], "SELECT v FROM g.h WHERE k=0 AND c=1");
        assert_eq!(texts[5], "SELECT v FROM g.h LIMIT 100");
        assert_eq!(texts[7], "SELECT v FROM g.h WHERE v=77 ALLOW FILTERING");
        let other = text(GoodputWorkload::Slice, OTHER_TABLE, 20);
        assert_eq!(
            other.unwrap(),
            "SELECT v FROM g.other WHERE k=20 AND c>100 LIMIT 50"
        );
        assert_eq!(text(GoodputWorkload::ColdReads, TABLE, PARTITION), None);
    }
}
