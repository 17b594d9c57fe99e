//! Statements with values: prepared once, and then executed by whoever sends their text again.

use std::cell::{Cell, RefCell};

use hashbrown::HashMap;
use helenus_cql::{chooses_keyspace, only_reads};
use helenus_node::Handle;
use helenus_node::handle::{Answer, Batch, Column, Prepared, RequestOptions};
use helenus_protocol::request::BatchKind;
use helenus_values::BoundValues;

use crate::bounds::{STATEMENT_BYTES_MAX, STATEMENTS_MAX};
use crate::failure::Failure;

/// Values for a statement's markers, in a form of the door's.
pub trait Values {
    /// Returns whether there are none.
    fn is_empty(&self) -> bool;

    /// In the form of the native protocol.
    fn bind(&self, markers: &[Column]) -> Result<BoundValues, Failure>;
}

/// One write of a batch.
pub struct Member<'a> {
    pub text: &'a str,
    pub values: &'a dyn Values,
}

/// The statements that are prepared. Everything is forgotten when the schema changes, because the types of markers may.
#[derive(Default)]
pub struct Statements {
    known: RefCell<HashMap<Key, Known, foldhash::fast::RandomState>>,
    uses: Cell<u64>,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    text: String,
    keyspace: Option<String>,
}

#[derive(PartialEq, Eq, Hash)]
struct KeyRef<'k> {
    text: &'k str,
    keyspace: Option<&'k str>,
}

impl hashbrown::Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.text == key.text && self.keyspace == key.keyspace.as_deref()
    }
}

struct Known {
    prepared: Prepared,
    used: u64,
}

/// Attempts to execute a statement that the node forgets meanwhile: a third time means that somebody changes the schema all the time.
const ATTEMPTS_MAX: usize = 3;

impl Statements {
    /// The schema is another one.
    pub fn clear(&self) {
        self.known.borrow_mut().clear();
    }

    /// Executes a statement.
    pub async fn execute(
        &self,
        client: &Handle,
        text: &str,
        values: &dyn Values,
        options: &RequestOptions,
    ) -> Result<Answer, Failure> {
        if values.is_empty() {
            check(text)?;
            return Ok(client.query_with(text, (), options).await?);
        }
        let mut attempts = 0;
        loop {
            let prepared = self.prepared(client, text, options).await?;
            let values = values.bind(prepared.markers())?;
            attempts += 1;
            let executed = client.execute_bound(&prepared, &values, options).await;
            match executed.map_err(Failure::from) {
                Err(failure) if failure.is_unprepared() && attempts < ATTEMPTS_MAX => {
                    self.forget(text, options.keyspace.as_deref())
                }
                executed => return executed,
            }
        }
    }

    /// Executes several writes together.
    pub async fn execute_batch(
        &self,
        client: &Handle,
        kind: BatchKind,
        members: &[Member<'_>],
        options: &RequestOptions,
    ) -> Result<Answer, Failure> {
        let mut attempts = 0;
        loop {
            let mut batch = Batch::new(kind);
            for member in members {
                if member.values.is_empty() {
                    check(member.text)?;
                    batch.push_text(member.text, ())?;
                } else {
                    let prepared = self.prepared(client, member.text, options).await?;
                    batch.push(&prepared, &member.values.bind(prepared.markers())?)?;
                }
            }
            attempts += 1;
            let executed = client.batch_once(&batch, options).await;
            match executed.map_err(Failure::from) {
                Err(failure) if failure.is_unprepared() && attempts < ATTEMPTS_MAX => {
                    for member in members {
                        self.forget(member.text, options.keyspace.as_deref());
                    }
                }
                executed => return executed,
            }
        }
    }

    async fn prepared(
        &self,
        client: &Handle,
        text: &str,
        options: &RequestOptions,
    ) -> Result<Prepared, Failure> {
        let keyspace = options.keyspace.as_deref();
        let used = self.uses.get() + 1;
        self.uses.set(used);
        if let Some(known) = self.known.borrow_mut().get_mut(&KeyRef { text, keyspace }) {
            known.used = used;
            return Ok(known.prepared.clone());
        }
        check(text)?;
        let asked = RequestOptions {
            keyspace: options.keyspace.clone(),
            timeout: options.timeout,
            waited: options.waited,
            ..RequestOptions::default()
        };
        let prepared = client.prepare_with(text, &asked).await?;
        if text.len() <= STATEMENT_BYTES_MAX {
            self.keep(text, keyspace, &prepared, used);
        }
        Ok(prepared)
    }

    fn keep(&self, text: &str, keyspace: Option<&str>, prepared: &Prepared, used: u64) {
        let mut known = self.known.borrow_mut();
        if known.len() >= STATEMENTS_MAX {
            // Half of them, so that a client who prepares without end pays for looking at all of them once in a while.
            let mut uses: Vec<u64> = known.values().map(|known| known.used).collect();
            uses.sort_unstable();
            let median = uses.get(uses.len() / 2).copied().unwrap_or(0);
            known.retain(|_, known| known.used > median);
        }
        let key = Key {
            text: text.to_owned(),
            keyspace: keyspace.map(str::to_owned),
        };
        let prepared = prepared.clone();
        known.insert(key, Known { prepared, used });
    }

    fn forget(&self, text: &str, keyspace: Option<&str>) {
        self.known.borrow_mut().remove(&KeyRef { text, keyspace });
    }
}

/// Refuses a statement that may change something, where only those that read are taken.
pub fn check_reads(text: &str, is_read_only: bool) -> Result<(), Failure> {
    match is_read_only && !only_reads(text) {
        true => Err(Failure::Forbidden("Only statements that read are taken here")),
        false => Ok(()),
    }
}

fn check(text: &str) -> Result<(), Failure> {
    match chooses_keyspace(text) {
        // Requests of different users share a connection, and one user's requests come over many.
        true => Err(Failure::Invalid(
            "There is no session that USE could choose a keyspace for: name it with each request".to_owned(),
        )),
        false => Ok(()),
    }
}
