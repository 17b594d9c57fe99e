//! Callers: a connection, and the users whose tokens are shown on it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_cql::quoting::maybe_quote_identifier;
use helenus_node::Handle;
use helenus_node::handle::{ClientOptions, Login, Rows};
use http::HeaderMap;

use crate::bounds::USERS_MAX;
use crate::failure::Failure;
use crate::memory::Memory;
use crate::state::State;
use crate::tokens::Credential;

/// Stargate's name of the header that has the token.
pub const TOKEN_HEADER: &str = "x-cassandra-token";

/// The other end of a connection.
pub struct Caller {
    pub state: Rc<State>,
    pub peer: SocketAddr,
    pub memory: Arc<Memory>,
    /// The node's clients, by user; the one that was used last is the last.
    clients: RefCell<Vec<(Option<Arc<str>>, Handle)>>,
}

impl Caller {
    pub fn new(state: &Rc<State>, peer: SocketAddr) -> Self {
        Caller {
            state: state.clone(),
            peer,
            memory: state.memory.of_connection(),
            clients: RefCell::default(),
        }
    }

    /// The node's client of whoever the headers say. `through` is what `system_views.clients` calls its driver.
    pub async fn client(&self, headers: &HeaderMap, through: &str) -> Result<Handle, Failure> {
        let user = self.user(headers).await?;
        let mut clients = self.clients.borrow_mut();
        if let Some(at) = clients.iter().position(|(known, _)| *known == user) {
            if at + 1 != clients.len() {
                let found = clients.remove(at);
                clients.push(found);
            }
            return Ok(clients
                .last()
                .map_or_else(|| self.state.node.clone(), |(_, client)| client.clone()));
        }
        let client = self.state.node.client(&ClientOptions {
            peer: Some(self.peer),
            driver_name: through.to_owned(),
            login: user.clone().map_or(Login::AsConfigured, Login::As),
            throws_on_overload: false,
            ..ClientOptions::default()
        });
        if clients.len() >= USERS_MAX {
            clients.remove(0);
        }
        clients.push((user, client.clone()));
        Ok(client)
    }

    /// `None` where nobody has to say. Whose role was dropped, may not log in any more or has another password since, is nobody
    /// once its token is due.
    async fn user(&self, headers: &HeaderMap) -> Result<Option<Arc<str>>, Failure> {
        const NOT_VALID: Failure =
            Failure::Unauthenticated("The token is not valid, or not any more; POST /v1/auth gives another");
        let state = &self.state;
        if !state.asks_for_passwords {
            return Ok(None);
        }
        let token = headers.get(TOKEN_HEADER).and_then(|token| token.to_str().ok());
        let token = token.ok_or(Failure::Unauthenticated(
            "The header x-cassandra-token is missing; POST /v1/auth gives a token",
        ))?;
        let now_ns = state.clock.monotonic_ns();
        let shown = state.tokens.borrow_mut().show(token, now_ns).ok_or(NOT_VALID)?;
        if shown.is_due {
            let found = Credential::read(&state.node, &shown.credential.user).await?;
            if !state.tokens.borrow_mut().judge(&shown, found.as_ref(), now_ns) {
                return Err(NOT_VALID);
            }
        }
        Ok(Some(shown.credential.user))
    }

    /// Refuses who may not do what operators do: who has not logged in as a superuser or, where nobody has to log in, is not on the node's
    /// machine.
    pub async fn check_operator(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(user) = self.user(headers).await? else {
            return match self.peer.ip().to_canonical().is_loopback() {
                true => Ok(()),
                false => Err(Failure::Forbidden(
                    "Where nobody has to log in, operations are for clients on the node's own machine",
                )),
            };
        };
        // Its own roles everybody may list: those that it was granted make a superuser, too.
        let client = self.client(headers, "helenus http").await?;
        let text = format!("LIST ROLES OF {}", maybe_quote_identifier(&user));
        let listed = client.query(&text, ()).await?;
        match listed.rows().is_some_and(has_superuser) {
            true => Ok(()),
            false => Err(Failure::Forbidden("Only superusers may do this")),
        }
    }

    /// How long ago it was `received_ns`.
    pub fn since(&self, received_ns: u64) -> Duration {
        Duration::from_nanos(self.state.clock.monotonic_ns().saturating_sub(received_ns))
    }
}

/// Returns whether a list of roles has one of a superuser.
fn has_superuser(roles: &Rows) -> bool {
    const TRUE: &[u8] = &[1];
    let columns = roles.columns();
    let place = columns.iter().position(|column| &*column.name == "super");
    place.is_some_and(|place| roles.iter().any(|role| role.get(place) == Some(&Some(TRUE))))
}
