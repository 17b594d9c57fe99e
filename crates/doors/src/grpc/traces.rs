//! The trace of a request, which its answer brings along.

use std::net::IpAddr;

use helenus_node::Handle;
use helenus_node::handle::{RequestError, RequestOptions};
use helenus_protocol::Consistency;
use uuid::Uuid;

use super::proto::stargate::Traces;
use super::proto::stargate::traces::Event;
use crate::bounds::{TRACE_ATTEMPTS_MAX, TRACE_PAUSE};

/// The trace, as far as it is there: it is written after its request was answered.
pub async fn read(client: &Handle, id: [u8; 16], consistency: Consistency) -> Result<Traces, RequestError> {
    let id = Uuid::from_bytes(id);
    let options = RequestOptions {
        consistency,
        ..RequestOptions::default()
    };
    let mut traces = Traces {
        id: id.to_string(),
        ..Traces::default()
    };
    for _ in 0..TRACE_ATTEMPTS_MAX {
        let session = client
            .query_with(
                "SELECT duration, started_at FROM system_traces.sessions WHERE session_id = ?",
                (id,),
                &options,
            )
            .await?;
        let session = session.rows().and_then(|rows| {
            let row = rows.iter().next()?;
            let number = |index: usize| -> Option<Vec<u8>> { row.get(index)?.map(<[u8]>::to_vec) };
            let duration_us = i32::from_be_bytes(number(0)?.try_into().ok()?);
            let started_at_ms = i64::from_be_bytes(number(1)?.try_into().ok()?);
            Some((duration_us, started_at_ms))
        });
        if let Some((duration_us, started_at_ms)) = session {
            traces.duration = duration_us.into();
            traces.started_at = started_at_ms;
            break;
        }
        tokio::time::sleep(TRACE_PAUSE).await;
    }
    let events = client
        .query_with(
            "SELECT activity, source, source_elapsed, thread, event_id FROM system_traces.events WHERE session_id = ?",
            (id,),
            &options,
        )
        .await?;
    for row in events.read::<(String, Option<IpAddr>, i32, Option<String>, Uuid)>()? {
        let (activity, source, source_elapsed, thread, event_id) = row;
        traces.events.push(Event {
            activity,
            source: source.map(|address| address.to_string()).unwrap_or_default(),
            source_elapsed: source_elapsed.into(),
            thread: thread.unwrap_or_default(),
            event_id: event_id.to_string(),
        });
    }
    Ok(traces)
}
