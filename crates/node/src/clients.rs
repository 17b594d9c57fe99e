//! The connections of one shard that have said who they are, for `system_views.clients`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use helenus_catalog::system::ClientConnection;
use helenus_protocol::wire::{DecodeError, WireReader, put_short, put_string};

use crate::session::Session;

/// Bytes kept of a connection's STARTUP options at most; the largest drivers send some 300. Options that do not fit are not
/// shown.
const OPTIONS_BYTES_KEPT_MAX: usize = 1024;

/// User that Cassandra shows where nobody has to log in.
const ANONYMOUS: &str = "anonymous";

/// By the connection's number on its shard. As many as there may be connections.
#[derive(Default)]
pub struct Clients {
    clients: RefCell<BTreeMap<u64, Client>>,
}

struct Client {
    session: Rc<Session>,
    options: StartupOptions,
}

/// By name.
type StartupOptions = Box<[(Box<str>, Box<str>)]>;

impl Clients {
    /// The client of a connection has sent STARTUP with these options.
    pub fn started<'o>(
        &self,
        connection: u64,
        session: &Rc<Session>,
        options: impl Iterator<Item = (&'o str, &'o str)>,
    ) {
        let client = Client {
            session: session.clone(),
            options: kept(options),
        };
        self.clients.borrow_mut().insert(connection, client);
    }

    /// Writes the options of a client's STARTUP, for another process in which the client goes on.
    pub fn tell(&self, connection: u64, out: &mut Vec<u8>) {
        let clients = self.clients.borrow();
        let Some(client) = clients.get(&connection) else {
            return;
        };
        put_short(out, u16::try_from(client.options.len()).unwrap_or(u16::MAX));
        for (name, value) in &client.options {
            put_string(out, name);
            put_string(out, value);
        }
    }

    /// A client that another process has told of. One that has not sent STARTUP is not shown.
    pub fn resumed(
        &self,
        connection: u64,
        session: &Rc<Session>,
        told: &mut WireReader<'_>,
    ) -> Result<(), DecodeError> {
        if told.rest().is_empty() {
            return Ok(());
        }
        let mut options = Vec::new();
        for _ in 0..told.count("options", 4)? {
            options.push((told.string()?, told.string()?));
        }
        self.started(connection, session, options.into_iter());
        Ok(())
    }

    pub fn closed(&self, connection: u64) {
        self.clients.borrow_mut().remove(&connection);
    }

    /// `must_log_in`: whether clients have to say who they are.
    pub fn list(&self, must_log_in: bool) -> Vec<ClientConnection> {
        let clients = self.clients.borrow();
        clients.values().map(|client| client.shown(must_log_in)).collect()
    }
}

impl Client {
    fn shown(&self, must_log_in: bool) -> ClientConnection {
        let option = |wanted: &str| {
            let found = self.options.iter().find(|(name, _)| **name == *wanted);
            found.map(|(_, value)| value.to_string())
        };
        let user = self.session.user();
        let address = self.session.client().peer;
        ClientConnection {
            address: address.ip(),
            port: address.port(),
            stage: if must_log_in && user.is_none() {
                "authenticating"
            } else {
                "ready"
            },
            username: user.unwrap_or_else(|| ANONYMOUS.into()),
            keyspace: self.session.conversation.keyspace(),
            protocol_version: self.session.version().number(),
            driver_name: option("DRIVER_NAME"),
            driver_version: option("DRIVER_VERSION"),
            options: self
                .options
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            request_count: self.session.requests(),
        }
    }
}

fn kept<'o>(options: impl Iterator<Item = (&'o str, &'o str)>) -> StartupOptions {
    let mut left = OPTIONS_BYTES_KEPT_MAX;
    let mut kept = Vec::new();
    for (name, value) in options {
        if let Some(rest) = left.checked_sub(name.len() + value.len()) {
            left = rest;
            kept.push((name.into(), value.into()));
        }
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use helenus_protocol::ProtocolVersion;

    use super::*;

    fn clients_with(options: &[(&str, &str)]) -> Clients {
        let clients = Clients::default();
        let session = Rc::new(Session::new(ProtocolVersion::V5));
        clients.started(7, &session, options.iter().copied());
        clients
    }

    #[test]
    fn a_client_is_shown_until_its_connection_is_closed() {
        let clients = clients_with(&[("DRIVER_NAME", "a driver"), ("CQL_VERSION", "3.0.0")]);
        let shown = clients.list(false);
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].driver_name.as_deref(), Some("a driver"));
        assert_eq!((&*shown[0].username, shown[0].stage), ("anonymous", "ready"));
        assert_eq!(clients.list(true)[0].stage, "authenticating");
        clients.closed(7);
        assert!(clients.list(false).is_empty());
    }

    #[test]
    fn options_beyond_what_is_kept_are_left_out() {
        let long = "x".repeat(OPTIONS_BYTES_KEPT_MAX);
        let clients = clients_with(&[("LONG", &long), ("DRIVER_NAME", "a driver")]);
        let options = &clients.list(false)[0].options;
        assert_eq!(options, &[("DRIVER_NAME".to_owned(), "a driver".to_owned())]);
    }
}
