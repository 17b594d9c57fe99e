//! A proxy between a session and a server that does to the server's answers what a rule says.
//!
//! It understands v4 envelopes: 9 bytes of header, then the body. Handshakes pass untouched, so that a rule is about
//! requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Pass,
    /// Answers are swallowed.
    NeverAnswer,
    /// Answers arrive a byte at a time, too slowly for any deadline.
    Trickle,
    /// Bytes that are no envelope.
    Garbage,
    /// Half an answer, then the end of the connection.
    CloseMidFrame,
    /// An answer to a stream that has no request.
    WrongStream,
    /// A length beyond any message.
    LieAboutLength,
    /// A version that is not the connection's.
    WrongVersion,
    /// A body that ends before what it announces.
    ShortBody,
    /// Results are exchanged for an OVERLOADED error with these words.
    Overloaded(&'static str),
}

pub struct FaultProxy {
    pub address: SocketAddr,
    rule: watch::Sender<Rule>,
    /// Answers that a rule was applied to.
    applied: Arc<AtomicU64>,
}

/// Behaviour of a proxy on every connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// Its SUPPORTED names none of Helenus' own options, as another server's.
    pub hides_helenus: bool,
    /// It knows no event but the specification's, and leaves a registration for another unanswered.
    pub swallows_disconnects: bool,
}

/// Opcodes of the answers to requests; handshakes have others.
const RESULT: u8 = 0x08;
const ERROR: u8 = 0x00;
const SUPPORTED: u8 = 0x06;
const REGISTER: u8 = 0x0B;
const OVERLOADED: u32 = 0x1001;

impl FaultProxy {
    pub async fn start(server: SocketAddr) -> FaultProxy {
        Self::start_with(server, Habits::default()).await
    }

    pub async fn start_with(server: SocketAddr, habits: Habits) -> FaultProxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (rule, rules) = watch::channel(Rule::Pass);
        let applied = Arc::new(AtomicU64::new(0));
        let counter = applied.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else {
                    return;
                };
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = server.into_split();
                tokio::spawn(forward(client_read, server_write, habits));
                tokio::spawn(answer(
                    server_read,
                    client_write,
                    rules.clone(),
                    counter.clone(),
                    habits,
                ));
            }
        });
        FaultProxy {
            address,
            rule,
            applied,
        }
    }

    pub fn set(&self, rule: Rule) {
        self.rule.send_replace(rule);
    }

    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, habits: Habits) {
    while let Ok(envelope) = read_envelope(&mut from).await {
        let is_unknown = envelope[4] == REGISTER && find(&envelope, b"GRACEFUL_DISCONNECT").is_some();
        if !(is_unknown && habits.swallows_disconnects) && to.write_all(&envelope).await.is_err() {
            return;
        }
    }
}

async fn read_envelope(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut envelope = vec![0; 9];
    from.read_exact(&mut envelope).await?;
    let length = u32::from_be_bytes([envelope[5], envelope[6], envelope[7], envelope[8]]) as usize;
    envelope.resize(9 + length, 0);
    from.read_exact(&mut envelope[9..]).await?;
    Ok(envelope)
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    rules: watch::Receiver<Rule>,
    applied: Arc<AtomicU64>,
    habits: Habits,
) {
    while pass_one(&mut from, &mut to, &rules, &applied, habits)
        .await
        .is_ok()
    {}
}

async fn pass_one(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    rules: &watch::Receiver<Rule>,
    applied: &AtomicU64,
    habits: Habits,
) -> io::Result<()> {
    let mut envelope = read_envelope(from).await?;
    if envelope[4] == SUPPORTED && habits.hides_helenus {
        while let Some(at) = find(&envelope, b"HELENUS_") {
            envelope[at] = b'X';
        }
    }
    let rule = if envelope[4] == RESULT {
        *rules.borrow()
    } else {
        Rule::Pass
    };
    if rule != Rule::Pass {
        applied.fetch_add(1, Ordering::Relaxed);
    }
    match rule {
        Rule::Pass => {}
        Rule::NeverAnswer => return Ok(()),
        Rule::Trickle => {
            for byte in envelope {
                to.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            return Ok(());
        }
        Rule::Garbage => envelope.fill(0xEE),
        Rule::CloseMidFrame => {
            to.write_all(&envelope[..envelope.len() / 2]).await?;
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Rule::WrongStream => envelope[2..4].copy_from_slice(&0x7abc_u16.to_be_bytes()),
        Rule::LieAboutLength => envelope[5..9].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes()),
        Rule::WrongVersion => envelope[0] = 0x83,
        Rule::ShortBody => {
            envelope.truncate(9 + 6);
            envelope[5..9].copy_from_slice(&6_u32.to_be_bytes());
        }
        Rule::Overloaded(words) => {
            envelope.truncate(9);
            envelope[4] = ERROR;
            envelope.extend(OVERLOADED.to_be_bytes());
            envelope.extend((words.len() as u16).to_be_bytes());
            envelope.extend(words.as_bytes());
            let length = envelope.len() as u32 - 9;
            envelope[5..9].copy_from_slice(&length.to_be_bytes());
        }
    }
    to.write_all(&envelope).await
}
