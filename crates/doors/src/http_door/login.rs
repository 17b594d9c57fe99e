//! `POST /v1/auth`: a token for a user and a password, as Stargate gives it.

use std::borrow::Cow;
use std::rc::Rc;

use helenus_node::handle::ClientOptions;
use helenus_types::json::write_json_string;
use http::{Response, StatusCode};
use serde::Deserialize;

use super::{JSON, parse, read_json, whole};
use crate::body::Body;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::routes::Received;
use crate::tokens::Credential;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginRequest<'a> {
    #[serde(borrow)]
    username: Cow<'a, str>,
    #[serde(borrow)]
    password: Cow<'a, str>,
}

/// Answers it. The password is checked as CQL's are: on threads of their own, each address in its turn. Where nobody is asked for
/// passwords, everybody gets a token, so that Stargate's clients need not know.
pub async fn answer(caller: &Rc<Caller>, received: Received) -> Result<Response<Body>, Failure> {
    let body = read_json(caller, received.request).await?;
    let request: LoginRequest = parse(&body.bytes)?;
    let state = &caller.state;
    let credential = match state.asks_for_passwords {
        true => log_in(caller, &request).await?,
        false => Credential {
            user: (*request.username).into(),
            salted_hash: "".into(),
        },
    };
    let now_ns = state.clock.monotonic_ns();
    let token = state
        .tokens
        .borrow_mut()
        .issue(credential, &*state.random, now_ns);
    let mut document = String::from("{\"authToken\":");
    write_json_string(&mut document, &token);
    document.push('}');
    Ok(whole(StatusCode::CREATED, JSON, document))
}

/// The role is read before the password is checked, so that a token of a password that changes meanwhile is one of the old password.
async fn log_in(caller: &Caller, request: &LoginRequest<'_>) -> Result<Credential, Failure> {
    let node = &caller.state.node;
    let before = Credential::read(node, &request.username).await?;
    let client = node.client(&ClientOptions {
        peer: Some(caller.peer),
        driver_name: "helenus login".to_owned(),
        ..ClientOptions::default()
    });
    client.log_in(&request.username, &request.password).await?;
    let credential = match before {
        // The first login of a new node makes its first role.
        None => Credential::read(node, &request.username).await?,
        before => before,
    };
    credential.ok_or(Failure::Unauthenticated(
        "The role changed while its password was checked; log in again",
    ))
}
