//! Boxes with a title, bars and columns of numbers, as lines.

use crate::line::{Line, Style};

/// Heights that one character can have, in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a frame with a title around lines, `width` columns by `height` rows in all; what does not fit is cut.
pub fn boxed(title: &str, lines: Vec<Line>, width: usize, height: usize) -> Vec<Line> {
    let inside = width.saturating_sub(2);
    let title: String = title.chars().take(inside).collect();
    let rule = "─".repeat(inside - title.chars().count());
    let mut lines = lines.into_iter();
    let rows = (0..height.saturating_sub(2)).map(|_| {
        let line = lines.next().unwrap_or_default().fitted(inside);
        Line::plain("│").then(line).then(Line::plain("│"))
    });
    let mut all = vec![Line::plain(format!("┌{title}{rule}┐"))];
    all.extend(rows);
    all.push(Line::plain(format!("└{}┘", "─".repeat(inside))));
    all
}

/// Puts lines of the same number beside each other.
pub fn beside(left: Vec<Line>, right: Vec<Line>) -> Vec<Line> {
    left.into_iter()
        .zip(right)
        .map(|(left, right)| left.then(right))
        .collect()
}

/// Draws a bar that is full by a share from 0 to 1, with the share in per cent behind it.
pub fn gauge(share: f64, width: usize) -> Line {
    let share = share.clamp(0.0, 1.0);
    let bar = width.saturating_sub(" 100 %".len());
    let full = (share * bar as f64).round() as usize;
    Line::new(Style::Blue, "█".repeat(full))
        .then(Line::plain("░".repeat(bar - full)))
        .then(Line::plain(format!(" {:>3.0} %", share * 100.0)))
}

/// Draws the last values as columns of at most `height` rows, the highest as high as that.
pub fn columns(values: &[u64], style: Style, width: usize, height: usize) -> Vec<Line> {
    let shown = &values[values.len().saturating_sub(width)..];
    let highest = shown.iter().copied().max().unwrap_or(0).max(1);
    let eighths = |value: u64| (u128::from(value) * 8 * height as u128 / u128::from(highest)) as usize;
    (0..height)
        .rev()
        .map(|row| {
            let cells = shown
                .iter()
                .map(|value| EIGHTHS[eighths(*value).saturating_sub(8 * row).min(8)]);
            Line::new(style, cells.collect::<String>())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn a_box_has_its_size_whatever_is_in_it() {
        let lines = vec![Line::plain("first and more"), Line::plain("b")];
        assert_eq!(
            texts(&boxed(" p99 ", lines, 10, 5)),
            [
                "┌ p99 ───┐",
                "│first an│",
                "│b       │",
                "│        │",
                "└────────┘"
            ]
        );
        assert_eq!(texts(&boxed("a title", Vec::new(), 4, 2)), ["┌a ┐", "└──┘"]);
        assert_eq!(texts(&boxed("a title", Vec::new(), 0, 0)), ["┌┐", "└┘"]);
    }

    #[test]
    fn columns_show_the_newest_values() {
        let values = [9, 0, 4, 8, u64::MAX / 2, u64::MAX];
        assert_eq!(texts(&columns(&values[..4], Style::Blue, 3, 2)), ["  █", " ██"]);
        assert_eq!(texts(&columns(&values, Style::Red, 2, 2)), [" █", "▇█"]);
        assert_eq!(texts(&columns(&[], Style::Red, 2, 1)), [""]);
    }

    #[test]
    fn a_gauge_is_full_at_the_end() {
        let at = |share| gauge(share, 10).text();
        assert_eq!(
            [at(0.0), at(0.5), at(2.0)],
            ["░░░░   0 %", "██░░  50 %", "████ 100 %"]
        );
    }
}
