//! The terminal: the page drawn over the last one, until `q`.

use std::io::{self, Stdout};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::ExecutableCommand;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

pub struct LiveScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl LiveScreen {
    pub fn start() -> io::Result<Self> {
        enable_raw_mode()?;
        let terminal = io::stdout()
            .execute(EnterAlternateScreen)
            .map(|_| ())
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        if terminal.is_err() {
            restore();
        }
        Ok(LiveScreen { terminal: terminal? })
    }

    /// Headings, the lines that follow an empty one, are bold.
    pub fn draw(&mut self, lines: &[String]) {
        let mut is_heading = true;
        let text: Vec<Line<'_>> = lines
            .iter()
            .map(|line| {
                let style = match is_heading {
                    true => Style::default().add_modifier(Modifier::BOLD),
                    false => Style::default(),
                };
                is_heading = line.is_empty();
                Line::styled(line.as_str(), style)
            })
            .collect();
        // A page that cannot be drawn is followed by the next.
        let _drawn = self
            .terminal
            .draw(|frame| frame.render_widget(Paragraph::new(Text::from(text)), frame.area()));
    }

    /// Returns whether `q`, Escape or Ctrl-C was pressed since the last page.
    pub fn is_quit(&self) -> bool {
        while event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(key)) = event::read() else {
                continue;
            };
            let is_interrupt =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return true;
            }
        }
        false
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // The terminal may be gone; there is nobody left to tell.
    let _left = io::stdout().execute(LeaveAlternateScreen);
    let _restored = disable_raw_mode();
}
