//! Tokens: what a client that has logged in shows with each request.

use std::sync::Arc;
use std::time::Duration;

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

/// A login that another process goes on with: what it takes to know the client's token again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOverToken {
    token: Uuid,
    credential: Credential,
    /// Time since its last use.
    idle: Duration,
}

impl HandedOverToken {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.token.as_bytes());
        let idle_ms = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX);
        out.extend_from_slice(&idle_ms.to_be_bytes());
        for text in [&self.credential.user, &self.credential.salted_hash] {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Takes one from the front of `rest`; `None` if there is none.
    pub fn decode(rest: &mut &[u8]) -> Option<HandedOverToken> {
        let (token, behind) = rest.split_first_chunk::<16>()?;
        let (idle_ms, behind) = behind.split_first_chunk::<8>()?;
        *rest = behind;
        let mut text = || -> Option<Arc<str>> {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            let (text, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            *rest = behind;
            std::str::from_utf8(text).ok().map(Arc::from)
        };
        Some(HandedOverToken {
            token: Uuid::from_bytes(*token),
            credential: Credential {
                user: text()?,
                salted_hash: text()?,
            },
            idle: Duration::from_millis(u64::from_be_bytes(*idle_ms)),
        })
    }
}

struct Login {
    credential: Credential,
    /// On the node's monotonic clock; less than nothing where another process saw it.
    used_ns: i128,
    /// `None` where another process was the last to look.
    looked_up_ns: Option<u64>,
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
                used_ns: i128::from(now_ns),
                looked_up_ns: Some(now_ns),
            },
        );
        token.to_string()
    }

    /// All that are valid, for another process.
    pub fn to_hand_over(&self, now_ns: u64) -> Vec<HandedOverToken> {
        let valid = self.logins.iter().filter(|(_, login)| !login.is_over(now_ns));
        let handed_over = valid.map(|(token, login)| HandedOverToken {
            token: *token,
            credential: login.credential.clone(),
            idle: login.idle(now_ns),
        });
        handed_over.collect()
    }

    /// Goes on with those of another process, each of whose roles is looked up before it is believed.
    pub fn go_on_with(&mut self, handed_over: Vec<HandedOverToken>, now_ns: u64) {
        for handed_over in handed_over.into_iter().take(TOKENS_MAX) {
            let idle_ns = u64::try_from(handed_over.idle.as_nanos()).unwrap_or(u64::MAX);
            let login = Login {
                credential: handed_over.credential,
                used_ns: i128::from(now_ns) - i128::from(idle_ns),
                looked_up_ns: None,
            };
            self.logins.insert(handed_over.token, login);
        }
    }

    /// Finds the login of a token, which lives on from now.
    pub fn show(&mut self, token: &str, now_ns: u64) -> Option<Shown> {
        let token = Uuid::try_parse(token).ok()?;
        let login = self.logins.get_mut(&token)?;
        if login.is_over(now_ns) {
            self.logins.remove(&token);
            return None;
        }
        login.used_ns = i128::from(now_ns);
        Some(Shown {
            token,
            credential: login.credential.clone(),
            is_due: login.looked_up_ns.is_none_or(|looked_up_ns| {
                u128::from(now_ns.saturating_sub(looked_up_ns)) >= ROLE_VALIDITY.as_nanos()
            }),
        })
    }

    /// The role was looked up: the token is good for another while, or never again.
    pub fn judge(&mut self, shown: &Shown, found: Option<&Credential>, now_ns: u64) -> bool {
        let is_good = found == Some(&shown.credential);
        match self.logins.get_mut(&shown.token) {
            Some(login) if is_good => login.looked_up_ns = Some(now_ns),
            _ => {
                self.logins.remove(&shown.token);
            }
        }
        is_good
    }
}

impl Login {
    fn idle(&self, now_ns: u64) -> Duration {
        let idle_ns = i128::from(now_ns) - self.used_ns;
        Duration::from_nanos(u64::try_from(idle_ns).unwrap_or_default())
    }

    fn is_over(&self, now_ns: u64) -> bool {
        self.idle(now_ns) > TOKEN_LIFE
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

    /// Clients had to log in again when another process took the node's place.
    #[test]
    fn a_token_that_is_handed_over_is_as_old_as_it_was_and_its_role_is_looked_up() {
        let random = SeededRandom::new(1);
        let life_ns = TOKEN_LIFE.as_nanos() as u64;
        let mut tokens = Tokens::default();
        let token = tokens.issue(credential("a"), &random, 0);
        let old = tokens.issue(credential("b"), &random, 0);
        let now_ns = life_ns - 5_000_000;
        tokens.show(&token, now_ns).unwrap();
        let mut bytes = Vec::new();
        for one in tokens.to_hand_over(life_ns) {
            one.encode(&mut bytes);
        }
        let mut rest = &bytes[..];
        let arrived: Vec<HandedOverToken> =
            std::iter::from_fn(|| HandedOverToken::decode(&mut rest)).collect();
        assert_eq!((arrived.len(), rest.len()), (2, 0));
        assert_eq!(HandedOverToken::decode(&mut &bytes[..bytes.len() / 2 - 1]), None);
        // The other process has a clock of its own, which has just begun.
        let begun_ns = 1_000_000;
        let mut others = Tokens::default();
        others.go_on_with(arrived, begun_ns);
        let shown = others.show(&token, begun_ns + life_ns - 5_000_000).unwrap();
        assert!(shown.is_due && shown.credential == credential("a"));
        assert_eq!(others.show(&old, begun_ns + 1_000_000), None);
        assert!(tokens.to_hand_over(3 * life_ns).is_empty());
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
