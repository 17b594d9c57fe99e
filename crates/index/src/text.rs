//! Forms of text in indexes: the options `case_sensitive`, `normalize` and `ascii` of storage-attached indexes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// How texts are made alike before they are compared, in stored values and in those of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    pub is_case_sensitive: bool,
    /// To Unicode's normal form C.
    pub is_normalized: bool,
    /// Letters, digits and marks lose what ASCII does not have.
    pub is_folded: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions {
            is_case_sensitive: true,
            is_normalized: false,
            is_folded: false,
        }
    }
}

impl TextOptions {
    /// As an index has them; what is not said is Cassandra's default.
    pub fn of(options: &BTreeMap<String, String>) -> Self {
        let option = |name: &str| options.get(name).map(|value| value.eq_ignore_ascii_case("true"));
        let default = TextOptions::default();
        TextOptions {
            is_case_sensitive: option("case_sensitive").unwrap_or(default.is_case_sensitive),
            is_normalized: option("normalize").unwrap_or(default.is_normalized),
            is_folded: option("ascii").unwrap_or(default.is_folded),
        }
    }

    /// Returns whether texts are compared as they are.
    pub(crate) fn are_plain(&self) -> bool {
        *self == TextOptions::default()
    }
}

/// A text as it is compared: in lower case, then normalized, then folded, as far as the options say so.
pub fn analyzed<'t>(options: &TextOptions, text: &'t str) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    if !options.is_case_sensitive {
        text = Cow::Owned(text.to_lowercase());
    }
    if options.is_normalized && !text.is_ascii() {
        text = Cow::Owned(text.nfc().collect());
    }
    if options.is_folded && !text.is_ascii() {
        let mut folded = String::with_capacity(text.len());
        text.chars().for_each(|letter| push_folded(&mut folded, letter));
        text = Cow::Owned(folded);
    }
    text
}

/// A letter whose decomposition is ASCII and marks becomes that ASCII; some that have none have a customary spelling.
/// All others stay, marks that stand alone among them.
fn push_folded(folded: &mut String, letter: char) {
    if letter.is_ascii() {
        return folded.push(letter);
    }
    if let Some(spelling) = spelling(letter) {
        return folded.push_str(spelling);
    }
    let is_base = |part: &char| canonical_combining_class(*part) == 0;
    let parts = || std::iter::once(letter).nfkd().filter(is_base);
    let has_ascii = parts().next().is_some() && parts().all(|part| part.is_ascii() && part != ' ');
    match has_ascii {
        true => folded.extend(parts()),
        false => folded.push(letter),
    }
}

/// Returns the ASCII spelling of characters that Unicode does not take apart.
fn spelling(letter: char) -> Option<&'static str> {
    Some(match letter {
        'Æ' | 'Ǽ' | 'Ǣ' => "AE",
        'æ' | 'ǽ' | 'ǣ' => "ae",
        'Œ' => "OE",
        'œ' => "oe",
        'ß' => "ss",
        'ẞ' => "SS",
        'Ø' | 'Ǿ' => "O",
        'ø' | 'ǿ' => "o",
        'Đ' | 'Ð' => "D",
        'đ' | 'ð' => "d",
        'Ł' => "L",
        'ł' => "l",
        'Ħ' => "H",
        'ħ' => "h",
        'Ŧ' => "T",
        'ŧ' => "t",
        'Þ' => "TH",
        'þ' => "th",
        'ı' => "i",
        'ĸ' => "q",
        'Ŋ' => "N",
        'ŋ' => "n",
        '‘' | '’' | '‚' | '‛' | '′' | '‹' | '›' => "'",
        '“' | '”' | '„' | '‟' | '″' | '«' | '»' => "\"",
        '‐' | '‑' | '‒' | '–' | '—' => "-",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(names: &[(&str, &str)]) -> TextOptions {
        let pairs = names
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        TextOptions::of(&pairs.collect())
    }

    #[test]
    fn texts_are_made_alike_as_the_options_say() {
        let plain = options(&[]);
        assert!(plain.are_plain());
        assert_eq!(analyzed(&plain, "ÉTÉ"), "ÉTÉ");
        assert_eq!(
            analyzed(&options(&[("case_sensitive", "false")]), "ÉTÉ ΟΔΟΣ"),
            "été οδος"
        );
        assert_eq!(analyzed(&options(&[("normalize", "TRUE")]), "e\u{301}"), "é");
        let folded = options(&[("ascii", "true")]);
        assert_eq!(
            analyzed(&folded, "Éte ß Ｗ ½ ② „x“ łódź 日本"),
            "Ete ss W ½ 2 \"x\" lodz 日本"
        );
        assert_eq!(analyzed(&folded, "e\u{301}"), "e\u{301}", "a mark alone stays");
        let all = options(&[
            ("case_sensitive", "false"),
            ("normalize", "true"),
            ("ascii", "true"),
        ]);
        assert_eq!(analyzed(&all, "E\u{301}COLE"), "ecole");
    }
}
