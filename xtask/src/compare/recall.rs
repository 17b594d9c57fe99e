//! `cargo xtask compare recall`: how much a graph of vectors finds, and how fast, by how wide it is searched; with a chart.

use std::process::Command;

use helenus_loadgen::chart::{Chart, Line, side_by_side};
use serde_json::Value;

use super::{files, programs};
use crate::{TaskError, process, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// Vectors of a graph; several for a curve of each
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    vectors: Vec<u32>,
    /// Components of each
    #[arg(long, default_value_t = 128)]
    dimension: u32,
}

const REPORT: &str = "docs/measurements/recall.md";
const PICTURE: &str = "docs/measurements/recall.svg";

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let dimension = arguments.dimension.to_string();
    let mut curves = Vec::new();
    for count in &arguments.vectors {
        eprintln!("{count} vectors");
        let mut command = Command::new(workspace::program("helenus-perf"));
        command.args(["recall", "--json", "--dimension", &dimension]);
        command.args(["--count", &count.to_string()]);
        curves.push((*count, files::parse(&process::run_quietly(&mut command)?)?));
    }
    let lines = curves.iter().map(|(count, report)| {
        let points = beams(report).map(|beam| (number(beam, "recall"), number(beam, "queries_per_s")));
        Line::new(format!("{count} vectors"), points.collect())
    });
    let chart = Chart {
        title: format!("Graphs of vectors of {dimension} components"),
        x_label: "recall@10".to_owned(),
        y_label: "queries/s of one thread".to_owned(),
        lines: lines.collect(),
        has_log_x: false,
        has_log_y: true,
    };
    files::publish(PICTURE, &side_by_side(&[vec![chart]]))?;
    files::publish(REPORT, &render(arguments, &curves))
}

fn beams(report: &Value) -> impl Iterator<Item = &Value> {
    report["beams"].as_array().into_iter().flatten()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_default()
}

fn render(arguments: &Arguments, curves: &[(u32, Value)]) -> String {
    let counts: Vec<String> = arguments.vectors.iter().map(u32::to_string).collect();
    let mut text = format!(
        "# How much a graph of vectors finds\n\n\
         `cargo xtask compare recall --vectors {} --dimension {}`: the graph alone, on one thread (`helenus-perf recall`), vectors of\n\
         `helenus_vector::sample` (1,000 clusters), euclidean, 500 queries one after the other, of what is found 24 compared whole for ten. 96 is the\n\
         beam of an index that says nothing else.\n\n![recall](recall.svg)\n\n\
         | vectors | linked/s | bytes of graph each | beam | recall@10 | queries/s |\n|---|---|---|---|---|---|\n",
        counts.join(","),
        arguments.dimension
    );
    for (count, report) in curves {
        for beam in beams(report) {
            text.push_str(&format!(
                "| {count} | {:.0} | {:.0} | {} | {:.4} | {:.0} |\n",
                number(report, "linked_per_s"),
                number(report, "graph_bytes_per_vector"),
                number(beam, "beam"),
                number(beam, "recall"),
                number(beam, "queries_per_s")
            ));
        }
    }
    text
}
