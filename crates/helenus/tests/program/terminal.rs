//! Commands that draw on their terminal, which a pseudo-terminal is here.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::node::{Folder, Program, any_ports};

/// Enough for a busy machine to start a process and have it draw.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

const WHOLE: &str = "\x1b[?1049h";
const NOT_WHOLE: &str = "\x1b[?1049l";

/// A terminal with a command on it.
struct Terminal {
    keyboard: File,
    /// Kept open, so that the modes can be looked at once the command has ended.
    commands_end: OwnedFd,
    pieces: Receiver<Vec<u8>>,
    shown: String,
    process: Child,
}

impl Terminal {
    fn run(arguments: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let commands_end = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize {
            ws_row: 30,
            ws_col: 90,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&commands_end, size).unwrap();
        let end = || Stdio::from(commands_end.try_clone().unwrap());
        let process = Command::new(env!("CARGO_BIN_EXE_helenus"))
            .args(arguments)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let keyboard = File::from(ours);
        let mut screen = keyboard.try_clone().unwrap();
        let (sender, pieces) = channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read) = screen.read(&mut piece) {
                if read == 0 || sender.send(piece[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal {
            keyboard,
            commands_end,
            pieces,
            shown: String::new(),
            process,
        }
    }

    fn wait_for(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let piece = self.pieces.recv_timeout(SHOWN_WITHIN);
            let piece = piece.unwrap_or_else(|_| panic!("{text:?} is not in {:?}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    /// True while keys reach the command one by one, unseen.
    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.commands_end).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn end(&mut self, key: &[u8], last: &str) -> ExitStatus {
        self.keyboard.write_all(key).unwrap();
        self.wait_for(last);
        self.process.wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _ended = self.process.wait();
    }
}

#[test]
fn top_shows_pages_instead_of_the_terminal_and_gives_it_back() {
    let folder = Folder::new("top");
    let node = Program::start(&folder.0, any_ports(), &["--shards", "1"]);
    let address = node.cql.to_string();
    for key in [&b"q"[..], b"\x03"] {
        let mut terminal = Terminal::run(&["top", &address, "--interval", "0.1"]);
        assert!(!terminal.is_raw());
        terminal.wait_for("requests/s");
        assert!(terminal.is_raw());
        assert!(terminal.shown.starts_with(WHOLE), "{:?}", terminal.shown);
        assert!(terminal.end(key, NOT_WHOLE).success());
        assert!(!terminal.is_raw());
    }
}

#[test]
fn a_load_is_drawn_below_the_command_until_q_ends_it() {
    let folder = Folder::new("load");
    let node = Program::start(&folder.0, any_ports(), &["--shards", "1"]);
    let address = node.cql.to_string();
    let mut terminal = Terminal::run(&[
        "bench",
        "run",
        "--hosts",
        &address,
        "--keys",
        "100",
        "--concurrency",
        "2",
        "--warm-up",
        "0s",
        "--duration",
        "1h",
    ]);
    terminal.wait_for("throughput");
    terminal.wait_for("p99.9");
    assert!(terminal.is_raw());
    assert!(!terminal.shown.contains(WHOLE));
    assert!(terminal.end(b"q", "ops/s").success(), "{}", terminal.shown);
    assert!(!terminal.is_raw());
}
