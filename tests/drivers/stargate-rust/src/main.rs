//! Stargate's client for Rust as an application uses it: a token, a schema, every type, pages, batches, errors. It was published
//! before the service had streams.

mod values;

use std::error::Error;
use std::str::FromStr;

use stargate_grpc::{AuthToken, Batch, Query, ResultSet, StargateClient, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const KEYSPACE: &str = "stargate_rust";

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::var("DOORS").unwrap_or_default();
    let mut client = match connect(&address).await {
        Ok(client) => client,
        Err(error) => {
            println!("FAIL connect: {error}");
            std::process::exit(1);
        }
    };
    let mut passed = true;
    let mut check = |name: &str, outcome: Outcome| match outcome {
        Ok(()) => println!("ok {name}"),
        Err(error) => {
            passed = false;
            println!("FAIL {name}: {}", error.to_string().replace('\n', " "));
        }
    };
    check("token", anonymous(&address).await);
    check("schema", schema(&mut client).await);
    check("types", values::every_type(&mut client).await);
    check("batches_and_pages", batches_and_pages(&mut client).await);
    check("errors", errors(&mut client).await);
    std::process::exit(i32::from(!passed));
}

async fn connect(address: &str) -> Result<StargateClient, Box<dyn Error>> {
    connect_with(address, &token(address).await?).await
}

async fn connect_with(address: &str, token: &str) -> Result<StargateClient, Box<dyn Error>> {
    let builder = StargateClient::builder()
        .uri(format!("http://{address}"))?
        .auth_token(AuthToken::from_str(token)?);
    Ok(builder.connect().await?)
}

/// The client has no way of its own to log in.
async fn token(address: &str) -> Result<String, Box<dyn Error>> {
    let body = r#"{"username": "cassandra", "password": "cassandra"}"#;
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /v1/auth HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let document = answer.split_once("\r\n\r\n").ok_or("no answer")?.1;
    let document: serde_json::Value = serde_json::from_str(document)?;
    Ok(document["authToken"].as_str().ok_or("no token")?.to_owned())
}

fn query(cql: &str) -> Query {
    Query::builder().keyspace(KEYSPACE).query(cql).build()
}

/// Error of a statement that must fail.
async fn refused(client: &mut StargateClient, query: Query) -> Result<(i32, String), Box<dyn Error>> {
    match client.execute_query(query).await {
        Ok(_) => Err("it did not fail".into()),
        Err(status) => Ok((status.code() as i32, status.message().to_owned())),
    }
}

fn holds(what: &str, holds: bool) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(what.into()),
    }
}

async fn anonymous(address: &str) -> Outcome {
    let mut client = connect_with(address, "none").await?;
    let asked = Query::builder().query("SELECT key FROM system.local").build();
    let (code, message) = refused(&mut client, asked).await?;
    holds(&message, code == 16)
}

async fn schema(client: &mut StargateClient) -> Outcome {
    let create = Query::builder()
        .query(&format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ))
        .build();
    client.execute_query(create).await?;
    client
        .execute_query(query("CREATE TYPE address (street text, zip int)"))
        .await?;
    let table = query("CREATE TABLE kv (k int, c int, v text, PRIMARY KEY (k, c))");
    client.execute_query(table).await?;
    Ok(())
}

async fn batches_and_pages(client: &mut StargateClient) -> Outcome {
    let mut batch = Batch::builder().keyspace(KEYSPACE);
    for c in 0..25_i32 {
        batch = batch
            .query("INSERT INTO kv (k, c, v) VALUES (?, ?, ?)")
            .bind((1_i32, c, format!("v{c}")));
    }
    client.execute_batch(batch.build()).await?;
    let (mut sizes, mut state) = (Vec::new(), None);
    loop {
        let mut page = Query::builder()
            .keyspace(KEYSPACE)
            .query("SELECT c FROM kv WHERE k = :k")
            .bind_name("k", 1_i32)
            .page_size(10);
        if let Some(state) = state.take() {
            page = page.paging_state(state);
        }
        let rows: ResultSet = client.execute_query(page.build()).await?.try_into()?;
        sizes.push(rows.rows.len());
        match rows.paging_state {
            Some(next) => state = Some(next),
            None => break,
        }
    }
    holds(&format!("pages of {sizes:?}"), sizes == [10, 10, 5])
}

async fn errors(client: &mut StargateClient) -> Outcome {
    for (cql, code, message) in [
        ("SELEC", 3, "no viable alternative"),
        ("SELECT * FROM none", 3, "table none does not exist"),
        (
            "CREATE TABLE kv (k int PRIMARY KEY)",
            6,
            "Cannot add already existing table",
        ),
    ] {
        let found = refused(client, query(cql)).await?;
        holds(
            &format!("{cql}: {found:?}"),
            found.0 == code && found.1.contains(message),
        )?;
    }
    Ok(())
}

/// The values of the one row.
pub fn one(rows: ResultSet) -> Result<Vec<Value>, Box<dyn Error>> {
    let row = rows.rows.into_iter().next().ok_or("no row")?;
    Ok(row.values)
}
