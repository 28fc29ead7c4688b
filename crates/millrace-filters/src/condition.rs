//! Conditions on the value of one key.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::FilterError;
use crate::json::Json;
use crate::node::Scalar;
use crate::number::Number;

/// One member of a key's list; the key matches if any member does.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Equals(Exact),
    Prefix(String),
    Suffix(String),
    /// In lower case.
    EqualsIgnoreCase(String),
    AnythingBut(Vec<Exact>),
    AnythingButPrefix(String),
    Numeric(Range),
    Cidr(IpNet),
    Exists,
    Absent,
}

/// A value that is equal or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
}

/// SNS developer guide, "Subscription filter policies": the range of numbers.
const NUMBERS_BELOW: f64 = 1e9;

/// Numbers between two ends, of which at least one is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Range {
    bottom: Option<End>,
    top: Option<End>,
}

#[derive(Clone, Debug)]
struct End {
    number: Number,
    /// The number itself is in the range.
    included: bool,
}

impl Condition {
    pub(crate) fn parse(json: &Json) -> Result<Self, FilterError> {
        let exact = match json {
            Json::Object(members) => return operator(members),
            Json::List(_) => return Err(FilterError::Value),
            Json::Null => Exact::Null,
            Json::Bool(value) => Exact::Bool(*value),
            Json::Number(number) => Exact::Number(finite(number)?),
            Json::Text(text) => Exact::Text(text.clone()),
        };
        Ok(Self::Equals(exact))
    }

    /// Applies the condition to all values of the key; without any, the key is absent.
    pub(crate) fn matches(&self, values: &[Scalar<'_>]) -> bool {
        match self {
            Self::Exists => !values.is_empty(),
            Self::Absent => values.is_empty(),
            _ => values.iter().any(|value| self.matches_one(value)),
        }
    }

    fn matches_one(&self, value: &Scalar<'_>) -> bool {
        match self {
            Self::Equals(exact) => exact.equals(value),
            Self::AnythingBut(list) => !list.iter().any(|exact| exact.equals(value)),
            Self::Prefix(prefix) => value.text().is_some_and(|text| text.starts_with(prefix)),
            Self::AnythingButPrefix(prefix) => {
                !value.text().is_some_and(|text| text.starts_with(prefix))
            }
            Self::Suffix(suffix) => value.text().is_some_and(|text| text.ends_with(suffix)),
            Self::EqualsIgnoreCase(lower) => value
                .text()
                .is_some_and(|text| text.chars().flat_map(char::to_lowercase).eq(lower.chars())),
            Self::Numeric(range) => {
                matches!(value, Scalar::Number(number) if range.contains(*number))
            }
            Self::Cidr(network) => value
                .text()
                .and_then(|text| text.parse::<IpAddr>().ok())
                .is_some_and(|address| network.contains(&address)),
            Self::Exists => true,
            Self::Absent => false,
        }
    }
}

impl Exact {
    fn equals(&self, value: &Scalar<'_>) -> bool {
        match (self, value) {
            (Self::Null, Scalar::Null) => true,
            (Self::Bool(one), Scalar::Bool(other)) => one == other,
            (Self::Number(one), Scalar::Number(other)) => one == other,
            (Self::Text(one), Scalar::Text(other)) => one == other,
            _ => false,
        }
    }
}

impl Range {
    fn contains(&self, number: Number) -> bool {
        let above = self.bottom.as_ref().is_none_or(|bottom| {
            number > bottom.number || bottom.included && number == bottom.number
        });
        let below = self
            .top
            .as_ref()
            .is_none_or(|top| number < top.number || top.included && number == top.number);
        above && below
    }
}

/// `{"operator": operand}`. As in SNS, the first member is checked before there may be no second.
fn operator(members: &[(String, Json)]) -> Result<Condition, FilterError> {
    let (name, operand) = members.first().ok_or(FilterError::NoOperator)?;
    let condition = match name.as_str() {
        "prefix" => Condition::Prefix(text(operand, "prefix")?),
        "suffix" => Condition::Suffix(text(operand, "suffix")?),
        "equals-ignore-case" => {
            let text = text(operand, "equals-ignore-case")?;
            Condition::EqualsIgnoreCase(text.chars().flat_map(char::to_lowercase).collect())
        }
        "anything-but" => anything_but(operand)?,
        "numeric" => numeric(operand)?,
        "cidr" => Condition::Cidr(cidr(operand)?),
        "exists" => match operand {
            Json::Bool(true) => Condition::Exists,
            Json::Bool(false) => Condition::Absent,
            _ => return Err(FilterError::Exists),
        },
        _ => return Err(FilterError::Operator(name.clone())),
    };
    only(members)?;
    Ok(condition)
}

fn only(members: &[(String, Json)]) -> Result<(), FilterError> {
    if members.len() > 1 { Err(FilterError::OneKey) } else { Ok(()) }
}

fn text(operand: &Json, operator: &'static str) -> Result<String, FilterError> {
    match operand {
        Json::Text(text) => Ok(text.clone()),
        _ => Err(FilterError::Pattern(operator)),
    }
}

/// A number that policies may name: below 10⁹ either way.
fn finite(number: &serde_json::Number) -> Result<Number, FilterError> {
    let is_allowed = number.as_f64().is_some_and(|number| number.abs() < NUMBERS_BELOW);
    if !is_allowed {
        return Err(FilterError::Json("number out of range".to_owned()));
    }
    let whole = number.as_u64().map(Number::from).or_else(|| number.as_i64().map(Number::from));
    let any = whole.or_else(|| number.as_f64().and_then(Number::from_float));
    any.ok_or_else(|| FilterError::Json("number out of range".to_owned()))
}

fn anything_but(operand: &Json) -> Result<Condition, FilterError> {
    let list = match operand {
        Json::Object(members) => {
            let (name, operand) = members.first().ok_or(FilterError::AnythingButNothing)?;
            if name != "prefix" {
                return Err(FilterError::AnythingButOperator(name.clone()));
            }
            let prefix = text(operand, "prefix")?;
            if prefix.is_empty() {
                return Err(FilterError::AnythingButPrefix);
            }
            only(members)?;
            return Ok(Condition::AnythingButPrefix(prefix));
        }
        Json::List(list) => list.as_slice(),
        Json::Text(_) | Json::Number(_) => std::slice::from_ref(operand),
        Json::Null | Json::Bool(_) => return Err(FilterError::AnythingButValue),
    };
    let (mut texts, mut numbers) = (false, false);
    let mut values = Vec::with_capacity(list.len());
    for value in list {
        values.push(match value {
            Json::Text(text) => {
                texts = true;
                Exact::Text(text.clone())
            }
            Json::Number(number) => {
                numbers = true;
                Exact::Number(finite(number)?)
            }
            _ => return Err(FilterError::AnythingButMember),
        });
    }
    // Both, or neither.
    if texts == numbers {
        return Err(FilterError::AnythingButMixed);
    }
    Ok(Condition::AnythingBut(values))
}

/// `["=", n]`, `["<", n]`, `[">", n]` or `[">", n, "<", m]`, where `<=` and `>=` do as well.
fn numeric(operand: &Json) -> Result<Condition, FilterError> {
    let Json::List(list) = operand else { return Err(FilterError::NumericList) };
    let mut list = list.iter();
    let first = list.next();
    let Some(Json::Text(operator)) = first else {
        let token = first.map_or_else(|| "]".to_owned(), Json::to_string);
        return Err(FilterError::NumericMember(token));
    };
    let mut number = |operator| match list.next() {
        Some(Json::Number(number)) => finite(number),
        _ => Err(FilterError::NumericValue(operator)),
    };
    let mut range = Range::default();
    match operator.as_str() {
        "=" => {
            let number = number("equals")?;
            return match list.next() {
                None => Ok(Condition::Equals(Exact::Number(number))),
                Some(_) => Err(FilterError::NumericElements),
            };
        }
        "<" => range.top = Some(End { number: number("<")?, included: false }),
        "<=" => range.top = Some(End { number: number("<=")?, included: true }),
        ">" => range.bottom = Some(End { number: number(">")?, included: false }),
        ">=" => range.bottom = Some(End { number: number(">=")?, included: true }),
        _ => return Err(FilterError::NumericOperator(operator.clone())),
    }
    match (list.next(), &range.bottom) {
        (None, _) => {}
        (Some(_), None) => return Err(FilterError::NumericElements),
        (Some(operator), Some(bottom)) => {
            range.top = Some(top(operator, list.as_slice(), bottom)?);
        }
    }
    Ok(Condition::Numeric(range))
}

/// The second half of a range.
fn top(operator: &Json, rest: &[Json], bottom: &End) -> Result<End, FilterError> {
    let (name, included) = match operator {
        Json::Text(text) if text == "<" => ("<", false),
        Json::Text(text) if text == "<=" => ("<=", true),
        Json::Text(text) => return Err(FilterError::RangeOperator(text.clone())),
        _ => return Err(FilterError::RangeValue(operator.to_string())),
    };
    let Some((Json::Number(number), rest)) = rest.split_first() else {
        return Err(FilterError::NumericValue(name));
    };
    if !rest.is_empty() {
        return Err(FilterError::RangeTerms);
    }
    let number = finite(number)?;
    if number <= bottom.number {
        return Err(FilterError::RangeOrder);
    }
    Ok(End { number, included })
}

fn cidr(operand: &Json) -> Result<IpNet, FilterError> {
    // SNS names the wrong operator here.
    let text = text(operand, "prefix")?;
    let Some((address, mask)) = text.split_once('/').filter(|(_, mask)| !mask.contains('/')) else {
        return Err(FilterError::CidrSlash);
    };
    let mask: i32 = mask.parse().map_err(|_| FilterError::CidrMask)?;
    let network = address.parse().ok().zip(u8::try_from(mask).ok());
    network
        .and_then(|(address, mask)| IpNet::new(address, mask).ok())
        .ok_or_else(|| FilterError::CidrAddress(address.to_owned()))
}
