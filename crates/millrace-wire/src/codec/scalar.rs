//! Values without parts: texts, numbers, booleans, times, blobs.

use super::declare::Name;
use super::node::Node;
use super::value::Value;
use crate::query::Scope;
use crate::{ApiError, base64_text, date};

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// That many milliseconds since 1970.
    pub fn of_ms(time_ms: u64) -> Time {
        Time(i64::try_from(time_ms).unwrap_or(i64::MAX))
    }
}

/// Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

/// A value that is one parameter in Query.
trait Scalar: Sized {
    /// What a parameter should be.
    const EXPECTED: &str;

    fn of_node(node: &Node, name: &Name) -> Result<Self, ApiError>;

    /// From the text of a parameter.
    fn parse(text: &str) -> Option<Self>;

    /// From an empty parameter, which counts as absent where this is none.
    fn empty() -> Option<Self> {
        None
    }

    fn node(&self) -> Node;
}

impl Scalar for String {
    const EXPECTED: &str = "a string";

    fn of_node(node: &Node, name: &Name) -> Result<String, ApiError> {
        match node {
            Node::Text(text) => Ok(text.clone()),
            _ => Err(name.wrong_type("a string", "a list of strings")),
        }
    }

    fn parse(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn empty() -> Option<String> {
        Some(String::new())
    }

    fn node(&self) -> Node {
        Node::Text(self.clone())
    }
}

impl Scalar for f64 {
    const EXPECTED: &str = "a number";

    fn of_node(node: &Node, name: &Name) -> Result<f64, ApiError> {
        match node {
            Node::Float(number) => Ok(*number),
            Node::Integer(number) => Ok(*number as f64),
            // JSON writes what is not a number as a text.
            Node::Text(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
                text.parse().map_err(|_| name.wrong_type("a number", "a number"))
            }
            _ => Err(name.wrong_type("a number", "a number")),
        }
    }

    fn parse(text: &str) -> Option<f64> {
        text.parse().ok()
    }

    fn node(&self) -> Node {
        Node::Float(*self)
    }
}

impl Scalar for i64 {
    const EXPECTED: &str = "an integer";

    fn of_node(node: &Node, name: &Name) -> Result<i64, ApiError> {
        match node {
            Node::Integer(number) => Ok(*number),
            _ => Err(name.wrong_type("an integer", "a list of integers")),
        }
    }

    fn parse(text: &str) -> Option<i64> {
        text.parse().ok()
    }

    fn node(&self) -> Node {
        Node::Integer(*self)
    }
}

impl Scalar for bool {
    const EXPECTED: &str = "a boolean";

    fn of_node(node: &Node, name: &Name) -> Result<bool, ApiError> {
        match node {
            Node::Truth(truth) => Ok(*truth),
            _ => Err(name.wrong_type("a boolean", "a list of booleans")),
        }
    }

    fn parse(text: &str) -> Option<bool> {
        // boto 2 sends Python's `True`.
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        is("true").then_some(true).or_else(|| is("false").then_some(false))
    }

    fn node(&self) -> Node {
        Node::Truth(*self)
    }
}

impl Scalar for Time {
    const EXPECTED: &str = "a time";

    fn of_node(node: &Node, name: &Name) -> Result<Time, ApiError> {
        let refusal = || name.wrong_type("a time", "a list of times");
        if let Node::Text(text) = node {
            return Time::parse(text).ok_or_else(refusal);
        }
        let seconds = <f64 as Scalar>::of_node(node, name)?;
        if !seconds.is_finite() {
            return Err(refusal());
        }
        Ok(Time((seconds * 1000.0).round() as i64))
    }

    fn parse(text: &str) -> Option<Time> {
        date::parse_iso8601_ms(text).and_then(|time_ms| i64::try_from(time_ms).ok()).map(Time)
    }

    fn node(&self) -> Node {
        Node::Time(self.0)
    }
}

impl Scalar for Blob {
    const EXPECTED: &str = "base64";

    fn of_node(node: &Node, name: &Name) -> Result<Blob, ApiError> {
        let refusal = || name.wrong_type("base64", "a list of base64");
        match node {
            Node::Blob(bytes) => Ok(Blob(bytes.clone())),
            // JSON has no bytes.
            Node::Text(text) => Blob::parse(text).ok_or_else(refusal),
            _ => Err(refusal()),
        }
    }

    fn parse(text: &str) -> Option<Blob> {
        base64_text::decode(text.as_bytes()).map(Blob)
    }

    fn empty() -> Option<Blob> {
        Some(Blob::default())
    }

    fn node(&self) -> Node {
        Node::Blob(self.0.clone())
    }
}

macro_rules! values {
    ($($kind:ty)*) => {$(
        impl Value for $kind {
            fn of_node(node: &Node, name: &Name) -> Result<Self, ApiError> {
                Scalar::of_node(node, name)
            }

            fn of_query(scope: Scope<'_>, name: &Name) -> Result<Option<Self>, ApiError> {
                let text = match scope.text(name.wire)? {
                    None if name.is_any_case => scope.text_in_any_case(name.wire)?,
                    text => text,
                };
                match text {
                    None => Ok(None),
                    Some("") => Ok(<$kind as Scalar>::empty()),
                    Some(text) => of_parameter(text, name).map(Some),
                }
            }

            fn list_of_query(
                scope: Scope<'_>,
                list: &str,
                name: &Name,
            ) -> Result<Vec<Self>, ApiError> {
                let texts = scope.list(list)?.unwrap_or_default();
                texts.into_iter().map(|text| of_parameter(text, name)).collect()
            }

            fn node(&self, _: &'static Name) -> Node {
                Scalar::node(self)
            }
        }
    )*};
}

values! { String f64 i64 bool Time Blob }

fn of_parameter<T: Scalar>(text: &str, name: &Name) -> Result<T, ApiError> {
    T::parse(text).ok_or_else(|| name.malformed(T::EXPECTED))
}

/// A number as JSON and XML write it; JSON puts quotes around what is not a number.
pub(super) fn float_text(number: f64) -> String {
    if number.is_finite() || number.is_nan() {
        return format!("{number:?}");
    }
    let text = if number > 0.0 { "Infinity" } else { "-Infinity" };
    text.to_owned()
}
