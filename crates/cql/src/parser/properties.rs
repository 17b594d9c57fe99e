//! `WITH name = value AND ...`

use std::collections::HashSet;

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{Properties, Property, PropertyValue, Term};
use crate::lexer::TokenKind;

/// Far more than there are; each is compared with those before it.
const PROPERTIES_MAX: usize = 1_000;

impl Parser<'_> {
    pub(super) fn properties(&mut self) -> Parsed<Properties> {
        let mut properties = Properties::new();
        self.and_separated(|parser| parser.property(&mut properties))?;
        Ok(properties)
    }

    /// Parses one property and adds it to those before it.
    pub(super) fn property(&mut self, properties: &mut Properties) -> Parsed<()> {
        if !self.next().is_identifier() {
            return self.no_viable(1);
        }
        if self.look(2) != TokenKind::Equal {
            return self.no_viable(2);
        }
        let third = self.look(3);
        if third != TokenKind::LeftBrace && !third.is_constant() && !third.is_identifier()
            || matches!(third, TokenKind::Identifier | TokenKind::QuotedName)
        {
            return self.no_viable(3);
        }
        self.predicted(3);
        let name = self.identifier()?;
        self.expect(TokenKind::Equal)?;
        let value = if self.next_is(TokenKind::LeftBrace) {
            PropertyValue::Map(self.property_map()?)
        } else {
            PropertyValue::Simple(self.property_text()?)
        };
        if properties.iter().any(|property| property.name == name) {
            return self.broken_rule(format!("Multiple definitions for property '{name}'"));
        }
        if properties.len() >= PROPERTIES_MAX {
            return self.broken_rule(format!("A statement has at most {PROPERTIES_MAX} properties"));
        }
        properties.push(Property { name, value });
        Ok(())
    }

    /// A constant, or an unreserved keyword that stands for its own spelling.
    fn property_text(&mut self) -> Parsed<String> {
        if self.next().is_constant() {
            return self.constant().map(|literal| literal.text);
        }
        let token = self.consume();
        let source = token.source(self.statement);
        Ok(if token.kind.is_native_type() {
            source.to_lowercase()
        } else {
            source.to_owned()
        })
    }

    /// `{ literal: literal, ... }`
    pub(super) fn property_map(&mut self) -> Parsed<Vec<(String, String)>> {
        self.expect(TokenKind::LeftBrace)?;
        let mut entries = Vec::new();
        if self.next().begins_term() {
            entries = self.comma_separated(Self::map_entry)?;
        }
        self.expect(TokenKind::RightBrace)?;
        let mut map: Vec<(String, String)> = Vec::with_capacity(entries.len());
        let mut names = HashSet::with_capacity(entries.len());
        for (key, value) in entries {
            let Term::Literal(key_literal) = &key else {
                return self.broken_rule(format!("Invalid property name: {key}{}", marker_hint(&key)));
            };
            let Term::Literal(value_literal) = &value else {
                let hint = marker_hint(&value);
                return self.broken_rule(format!(
                    "Invalid property value: {value} for property: {key}{hint}"
                ));
            };
            if !names.insert(key_literal.text.clone()) {
                let name = &key_literal.text;
                return self.broken_rule(format!("Multiple definition for property {name}"));
            }
            map.push((key_literal.text.clone(), value_literal.text.clone()));
        }
        Ok(map)
    }
}

fn marker_hint(term: &Term) -> &'static str {
    match term {
        Term::Marker(_) => " (bind variables are not supported in DDL queries)",
        _ => "",
    }
}
