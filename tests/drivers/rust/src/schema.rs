//! The schema that the other checks use, what the driver learns of it, and how it notices changes.

use scylla::client::session::Session;
use scylla::cluster::metadata::{ColumnKind, Strategy};

use crate::{KEYSPACE, Outcome, connect, drop_keyspace, equal, query, require, wait_until};

pub async fn create(session: &Session) -> Outcome {
    drop_keyspace(session).await?;
    for statement in [
        "CREATE KEYSPACE rust_driver WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE rust_driver.address (street text, zip int)",
        "CREATE TYPE rust_driver.person (name text, home frozen<address>, phones set<text>)",
        "CREATE TABLE rust_driver.kv (k int, c int, v text, s text static, PRIMARY KEY (k, c)) \
         WITH CLUSTERING ORDER BY (c DESC)",
    ] {
        session.query_unpaged(statement, ()).await?;
    }
    session.use_keyspace(KEYSPACE, false).await?;
    Ok(())
}

/// The driver reads the schema tables and the cluster's tables when it is told to.
pub async fn metadata(session: &Session) -> Outcome {
    session.refresh_metadata().await?;
    let state = session.get_cluster_state();
    let keyspace = state
        .get_keyspace(KEYSPACE)
        .ok_or("no keyspace in the metadata")?;
    require(
        matches!(
            keyspace.strategy,
            Strategy::SimpleStrategy {
                replication_factor: 1
            }
        ),
        format!("strategy {:?}", keyspace.strategy),
    )?;
    let table = keyspace.tables.get("kv").ok_or("no table in the metadata")?;
    equal(table.partition_key.as_slice(), &["k".to_owned()])?;
    equal(table.clustering_key.as_slice(), &["c".to_owned()])?;
    let kind = |name: &str| table.columns.get(name).map(|column| column.kind.clone());
    equal(kind("v"), Some(ColumnKind::Regular))?;
    equal(kind("s"), Some(ColumnKind::Static))?;
    let person = keyspace.user_defined_types.get("person").ok_or("no user type")?;
    let fields: Vec<&str> = person.field_types.iter().map(|(name, _)| name.as_ref()).collect();
    equal(fields, vec!["name", "home", "phones"])?;
    equal(state.get_nodes_info().len(), 1)?;
    let node = state.get_nodes_info().first().ok_or("no node")?;
    require(
        node.datacenter.is_some() && node.rack.is_some(),
        "a node without data center or rack",
    )?;
    require(
        session.check_schema_agreement().await?.is_some(),
        "one node disagrees with itself about the schema",
    )
}

/// A statement whose table was changed or made anew is prepared again by the driver itself.
pub async fn reprepare(session: &Session) -> Outcome {
    session
        .query_unpaged("CREATE TABLE again (k int PRIMARY KEY, v int)", ())
        .await?;
    session
        .query_unpaged("INSERT INTO again (k, v) VALUES (1, 1)", ())
        .await?;
    let select = session.prepare("SELECT * FROM again WHERE k = ?").await?;
    let columns = async || -> Outcome<usize> {
        let rows = session.execute_unpaged(&select, (1,)).await?.into_rows_result()?;
        equal(rows.rows_num(), 1)?;
        Ok(rows.column_specs().len())
    };
    equal(columns().await?, 2)?;
    session.query_unpaged("ALTER TABLE again ADD w text", ()).await?;
    wait_until("the added column", async || {
        columns().await.is_ok_and(|count| count == 3)
    })
    .await?;
    session.query_unpaged("DROP TABLE again", ()).await?;
    session
        .query_unpaged("CREATE TABLE again (k int PRIMARY KEY, x int)", ())
        .await?;
    session
        .query_unpaged("INSERT INTO again (k, x) VALUES (1, 5)", ())
        .await?;
    equal(columns().await?, 2)?;
    let rows = session.execute_unpaged(&select, (1,)).await?.into_rows_result()?;
    equal(rows.single_row::<(i32, i32)>()?, (1, 5))
}

/// A change that another session makes arrives as an event, and the driver reads the schema again.
pub async fn events(session: &Session) -> Outcome {
    let other = connect(None).await?;
    let columns = || {
        let state = session.get_cluster_state();
        let table = state
            .get_keyspace(KEYSPACE)
            .and_then(|keyspace| keyspace.tables.get("pushed"));
        table.map_or(0, |table| table.columns.len())
    };
    for (statement, count) in [
        ("CREATE TABLE rust_driver.pushed (k int PRIMARY KEY)", 1),
        ("ALTER TABLE rust_driver.pushed ADD v int", 2),
        ("DROP TABLE rust_driver.pushed", 0),
    ] {
        other.query_unpaged(statement, ()).await?;
        wait_until(statement, async || columns() == count).await?;
    }
    query(&other, "SELECT * FROM rust_driver.pushed")
        .await
        .map_or(Ok(()), |_| Err("a dropped table answers".into()))
}
