//! Texts that are no statements: nothing may panic, whatever the bytes, and nesting is bounded.

use std::fs;
use std::path::PathBuf;

use helenus_cql::{SyntaxErrorKind, TokenBudget, parse_statement, parse_statement_within, parse_type};

const MUTATIONS: usize = 20_000;

/// SplitMix64, so that a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn valid_statements() -> Vec<Vec<u8>> {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = [
        "select.txt",
        "modifications.txt",
        "schema.txt",
        "roles.txt",
        "describe.txt",
        "extensions.txt",
    ];
    let texts: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(golden.join(file)).unwrap())
        .collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines
        .filter_map(|line| line.strip_prefix("> "))
        .map(|statement| statement.as_bytes().to_vec())
        .collect()
}

fn mutate(bytes: &mut Vec<u8>, statements: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => bytes.insert(at, random.next() as u8),
            1 => bytes.insert(at, b"'\"${}[]()<>?:;-.*/\\\n"[random.below(20)]),
            2 => bytes.truncate(at),
            3 => {
                let other = &statements[random.below(statements.len())];
                let from = random.below(other.len() + 1);
                bytes.splice(at..at, other[from..].iter().copied());
            }
            _ if at < bytes.len() => {
                bytes.remove(at);
            }
            _ => {}
        }
    }
}

#[test]
fn mutated_statements_never_panic() {
    let statements = valid_statements();
    let mut random = Random(0x00c0_ffee);
    let mut rejected = 0;
    for _ in 0..MUTATIONS {
        let mut bytes = statements[random.below(statements.len())].clone();
        mutate(&mut bytes, &statements, &mut random);
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = parse_statement(&text) {
            rejected += 1;
            let lines = text.split('\n').count();
            assert!(
                error
                    .position
                    .is_none_or(|position| (1..=lines).contains(&position.line)),
                "{text}: {error}"
            );
            assert!(!error.to_string().is_empty(), "{text}");
        }
    }
    // Mutations that change nothing that matters are the exception, and so are texts that were lost altogether.
    assert!(
        rejected > MUTATIONS / 2 && rejected < MUTATIONS,
        "{rejected} of {MUTATIONS} rejected"
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = 25_000;
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(deep), close.repeat(deep));
    let chained = |operator: &str| vec!["1"; deep].join(operator);
    let terms = [
        nested("[", "]"),
        nested("(", ")"),
        nested("{", "}"),
        nested("{a: ", "}"),
        nested("{1: ", "}"),
        nested("f(", ")"),
        nested("(int)", ""),
        nested("cast(", " as int)"),
        nested("((a) ", ")"),
        chained("+"),
        chained(" * "),
    ];
    for term in terms {
        for statement in [
            format!("SELECT {term} FROM t"),
            format!("SELECT m[{term}] FROM t"),
            format!("SELECT a FROM t WHERE a = {term}"),
            format!("UPDATE t SET a = {term} WHERE k = 1"),
            format!("CREATE TABLE t (a int PRIMARY KEY) WITH b = {{'c': {term}}}"),
        ] {
            // Some of these are not in the grammar at all: the second kind of error is right for them.
            let error = parse_statement(&statement).unwrap_err();
            let head: String = statement.chars().take(60).collect();
            assert!(error.to_string().len() < 300, "{head}");
            if error.kind == SyntaxErrorKind::Rule {
                assert!(error.to_string().contains("nested"), "{head}: {error}");
            }
        }
    }
    let selectors = [
        format!("{} a", "- ".repeat(deep)),
        format!("a{}", ".b".repeat(deep)),
        format!("a{}", "[1]".repeat(deep)),
        format!("writetime(a{})", ".b".repeat(deep)),
        format!("{}1{}", "(a)[".repeat(deep), "]".repeat(deep)),
    ];
    for selector in selectors {
        let error = parse_statement(&format!("SELECT {selector} FROM t")).unwrap_err();
        assert_eq!(error.kind, SyntaxErrorKind::Rule, "{error}");
    }
    let relations = format!(
        "SELECT a FROM t WHERE {}a = 1{}",
        "(".repeat(deep),
        ")".repeat(deep)
    );
    assert!(parse_statement(&relations).is_err());
    for (open, close) in [
        ("list<", ">"),
        ("frozen<", ">"),
        ("map<int, ", ">"),
        ("vector<", ", 3>"),
        ("tuple<", ">"),
    ] {
        let type_name = format!("{}int{}", open.repeat(deep), close.repeat(deep));
        assert_eq!(parse_type(&type_name).unwrap_err().kind, SyntaxErrorKind::Rule);
    }
}

/// Statements that people write are far from the bound.
#[test]
fn ordinary_nesting_is_accepted() {
    let nested =
        |open: &str, close: &str, levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
    for term in [
        nested("[", "]", 30),
        nested("{1: (2, ", ")}", 20),
        vec!["1"; 60].join(" + "),
    ] {
        parse_statement(&format!("SELECT a FROM t WHERE a = {term}")).unwrap();
    }
    parse_type(&format!("{}int{}", "frozen<list<".repeat(30), ">>".repeat(30))).unwrap();
}

/// Where an alternative has to be tried, trying must not multiply.
#[test]
fn speculation_stays_linear() {
    let levels = 40;
    let selector = format!("{}1{}", "((a) [".repeat(levels), "])".repeat(levels));
    assert!(parse_statement(&format!("SELECT JSON DISTINCT {selector} FORM t")).is_err());
    let selector = format!("{}#", "((int) [".repeat(levels));
    assert!(parse_statement(&format!("SELECT JSON DISTINCT {selector} FROM t")).is_err());
}

/// 16 MB of IN list, of selectors or of batch statements took a shard for 5 to 12 s and 3 GB of memory, to parse and plan.
#[test]
fn the_tokens_of_a_statement_are_bounded() {
    let statements = |count: usize| {
        [
            format!("SELECT a FROM t WHERE k IN ({})", vec!["1"; count].join(",")),
            format!("SELECT {} FROM t", vec!["a"; count].join(",")),
            format!(
                "BEGIN BATCH {} APPLY BATCH",
                "DELETE FROM t WHERE k=1;".repeat(count / 4)
            ),
            format!(
                "INSERT INTO t (k, l) VALUES (1, [{}])",
                vec!["'x'"; count].join(", ")
            ),
            format!("{}USE k", "/**/".repeat(2 * count)),
        ]
    };
    for statement in statements(80_000) {
        assert!(parse_statement(&statement).is_ok());
    }
    for statement in statements(130_000) {
        let error = parse_statement(&statement).unwrap_err().to_string();
        assert!(
            error.contains("more than 250000 words, signs and literals"),
            "{error}"
        );
    }
    let literal = format!("INSERT INTO t (k, v) VALUES (1, '{}')", "x".repeat(1 << 20));
    assert!(parse_statement(&literal).is_ok());
}

/// A BATCH message has 65,535 statements of any length each: 16 MB of them were planned in one go.
#[test]
fn the_statements_of_a_request_share_a_budget() {
    let statement = format!("SELECT a FROM t WHERE k IN ({})", vec!["1"; 50_000].join(","));
    let mut budget = TokenBudget::default();
    for is_taken in [true, true, false, false] {
        assert_eq!(parse_statement_within(&statement, &mut budget).is_ok(), is_taken);
    }
    assert!(parse_statement(&statement).is_ok());
}
