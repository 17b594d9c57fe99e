//! Attacks on the way in.

use std::time::Duration;

use helenus_protocol::{Opcode, ProtocolVersion};

use super::Attack;
use crate::wire::Client;

pub const WRONG_PASSWORDS: Attack = Attack {
    name: "wrong-passwords",
    about: "logins with wrong passwords, from eight threads",
    run: |arena, progress| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0.. {
                        if !progress.goes_on() {
                            return;
                        }
                        let password = format!("wrong {thread} {round}");
                        let account = Some(("cassandra", password.as_str()));
                        let _refused = Client::connect_as(arena.address, ProtocolVersion::V4, account);
                        progress.attempted();
                    }
                });
            }
        });
    },
};

pub const DEAR_HASHES: Attack = Attack {
    name: "dear-hashes",
    about: "a role whose password takes 40 hours to check, and a login as it",
    run: |arena, progress| {
        if let Ok(mut client) = arena.connect() {
            let hash = format!("$2a$31${}", "a".repeat(53));
            let _refused = client.query(&format!(
                "CREATE ROLE IF NOT EXISTS dear WITH HASHED PASSWORD = '{hash}' AND LOGIN = true"
            ));
        }
        while progress.goes_on() {
            let stream = Client::connect_as(arena.address, ProtocolVersion::V4, None);
            if let Ok(mut client) = stream {
                let _sent = client.send(Opcode::AuthResponse, b"\0dear\0password");
                progress.attempted();
                progress.rest(Duration::from_millis(50));
            }
        }
    },
};

pub const GARBAGE: Attack = Attack {
    name: "garbage-logins",
    about: "tokens that are no SASL, and no token at all",
    run: |arena, progress| {
        let tokens: [&[u8]; 4] = [b"", b"\0\0\0\0\0\0", &[0xff; 4_000], b"no zero"];
        while progress.goes_on() {
            for token in tokens {
                if let Ok(mut client) = Client::connect_as(arena.address, ProtocolVersion::V4, None) {
                    let mut body = (token.len() as i32).to_be_bytes().to_vec();
                    body.extend(token);
                    let sent = client.send(Opcode::AuthResponse, &body);
                    let _closed = sent.and_then(|()| client.answer());
                    progress.attempted();
                }
            }
        }
    },
};
