//! ScyllaDB's library for those who follow a table's CDC log, as its users have it: it finds the streams, reads each of them by windows of
//! time, and hands on what was written, in order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use scylla::client::session::Session;
use scylla::value::CqlValue;
use scylla_cdc::consumer::{CDCRow, Consumer, ConsumerFactory, OperationType};
use scylla_cdc::log_reader::CDCLogReaderBuilder;

use crate::{KEYSPACE, Outcome, connect, equal, require};

/// Operation, partition, clustering, value, added elements, deleted elements, and whether it is the last of its batch.
type Told = (
    OperationType,
    i32,
    Option<i32>,
    Option<i32>,
    Vec<String>,
    Vec<String>,
    bool,
);

#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<Told>>>);

#[async_trait]
impl Consumer for Collected {
    async fn consume_cdc(&mut self, mut row: CDCRow<'_>) -> anyhow::Result<()> {
        let int = |value: &Option<CqlValue>| value.as_ref().and_then(CqlValue::as_int);
        let texts = |values: Vec<CqlValue>| -> Vec<String> {
            values
                .iter()
                .filter_map(|value| value.as_text().cloned())
                .collect()
        };
        let partition = int(row.get_value("p")).unwrap_or(-1);
        let (clustering, value) = (int(row.get_value("c")), int(row.get_value("v")));
        let added = match row.take_value("tags") {
            Some(CqlValue::Set(values)) => texts(values),
            _ => Vec::new(),
        };
        let deleted = texts(row.take_deleted_elements("tags"));
        let told = (
            row.operation,
            partition,
            clustering,
            value,
            added,
            deleted,
            row.end_of_batch,
        );
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(told);
        Ok(())
    }
}

#[async_trait]
impl ConsumerFactory for Collected {
    async fn new_consumer(&self) -> Box<dyn Consumer> {
        Box::new(self.clone())
    }
}

fn now() -> Outcome<Duration> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?)
}

pub async fn change_log(session: &Session) -> Outcome {
    let started = now()?;
    for statement in [
        "CREATE TABLE logged (p int, c int, v int, tags set<text>, PRIMARY KEY (p, c)) WITH cdc = {'enabled': true, \
         'preimage': 'full', 'postimage': true}",
        "INSERT INTO logged (p, c, v) VALUES (1, 1, 10)",
        "UPDATE logged SET v = 11, tags = tags + {'a', 'b'} WHERE p = 1 AND c = 1",
        "UPDATE logged SET tags = tags - {'a'} WHERE p = 1 AND c = 1",
        "DELETE FROM logged WHERE p = 1 AND c = 1",
        "DELETE FROM logged WHERE p = 1 AND c > 3",
        "DELETE FROM logged WHERE p = 1",
    ] {
        session.query_unpaged(statement, ()).await?;
    }
    let insert = session
        .prepare("INSERT INTO logged (p, c, v) VALUES (?, 0, ?)")
        .await?;
    for p in 100..400_i32 {
        session.execute_unpaged(&insert, (p, p)).await?;
    }
    let collected = Collected::default();
    let own = Arc::new(connect(None).await?);
    // The log is read up to a time that has passed, so that the reader ends by itself.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (_reader, handle) = CDCLogReaderBuilder::new()
        .session(own)
        .keyspace(KEYSPACE)
        .table_name("logged")
        .start_timestamp(started)
        .end_timestamp(now()?)
        .safety_interval(Duration::ZERO)
        .sleep_interval(Duration::from_millis(20))
        .consumer_factory(Arc::new(collected.clone()))
        .build()
        .await
        .map_err(|error| error.to_string())?;
    handle.await.map_err(|error| error.to_string())?;
    let told = collected.0.lock().map_err(|error| error.to_string())?.clone();
    let (mut others, first): (Vec<Told>, Vec<Told>) = told.into_iter().partition(|(_, p, ..)| *p >= 100);
    check_operations(first)?;
    others.sort_by_key(|(_, p, ..)| *p);
    require(
        others.len() == 600,
        format!("{} rows of 300 insertions", others.len()),
    )?;
    for (p, pair) in (100..).zip(others.chunks(2)) {
        let told = |operation, is_last| (operation, p, Some(0), Some(p), Vec::new(), Vec::new(), is_last);
        let expected = [
            told(OperationType::RowInsert, false),
            told(OperationType::PostImage, true),
        ];
        equal(pair, &expected)?;
    }
    Ok(())
}

fn check_operations(found: Vec<Told>) -> Outcome {
    use OperationType::*;
    let tags = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let row = |operation, v, added: &[&str], deleted: &[&str], is_last| {
        (operation, 1, Some(1), v, tags(added), tags(deleted), is_last)
    };
    let bound = |operation, c, is_last| (operation, 1, c, None, tags(&[]), tags(&[]), is_last);
    let expected = vec![
        row(RowInsert, Some(10), &[], &[], false),
        row(PostImage, Some(10), &[], &[], true),
        row(PreImage, Some(10), &[], &[], false),
        row(RowUpdate, Some(11), &["a", "b"], &[], false),
        row(PostImage, Some(11), &["a", "b"], &[], true),
        row(PreImage, Some(11), &["a", "b"], &[], false),
        row(RowUpdate, None, &[], &["a"], false),
        row(PostImage, Some(11), &["b"], &[], true),
        row(PreImage, Some(11), &["b"], &[], false),
        row(RowDelete, None, &[], &[], true),
        bound(RowRangeDelExclLeft, Some(3), false),
        bound(RowRangeDelInclRight, None, true),
        bound(PartitionDelete, None, true),
    ];
    equal(found, expected)
}
