//! The rules, each with the reason that STYLE.md gives.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::Finding;
use super::exports::{self, Users};
use super::graph;
use super::sources::{SourceFile, Sources};
use crate::workspace;

pub struct Rule {
    pub name: &'static str,
    pub because: &'static str,
    pub check: fn(&Sources) -> Vec<Finding>,
}

pub const ALL: &[Rule] = &[
    Rule {
        name: "short functions",
        because: "a function of more than 70 lines does several things that deserve names",
        check: long_functions,
    },
    Rule {
        name: "short files",
        because: "a file of more than 600 lines holds more than one concept",
        check: long_files,
    },
    Rule {
        name: "reasons for unsafe",
        because: "above each unsafe a line SAFETY: says why it is sound",
        check: unsafes_without_reason,
    },
    Rule {
        name: "no printing in libraries",
        because: "whoever embeds the node decides what is printed: libraries report events",
        check: prints,
    },
    Rule {
        name: "clocks come in through traits",
        because: "a simulation owns time: only vfs asks the operating system for it",
        check: clocks,
    },
    Rule {
        name: "no circles of crates or modules",
        because: "what cannot be understood without each other is one thing, or lacks a third",
        check: circles,
    },
    Rule {
        name: "every crate in ARCHITECTURE.md",
        because: "a newcomer finds the room for a change in a minute",
        check: unnamed_crates,
    },
    Rule {
        name: "every configuration key in the documentation",
        because: "a key that nobody can look up is not there",
        check: undocumented_keys,
    },
    Rule {
        name: "no dead public items",
        because: "what no other crate, test or example uses is pub(crate), or gone",
        check: dead_exports,
    },
    Rule {
        name: "comments name things",
        because: "a summary line begins with a noun or a verb, so that a reader knows what it is of before what it does",
        check: nameless_summaries,
    },
    Rule {
        name: "every decision in the index, with its status",
        because: "whoever finds a record must see whether it still holds",
        check: unlisted_decisions,
    },
];

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// The crates that are programs, or what programs show people.
const PROGRAMS: [&str; 3] = ["helenus", "loadgen", "perf"];

/// The crates that have a time of their own: programs, whoever stands outside of a node, the operator's socket, and the clock.
const TIMEKEEPERS: [&str; 9] = [
    "helenus",
    "loadgen",
    "perf",
    "client",
    "server",
    "simulation",
    "statement-fuzz",
    "test-service",
    "vfs",
];

/// The crates whose modules know no circle.
const WITHOUT_CIRCLES: [&str; 4] = ["node", "transport", "sstable", "engine"];

fn long_functions(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, file) in sources.products() {
        for function in &file.items.functions {
            if function.lines > FUNCTION_LINES_MAX {
                findings.push(at(
                    file,
                    function.line,
                    format!("{} has {} lines", function.name, function.lines),
                ));
            }
        }
    }
    findings
}

fn long_files(sources: &Sources) -> Vec<Finding> {
    let files = sources.products().map(|(_, file)| file);
    let lines = |file: &SourceFile| product_lines(file);
    files
        .filter(|file| lines(file) > FILE_LINES_MAX)
        .map(|file| at(file, 1, format!("{} lines", lines(file))))
        .collect()
}

/// Without the tests at its end.
fn product_lines(file: &SourceFile) -> usize {
    let all = file.text.lines();
    all.take_while(|line| !line.starts_with("#[cfg(test)]")).count()
}

fn unsafes_without_reason(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.all() {
        let lines: Vec<&str> = file.text.lines().collect();
        for &line in &file.items.unsafes {
            if !has_reason(&lines, line) {
                findings.push(at(file, line, "unsafe without a SAFETY line above it".to_owned()));
            }
        }
    }
    findings
}

/// In the comment above the statement that the line is of.
fn has_reason(lines: &[&str], line: usize) -> bool {
    let above = lines[..line.saturating_sub(1)]
        .iter()
        .rev()
        .map(|line| line.trim());
    let mut comment = above
        .skip_while(|line| !line.starts_with("//") && !line.is_empty() && !line.ends_with(['{', ';', '}']))
        .take_while(|line| line.starts_with("//") || line.starts_with("#["));
    comment.any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}

fn prints(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, file) in sources.products() {
        if PROGRAMS.contains(&name) || file.is_program() {
            continue;
        }
        for (called, line) in &file.items.macros {
            if ["println", "eprintln", "print", "eprint", "dbg"].contains(&called.as_str()) {
                findings.push(at(file, *line, format!("{called}! in a library")));
            }
        }
    }
    findings
}

fn clocks(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, file) in sources.products().filter(|(name, _)| !TIMEKEEPERS.contains(name)) {
        for path in &file.items.paths {
            let ends: Vec<&str> = path.segments.iter().rev().take(2).map(String::as_str).collect();
            if let ["now", of @ ("Instant" | "SystemTime")] = ends[..] {
                findings.push(at(file, path.line, format!("{of}::now; ask the Clock")));
            }
        }
    }
    findings
}

fn circles(sources: &Sources) -> Vec<Finding> {
    let of_crates = graph::circles(&graph::crate_graph(sources));
    let mut findings: Vec<Finding> = of_crates
        .iter()
        .map(|circle| whole("Cargo.toml", format!("crates in a circle: {circle:?}")))
        .collect();
    for name in WITHOUT_CIRCLES {
        let Some(found) = sources.crates.get(name) else {
            findings.push(whole(
                "ARCHITECTURE.md",
                format!("there is no crate {name} to look for circles in"),
            ));
            continue;
        };
        for circle in graph::circles(&graph::module_graph(found)) {
            findings.push(whole(
                &format!("crates/{name}/src/lib.rs"),
                format!("modules in a circle: {circle:?}"),
            ));
        }
    }
    findings
}

fn unnamed_crates(sources: &Sources) -> Vec<Finding> {
    let text = fs::read_to_string(workspace::path("ARCHITECTURE.md")).unwrap_or_default();
    let is_named =
        |name: &String| text.contains(&format!("`crates/{name}`")) || text.contains(&format!("`{name}`"));
    sources
        .crates
        .keys()
        .filter(|name| !is_named(name))
        .map(|name| whole("ARCHITECTURE.md", format!("says nothing of {name}")))
        .collect()
}

const CONFIGURATION: &str = "docs/operating/configuration.md";

/// Fields of the structures that `serde` reads the configuration file into.
fn undocumented_keys(sources: &Sources) -> Vec<Finding> {
    let page = fs::read_to_string(workspace::path(CONFIGURATION)).unwrap_or_default();
    let documented: BTreeSet<&str> = page.lines().flat_map(documented_keys).collect();
    let Some(server) = sources.crates.get("server") else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for file in server
        .files
        .iter()
        .filter(|file| file.module.starts_with(&["config".to_owned()]))
    {
        for key in keys_of(&file.syntax) {
            if !documented.contains(key.as_str()) {
                let text = format!("`{key}` has no row with unit, default and effect in {CONFIGURATION}");
                findings.push(at(file, 1, text));
            }
        }
    }
    findings
}

/// Returns the keys in the first cell of a table's row, if no other of the four is empty.
fn documented_keys(line: &str) -> impl Iterator<Item = &str> {
    let row = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
    let cells: Vec<&str> = row.into_iter().flat_map(|row| row.split(" | ")).collect();
    let is_whole = cells.len() == 4 && cells.iter().all(|cell| !cell.trim().is_empty());
    let keys = is_whole.then(|| cells[0].split('`').skip(1).step_by(2));
    keys.into_iter().flatten()
}

fn keys_of(file: &syn::File) -> BTreeSet<String> {
    let structures = file.items.iter().filter_map(|item| match item {
        syn::Item::Struct(structure) if derives_deserialize(structure) => Some(structure),
        _ => None,
    });
    let fields = structures.flat_map(|structure| &structure.fields);
    fields
        .filter(|field| matches!(field.vis, syn::Visibility::Public(_)))
        .filter_map(|field| field.ident.as_ref().map(ToString::to_string))
        .collect()
}

fn derives_deserialize(structure: &syn::ItemStruct) -> bool {
    structure.attrs.iter().any(|attribute| {
        attribute.path().is_ident("derive")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().contains("Deserialize"))
    })
}

fn dead_exports(sources: &Sources) -> Vec<Finding> {
    let users = Users::of(sources);
    let mut findings = Vec::new();
    for (name, found) in &sources.crates {
        for (file, export) in exports::unused(name, found, &users) {
            let text = format!(
                "{} is public, and no other crate, test or example uses it",
                export.path()
            );
            findings.push(at(file, export.line, text));
        }
    }
    findings
}

const DECISIONS: &str = "docs/decisions";

fn unlisted_decisions(_: &Sources) -> Vec<Finding> {
    let index = fs::read_to_string(workspace::path(DECISIONS).join("README.md")).unwrap_or_default();
    let Ok(entries) = fs::read_dir(workspace::path(DECISIONS)) else {
        return vec![whole(DECISIONS, "is not there".to_owned())];
    };
    let mut findings = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if name != "README.md" && !is_listed(&name, &text, &index) {
            let missing = "lacks its third line `Status: ...` or the same in the index".to_owned();
            findings.push(whole(&format!("{DECISIONS}/{name}"), missing));
        }
    }
    findings
}

fn is_listed(name: &str, text: &str, index: &str) -> bool {
    let status = text.lines().nth(2).and_then(|line| line.strip_prefix("Status: "));
    status.is_some_and(|status| {
        let mut rows = index.lines().filter(|row| row.contains(&format!("]({name}) |")));
        rows.any(|row| row.ends_with(&format!("| {} |", status.trim_end_matches('.'))))
    })
}

/// First words of a relative clause that lacks its noun.
const NAMELESS: [&str; 6] = ["What", "Whether", "Of", "Who", "Whose", "Whoever"];

fn nameless_summaries(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.all() {
        for (line, word) in nameless_lines(&file.text) {
            findings.push(at(file, line, format!("a summary line begins with {word:?}")));
        }
    }
    findings
}

fn nameless_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_in_comment = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let summary = line.trim_start();
        let documentation = summary.strip_prefix("///").or(summary.strip_prefix("//!"));
        let is_first = documentation.is_some() && !is_in_comment;
        is_in_comment = documentation.is_some();
        let word = documentation?.split_whitespace().next()?;
        (is_first && NAMELESS.contains(&word)).then_some((number, word))
    })
}

fn at(file: &SourceFile, line: usize, text: String) -> Finding {
    Finding {
        file: file.path.clone(),
        line,
        text,
    }
}

fn whole(path: &str, text: String) -> Finding {
    Finding {
        file: PathBuf::from(path),
        line: 1,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::Items;
    use super::*;

    #[test]
    fn a_reason_stands_above_its_unsafe() {
        let text =
            "// SAFETY: it is sound.\nlet x =\n    unsafe { call() };\nlet y = 1;\nunsafe { call() };\n";
        let lines: Vec<&str> = text.lines().collect();
        assert!(has_reason(&lines, 3));
        assert!(!has_reason(&lines, 5));
    }

    #[test]
    fn a_key_is_documented_by_a_whole_row() {
        let keys = |line| documented_keys(line).collect::<Vec<_>>();
        assert_eq!(
            keys("| `a`, `b` in it | size | `1` | what `c` does |"),
            ["a", "b"]
        );
        assert!(keys("| `a` | size | `1` |  |").is_empty());
        assert!(keys("| `a` | `1` | an effect |").is_empty());
        assert!(keys("`a`").is_empty());
    }

    #[test]
    fn a_summary_line_begins_with_a_noun_or_a_verb() {
        let text = "//! What it holds.\n\n/// Names it.\n/// What follows may.\nfn a() {\n    /// Whether\n    let b = 1;\n}\n// Of code\n";
        let found: Vec<(usize, &str)> = nameless_lines(text).collect();
        assert_eq!(found, [(1, "What"), (6, "Whether")]);
    }

    #[test]
    fn a_decision_is_listed_with_its_status() {
        let index = "| [1](0001-a.md) | A | in force |";
        let is_listed = |text| is_listed("0001-a.md", text, index);
        assert!(is_listed("# 1. A\n\nStatus: in force.\n"));
        assert!(!is_listed("# 1. A\n\nStatus: replaced by 2.\n"));
        assert!(!is_listed("# 1. A\n\n**Decision.** A.\n"));
    }

    #[test]
    fn functions_of_tests_do_not_count() {
        let file = syn::parse_file("fn a() {\n}\n#[cfg(test)]\nmod tests { fn b() {} }\n#[test]\nfn c() {}")
            .unwrap();
        let names: Vec<String> = Items::of(&file)
            .functions
            .into_iter()
            .map(|found| found.name)
            .collect();
        assert_eq!(names, ["a"]);
    }
}
