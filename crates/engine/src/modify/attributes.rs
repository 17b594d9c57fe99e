//! `USING TIMESTAMP ... AND TTL ...`.

use helenus_cql::ast::Using;
use helenus_rows::deletion::NEVER_S;
use helenus_schema::TableMetadata;
use helenus_types::CqlType;
use helenus_types::value::timestamp::format_timestamp;

use crate::CqlError;
use crate::execute::QueryOptions;
use crate::heap_bytes::HeapBytes;
use crate::term::{Evaluated, EvaluationContext, Expression, Receiver, Typing};

/// Twenty years, Cassandra's limit.
const TTL_S_MAX: i32 = 20 * 365 * 24 * 60 * 60;

/// The last second that the formats Cassandra 5.0 writes by default can express as an expiration, in 2038.
const EXPIRATION_S_MAX: i64 = i32::MAX as i64 - 1;

#[derive(Clone, Debug, Default)]
pub struct Attributes {
    pub timestamp: Option<Expression>,
    pub ttl: Option<Expression>,
}

/// The time of what a conditional statement writes.
#[derive(Clone, Copy, Debug)]
pub struct Ballot {
    /// Timestamp of what is live.
    pub timestamp_us: i64,
    pub deletion_us: i64,
}

/// When and for how long a write holds.
#[derive(Clone, Copy, Debug)]
pub struct WriteTime {
    pub timestamp_us: i64,
    /// Timestamp of deletions; that of what is live, but for conditional statements.
    pub deletion_us: i64,
    /// Seconds; 0 for ever.
    pub ttl_s: u32,
    /// Seconds since 1970, or [`NEVER_S`].
    pub expires_at_s: u32,
    pub now_s: u32,
}

impl Attributes {
    pub fn prepare(typing: &Typing<'_>, using: &Using) -> Result<Self, CqlError> {
        let term = |term: &Option<helenus_cql::ast::Term>, name: &str, cql_type: CqlType| {
            term.as_ref()
                .map(|term| typing.term(&term.into(), &Receiver::new(name, cql_type)))
                .transpose()
        };
        Ok(Attributes {
            timestamp: term(&using.timestamp, "[timestamp]", CqlType::Bigint)?,
            ttl: term(&using.ttl, "[ttl]", CqlType::Int)?,
        })
    }

    /// The time of a conditional statement is its ballot's, whatever its USING clause says.
    pub fn write_time(
        &self,
        table: &TableMetadata,
        options: &QueryOptions<'_>,
        context: &EvaluationContext<'_>,
        ballot: Option<Ballot>,
    ) -> Result<WriteTime, CqlError> {
        let time = self.requested_time(table, options, context)?;
        Ok(match ballot {
            None => time,
            Some(ballot) => WriteTime {
                timestamp_us: ballot.timestamp_us,
                deletion_us: ballot.deletion_us,
                ..time
            },
        })
    }

    #[inline]
    fn requested_time(
        &self,
        table: &TableMetadata,
        options: &QueryOptions<'_>,
        context: &EvaluationContext<'_>,
    ) -> Result<WriteTime, CqlError> {
        let timestamp_us = self.timestamp_us(options, context)?;
        if timestamp_us == i64::MIN {
            return Err(invalid!(
                "Out of bound timestamp, must be in [{}, {}]",
                i64::MIN + 1,
                i64::MAX
            ));
        }
        let ttl_s = self.ttl_s(table, options, context)?;
        let expires_at_s = if ttl_s == 0 {
            NEVER_S
        } else {
            options.now_s.saturating_add(ttl_s)
        };
        Ok(WriteTime {
            timestamp_us,
            deletion_us: timestamp_us,
            ttl_s,
            expires_at_s,
            now_s: options.now_s,
        })
    }

    /// The statement's timestamp, else the client's, else the server's.
    pub fn timestamp_us(
        &self,
        options: &QueryOptions<'_>,
        context: &EvaluationContext<'_>,
    ) -> Result<i64, CqlError> {
        let otherwise = options.timestamp_us.unwrap_or(options.server_timestamp_us);
        let Some(timestamp) = &self.timestamp else {
            return Ok(otherwise);
        };
        match timestamp.evaluate(context)? {
            Evaluated::Null => Err(invalid!("Invalid null value of timestamp")),
            Evaluated::Unset => Ok(otherwise),
            Evaluated::Bytes(bytes) => match (*bytes).try_into() {
                Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
                Err(_) => Err(invalid!("Invalid timestamp value: {bytes:?}")),
            },
        }
    }

    fn ttl_s(
        &self,
        table: &TableMetadata,
        options: &QueryOptions<'_>,
        context: &EvaluationContext<'_>,
    ) -> Result<u32, CqlError> {
        let default = table.params.default_time_to_live;
        let Some(ttl) = &self.ttl else {
            check_expiration(table, default, true, options.now_s)?;
            return Ok(default);
        };
        let ttl = match ttl.evaluate(context)? {
            Evaluated::Null => return Ok(0),
            Evaluated::Unset => return Ok(default),
            Evaluated::Bytes(bytes) if bytes.is_empty() => return Ok(0),
            Evaluated::Bytes(bytes) => match (*bytes).try_into() {
                Ok(bytes) => i32::from_be_bytes(bytes),
                Err(_) => return Err(invalid!("Invalid TTL value: {bytes:?}")),
            },
        };
        if ttl > TTL_S_MAX {
            return Err(invalid!(
                "ttl is too large. requested ({ttl}) maximum ({TTL_S_MAX})"
            ));
        }
        let ttl_s =
            u32::try_from(ttl).map_err(|_| invalid!("A TTL must be greater or equal to 0, but was {ttl}"))?;
        check_expiration(table, ttl_s, false, options.now_s)?;
        Ok(ttl_s)
    }
}

/// Refuses what would expire after the last moment that can be written down.
fn check_expiration(table: &TableMetadata, ttl_s: u32, is_default: bool, now_s: u32) -> Result<(), CqlError> {
    if ttl_s == 0 || i64::from(now_s) + i64::from(ttl_s) <= EXPIRATION_S_MAX {
        return Ok(());
    }
    let (keyspace, name) = (&table.keyspace, &table.name);
    let default = if is_default { "default " } else { "" };
    // The date without quarters of a second and with the zone as Java prints an instant.
    let date = format_timestamp(EXPIRATION_S_MAX * 1000).replace(".000Z", "+00:00");
    Err(invalid!(
        "Request on table {keyspace}.{name} with {default}ttl of {ttl_s} seconds exceeds maximum supported expiration \
         date of {date}. In order to avoid this use a lower TTL, change the expiration date overflow policy or upgrade \
         to a version where this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 for more details."
    ))
}

impl HeapBytes for Attributes {
    fn heap_bytes(&self) -> usize {
        self.timestamp.heap_bytes() + self.ttl.heap_bytes()
    }
}
