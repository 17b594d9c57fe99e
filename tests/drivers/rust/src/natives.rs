//! Every native type, written and read as the driver's own values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use scylla::client::session::Session;
use scylla::errors::{DbError, PrepareError, RequestAttemptError};
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{
    Counter, CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, Row,
};
use uuid::Uuid;

use crate::{Outcome, Skipped, equal, query};

pub async fn native_types(session: &Session) -> Outcome {
    let values = values()?;
    let columns: Vec<String> = values.iter().map(|(name, _)| format!("c_{name}")).collect();
    let definitions: Vec<String> = values
        .iter()
        .map(|(name, _)| format!("c_{name} {name}"))
        .collect();
    let (columns, definitions) = (columns.join(", "), definitions.join(", "));
    let create = format!("CREATE TABLE natives (id int PRIMARY KEY, {definitions})");
    session.query_unpaged(create, ()).await?;
    let markers = ", ?".repeat(values.len());
    let insert = session
        .prepare(format!("INSERT INTO natives (id, {columns}) VALUES (?{markers})"))
        .await?;
    let select = session
        .prepare(format!("SELECT {columns} FROM natives WHERE id = ?"))
        .await?;
    let filled: Vec<Option<CqlValue>> = values.into_iter().map(|(_, value)| Some(value)).collect();
    let empty = vec![None; filled.len()];
    for (id, written) in [(1, &filled), (2, &empty)] {
        let mut bound = vec![Some(CqlValue::Int(id))];
        bound.extend(written.iter().cloned());
        session.execute_unpaged(&insert, bound).await?;
        let rows = session
            .execute_unpaged(&select, (id,))
            .await?
            .into_rows_result()?;
        equal(&rows.single_row::<Row>()?.columns, written)?;
    }
    let plain = query(session, &format!("SELECT {columns} FROM natives WHERE id = 1")).await?;
    equal(plain.single_row::<Row>()?.columns, filled)
}

fn values() -> Outcome<Vec<(&'static str, CqlValue)>> {
    let time_uuid: CqlTimeuuid = "8f1a4b00-86b1-11ee-b962-0242ac120002".parse()?;
    // -(2^100), and -123.4500 as -1234500 with four places.
    let mut huge = vec![0xf0];
    huge.extend([0; 12]);
    let decimal = CqlDecimal::from_signed_be_bytes_and_exponent(vec![0xed, 0x29, 0xbc], 4);
    Ok(vec![
        ("ascii", CqlValue::Ascii("plain".to_owned())),
        ("bigint", CqlValue::BigInt(i64::MIN)),
        ("blob", CqlValue::Blob(vec![0, 255])),
        ("boolean", CqlValue::Boolean(true)),
        ("date", CqlValue::Date(CqlDate((1 << 31) + 19_782))),
        ("decimal", CqlValue::Decimal(decimal)),
        ("double", CqlValue::Double(2.5e-300)),
        (
            "duration",
            CqlValue::Duration(CqlDuration {
                months: 1,
                days: 2,
                nanoseconds: 3000,
            }),
        ),
        ("float", CqlValue::Float(0.5)),
        (
            "inet",
            CqlValue::Inet(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
        ),
        ("int", CqlValue::Int(i32::MIN)),
        ("smallint", CqlValue::SmallInt(i16::MIN)),
        (
            "text",
            CqlValue::Text("\u{fc}n\u{ef} \u{6f22} \u{1f600}".to_owned()),
        ),
        ("time", CqlValue::Time(CqlTime(86_399_999_999_999))),
        ("timestamp", CqlValue::Timestamp(CqlTimestamp(1_709_168_523_456))),
        ("timeuuid", CqlValue::Timeuuid(time_uuid)),
        ("tinyint", CqlValue::TinyInt(i8::MIN)),
        ("uuid", CqlValue::Uuid(Uuid::new_v4())),
        ("varchar", CqlValue::Text(String::new())),
        ("varint", CqlValue::Varint(CqlVarint::from_signed_bytes_be(huge))),
    ])
}

pub async fn counters(session: &Session) -> Outcome {
    session
        .query_unpaged("CREATE TABLE visits (page text PRIMARY KEY, seen counter)", ())
        .await?;
    let add = match session
        .prepare("UPDATE visits SET seen = seen + ? WHERE page = ?")
        .await
    {
        // A server without counters has to say so by an error of its own, and not to count wrongly.
        Err(PrepareError::AllAttemptsFailed {
            first_attempt: RequestAttemptError::DbError(DbError::Invalid, message),
            ..
        }) if message == "Counter updates are not supported yet" => return Err(Skipped(message).into()),
        prepared => prepared?,
    };
    for step in [5, -2, 4] {
        session.execute_unpaged(&add, (Counter(step), "home")).await?;
    }
    let rows = query(session, "SELECT seen FROM visits WHERE page = 'home'").await?;
    equal(rows.single_row::<(Counter,)>()?, (Counter(7),))?;
    let mut batch = Batch::new(BatchType::Counter);
    batch.append_statement("UPDATE visits SET seen = seen + 1 WHERE page = 'home'");
    batch.append_statement("UPDATE visits SET seen = seen + 2 WHERE page = 'other'");
    session.batch(&batch, ((), ())).await?;
    let rows = query(session, "SELECT seen FROM visits WHERE page = 'other'").await?;
    equal(rows.single_row::<(Counter,)>()?, (Counter(2),))
}

/// An IPv4 address is four bytes, which the table of all types does not show.
pub async fn inet(session: &Session) -> Outcome {
    session
        .query_unpaged(
            "INSERT INTO natives (id, c_inet) VALUES (?, ?)",
            (3, IpAddr::V4(Ipv4Addr::LOCALHOST)),
        )
        .await?;
    let rows = query(session, "SELECT c_inet FROM natives WHERE id = 3").await?;
    equal(
        rows.single_row::<(IpAddr,)>()?,
        (IpAddr::V4(Ipv4Addr::LOCALHOST),),
    )
}
