//! Every history that once failed, and a few that a seed makes.

use std::fs;
use std::path::{Path, PathBuf};

use helenus_metamorphic::{
    Audience, Cassandra, Event, FailureKind, Script, Statement, Step, generate, generate_index_queries, run,
    run_beside,
};
use helenus_test_service::{CannedOptions, CannedServer};

/// Statements and events that once lost rows, answered wrongly, failed or never ended do so no more: each script says in
/// its head which fault it found.
#[test]
fn what_once_failed_does_not_fail_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let script: Script = fs::read_to_string(&path).unwrap().parse().unwrap();
        let report = run(&script);
        assert_eq!(report.failure, None, "{}", path.display());
        assert_eq!(report.steps, script.steps.len());
    }
}

#[test]
fn a_seed_is_the_same_history_each_time_also_as_text() {
    let script = generate(7, 100, Audience::Nodes);
    assert_eq!(script, generate(7, 100, Audience::Nodes));
    assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
    assert_ne!(script, generate(8, 100, Audience::Nodes));
}

#[test]
fn most_statements_of_a_history_are_valid_and_the_model_knows_some() {
    let mut modelled = 0;
    for seed in 4..8 {
        let report = run(&generate(seed, 60, Audience::Nodes));
        assert_eq!(report.failure, None);
        assert!(
            report.refused * 4 < report.steps,
            "{seed}: {} refused",
            report.refused
        );
        modelled += report.modelled;
    }
    assert!(modelled > 0);
}

/// Indexes answer as filters do, and the most of what is asked is answered by one.
#[test]
fn most_index_queries_of_a_history_are_answered_by_an_index() {
    let script = generate_index_queries(5, 150);
    assert_eq!(script, generate_index_queries(5, 150));
    assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
    let is_select =
        |step: &&Step| matches!(step, Step::Statement(Statement { text, .. }) if text.starts_with("SELECT "));
    let selects = script.steps.iter().filter(is_select).count();
    let report = run(&script);
    assert_eq!(report.failure, None);
    assert!(report.refused * 10 < report.steps, "{} refused", report.refused);
    assert!(report.by_index * 2 > selects, "{} of {selects}", report.by_index);
}

/// A history for Cassandra has nothing that it does not know, and nothing that shows what time it is.
#[test]
fn a_history_for_cassandra_is_cassandras() {
    let mut words = String::new();
    for seed in 1..40 {
        for step in &generate(seed, 200, Audience::Cassandra).steps {
            match step {
                Step::Statement(Statement { text, .. }) => words.push_str(text),
                Step::Event(event) => assert!(!matches!(event, Event::Clock { .. }), "{seed}"),
            }
        }
    }
    for unknown in [
        "BYPASS CACHE",
        "PRUNE ",
        " TRANSACTION",
        " ANN OF ",
        "ttl(",
        "WITH ID = ",
    ] {
        assert!(!words.contains(unknown), "{unknown}");
    }
    for known in [
        "CAST(",
        " IF NOT EXISTS",
        "MATERIALIZED VIEW",
        "CREATE INDEX",
        "DESCRIBE KEYSPACE",
        "JSON",
    ] {
        assert!(words.contains(known), "{known}");
    }
}

/// A server that answers every SELECT with rows of its own is not taken for one that agrees.
#[test]
fn a_server_with_other_answers_disagrees() {
    let server = CannedServer::start(CannedOptions::default());
    let script = generate(1, 60, Audience::Cassandra);
    let failure = run_beside(&script, &mut Cassandra::connect(server.address)).failure;
    let failure = failure.expect("canned rows are no answer");
    assert!(matches!(failure.kind, FailureKind::Disagreement(_)), "{failure}");
    assert!(failure.text.starts_with("on Cassandra: "), "{failure}");
}
