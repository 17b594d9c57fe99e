//! The terminal itself: raw mode, size, drawing.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::keys::has_quit;
use crate::line::Line;

/// Bytes typed between two looks that are read at once; more waits for the next look.
const TYPED_BYTES_MAX: usize = 256;

/// Where a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On standard output, instead of all that the terminal shows, which is back afterwards.
    Whole,
    /// On standard error, below what was printed, and left there.
    Inline,
}

impl Place {
    fn write(self, text: &str) -> io::Result<()> {
        match self {
            Place::Whole => write_all(io::stdout().lock(), text),
            Place::Inline => write_all(io::stderr().lock(), text),
        }
    }
}

fn write_all(mut out: impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A terminal in raw mode; it is as before once this is dropped.
pub struct Screen {
    place: Place,
    keyboard: Keyboard,
    before: Termios,
    /// Rows of the last page, inline.
    rows_drawn: usize,
}

/// Where keys come from: standard input, or the process's terminal where that is a pipe.
enum Keyboard {
    Standard(io::Stdin),
    Terminal(File),
}

impl AsFd for Keyboard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Keyboard::Standard(input) => input.as_fd(),
            Keyboard::Terminal(file) => file.as_fd(),
        }
    }
}

impl Screen {
    /// # Errors
    ///
    /// The process has no terminal, or may not change it.
    pub fn start(place: Place) -> io::Result<Self> {
        let keyboard = match io::stdin() {
            input if input.is_terminal() => Keyboard::Standard(input),
            _ => Keyboard::Terminal(File::open("/dev/tty")?),
        };
        let before = tcgetattr(&keyboard)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&keyboard, OptionalActions::Now, &raw)?;
        let screen = Screen {
            place,
            keyboard,
            before,
            rows_drawn: 0,
        };
        // Once it can be undone.
        screen.place.write(match place {
            Place::Whole => "\x1b[?1049h\x1b[?25l",
            Place::Inline => "\x1b[?25l",
        })?;
        Ok(screen)
    }

    /// Columns and rows, as far as the terminal says: else those of the first ones.
    pub fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(&self.keyboard).map(|size| (size.ws_col, size.ws_row));
        match size {
            Ok((columns, rows)) if columns > 0 && rows > 0 => (usize::from(columns), usize::from(rows)),
            _ => (80, 24),
        }
    }

    /// Draws a page over the last one; what does not fit the terminal is cut. A page that cannot be drawn is followed by the next.
    pub fn draw(&mut self, lines: Vec<Line>) {
        let (columns, rows) = self.size();
        let lines: Vec<Line> = lines.into_iter().take(rows).collect();
        let mut out = match (self.place, self.rows_drawn) {
            (Place::Whole, _) => "\x1b[H".to_owned(),
            (Place::Inline, 0 | 1) => "\r".to_owned(),
            (Place::Inline, drawn) => format!("\r\x1b[{}A", drawn - 1),
        };
        self.rows_drawn = lines.len();
        for (row, line) in lines.into_iter().enumerate() {
            if row > 0 {
                out.push_str("\r\n");
            }
            let width = line.width().min(columns);
            line.fitted(width).render(&mut out);
            out.push_str("\x1b[K");
        }
        out.push_str("\x1b[J");
        let _drawn = self.place.write(&out);
    }

    /// Returns whether `q`, Escape or Ctrl-C was typed since the last call. Does not wait.
    pub fn is_quit(&mut self) -> bool {
        let mut keys = [PollFd::new(&self.keyboard, PollFlags::IN)];
        if !matches!(poll(&mut keys, 0), Ok(1..)) {
            return false;
        }
        let mut typed = [0; TYPED_BYTES_MAX];
        let read = rustix::io::read(&self.keyboard, &mut typed).unwrap_or(0);
        has_quit(&typed[..read])
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone; there is nobody left to tell.
        let _left = self.place.write(match self.place {
            Place::Whole => "\x1b[?25h\x1b[?1049l",
            Place::Inline => "\x1b[?25h\r\n",
        });
        let _restored = tcsetattr(&self.keyboard, OptionalActions::Now, &self.before);
    }
}
