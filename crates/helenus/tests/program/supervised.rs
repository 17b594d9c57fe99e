//! Nodes that somebody else has started and looks after: a service manager, or a script that goes on once they are ready.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;

use helenus_protocol::{Opcode, ProtocolVersion};
use helenus_test_service::{Client, PATIENCE, Reply};

use crate::node::{Folder, Program, address_behind, any_ports, command};

/// Variable by which service managers name their socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

fn heard(manager: &UnixDatagram) -> String {
    let mut message = [0; 256];
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let count = manager.recv(&mut message).expect("a message");
    String::from_utf8(message[..count].to_vec()).unwrap()
}

#[test]
fn a_service_manager_hears_that_a_node_is_ready_which_process_took_its_place_and_that_it_stops() {
    let folder = Folder::new("service-manager");
    let (socket, data) = (folder.0.join("notify"), folder.0.join("data"));
    let manager = UnixDatagram::bind(&socket).unwrap();
    let first = Program::start_by(command(&data, any_ports(), &[]).env(SOCKET_VARIABLE, &socket));
    assert_eq!(heard(&manager), "READY=1");

    // Nobody hears what this one says: it is named all the same.
    let second = Program::start(&data, first.addresses(), &["--replace"]);
    assert_eq!(heard(&manager), format!("MAINPID={}", second.id()));
    first.end();

    let third =
        Program::start_by(command(&data, second.addresses(), &["--replace"]).env(SOCKET_VARIABLE, &socket));
    assert_eq!(heard(&manager), "READY=1");
    second.end();
    third.terminate();
    assert_eq!(heard(&manager), "STOPPING=1");
    third.end();
}

#[test]
fn a_manager_may_have_an_abstract_name() {
    let folder = Folder::new("abstract-manager");
    let name = format!("helenus-manager-{}", std::process::id());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let _node =
        Program::start_by(command(&folder.0, any_ports(), &[]).env(SOCKET_VARIABLE, format!("@{name}")));
    assert_eq!(heard(&manager), "READY=1");
}

/// Started without a word to its manager, it would be ended a minute later, and nobody would know why.
#[test]
fn a_node_whose_manager_is_not_there_does_not_start() {
    let folder = Folder::new("no-manager");
    let socket = folder.0.join("notify");
    let ended = command(&folder.0, any_ports(), &[])
        .env(SOCKET_VARIABLE, &socket)
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success());
    assert!(said.contains(SOCKET_VARIABLE), "{said}");
}

#[test]
fn a_detached_node_serves_once_its_command_has_ended_and_may_be_replaced_by_another() {
    let folder = Folder::new("detached");
    let first = Detached::start(&mut command(&folder.0, any_ports(), &["--detach"]));
    let addresses = ["cql ", "metrics ", "http and grpc "].map(|name| address_behind(&first.said, name));
    let mut client = Client::open(addresses[0], ProtocolVersion::V4);
    let second = Detached::start(&mut command(&folder.0, addresses, &["--detach", "--replace"]));
    assert_ne!(first.process, second.process);
    // By the connection that the first process has accepted.
    let reply = client.ask("SELECT key FROM system.local");
    assert_eq!(reply, Reply::Message(Opcode::Result));
}

#[test]
fn a_detached_node_that_cannot_start_says_why_and_fails() {
    let folder = Folder::new("not-detached");
    let running = Program::start(&folder.0, any_ports(), &[]);
    let ended = command(&folder.0, any_ports(), &["--detach"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success());
    assert!(said.contains(&*folder.0.to_string_lossy()), "{said}");
    assert!(ended.stdout.is_empty());
    drop(running);
}

/// A node that its command has left running. Killed by its drop.
struct Detached {
    said: String,
    process: String,
}

impl Detached {
    fn start(command: &mut Command) -> Detached {
        let ended = command.stderr(std::process::Stdio::inherit()).output().unwrap();
        assert!(ended.status.success());
        let said = String::from_utf8(ended.stdout).unwrap();
        let (_, process) = said.trim_end().rsplit_once("process ").expect("a process");
        let process = process.to_owned();
        Detached { said, process }
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        // One that was replaced has ended.
        let _ended_already = Command::new("kill").args(["-KILL", &self.process]).output();
    }
}
