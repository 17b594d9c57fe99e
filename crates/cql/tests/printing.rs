//! Printed forms of types, terms, selectors and names, which read back.

use helenus_cql::ast::{
    FunctionName, Literal, LiteralKind, NativeType, Relation, Selection, Selector, Statement, Term, TypeName,
};
use helenus_cql::quoting::{maybe_quote_identifier, quote_string};
use helenus_cql::{parse_statement, parse_type};

const CASES: usize = 2_000;

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

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A name of which any part may call for quotes.
    fn name(&mut self) -> String {
        const PARTS: [&str; 14] = [
            "a", "b", "key", "table", "select", "_", "7", "Z", "\"", " ", "'", "é", "list", "count",
        ];
        (0..=self.below(3)).map(|_| self.pick(&PARTS)).collect()
    }
}

fn random_type(random: &mut Random, levels: usize) -> TypeName {
    const NATIVE: [NativeType; 6] = [
        NativeType::Ascii,
        NativeType::Counter,
        NativeType::Duration,
        NativeType::Int,
        NativeType::Timeuuid,
        NativeType::Varint,
    ];
    let inner = |random: &mut Random| Box::new(random_type(random, levels.saturating_sub(1)));
    match if levels == 0 {
        random.below(3)
    } else {
        random.below(9)
    } {
        0 => TypeName::Native(random.pick(&NATIVE)),
        1 => {
            // Names of types are printed without quotes, as Cassandra prints them.
            let keyspace = (random.below(2) == 0).then(|| "ks".to_owned());
            TypeName::UserType {
                keyspace,
                name: "address".to_owned(),
            }
        }
        2 => TypeName::Custom("org.apache.cassandra.db.marshal.BytesType".to_owned()),
        3 => TypeName::List(inner(random)),
        4 => TypeName::Set(inner(random)),
        5 => TypeName::Map(inner(random), inner(random)),
        6 => TypeName::Tuple((0..=random.below(3)).map(|_| *inner(random)).collect()),
        7 => TypeName::Vector {
            element: inner(random),
            dimension: random.below(2_000) as i32,
        },
        _ => TypeName::Frozen(Box::new(TypeName::List(inner(random)))),
    }
}

/// Terms that print as they were written: the rest (markers, nulls, arithmetic, casts) prints as what Cassandra
/// makes of it.
fn random_term(random: &mut Random, levels: usize) -> Term {
    const LITERALS: [(LiteralKind, &str); 9] = [
        (LiteralKind::String, "no quotes in here"),
        (LiteralKind::Integer, "-12"),
        (LiteralKind::Uuid, "f79326fa-2230-4345-afb0-bd4f3a164c80"),
        (LiteralKind::Float, "1.5e-3"),
        (LiteralKind::Float, "NaN"),
        (LiteralKind::Float, "-Infinity"),
        (LiteralKind::Boolean, "true"),
        (LiteralKind::Hex, "0xcafe"),
        (LiteralKind::Duration, "1y2mo3d"),
    ];
    let (kind, text) = random.pick(&LITERALS);
    let literal = Term::Literal(Literal {
        kind,
        text: text.to_owned(),
    });
    let terms = |random: &mut Random, least: usize| -> Vec<Term> {
        (0..least + random.below(3))
            .map(|_| random_term(random, levels.saturating_sub(1)))
            .collect()
    };
    match if levels == 0 { 0 } else { random.below(8) } {
        0 | 1 => literal,
        2 => Term::List(terms(random, 0)),
        3 => Term::Set(terms(random, 0)),
        4 => Term::Map(
            terms(random, 1)
                .into_iter()
                .map(|value| (literal.clone(), value))
                .collect(),
        ),
        5 => Term::UserType(
            terms(random, 1)
                .into_iter()
                .map(|value| ("f".to_owned(), value))
                .collect(),
        ),
        6 => {
            let name = FunctionName {
                keyspace: Some(random.name()),
                name: format!("f{}", random.name()),
            };
            Term::Function {
                name,
                arguments: terms(random, 0),
            }
        }
        _ => Term::TypeHint {
            type_name: TypeName::List(Box::new(random_type(random, 0))),
            term: Box::new(Term::List(terms(random, 1))),
        },
    }
}

fn parse_term(text: &str) -> Term {
    let statement = parse_statement(&format!("SELECT a FROM t WHERE a = {text}"));
    match statement.unwrap_or_else(|error| panic!("{text}: {error}")) {
        Statement::Select(select) => match select.relations.into_iter().next() {
            Some(Relation::Column { value, .. }) => value,
            other => panic!("{text}: {other:?}"),
        },
        other => panic!("{text}: {other:?}"),
    }
}

fn first_selector(selector: &str) -> Selector {
    let statement = parse_statement(&format!("SELECT {selector} FROM t"));
    match statement.unwrap_or_else(|error| panic!("{selector}: {error}")) {
        Statement::Select(select) => match select.selection {
            Selection::Items(items) => items.into_iter().next().unwrap().selector,
            Selection::Wildcard => panic!("{selector} is a wildcard"),
        },
        other => panic!("{selector}: {other:?}"),
    }
}

#[test]
fn types_read_back() {
    let mut random = Random(1);
    for _ in 0..CASES {
        // Printing spells out what is frozen implicitly, so it is the second round that has to change nothing.
        let printed = random_type(&mut random, 3).to_string();
        let parsed = parse_type(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
        assert_eq!(parsed.to_string(), printed);
    }
}

#[test]
fn terms_read_back() {
    let mut random = Random(2);
    for _ in 0..CASES {
        let term = random_term(&mut random, 3);
        let printed = term.to_string();
        assert_eq!(parse_term(&printed), term, "{printed}");
    }
}

#[test]
fn quoted_names_and_strings_read_back() {
    let mut random = Random(3);
    for _ in 0..CASES {
        let name = random.name();
        assert_eq!(
            first_selector(&maybe_quote_identifier(&name)),
            Selector::Column(name.clone())
        );
        let literal = Literal {
            kind: LiteralKind::String,
            text: name.clone(),
        };
        assert_eq!(first_selector(&quote_string(&name)), Selector::Literal(literal));
    }
}

/// The names of result columns Cassandra 5.0.5 gives to these selectors.
#[test]
fn selectors_print_as_result_columns() {
    for (selector, name) in [
        ("count(*)", "count"),
        ("count(1)", "count"),
        ("\"Name\"", "Name"),
        ("now()", "system.now()"),
        ("max(a)", "system.max(a)"),
        ("ks.f(a, 1)", "ks.f(a, 1)"),
        ("CAST(a AS TEXT)", "cast(a as text)"),
        ("a+b * -c", "a + b * -c"),
        ("m['k']", "m['k']"),
        ("l[1..2]", "l[1..2]"),
        ("l[..2]", "l[..2]"),
        ("u.f", "u.f"),
        ("writetime(a)", "writetime(a)"),
        ("MAXWRITETIME(m[1])", "maxwritetime(m[1])"),
        ("ttl(u.f)", "ttl(u.f)"),
        ("(int)5", "(int)5"),
        ("(list<int>)[1,2]", "(list<int>)[1, 2]"),
        ("-(a)", "-(a)"),
        ("l[1..]", "l[1..]"),
        ("token(p)", "system.token(p)"),
        ("[a,b]", "[a, b]"),
        ("{a,b}", "{a, b}"),
        ("totimestamp(now())", "system.totimestamp(system.now())"),
        ("(frozen<list<int>>)[1]", "(frozen<list<int>>)[1]"),
        (
            "(tuple<int, list<int>>)(1,[2])",
            "(tuple<int, frozen<list<int>>>)(1, [2])",
        ),
        ("(k.u){f:1}", "(k.u){f: 1}"),
        ("(vector<float,2>)[1,2]", "(vector<float, 2>)[1, 2]"),
        ("blobasint(0x0000CAFE)", "system.blobasint(0x0000CAFE)"),
        ("(text)'it''s'", "(text)'it's'"),
        ("cast((int)5 as text)", "cast((int)5 as text)"),
        ("(boolean)TRUE", "(boolean)TRUE"),
        ("(map<int,text>){1:'a'}", "(map<int, text>){1: 'a'}"),
    ] {
        assert_eq!(first_selector(selector).to_string(), name);
    }
}
