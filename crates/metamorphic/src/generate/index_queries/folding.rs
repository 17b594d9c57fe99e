//! Texts that indexes take for the same: what a filter without the index has to ask for in the place of one of them.
//!
//! Works for the few texts that histories have, and shares nothing with the indexes.

use helenus_storage_model::Chance;

/// How an index makes texts alike: options of storage-attached indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folding {
    ignores_case: bool,
    normalizes: bool,
    strips_accents: bool,
}

impl Folding {
    pub fn any(chance: &Chance) -> Folding {
        Folding {
            ignores_case: chance.one_in(2),
            normalizes: chance.one_in(2),
            strips_accents: chance.one_in(2),
        }
    }

    pub fn options(self) -> String {
        format!(
            " WITH OPTIONS = {{'case_sensitive': '{}', 'normalize': '{}', 'ascii': '{}'}}",
            !self.ignores_case, self.normalizes, self.strips_accents
        )
    }

    /// The literals among `all` that the index takes for this one, itself included.
    pub fn alike<'l>(self, literal: &'l str, all: &[&'l str]) -> Vec<&'l str> {
        let wanted = self.folded(literal);
        let mut alike = vec![literal];
        alike.extend(
            all.iter()
                .filter(|other| **other != literal && self.folded(other) == wanted),
        );
        alike
    }

    fn folded(self, literal: &str) -> String {
        let mut text = literal.to_owned();
        if self.ignores_case {
            text = text.replace('A', "a").replace('B', "b").replace('Á', "á");
        }
        if self.normalizes {
            text = text.replace("a\u{301}", "á").replace("A\u{301}", "Á");
        }
        if self.strips_accents {
            text = text.replace('á', "a").replace('Á', "A");
        }
        text
    }
}

/// Behind an equality that an index serves: what it comes to without the index.
const INSTEAD: &str = " /* or one of ";
const INSTEAD_ENDS: &str = " */";

/// The equality of an indexed column with a literal, and for who has no index with all of those alike.
pub fn equality(name: &str, literal: &str, alike: &[&str]) -> String {
    format!("{name} = {literal}{INSTEAD}({}){INSTEAD_ENDS}", alike.join(", "))
}

/// Begins what a query says of the indexes that it is to be read by, which is the last that it says.
pub(super) const HINTS: &str = " WITH ";

/// The query as a node without indexes is asked it.
pub fn without_indexes(text: &str) -> String {
    let mut rest = text.split_once(HINTS).map_or(text, |(before, _)| before);
    let mut rewritten = String::with_capacity(text.len());
    while let Some((before, behind)) = rest.split_once(INSTEAD) {
        let (Some((name, _)), Some((alike, behind))) =
            (before.rsplit_once(" = "), behind.split_once(INSTEAD_ENDS))
        else {
            break;
        };
        rewritten.push_str(name);
        rewritten.push_str(" IN ");
        rewritten.push_str(alike);
        rest = behind;
    }
    rewritten.push_str(rest);
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_indexes_is_asked_for_all_texts_that_are_alike() {
        let folding = Folding {
            ignores_case: true,
            normalizes: true,
            strips_accents: false,
        };
        let all = ["'a'", "'A'", "'á'", "'A\u{301}'", "'b'"];
        assert_eq!(folding.alike("'A'", &all), ["'A'", "'a'"]);
        assert_eq!(folding.alike("'á'", &all), ["'á'", "'A\u{301}'"]);
        let query = format!(
            "SELECT * FROM t WHERE {} AND w = 'it''s' AND {} LIMIT 1",
            equality("v", "'A'", &["'A'", "'a'"]),
            equality("u", "'b'", &["'b'"])
        );
        assert_eq!(
            without_indexes(&query),
            "SELECT * FROM t WHERE v IN ('A', 'a') AND w = 'it''s' AND u IN ('b') LIMIT 1"
        );
        assert_eq!(without_indexes("SELECT * FROM t"), "SELECT * FROM t");
    }
}
