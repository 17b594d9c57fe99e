//! Doors to a node in memory, and a client of HTTP/1.1 that says exactly what it is told to.
#![allow(dead_code, reason = "each test uses some of it")]

pub mod frames;
pub mod grpc;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helenus_doors::{DoorOptions, Doors, Operation, Operations};
use helenus_node::{Authenticator, Handle, Node, NodeOptions, Operator};
use helenus_tools::control::{Request, execute};
use helenus_vfs::{Clock, ManualClock, MemoryDisk};
use serde_json::Value;

/// How long a test waits for what has to come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A node with doors; dropping it stops both.
pub struct Served {
    pub address: SocketAddr,
    pub node: Handle,
    doors: Option<Doors>,
    running: Option<Node>,
}

/// Settings that differ between tests.
#[derive(Clone, Default)]
pub struct Serving {
    pub asks_for_passwords: bool,
    pub is_read_only: bool,
    pub serves_tests: bool,
    /// The node has files, on a simulated disk; else all of it is in memory.
    pub keeps_files: bool,
    /// As if all places of operations were taken.
    pub is_busy: bool,
    /// 1 GiB if it is not said.
    pub node_memory_bytes: Option<u64>,
    /// As if there was no pool of buffers.
    pub lacks_buffer_pool: bool,
    /// The doors' clock; the machine's if there is none.
    pub clock: Option<Arc<ManualClock>>,
}

struct NodeOperations {
    operator: Operator,
    is_busy: bool,
}

impl Operations for NodeOperations {
    fn begin(&self, request: Request) -> Result<Operation, String> {
        if self.is_busy {
            return Err("the node is busy".to_owned());
        }
        let operator = self.operator.clone();
        Ok(Box::new(move |progress| {
            execute(&operator, &request, progress).map_err(|error| error.to_string())
        }))
    }
}

impl Served {
    pub fn start() -> Self {
        Served::start_as(Serving::default())
    }

    pub fn start_as(serving: Serving) -> Self {
        let mut options = NodeOptions {
            in_memory: true,
            shard_count: 2,
            ..NodeOptions::new(PathBuf::new())
        };
        if serving.keeps_files {
            options.in_memory = false;
            options.disk = Arc::new(MemoryDisk::new());
            options.data_folder = PathBuf::from("/data");
        }
        if serving.asks_for_passwords {
            options.authenticator = Authenticator::Password;
        }
        let random = options.random.clone();
        let clock: Arc<dyn Clock> = match serving.clock {
            Some(clock) => clock,
            None => options.clock.clone(),
        };
        let running = Node::start(options, Arc::new(|_| {})).unwrap();
        let doors = Doors::open(DoorOptions {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            handed_over: helenus_doors::HandedOver::default(),
            node: running.handle(),
            node_memory_bytes: serving.node_memory_bytes.unwrap_or(1 << 30),
            asks_for_passwords: serving.asks_for_passwords,
            is_read_only: serving.is_read_only,
            serves_tests: serving.serves_tests,
            buffer_pool: !serving.lacks_buffer_pool,
            operations: Arc::new(NodeOperations {
                operator: running.operator(),
                is_busy: serving.is_busy,
            }),
            metrics: Arc::new(|| Box::pin(async { "up 1\n".to_owned() })),
            clock,
            random,
        })
        .unwrap();
        Served {
            address: doors.address,
            node: running.handle(),
            doors: Some(doors),
            running: Some(running),
        }
    }

    pub fn doors(&self) -> &Doors {
        self.doors.as_ref().unwrap()
    }

    /// A statement that must succeed.
    pub fn execute(&self, text: &str) {
        helenus_node::block_on(self.node.query(text, ())).unwrap();
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The request on a connection of its own.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.connect();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.address
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        // A server that has refused the head may not take the body.
        let _refused = stream.write_all(body.as_bytes());
        Answer::read(&mut stream)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[("Content-Type", "application/json")], body)
    }

    /// A statement through `/v1/query`, with the rest of the document.
    pub fn query(&self, text: &str, rest: &str) -> Answer {
        let text = serde_json::to_string(text).unwrap();
        self.post("/v1/query", &format!("{{\"query\":{text}{rest}}}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(doors) = self.doors.take() {
            doors.close();
        }
        if let Some(node) = self.running.take() {
            node.stop();
        }
    }
}

/// An answer of HTTP/1.1 on a connection that is closed after it.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // A connection that is reset has been refused; what came before that counts.
        let _reset = stream.read_to_end(&mut bytes);
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let at = at.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap().to_lowercase();
        let body = bytes.split_off(at + 4);
        let body = match head.contains("transfer-encoding: chunked") {
            true => unchunked(&body),
            false => body,
        };
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body,
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The data of chunks; what is cut short stays away.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(at) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        out.extend_from_slice(&bytes[at + 2..at + 2 + size]);
        bytes = &bytes[at + 2 + size + 2..];
    }
    out
}
