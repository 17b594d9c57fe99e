//! A file of statements, cut at its semicolons.

use crate::lexer::{TokenKind, lex};

/// The statements of a script, comments included, without their semicolons. What the lexer cannot read is the last
/// one: parsing it tells why.
pub fn split_statements(script: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut has_content = false;
    for token in lex(script).tokens {
        match token.kind {
            TokenKind::Semicolon => {
                if has_content {
                    statements.extend(script.get(start..token.start));
                }
                start = token.end;
                has_content = false;
            }
            TokenKind::End | TokenKind::Hidden => {}
            _ => has_content = true,
        }
    }
    if has_content {
        statements.extend(script.get(start..));
    }
    statements.iter().map(|statement| statement.trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::split_statements;

    #[test]
    fn semicolons_in_strings_and_comments_do_not_count() {
        let script = "/* a; b */ CREATE TYPE x (a int);\n\nSELECT ';' -- no; \n FROM t;; ;\nUSE k\n-- end\n";
        assert_eq!(
            split_statements(script),
            [
                "/* a; b */ CREATE TYPE x (a int)",
                "SELECT ';' -- no; \n FROM t",
                "USE k\n-- end"
            ]
        );
        assert_eq!(split_statements(" \n-- nothing\n"), [""; 0]);
        assert_eq!(split_statements("USE a; USE 'b"), ["USE a", "USE 'b"]);
    }
}
