//! One structure of a request, however it is written.

use serde_json::Value;

use crate::query::Scope;
use crate::{ApiError, date};

/// What is read from a structure.
pub(super) trait Structure: Sized {
    fn read(input: &Input<'_>) -> Result<Self, ApiError>;
}

impl<T: Structure> Structure for Box<T> {
    fn read(input: &Input<'_>) -> Result<Self, ApiError> {
        T::read(input).map(Box::new)
    }
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
                // boto 2 sends Python's `True`.
                Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
                Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
                Some(_) => Err(malformed(name, "a boolean")),
            },
        }
    }

    /// Milliseconds since 1970. JSON and CBOR send seconds, Query ISO 8601.
    pub(super) fn time_ms(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self {
            Input::Tree(tree) => match member(tree, name) {
                None => Ok(None),
                Some(Value::String(text)) => {
                    parse_time(text).map(Some).ok_or_else(|| wrong_type(name, "a time"))
                }
                Some(value) => Ok(Some((number(name, value)? * 1000.0).round() as i64)),
            },
            Input::Query(scope) => match scope.text(name)?.filter(|text| !text.is_empty()) {
                None => Ok(None),
                Some(text) => parse_time(text).map(Some).ok_or_else(|| malformed(name, "a time")),
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

fn parse_time(text: &str) -> Option<i64> {
    date::parse_iso8601_ms(text).and_then(|time| i64::try_from(time).ok())
}

fn wrong_type(name: &str, expected: &str) -> ApiError {
    ApiError::serialization(format!("{name} is not {expected}"))
}

fn malformed(name: &str, expected: &str) -> ApiError {
    ApiError::malformed_input(format!("parameter {name} is not {expected}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::query::Parameters;

    /// What `read` makes of the member `M` of a tree, and of Query parameters.
    fn of_tree<T>(
        value: Value,
        read: impl Fn(&Input<'_>) -> Result<T, ApiError>,
    ) -> Result<T, String> {
        let tree = json!({ "M": value });
        read(&Input::Tree(&tree)).map_err(|error| format!("{}: {}", error.code, error.message))
    }

    fn of_query<T>(
        form: &str,
        read: impl Fn(&Input<'_>) -> Result<T, ApiError>,
    ) -> Result<T, String> {
        let parameters = Parameters::parse("", form.as_bytes()).unwrap();
        read(&Input::Query(parameters.scope()))
            .map_err(|error| format!("{}: {}", error.code, error.message))
    }

    fn not<T>(expected: &str) -> Result<T, String> {
        Err(format!("SerializationException: M is not {expected}"))
    }

    fn no_parameter<T>(expected: &str) -> Result<T, String> {
        Err(format!("MalformedInput: parameter M is not {expected}"))
    }

    #[test]
    fn text_is_text_only() {
        let read = |input: &Input<'_>| input.text("M");

        assert_eq!(of_tree(json!("é"), read), Ok(Some("é".to_owned())));
        assert_eq!(of_tree(json!(null), read), Ok(None));
        assert_eq!(of_tree(json!(1), read), not("a string"));
        assert_eq!(of_query("M=%C3%A9", read), Ok(Some("é".to_owned())));
        assert_eq!(of_query("M=", read), Ok(Some(String::new())));
        assert_eq!(of_query("N=1", read), Ok(None));
        assert_eq!(of_query("M=%FF", read), no_parameter("UTF-8"));
    }

    #[test]
    fn numbers_are_numbers_or_the_names_of_what_is_none() {
        let read = |input: &Input<'_>| input.number("M");

        for (value, number) in [
            (json!(-2), -2.0),
            (json!(2.5), 2.5),
            (json!("Infinity"), f64::INFINITY),
            (json!("-Infinity"), f64::NEG_INFINITY),
        ] {
            assert_eq!(of_tree(value, read), Ok(Some(number)));
        }
        assert!(of_tree(json!("NaN"), read).unwrap().unwrap().is_nan());
        assert_eq!(of_tree(json!(null), read), Ok(None));
        for value in [json!("2.5"), json!("inf"), json!(true)] {
            assert_eq!(of_tree(value, read), not("a number"));
        }
        assert_eq!(of_query("M=-2.5", read), Ok(Some(-2.5)));
        assert_eq!(of_query("M=", read), Ok(None));
        assert_eq!(of_query("M=x", read), no_parameter("a number"));

        let read = |input: &Input<'_>| input.numbers("M");
        assert_eq!(of_tree(json!([1, 2.5]), read), Ok(vec![1.0, 2.5]));
        assert_eq!(of_tree(json!(null), read), Ok(vec![]));
        assert_eq!(of_tree(json!([1, null]), read), not("a number"));
        assert_eq!(of_tree(json!({}), read), not("a list"));
        assert_eq!(of_query("M.member.2=2.5&M.member.1=1", read), Ok(vec![1.0, 2.5]));
        assert_eq!(of_query("M.member.1=x", read), no_parameter("a number"));
    }

    #[test]
    fn integers_have_no_fraction() {
        let read = |input: &Input<'_>| input.integer("M");

        assert_eq!(of_tree(json!(-60), read), Ok(Some(-60)));
        assert_eq!(of_tree(json!(null), read), Ok(None));
        for value in [json!(1.5), json!("60"), json!(u64::MAX)] {
            assert_eq!(of_tree(value, read), not("an integer"));
        }
        assert_eq!(of_query("M=-60", read), Ok(Some(-60)));
        assert_eq!(of_query("M=1.5", read), no_parameter("an integer"));
    }

    #[test]
    fn truth_is_true_or_false() {
        let read = |input: &Input<'_>| input.truth("M");

        for truth in [true, false] {
            assert_eq!(of_tree(json!(truth), read), Ok(Some(truth)));
            assert_eq!(of_query(&format!("M={truth}"), read), Ok(Some(truth)));
        }
        assert_eq!(of_tree(json!(null), read), Ok(None));
        assert_eq!(of_tree(json!("true"), read), not("a boolean"));
        assert_eq!(of_query("M=", read), Ok(None));
        assert_eq!(of_query("N=", read), Ok(None));
        assert_eq!(of_query("M=True", read), Ok(Some(true)));
        assert_eq!(of_query("M=False", read), Ok(Some(false)));
        assert_eq!(of_query("M=1", read), no_parameter("a boolean"));
    }

    #[test]
    fn times_are_seconds_or_text() {
        let read = |input: &Input<'_>| input.time_ms("M");

        for (value, time_ms) in [
            (json!(1), 1000),
            (json!(1.0005), 1001),
            (json!(-1), -1000),
            (json!(1e300), i64::MAX),
            (json!("1970-01-01T00:00:01.5Z"), 1500),
        ] {
            assert_eq!(of_tree(value, read), Ok(Some(time_ms)));
        }
        assert_eq!(of_tree(json!(null), read), Ok(None));
        assert_eq!(of_tree(json!(true), read), not("a number"));
        assert_eq!(of_tree(json!("1"), read), not("a time"));
        assert_eq!(of_query("M=1970-01-01T00:00:01.5Z", read), Ok(Some(1500)));
        assert_eq!(of_query("M=", read), Ok(None));
        assert_eq!(of_query("M=1", read), no_parameter("a time"));
    }

    #[test]
    fn lists_have_elements_of_their_kind() {
        let texts = |input: &Input<'_>| input.texts("M");
        let ab = || Ok(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(of_tree(json!(["a", "b"]), texts), ab());
        assert_eq!(of_tree(json!(null), texts), Ok(vec![]));
        assert_eq!(of_tree(json!(["a", 1]), texts), not("a list of strings"));
        assert_eq!(of_tree(json!("a"), texts), not("a list"));
        assert_eq!(of_query("M.member.2=b&M.member.1=a", texts), ab());
        assert_eq!(of_query("M.1=a", texts), Ok(vec![]));

        let pairs = |input: &Input<'_>| input.pairs("M");
        let kv = || Ok(vec![("k".to_owned(), "v".to_owned()), (String::new(), String::new())]);
        assert_eq!(of_tree(json!([{"Key": "k", "Value": "v"}, {}]), pairs), kv());
        assert_eq!(of_tree(json!([1]), pairs), not("a list of structures"));
        let form = "M.member.1.Key=k&M.member.1.Value=v&M.member.2.Other=x";
        assert_eq!(of_query(form, pairs), kv());

        let has_one = |input: &Input<'_>| Ok(input.structure("M")?.is_some());
        assert_eq!(of_tree(json!({}), has_one), Ok(true));
        assert_eq!(of_tree(json!(null), has_one), Ok(false));
        assert_eq!(of_tree(json!([]), has_one), not("a structure"));
        assert_eq!(of_query("M.Key=k", has_one), Ok(true));
        assert_eq!(of_query("M=k", has_one), Ok(false));
    }
}
