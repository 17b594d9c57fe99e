//! Tokens: what a client that has logged in shows with each request.

use std::sync::Arc;

use hashbrown::HashMap;
use helenus_vfs::Random;
use uuid::Uuid;

use crate::bounds::{TOKEN_LIFE, TOKENS_MAX};

/// The tokens that are valid.
#[derive(Default)]
pub struct Tokens {
    users: HashMap<Uuid, Login, foldhash::fast::RandomState>,
}

struct Login {
    user: Arc<str>,
    used_ns: u64,
}

impl Tokens {
    /// A token of a user who has logged in.
    pub fn issue(&mut self, user: Arc<str>, random: &dyn Random, now_ns: u64) -> String {
        self.users.retain(|_, login| !login.is_over(now_ns));
        if self.users.len() >= TOKENS_MAX {
            let oldest = self.users.iter().min_by_key(|(_, login)| login.used_ns);
            if let Some(token) = oldest.map(|(token, _)| *token) {
                self.users.remove(&token);
            }
        }
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        let token = uuid::Builder::from_random_bytes(bytes).into_uuid();
        self.users.insert(
            token,
            Login {
                user,
                used_ns: now_ns,
            },
        );
        token.to_string()
    }

    /// Whose token it is, which lives on from now.
    pub fn user(&mut self, token: &str, now_ns: u64) -> Option<Arc<str>> {
        let token = Uuid::try_parse(token).ok()?;
        let login = self.users.get_mut(&token)?;
        if login.is_over(now_ns) {
            self.users.remove(&token);
            return None;
        }
        login.used_ns = now_ns;
        Some(login.user.clone())
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

    #[test]
    fn a_token_lives_while_it_is_used_and_all_of_them_are_bounded() {
        let random = SeededRandom::new(1);
        let life_ns = TOKEN_LIFE.as_nanos() as u64;
        let mut tokens = Tokens::default();
        let token = tokens.issue("a".into(), &random, 0);
        assert_eq!(tokens.user(&token, life_ns).as_deref(), Some("a"));
        assert_eq!(tokens.user(&token, 2 * life_ns).as_deref(), Some("a"));
        assert_eq!(tokens.user(&token, 3 * life_ns + 1), None);
        assert_eq!(tokens.user("a", 0), None);
        let first = tokens.issue("b".into(), &random, 10);
        for _ in 0..TOKENS_MAX {
            tokens.issue("c".into(), &random, 11);
        }
        assert_eq!((tokens.users.len(), tokens.user(&first, 11)), (TOKENS_MAX, None));
    }
}
