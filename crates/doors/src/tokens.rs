//! Tokens: what a client that has logged in shows with each request.

use std::sync::Arc;

use hashbrown::HashMap;
use helenus_node::Handle;
use helenus_node::handle::RequestError;
use helenus_vfs::Random;
use uuid::Uuid;

use crate::bounds::{ROLE_VALIDITY, TOKEN_LIFE, TOKENS_MAX};

/// The tokens that are valid.
#[derive(Default)]
pub struct Tokens {
    logins: HashMap<Uuid, Login, foldhash::fast::RandomState>,
}

/// User and password, as a hash, of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub user: Arc<str>,
    /// Hash of the password, as the role's row has it: another password is another hash.
    pub salted_hash: Arc<str>,
}

/// Login that a token stands for.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub token: Uuid,
    pub credential: Credential,
    /// The role was looked up so long ago that it has to be again, see [`ROLE_VALIDITY`].
    pub is_due: bool,
}

struct Login {
    credential: Credential,
    used_ns: u64,
    looked_up_ns: u64,
}

impl Credential {
    /// Reads what the user logs in with now; `None` if the node knows no such role, or one that may not.
    pub async fn read(node: &Handle, user: &str) -> Result<Option<Credential>, RequestError> {
        const ROLE: &str = "SELECT can_login, salted_hash FROM system_auth.roles WHERE role = ?";
        let answer = node.query(ROLE, (user,)).await?;
        let roles: Vec<(Option<bool>, Option<String>)> = answer.read()?;
        Ok(match roles.into_iter().next() {
            Some((Some(true), Some(salted_hash))) => Some(Credential {
                user: user.into(),
                salted_hash: salted_hash.into(),
            }),
            _ => None,
        })
    }
}

impl Tokens {
    /// A token of a user who has logged in.
    pub fn issue(&mut self, credential: Credential, random: &dyn Random, now_ns: u64) -> String {
        self.logins.retain(|_, login| !login.is_over(now_ns));
        if self.logins.len() >= TOKENS_MAX {
            let oldest = self.logins.iter().min_by_key(|(_, login)| login.used_ns);
            if let Some(token) = oldest.map(|(token, _)| *token) {
                self.logins.remove(&token);
            }
        }
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        let token = uuid::Builder::from_random_bytes(bytes).into_uuid();
        self.logins.insert(
            token,
            Login {
                credential,
                used_ns: now_ns,
                looked_up_ns: now_ns,
            },
        );
        token.to_string()
    }

    /// Finds the login of a token, which lives on from now.
    pub fn show(&mut self, token: &str, now_ns: u64) -> Option<Shown> {
        let token = Uuid::try_parse(token).ok()?;
        let login = self.logins.get_mut(&token)?;
        if login.is_over(now_ns) {
            self.logins.remove(&token);
            return None;
        }
        login.used_ns = now_ns;
        Some(Shown {
            token,
            credential: login.credential.clone(),
            is_due: u128::from(now_ns.saturating_sub(login.looked_up_ns)) >= ROLE_VALIDITY.as_nanos(),
        })
    }

    /// The role was looked up: the token is good for another while, or never again.
    pub fn judge(&mut self, shown: &Shown, found: Option<&Credential>, now_ns: u64) -> bool {
        let is_good = found == Some(&shown.credential);
        match self.logins.get_mut(&shown.token) {
            Some(login) if is_good => login.looked_up_ns = now_ns,
            _ => {
                self.logins.remove(&shown.token);
            }
        }
        is_good
    }
}

impl Login {
    fn is_over(&self, now_ns: u64) -> bool {
        u128::from(now_ns.saturating_sub(self.used_ns)) > TOKEN_LIFE.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use helenus_vfs::SeededRandom;

    use super::*;

    fn credential(user: &str) -> Credential {
        Credential {
            user: user.into(),
            salted_hash: "hash".into(),
        }
    }

    #[test]
    fn a_token_lives_while_it_is_used_and_all_of_them_are_bounded() {
        let random = SeededRandom::new(1);
        let life_ns = TOKEN_LIFE.as_nanos() as u64;
        let mut tokens = Tokens::default();
        let token = tokens.issue(credential("a"), &random, 0);
        let user = |tokens: &mut Tokens, token: &str, now_ns| {
            tokens
                .show(token, now_ns)
                .map(|shown| shown.credential.user.to_string())
        };
        assert_eq!(user(&mut tokens, &token, life_ns).as_deref(), Some("a"));
        assert_eq!(user(&mut tokens, &token, 2 * life_ns).as_deref(), Some("a"));
        assert_eq!(user(&mut tokens, &token, 3 * life_ns + 1), None);
        assert_eq!(user(&mut tokens, "a", 0), None);
        let first = tokens.issue(credential("b"), &random, 10);
        for _ in 0..TOKENS_MAX {
            tokens.issue(credential("c"), &random, 11);
        }
        assert_eq!((tokens.logins.len(), tokens.show(&first, 11)), (TOKENS_MAX, None));
    }

    #[test]
    fn a_role_is_looked_up_again_and_its_token_dies_with_it() {
        let random = SeededRandom::new(1);
        let validity_ns = ROLE_VALIDITY.as_nanos() as u64;
        let mut tokens = Tokens::default();
        let token = tokens.issue(credential("a"), &random, 0);
        let shown = tokens.show(&token, validity_ns - 1).unwrap();
        assert!(!shown.is_due);
        let shown = tokens.show(&token, validity_ns).unwrap();
        assert!(shown.is_due);
        assert!(tokens.judge(&shown, Some(&credential("a")), validity_ns));
        assert!(!tokens.show(&token, validity_ns).unwrap().is_due);
        let changed = Credential {
            salted_hash: "another".into(),
            ..credential("a")
        };
        assert!(!tokens.judge(&shown, Some(&changed), validity_ns));
        assert_eq!(tokens.show(&token, validity_ns), None);
    }
}
