//! How a request wants to be executed, in JSON's names.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use helenus_node::handle::RequestOptions;
use helenus_protocol::Consistency;

use crate::failure::Failure;

/// Rows of a page where the request does not say.
const PAGE_SIZE_DEFAULT: u32 = 1_000;

/// Parameters that `/v1/query` and `/v1/batch` have in common.
#[derive(Debug, Default)]
pub struct Execution {
    pub keyspace: Option<String>,
    /// By its name.
    pub consistency: Option<String>,
    pub serial_consistency: Option<String>,
    /// Microseconds since the Unix epoch.
    pub timestamp: Option<i64>,
    /// Seconds since the Unix epoch.
    pub now_in_seconds: Option<u32>,
    pub timeout_ms: Option<u64>,
    pub tracing: bool,
    pub page_size: Option<u32>,
    pub page_state: Option<String>,
}

impl Execution {
    /// `waited`: since the request came.
    pub fn options(&self, waited: Duration) -> Result<RequestOptions, Failure> {
        let consistency = named(self.consistency.as_deref())?.unwrap_or(Consistency::LocalQuorum);
        Ok(RequestOptions {
            consistency,
            serial_consistency: named(self.serial_consistency.as_deref())?,
            page_size: Some(self.page_size.unwrap_or(PAGE_SIZE_DEFAULT)),
            paging_state: self
                .page_state
                .as_deref()
                .filter(|text| !text.is_empty())
                .map(paging_state)
                .transpose()?,
            timestamp_us: self.timestamp,
            now_s: self.now_in_seconds,
            keyspace: self.keyspace.clone(),
            timeout: self.timeout_ms.map(Duration::from_millis),
            is_traced: self.tracing,
            waited,
        })
    }
}

fn named(name: Option<&str>) -> Result<Option<Consistency>, Failure> {
    let Some(name) = name else {
        return Ok(None);
    };
    let found = Consistency::ALL
        .into_iter()
        .find(|known| known.name().eq_ignore_ascii_case(name));
    found
        .map(Some)
        .ok_or_else(|| Failure::Malformed(format!("There is no consistency {name}")))
}

/// A page's place as it is written in JSON.
pub fn page_state(state: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(state)
}

fn paging_state(text: &str) -> Result<Vec<u8>, Failure> {
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(text);
    decoded.map_err(|_| Failure::Malformed("page_state is not one that an answer had".to_owned()))
}
