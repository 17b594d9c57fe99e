//! Faults in the characters of a statement.

/// Why no token could be cut at some place. Prints as Cassandra's lexer says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexicalFault {
    /// Where the offending character stands, in bytes.
    pub at: usize,
    pub kind: LexicalFaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexicalFaultKind {
    /// No token continues with this character.
    NoViableAlternative,
    /// Exactly this character had to follow.
    Expected(char),
    /// One of several characters had to follow.
    ExpectedOneOfSeveral,
    /// At least one digit had to follow.
    ExpectedRepetition,
}

impl LexicalFault {
    /// The message without the position in front.
    pub fn message(&self, statement: &str) -> String {
        let found = display_character(statement.get(self.at..).and_then(|rest| rest.chars().next()));
        match self.kind {
            LexicalFaultKind::NoViableAlternative => format!("no viable alternative at character {found}"),
            LexicalFaultKind::Expected(wanted) => {
                format!(
                    "mismatched character {found} expecting {}",
                    display_character(Some(wanted))
                )
            }
            LexicalFaultKind::ExpectedOneOfSeveral => {
                format!("mismatched character {found} expecting set null")
            }
            LexicalFaultKind::ExpectedRepetition => {
                format!("required (...)+ loop did not match anything at character {found}")
            }
        }
    }
}

fn display_character(character: Option<char>) -> String {
    match character {
        None => "'<EOF>'".to_owned(),
        Some('\n') => "'\\n'".to_owned(),
        Some('\t') => "'\\t'".to_owned(),
        Some('\r') => "'\\r'".to_owned(),
        // Cassandra reads UTF-16 units; half of a surrogate pair leaves it as a question mark.
        Some(character) if character.len_utf16() > 1 => "'?'".to_owned(),
        Some(character) => format!("'{character}'"),
    }
}
