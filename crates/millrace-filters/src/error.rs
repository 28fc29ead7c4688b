//! Reasons to refuse a filter policy.

use thiserror::Error;

/// The reason, in the words of SNS. SNS puts `FilterPolicy: ` in front of each text but one
/// ([`FilterError::is_prefixed`]), and the name of the parameter in front of all.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FilterError {
    /// The text is not JSON. The explanation is ours; SNS shows its parser's.
    #[error("failed to parse JSON. {0}")]
    Json(String),
    #[error("Filter is not an object")]
    NotAnObject,
    #[error("Empty objects are not allowed")]
    EmptyObject,
    #[error("Empty arrays are not allowed")]
    EmptyArray,
    /// The value of this key is neither a list of conditions nor an object.
    #[error("\"{0}\" must be an object or an array")]
    Rule(String),
    #[error("Match value must be String, number, true, false, or null")]
    Value,
    #[error("Match expression name not found")]
    NoOperator,
    #[error("Unrecognized match type {0}")]
    Operator(String),
    #[error("Only one key allowed in match expression")]
    OneKey,
    /// The operand of this operator is not a string.
    #[error("{0} match pattern must be a string")]
    Pattern(&'static str),
    #[error("exists match pattern must be either true or false.")]
    Exists,
    #[error("Value of numeric must be an array.")]
    NumericList,
    #[error("Invalid member in numeric match: {0}")]
    NumericMember(String),
    #[error("Unrecognized numeric range operator: {0}")]
    NumericOperator(String),
    /// A comparison is followed by something that is not a number.
    #[error("Value of {0} must be numeric")]
    NumericValue(&'static str),
    #[error("Too many elements in numeric expression")]
    NumericElements,
    #[error("Bad value in numeric range: {0}")]
    RangeValue(String),
    #[error("Bad numeric range operator: {0}")]
    RangeOperator(String),
    #[error("Too many terms in numeric range expression")]
    RangeTerms,
    #[error("Bottom must be less than top")]
    RangeOrder,
    #[error("Anything-But expression name not found")]
    AnythingButNothing,
    #[error("Unsupported anything-but pattern: {0}")]
    AnythingButOperator(String),
    #[error("Null prefix not allowed")]
    AnythingButPrefix,
    #[error("Value of anything-but must be an array or single string/number value.")]
    AnythingButValue,
    #[error("Inside anything but list, start|null|boolean is not supported.")]
    AnythingButMember,
    #[error(
        "Inside anything but list, either all values are number or string, mixed type is not supported"
    )]
    AnythingButMixed,
    #[error("Malformed CIDR, one '/' required")]
    CidrSlash,
    #[error("Malformed CIDR, mask bits must be an integer")]
    CidrMask,
    #[error("Nonstandard IP address: {0}")]
    CidrAddress(String),
    #[error("Filter policy can not have more than 5 keys")]
    TooManyKeys,
    #[error("Filter policy is too complex")]
    TooComplex,
    #[error("Filter policy can not be larger than 262144 bytes")]
    TooLarge,
    /// Policies on attributes have no levels.
    #[error("Filter policy scope MessageAttributes does not support nested filter policy")]
    Nested,
}

impl FilterError {
    /// Returns whether SNS writes `FilterPolicy: ` in front of the text.
    pub fn is_prefixed(&self) -> bool {
        !matches!(self, Self::Nested)
    }
}
