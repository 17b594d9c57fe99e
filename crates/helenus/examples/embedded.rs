//! A program with a database of its own: readings of a sensor, kept for a day, read back page by page.
//!
//! `cargo run -p helenus --example embedded -- FOLDER`; run it twice to see that the readings stay. Without a folder nothing is
//! kept.

use std::error::Error;

use helenus::{Batch, BatchKind, Node, RequestOptions, block_on};

/// Readings that a page brings.
const PAGE_ROWS: u32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let builder = match std::env::args_os().nth(1) {
        Some(folder) => Node::builder(folder),
        None => Node::in_memory(),
    };
    let node = builder.open()?;
    let client = node.handle();
    block_on(async {
        client
            .query(
                "CREATE KEYSPACE IF NOT EXISTS plant WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                (),
            )
            .await?;
        client
            .query(
                "CREATE TABLE IF NOT EXISTS plant.readings (sensor text, at timestamp, celsius double, PRIMARY KEY (sensor, at)) \
                 WITH default_time_to_live = 86400",
                (),
            )
            .await?;

        // Several writes to one partition, all of them or none.
        let insert = client
            .prepare("INSERT INTO plant.readings (sensor, at, celsius) VALUES (?, ?, ?)")
            .await?;
        let mut readings = Batch::new(BatchKind::Unlogged);
        for minute in 0..250_i64 {
            readings.push(&insert, ("boiler", minute * 60_000, 60.0 + minute as f64 / 10.0))?;
        }
        client.batch(&readings).await?;

        let select = client
            .prepare("SELECT at, celsius FROM plant.readings WHERE sensor = ?")
            .await?;
        let options = RequestOptions {
            page_size: Some(PAGE_ROWS),
            ..RequestOptions::default()
        };
        let mut pages = client.pages(&select, ("boiler",), &options)?;
        let mut hottest = f64::MIN;
        let mut count = 0;
        while let Some(page) = pages.next().await? {
            for (_at, celsius) in page.read::<(i64, f64)>()? {
                hottest = hottest.max(celsius);
                count += 1;
            }
        }
        println!("{count} readings, the hottest {hottest} degrees");
        Ok::<(), Box<dyn Error>>(())
    })
    // The node stops here: everything is in its folder, and its threads are gone.
}

#[test]
fn the_example_runs() {
    main().expect("it needs nothing");
}
