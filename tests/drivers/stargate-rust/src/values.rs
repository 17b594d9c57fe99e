//! A value of every type, as the client's own conversions make and read them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::TryInto;
use std::fmt::Debug;

use stargate_grpc::{ResultSet, StargateClient, TryFromValue, Value, proto};
use uuid::Uuid;

use crate::{KEYSPACE, Outcome, holds, one, query};

/// A type, a value of it, and whether what comes back is that value.
type Case = (&'static str, Value, Box<dyn Fn(Value) -> Outcome>);

fn case<T: TryFromValue + PartialEq + Debug + Clone + 'static>(
    of: &'static str,
    given: T,
    value: impl FnOnce(T) -> Value,
) -> Case {
    let made = value(given.clone());
    let reads = move |read: Value| {
        let read: T = read.try_into()?;
        holds(&format!("{of}: {read:?} instead of {given:?}"), read == given)
    };
    (of, made, Box::new(reads))
}

fn cases() -> Vec<Case> {
    let id = Uuid::from_bytes(*b"\xd6\x45\x52\x56\xe7\xf1\x11\xf1\x82\x58\x79\xec\x71\xbc\x39\xa4");
    let inet = proto::Inet {
        value: vec![127, 0, 0, 1],
    };
    let decimal = proto::Decimal {
        scale: 2,
        value: vec![0x7d],
    };
    let varint = proto::Varint { value: vec![1, 0] };
    let text = |text: &str| text.to_owned();
    vec![
        case("ascii", text("a"), Value::string),
        case("bigint", i64::MIN, Value::bigint),
        case("blob", vec![0_u8, 255], Value::bytes),
        case("boolean", true, Value::boolean),
        case("date", 1_i32, Value::date),
        case("decimal", decimal, Value::decimal),
        case("double", 0.5_f64, Value::double),
        case("float", 1.5_f32, Value::float),
        case("inet", inet, Value::inet),
        case("int", -7_i32, Value::int),
        case("list<text>", vec![text("x"), text("y")], Value::from),
        case(
            "map<text, int>",
            BTreeMap::from([(text("k"), 1_i32)]),
            Value::from,
        ),
        case("set<int>", BTreeSet::from([1_i32, 2]), Value::from),
        case("smallint", -3_i16, Value::smallint),
        case("text", text("\u{e9}"), Value::string),
        case("time", 1_000_u64, Value::time),
        case("timestamp", 1_767_225_600_000_i64, Value::raw_int),
        case("timeuuid", id, Value::uuid),
        case("tinyint", 7_i8, Value::from),
        case("tuple<int, text>", (1_i32, text("z")), Value::from),
        case("uuid", id, Value::uuid),
        case("varint", varint, Value::varint),
    ]
}

/// And a user type, which is read by its fields; null; and unset, which leaves what is there.
pub async fn every_type(client: &mut StargateClient) -> Outcome {
    let all = cases();
    let names: Vec<String> = (0..all.len()).map(|at| format!("c{at}")).collect();
    let declared: Vec<String> = all
        .iter()
        .zip(&names)
        .map(|((of, ..), name)| format!("{name} {of}"))
        .collect();
    let create = format!(
        "CREATE TABLE types (id int PRIMARY KEY, {}, udt frozen<address>, n int)",
        declared.join(", ")
    );
    client.execute_query(query(&create)).await?;
    let street = Value::udt(HashMap::from([("street", Value::string("Long Lane"))]));
    let mut values = vec![Value::int(1_i32)];
    values.extend(all.iter().map(|(_, value, _)| value.clone()));
    values.extend([street, Value::null()]);
    let columns = format!("{}, udt, n", names.join(", "));
    let insert = format!(
        "INSERT INTO types (id, {columns}) VALUES (?{})",
        ", ?".repeat(values.len() - 1)
    );
    execute(client, &insert, values).await?;
    execute(
        client,
        "UPDATE types SET c0 = ? WHERE id = ?",
        vec![Value::unset(), Value::int(1_i32)],
    )
    .await?;

    let select = format!("SELECT {columns} FROM types WHERE id = ?");
    let rows: ResultSet = execute(client, &select, vec![Value::int(1_i32)]).await?;
    let mut read = one(rows)?;
    let null: Option<i32> = read.pop().ok_or("no null")?.try_into()?;
    holds("null is a value", null.is_none())?;
    match read.pop().and_then(|udt| udt.inner) {
        Some(proto::value::Inner::Udt(udt)) => {
            let street: String = udt.fields["street"].clone().try_into()?;
            holds(&street, street == "Long Lane")?;
        }
        other => return Err(format!("no user type: {other:?}").into()),
    }
    for ((.., reads), value) in all.iter().zip(read) {
        reads(value)?;
    }
    Ok(())
}

async fn execute(
    client: &mut StargateClient,
    cql: &str,
    values: Vec<Value>,
) -> Result<ResultSet, Box<dyn std::error::Error>> {
    let mut builder = stargate_grpc::Query::builder().keyspace(KEYSPACE).query(cql);
    for (at, value) in values.into_iter().enumerate() {
        builder = builder.bind_ith(at, value);
    }
    let response = client.execute_query(builder.build()).await?;
    Ok(response.try_into().unwrap_or_default())
}
