//! One structure of a request, however it is written.

use serde_json::Value;

use crate::query::Scope;
use crate::{ApiError, date};

/// What is read from a structure.
pub(super) trait Structure: Sized {
    fn read(input: &Input<'_>) -> Result<Self, ApiError>;
}

/// A structure: an object of JSON or CBOR, or Query parameters with a common prefix.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'a> {
    Tree(&'a Value),
    Query(Scope<'a>),
}

impl<'a> Input<'a> {
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ApiError> {
        match self {
            Input::Tree(tree) => match member(tree, name) {
                None => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(_) => Err(wrong_type(name, "a string")),
            },
            Input::Query(scope) => Ok(scope.text(name)?.map(str::to_owned)),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        match self {
            Input::Tree(tree) => member(tree, name).map(|value| number(name, value)).transpose(),
            Input::Query(scope) => match scope.text(name)?.filter(|text| !text.is_empty()) {
                None => Ok(None),
                Some(text) => parse_number(name, text).map(Some),
            },
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self {
            Input::Tree(tree) => match member(tree, name) {
                None => Ok(None),
                Some(value) => {
                    value.as_i64().map(Some).ok_or_else(|| wrong_type(name, "an integer"))
                }
            },
            Input::Query(scope) => scope.integer(name),
        }
    }

    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self {
            Input::Tree(tree) => match member(tree, name) {
                None => Ok(None),
                Some(value) => {
                    value.as_bool().map(Some).ok_or_else(|| wrong_type(name, "a boolean"))
                }
            },
            Input::Query(scope) => match scope.text(name)? {
                None | Some("") => Ok(None),
                Some("true") => Ok(Some(true)),
                Some("false") => Ok(Some(false)),
                Some(_) => Err(malformed(name, "a boolean")),
            },
        }
    }

    /// Milliseconds since 1970. JSON and CBOR send seconds, Query ISO 8601.
    pub(super) fn time_ms(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self {
            Input::Tree(tree) => match member(tree, name) {
                None => Ok(None),
                Some(Value::String(text)) => parse_time(name, text).map(Some),
                Some(value) => Ok(Some((number(name, value)? * 1000.0).round() as i64)),
            },
            Input::Query(scope) => match scope.text(name)?.filter(|text| !text.is_empty()) {
                None => Ok(None),
                Some(text) => parse_time(name, text).map(Some),
            },
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, ApiError> {
        match self {
            Input::Tree(tree) => elements(tree, name)?
                .iter()
                .map(|value| value.as_str().map(str::to_owned))
                .map(|text| text.ok_or_else(|| wrong_type(name, "a list of strings")))
                .collect(),
            Input::Query(scope) => {
                let list = scope.list(&format!("{name}.member"))?.unwrap_or_default();
                Ok(list.into_iter().map(str::to_owned).collect())
            }
        }
    }

    pub(super) fn numbers(&self, name: &str) -> Result<Vec<f64>, ApiError> {
        match self {
            Input::Tree(tree) => {
                elements(tree, name)?.iter().map(|value| number(name, value)).collect()
            }
            Input::Query(scope) => {
                let list = scope.list(&format!("{name}.member"))?.unwrap_or_default();
                list.into_iter().map(|text| parse_number(name, text)).collect()
            }
        }
    }

    /// A list of structures.
    pub(super) fn each<T: Structure>(&self, name: &str) -> Result<Vec<T>, ApiError> {
        self.structures(name)?.iter().map(T::read).collect()
    }

    /// A structure, if there is one.
    pub(super) fn one<T: Structure>(&self, name: &str) -> Result<Option<T>, ApiError> {
        self.structure(name)?.as_ref().map(T::read).transpose()
    }

    /// A list of `Key` and `Value`.
    pub(super) fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, ApiError> {
        let pair = |input: &Input<'_>| {
            Ok((input.text("Key")?.unwrap_or_default(), input.text("Value")?.unwrap_or_default()))
        };
        self.structures(name)?.iter().map(pair).collect()
    }

    fn structures(&self, name: &str) -> Result<Vec<Input<'a>>, ApiError> {
        match self {
            Input::Tree(tree) => {
                let elements = elements(tree, name)?;
                if elements.iter().any(|element| !element.is_object()) {
                    return Err(wrong_type(name, "a list of structures"));
                }
                Ok(elements.iter().map(Input::Tree).collect())
            }
            Input::Query(scope) => {
                let scopes = scope.structures(&format!("{name}.member"));
                Ok(scopes.into_iter().map(Input::Query).collect())
            }
        }
    }

    fn structure(&self, name: &str) -> Result<Option<Input<'a>>, ApiError> {
        match self {
            Input::Tree(tree) => match member(tree, name) {
                None => Ok(None),
                Some(value) if value.is_object() => Ok(Some(Input::Tree(value))),
                Some(_) => Err(wrong_type(name, "a structure")),
            },
            Input::Query(scope) => {
                let nested = scope.nested(name);
                Ok((!nested.is_empty()).then_some(Input::Query(nested)))
            }
        }
    }
}

/// Null counts as absent.
fn member<'a>(tree: &'a Value, name: &str) -> Option<&'a Value> {
    tree.get(name).filter(|value| !value.is_null())
}

fn elements<'a>(tree: &'a Value, name: &str) -> Result<&'a [Value], ApiError> {
    match member(tree, name) {
        None => Ok(&[]),
        Some(Value::Array(elements)) => Ok(elements),
        Some(_) => Err(wrong_type(name, "a list")),
    }
}

/// JSON writes what is no number as a string.
fn number(name: &str, value: &Value) -> Result<f64, ApiError> {
    match value {
        Value::Number(number) => number.as_f64().ok_or_else(|| wrong_type(name, "a number")),
        Value::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            text.parse().map_err(|_| wrong_type(name, "a number"))
        }
        _ => Err(wrong_type(name, "a number")),
    }
}

fn parse_number(name: &str, text: &str) -> Result<f64, ApiError> {
    text.parse().map_err(|_| malformed(name, "a number"))
}

fn parse_time(name: &str, text: &str) -> Result<i64, ApiError> {
    let time = date::parse_iso8601_ms(text).and_then(|time| i64::try_from(time).ok());
    time.ok_or_else(|| malformed(name, "a time"))
}

fn wrong_type(name: &str, expected: &str) -> ApiError {
    ApiError::serialization(format!("{name} is not {expected}"))
}

fn malformed(name: &str, expected: &str) -> ApiError {
    ApiError::malformed_input(format!("parameter {name} is not {expected}"))
}
