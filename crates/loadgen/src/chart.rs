//! Line charts as SVG: no scripts, no fonts, no network.

use std::fmt::Write as _;

/// A chart of one or more lines over a common axis.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub lines: Vec<Line>,
    /// Both axes in powers of ten; points at or below zero are left out.
    pub has_log_x: bool,
    pub has_log_y: bool,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub is_dashed: bool,
}

impl Line {
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Line {
            name: name.into(),
            points,
            is_dashed: false,
        }
    }
}

/// Colours that colour-blind readers tell apart (Okabe and Ito).
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
];

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 78.0;

/// The legend below the axis: its first row, the next ones, and what a name takes with its dash, its characters and the gap
/// behind it. Two rows fit.
const LEGEND_FROM: f64 = 50.0;
const LEGEND_ROW: f64 = 16.0;
const LEGEND_DASH: f64 = 23.0;
const LEGEND_CHARACTER: f64 = 6.2;
const LEGEND_GAP: f64 = 17.0;

/// One axis: from values to pixels.
struct Axis {
    from: f64,
    to: f64,
    is_log: bool,
    pixel_from: f64,
    pixel_to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, is_log: bool, pixels: (f64, f64)) -> Axis {
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (!is_log || *value > 0.0)) {
            from = from.min(value);
            to = to.max(value);
        }
        if from > to {
            (from, to) = (1.0, 10.0);
        }
        if is_log {
            from = 10_f64.powf(from.log10().floor());
            to = 10_f64.powf(to.log10().ceil());
            if from >= to {
                to = from * 10.0;
            }
        } else {
            from = from.min(0.0);
            to = if to > from { to * 1.05 } else { from + 1.0 };
        }
        Axis {
            from,
            to,
            is_log,
            pixel_from: pixels.0,
            pixel_to: pixels.1,
        }
    }

    fn pixel(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.is_log && value <= 0.0) {
            return None;
        }
        let scale = |value: f64| if self.is_log { value.log10() } else { value };
        let share = (scale(value) - scale(self.from)) / (scale(self.to) - scale(self.from));
        Some(self.pixel_from + share * (self.pixel_to - self.pixel_from))
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let decades = (self.to.log10() - self.from.log10()).round() as i32;
            return (0..=decades).map(|step| self.from * 10_f64.powi(step)).collect();
        }
        let raw = (self.to - self.from) / 5.0;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= raw)
            .unwrap_or(raw);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

impl Chart {
    pub fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::over(
            points().map(|point| point.0),
            self.has_log_x,
            (LEFT, WIDTH - RIGHT),
        );
        let y = Axis::over(
            points().map(|point| point.1),
            self.has_log_y,
            (HEIGHT - BOTTOM, TOP),
        );
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        self.write_axes(&mut svg, &x, &y);
        for (index, line) in self.lines.iter().enumerate() {
            write_line(&mut svg, line, COLOURS[index % COLOURS.len()], &x, &y);
        }
        self.write_legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn write_axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.ticks() {
            let Some(at) = y.pixel(tick) else { continue };
            let _infallible = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                short_number(tick)
            );
        }
        for tick in x.ticks() {
            let Some(at) = x.pixel(tick) else { continue };
            let _infallible = writeln!(
                svg,
                "<line x1=\"{at:.1}\" y1=\"{bottom}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#888\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 17.0,
                short_number(tick)
            );
        }
        let _infallible = writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\n\
             <text x=\"{LEFT}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{}</text>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(&self.title),
            f64::midpoint(LEFT, right),
            bottom + 34.0,
            escaped(&self.x_label),
            f64::midpoint(TOP, bottom),
            escaped(&self.y_label)
        );
    }

    fn write_legend(&self, svg: &mut String) {
        for (index, (line, (at, row))) in self.lines.iter().zip(self.legend_places()).enumerate() {
            let y = HEIGHT - BOTTOM + LEGEND_FROM + LEGEND_ROW * f64::from(row);
            let dash = if line.is_dashed {
                " stroke-dasharray=\"5 4\""
            } else {
                ""
            };
            let _infallible = writeln!(
                svg,
                "<line x1=\"{at:.1}\" y1=\"{y}\" x2=\"{:.1}\" y2=\"{y}\" stroke=\"{}\" stroke-width=\"2\"{dash}/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                at + 18.0,
                COLOURS[index % COLOURS.len()],
                at + LEGEND_DASH,
                y + 4.0,
                escaped(&line.name)
            );
        }
    }

    /// Where the names of the lines begin, and in which row: a name that would reach out of the chart begins another one.
    fn legend_places(&self) -> Vec<(f64, u32)> {
        let (mut at, mut row) = (LEFT, 0);
        let place = |line: &Line| {
            let text = LEGEND_CHARACTER * line.name.chars().count() as f64;
            if at > LEFT && at + LEGEND_DASH + text > WIDTH {
                (at, row) = (LEFT, row + 1);
            }
            let place = (at, row);
            at += LEGEND_DASH + text + LEGEND_GAP;
            place
        };
        self.lines.iter().map(place).collect()
    }
}

fn write_line(svg: &mut String, line: &Line, colour: &str, x: &Axis, y: &Axis) {
    let mut path = String::new();
    for (at_x, at_y) in &line.points {
        let (Some(at_x), Some(at_y)) = (x.pixel(*at_x), y.pixel(*at_y)) else {
            continue;
        };
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _infallible = write!(path, "{command}{at_x:.1} {at_y:.1}");
    }
    let dash = if line.is_dashed {
        " stroke-dasharray=\"5 4\""
    } else {
        ""
    };
    let _infallible = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"{dash}/>"
    );
}

/// One SVG of rows of charts.
pub fn side_by_side(rows: &[Vec<Chart>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\">\n",
        columns as f64 * WIDTH,
        rows.len().max(1) as f64 * HEIGHT
    );
    for (row, charts) in rows.iter().enumerate() {
        for (column, chart) in charts.iter().enumerate() {
            let _infallible = writeln!(
                svg,
                "<g transform=\"translate({} {})\">\n{}</g>",
                column as f64 * WIDTH,
                row as f64 * HEIGHT,
                chart.to_svg()
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// 1500 as `1.5k`.
pub fn short_number(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        size if size >= 1e9 => (number / 1e9, "G"),
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e3 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{scaled:.digits$}");
    let trimmed = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{trimmed}{unit}")
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_whole_whatever_its_points() {
        for points in [
            vec![],
            vec![(0.0, 0.0)],
            vec![(1.0, f64::NAN), (2.0, f64::INFINITY)],
            vec![(1.0, 5.0), (2.0, -3.0), (1000.0, 1e12)],
        ] {
            for is_log in [false, true] {
                let chart = Chart {
                    title: "a < b".to_owned(),
                    lines: vec![Line::new("line & more", points.clone())],
                    has_log_x: is_log,
                    has_log_y: is_log,
                    ..Chart::default()
                };
                let svg = chart.to_svg();
                assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("a &lt; b") && svg.contains("line &amp; more"));
            }
        }
    }

    /// The charts of what was not in time named half of their lines beyond the right edge.
    #[test]
    fn names_that_do_not_fit_are_in_a_second_row() {
        let names = [
            "Helenus, refused",
            "Helenus without admission, refused",
            "Cassandra 5.0, refused",
            "Helenus, late or unsent",
            "Helenus without admission, late or unsent",
            "Cassandra 5.0, late or unsent",
        ];
        let chart = Chart {
            lines: names.map(|name| Line::new(name, Vec::new())).into(),
            ..Chart::default()
        };
        let places = chart.legend_places();
        assert_eq!(
            places.iter().map(|place| place.1).collect::<Vec<_>>(),
            [0, 0, 0, 1, 1, 1]
        );
        assert!(places[1].0 > places[0].0 && places[3].0 == LEFT);
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.5, 10.0, 950.0, 1500.0, 123_456.0, 2e6];
        let short = numbers.map(short_number);
        assert_eq!(short, ["0", "0.5", "10", "950", "1.5k", "123k", "2M"]);
    }
}
