//! Single properties, as text or as a map.

use helenus_cql::ast::{Property, PropertyValue};
use helenus_types::value::floating::parse_double;

use helenus_engine::CqlError;

/// Reads properties by name; what is absent is `None`.
#[derive(Clone, Copy)]
pub(crate) struct PropertyReader<'a>(pub &'a [Property]);

impl<'a> PropertyReader<'a> {
    pub fn check_names(self, known: &[&str]) -> Result<(), CqlError> {
        match self.0.iter().find(|property| !known.contains(&&*property.name)) {
            Some(unknown) => Err(CqlError::syntax_rule(format_args!(
                "Unknown property '{}'",
                unknown.name
            ))),
            None => Ok(()),
        }
    }

    pub fn text(self, name: &str) -> Result<Option<&'a str>, CqlError> {
        match self.find(name) {
            None => Ok(None),
            Some(PropertyValue::Simple(text)) => Ok(Some(text)),
            Some(PropertyValue::Map(_)) => Err(CqlError::syntax_rule(format_args!(
                "Invalid value for property '{name}'. It should be a string"
            ))),
        }
    }

    pub fn map(self, name: &str) -> Result<Option<&'a [(String, String)]>, CqlError> {
        match self.find(name) {
            None => Ok(None),
            Some(PropertyValue::Map(entries)) => Ok(Some(entries)),
            Some(PropertyValue::Simple(_)) => Err(CqlError::syntax_rule(format_args!(
                "Invalid value for property '{name}'. It should be a map."
            ))),
        }
    }

    pub fn boolean(self, name: &str) -> Result<Option<bool>, CqlError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" => Ok(Some(true)),
            "0" | "false" | "no" => Ok(Some(false)),
            _ => Err(CqlError::syntax_rule(format_args!(
                "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative \
                 values can be '0', 'false' or 'no'."
            ))),
        }
    }

    pub fn integer(self, name: &str) -> Result<Option<i32>, CqlError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let value = text
            .parse()
            .map_err(|_| CqlError::syntax_rule(format_args!("Invalid integer value {text} for '{name}'")))?;
        Ok(Some(value))
    }

    pub fn double(self, name: &str) -> Result<Option<f64>, CqlError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let value = parse_double(text)
            .ok_or_else(|| CqlError::syntax_rule(format_args!("Invalid double value {text} for '{name}'")))?;
        Ok(Some(value))
    }

    pub fn find(self, name: &str) -> Option<&'a PropertyValue> {
        self.0
            .iter()
            .find(|property| property.name == name)
            .map(|property| &property.value)
    }
}
