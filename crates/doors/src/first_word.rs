//! What kind of statement a text is, by its first word.

/// Statements that change nothing.
const READING: [&str; 4] = ["SELECT", "DESCRIBE", "DESC", "LIST"];

/// Whether the statement changes nothing, whatever it says.
pub fn only_reads(text: &str) -> bool {
    let word = first_word(text);
    READING.iter().any(|reading| word.eq_ignore_ascii_case(reading))
}

/// Whether the statement chooses a keyspace for those after it.
pub fn is_use(text: &str) -> bool {
    first_word(text).eq_ignore_ascii_case("USE")
}

fn first_word(text: &str) -> &str {
    let text = without_comments(text);
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// From the first byte that is neither space nor comment.
fn without_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let end = if rest.starts_with("--") || rest.starts_with("//") {
            rest.find(['\n', '\r'])
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|at| at + 2)
        } else {
            return rest;
        };
        rest = match end {
            Some(end) => rest.get(end..).unwrap_or_default().trim_start(),
            None => return "",
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_its_first_word() {
        for text in [
            "select 1",
            " /* x */ -- y\nSELECT * FROM t",
            "//z\rDESC t",
            "List ROLES",
        ] {
            assert!(only_reads(text), "{text}");
        }
        for text in [
            "",
            "/* SELECT",
            "selects",
            "INSERT",
            "USE k",
            "/**/BEGIN BATCH",
            "\u{e9}SELECT",
        ] {
            assert!(!only_reads(text), "{text}");
        }
        assert!(is_use("  use k") && is_use("USE\"k\"") && !is_use("user"));
    }
}
