//! Statements that are nearly valid: others, with tokens left out, doubled, swapped or taken from elsewhere.

use helenus_storage_model::Chance;

/// Words, numbers, strings and single characters, with the white space behind them.
pub fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let token_bytes = match first {
            '\'' | '"' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            _ if is_word(first) => rest.find(|character| !is_word(character)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let space_bytes = rest[token_bytes..]
            .find(|character: char| !character.is_ascii_whitespace())
            .unwrap_or(rest.len() - token_bytes);
        let (token, after) = rest.split_at(token_bytes + space_bytes);
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// `text` with up to three changes; `other` is where foreign tokens come from.
pub fn mutate(chance: &Chance, text: &str, other: &str) -> String {
    let mut own = tokens(text);
    let foreign = tokens(other);
    for _ in 0..1 + chance.count(3) {
        if own.is_empty() {
            return other.to_owned();
        }
        let place = chance.count(own.len());
        match chance.below(6) {
            0 => {
                own.remove(place);
            }
            1 => own.insert(place, own[place]),
            2 => {
                let second = chance.count(own.len());
                own.swap(place, second);
            }
            3 => own.truncate(place),
            4 if !foreign.is_empty() => {
                let from = chance.count(foreign.len());
                let to = from + 1 + chance.count((foreign.len() - from).min(6));
                let end = (place + chance.count(3)).min(own.len());
                own.splice(place..end, foreign[from..to.min(foreign.len())].iter().copied());
            }
            _ if !foreign.is_empty() => own[place] = foreign[chance.count(foreign.len())],
            _ => {}
        }
    }
    own.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_text_again() {
        let text = " SELECT 'it''s', \"a b\" FROM k.t WHERE a>=1.5e3 -- caf\u{e9}\n;'open";
        assert_eq!(tokens(text).concat(), text);
        assert!(tokens(text).contains(&"\"a b\" "));
        let chance = Chance::new(1);
        for _ in 0..1_000 {
            mutate(&chance, text, "UPDATE t SET \u{1F600} = ?");
        }
    }
}
