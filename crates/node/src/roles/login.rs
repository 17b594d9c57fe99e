//! AUTH_RESPONSE: SASL PLAIN (RFC 4616), as Cassandra's `PasswordAuthenticator` takes it.

use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::response::write_auth_success;

use super::tables::RoleTables;
use crate::session::Session;
use crate::shard::Shard;

struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// `authorization id NUL user NUL password`; the first part is not looked at.
    fn decode(token: &[u8]) -> Result<Credentials, CqlError> {
        let mut parts = token.rsplit(|byte| *byte == 0);
        let (last, middle, first) = (parts.next(), parts.next(), parts.next());
        if parts.next().is_some() {
            return Err(bad(
                "Credential format error: username or password is empty or contains NUL(\\0) character",
            ));
        }
        let text = |part: Option<&[u8]>| {
            part.filter(|part| !part.is_empty())
                .map(|part| String::from_utf8_lossy(part).into_owned())
        };
        Ok(Credentials {
            password: text(last.filter(|_| middle.is_some()))
                .ok_or_else(|| bad("Password must not be null"))?,
            user: text(middle.filter(|_| first.is_some()))
                .ok_or_else(|| bad("Authentication ID must not be null"))?,
        })
    }
}

fn bad(text: &'static str) -> CqlError {
    CqlError::BadCredentials(text.into())
}

impl Shard {
    /// Answers AUTH_RESPONSE later. Once it was answered with AUTH_SUCCESS, [`Session::user`] says who is there.
    pub(crate) fn log_in_later(self: &Rc<Self>, session: &Rc<Session>, stream: i16, token: &[u8]) {
        let shard = self.clone();
        let answered = session.clone();
        let token = token.to_vec();
        self.context.answer_later(session, stream, async move {
            let user = shard.log_in(&answered, &token).await;
            shard.context.count_failure(&user);
            match user {
                Ok(user) => {
                    answered.set_user(user);
                    answered.respond_later(stream, EnvelopeFlags::NONE, Opcode::AuthSuccess, |out| {
                        write_auth_success(out, None);
                        Ok(())
                    });
                }
                Err(error) => {
                    answered.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error));
                }
            }
        });
    }

    async fn log_in(self: &Rc<Self>, session: &Session, token: &[u8]) -> Result<Arc<str>, CqlError> {
        let Credentials { user, password } = Credentials::decode(token)?;
        self.check_roles_are_whole()?;
        self.settle_default_role().await?;
        let role = RoleTables::of(self).role(&user).await?;
        let refused = || {
            CqlError::BadCredentials(
                format_args!("Provided username {user} and/or password are incorrect").into(),
            )
        };
        let role = role.ok_or_else(refused)?;
        let salted_hash = role.salted_hash.as_deref().ok_or_else(refused)?;
        let Some(passwords) = &self.passwords else {
            return Err(refused());
        };
        if !passwords
            .is_right(&password, salted_hash, session.client().peer.ip())
            .await?
        {
            return Err(refused());
        }
        if !role.can_login {
            return Err(CqlError::BadCredentials(
                format_args!("{user} is not permitted to log in").into(),
            ));
        }
        Ok(user.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(token: &[u8]) -> Result<(String, String), String> {
        Credentials::decode(token)
            .map(|credentials| (credentials.user, credentials.password))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn tokens_are_split_from_their_end_as_in_cassandra() {
        let whole = ("user".to_owned(), "secret".to_owned());
        assert_eq!(decode(b"\0user\0secret"), Ok(whole.clone()));
        assert_eq!(decode(b"somebody\0user\0secret"), Ok(whole));
        let password = Err("Password must not be null".to_owned());
        let user = Err("Authentication ID must not be null".to_owned());
        assert_eq!(decode(b""), password);
        assert_eq!(decode(b"secret"), password);
        assert_eq!(decode(b"\0user\0"), password);
        assert_eq!(decode(b"user\0secret"), user);
        assert_eq!(decode(b"\0\0secret"), user);
        let malformed = decode(b"\0user\0sec\0ret").unwrap_err();
        assert!(malformed.starts_with("Credential format error"), "{malformed}");
    }
}
