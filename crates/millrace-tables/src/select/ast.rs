//! An expression, parsed. Its text form (`Display`) is the same for all spellings of one
//! expression: tokens are bound to it.

use std::fmt;

use super::pattern::Pattern;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Select {
    pub output: Output,
    pub domain: String,
    pub condition: Option<Expression>,
    pub order: Option<Order>,
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    All,
    ItemName,
    Count,
    /// No name twice.
    Attributes(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub by: Operand,
    pub direction: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    ItemName,
    Attribute(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Predicate(Predicate),
    Not(Box<Expression>),
    Combined(Operator, Box<Expression>, Box<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    And,
    Or,
    Intersection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predicate {
    pub operand: Operand,
    pub quantifier: Quantifier,
    pub test: Test,
}

/// Which values of an attribute have to pass the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    Every,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal(String),
    NotEqual(String),
    Less(String),
    LessOrEqual(String),
    Greater(String),
    GreaterOrEqual(String),
    Like(Pattern),
    NotLike(Pattern),
    /// Both ends are included.
    Between(String, String),
    In(Vec<String>),
    IsNull,
    IsNotNull,
}

impl Test {
    /// Tests a value. That there is one passes `is not null`.
    pub(super) fn passes(&self, value: &str) -> bool {
        match self {
            Test::Equal(other) => value == other,
            Test::NotEqual(other) => value != other,
            Test::Less(other) => value < other.as_str(),
            Test::LessOrEqual(other) => value <= other.as_str(),
            Test::Greater(other) => value > other.as_str(),
            Test::GreaterOrEqual(other) => value >= other.as_str(),
            Test::Like(pattern) => pattern.matches(value),
            Test::NotLike(pattern) => !pattern.matches(value),
            Test::Between(low, high) => low.as_str() <= value && value <= high.as_str(),
            Test::In(others) => others.iter().any(|other| value == other),
            Test::IsNull => false,
            Test::IsNotNull => true,
        }
    }
}

impl Expression {
    /// Calls `visit` with each predicate, from left to right.
    pub(super) fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Predicate)) {
        match self {
            Expression::Predicate(predicate) => visit(predicate),
            Expression::Not(inner) => inner.visit(visit),
            Expression::Combined(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
        }
    }
}

/// Everything that decides which items are found, and in which order.
impl fmt::Display for Select {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "from {}", Quoted('`', &self.domain))?;
        if let Some(condition) = &self.condition {
            write!(formatter, " where {condition}")?;
        }
        if let Some(Order { by, direction }) = &self.order {
            let direction = match direction {
                Direction::Ascending => "asc",
                Direction::Descending => "desc",
            };
            write!(formatter, " order by {by} {direction}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Predicate(predicate) => predicate.fmt(formatter),
            Expression::Not(inner) => write!(formatter, "not ({inner})"),
            Expression::Combined(operator, left, right) => {
                let operator = match operator {
                    Operator::And => "and",
                    Operator::Or => "or",
                    Operator::Intersection => "intersection",
                };
                write!(formatter, "({left}) {operator} ({right})")
            }
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quantifier {
            Quantifier::Any => write!(formatter, "{} ", self.operand)?,
            Quantifier::Every => write!(formatter, "every({}) ", self.operand)?,
        }
        let mut compared =
            |operator: &str, value: &str| write!(formatter, "{operator} {}", Quoted('\'', value));
        match &self.test {
            Test::Equal(value) => compared("=", value),
            Test::NotEqual(value) => compared("!=", value),
            Test::Less(value) => compared("<", value),
            Test::LessOrEqual(value) => compared("<=", value),
            Test::Greater(value) => compared(">", value),
            Test::GreaterOrEqual(value) => compared(">=", value),
            Test::Like(pattern) => compared("like", &pattern.to_string()),
            Test::NotLike(pattern) => compared("not like", &pattern.to_string()),
            Test::Between(low, high) => {
                compared("between", low)?;
                compared(" and", high)
            }
            Test::In(values) => {
                for (index, value) in values.iter().enumerate() {
                    compared(if index == 0 { "in (" } else { "," }, value)?;
                }
                formatter.write_str(")")
            }
            Test::IsNull => formatter.write_str("is null"),
            Test::IsNotNull => formatter.write_str("is not null"),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::ItemName => formatter.write_str("itemName()"),
            Operand::Attribute(name) => Quoted('`', name).fmt(formatter),
        }
    }
}

/// A text in quotes.
struct Quoted<'a>(char, &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quoted(quote, text) = *self;
        let doubled = text.replace(quote, &format!("{quote}{quote}"));
        write!(formatter, "{quote}{doubled}{quote}")
    }
}
