//! Parses expressions.
//!
//! ```text
//! select  = "select" output "from" name [ "where" terms ] [ "order" "by" sort ] [ "limit" digits ]
//! output  = "*" | "itemName()" | "count(*)" | name { "," name }
//! sort    = ( name | "itemName()" ) [ "asc" | "desc" ]
//! terms   = term { ( "and" | "or" | "intersection" ) term }      from left to right
//! term    = "not" term | "(" terms ")" | operand test
//! operand = name | "itemName()" | "every" "(" name ")"
//! test    = ( "=" | "!=" | "<" | "<=" | ">" | ">=" | [ "not" ] "like" ) value
//!         | "between" value "and" value | "in" "(" value { "," value } ")" | "is" [ "not" ] "null"
//! ```
//! Bounded: the bytes of an expression, its predicates and values, and how deep terms nest, hence
//! the depth of everything that walks the result.

use super::ast::{
    Direction, Expression, Operand, Operator, Order, Output, Predicate, Quantifier, Select, Test,
};
use super::error::SelectError;
use super::lexer::{Lexer, Token};
use super::pattern::Pattern;

/// SimpleDB developer guide, "Limits": attributes, and comparisons, of an expression.
pub(super) const PREDICATES_MAX: usize = 20;
/// A list of 24 values was refused by the real service.
const VALUES_MAX: usize = 20;
/// SimpleDB developer guide, "Limits": attributes requested in a Select.
const ATTRIBUTES_MAX: usize = 256;
const LIMIT_MAX: u32 = 2500;
/// The size of a request at most.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;
/// Parentheses and `not`, and the predicate in them: far more than twenty predicates need.
const DEPTH_MAX: usize = 65;

const RESERVED: [&str; 18] = [
    "or",
    "and",
    "not",
    "from",
    "where",
    "select",
    "like",
    "null",
    "is",
    "order",
    "by",
    "asc",
    "desc",
    "in",
    "between",
    "intersection",
    "limit",
    "every",
];

pub(super) fn parse(expression: &str) -> Result<Select, SelectError> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(SelectError::Syntax);
    }
    let mut lexer = Lexer::new(expression);
    let token = lexer.next()?;
    Parser { lexer, token, predicates: 0, values: 0, depth: 0 }.select()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next one.
    token: Token<'a>,
    predicates: usize,
    values: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn select(&mut self) -> Result<Select, SelectError> {
        self.expect_word("select")?;
        let output = self.output()?;
        self.expect_word("from")?;
        let domain = self.name()?;
        let condition = if self.take_word("where")? { Some(self.terms()?) } else { None };
        let order = if self.take_word("order")? { Some(self.order()?) } else { None };
        let limit = if self.take_word("limit")? { Some(self.digits()?) } else { None };
        if self.token != Token::End {
            return Err(SelectError::Syntax);
        }
        check_output(&output)?;
        check_order(order.as_ref(), condition.as_ref())?;
        let limit = limit.map(limit_of).transpose()?;
        Ok(Select { output, domain, condition, order, limit })
    }

    fn output(&mut self) -> Result<Output, SelectError> {
        if self.take(&Token::Star)? {
            return Ok(Output::All);
        }
        if self.take_call("count")? {
            self.expect(&Token::Star)?;
            self.expect(&Token::Close)?;
            return Ok(Output::Count);
        }
        if self.take_item_name()? {
            return Ok(Output::ItemName);
        }
        let mut names = vec![self.name()?];
        while self.take(&Token::Comma)? {
            names.push(self.name()?);
        }
        Ok(Output::Attributes(names))
    }

    fn order(&mut self) -> Result<Order, SelectError> {
        self.expect_word("by")?;
        let by = if self.take_item_name()? {
            Operand::ItemName
        } else {
            Operand::Attribute(self.name()?)
        };
        let direction = if self.take_word("desc")? {
            Direction::Descending
        } else {
            self.take_word("asc")?;
            Direction::Ascending
        };
        Ok(Order { by, direction })
    }

    fn terms(&mut self) -> Result<Expression, SelectError> {
        let mut left = self.term()?;
        loop {
            let operator = if self.take_word("and")? {
                Operator::And
            } else if self.take_word("or")? {
                Operator::Or
            } else if self.take_word("intersection")? {
                Operator::Intersection
            } else {
                return Ok(left);
            };
            let right = self.term()?;
            left = Expression::Combined(operator, Box::new(left), Box::new(right));
        }
    }

    fn term(&mut self) -> Result<Expression, SelectError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SelectError::Syntax);
        }
        let term = if self.take_word("not")? {
            Expression::Not(Box::new(self.term()?))
        } else if self.take(&Token::Open)? {
            let terms = self.terms()?;
            self.expect(&Token::Close)?;
            terms
        } else {
            Expression::Predicate(self.predicate()?)
        };
        self.depth -= 1;
        Ok(term)
    }

    fn predicate(&mut self) -> Result<Predicate, SelectError> {
        self.predicates += 1;
        if self.predicates > PREDICATES_MAX {
            return Err(SelectError::TooManyPredicates(PREDICATES_MAX));
        }
        let (operand, quantifier) = if self.take_item_name()? {
            (Operand::ItemName, Quantifier::Any)
        } else if self.take_word("every")? {
            self.expect(&Token::Open)?;
            let name = self.name()?;
            self.expect(&Token::Close)?;
            (Operand::Attribute(name), Quantifier::Every)
        } else {
            (Operand::Attribute(self.name()?), Quantifier::Any)
        };
        Ok(Predicate { operand, quantifier, test: self.test()? })
    }

    fn test(&mut self) -> Result<Test, SelectError> {
        let test = match self.next()? {
            Token::Equal => Test::Equal(self.value()?),
            Token::NotEqual => Test::NotEqual(self.value()?),
            Token::Less => Test::Less(self.value()?),
            Token::LessOrEqual => Test::LessOrEqual(self.value()?),
            Token::Greater => Test::Greater(self.value()?),
            Token::GreaterOrEqual => Test::GreaterOrEqual(self.value()?),
            Token::Word(word) if is(word, "like") => Test::Like(Pattern::parse(&self.value()?)),
            Token::Word(word) if is(word, "not") => {
                self.expect_word("like")?;
                Test::NotLike(Pattern::parse(&self.value()?))
            }
            Token::Word(word) if is(word, "between") => {
                let low = self.text()?;
                self.expect_word("and")?;
                Test::Between(low, self.value()?)
            }
            Token::Word(word) if is(word, "in") => {
                self.expect(&Token::Open)?;
                let mut values = vec![self.value()?];
                while self.take(&Token::Comma)? {
                    values.push(self.value()?);
                }
                self.expect(&Token::Close)?;
                Test::In(values)
            }
            Token::Word(word) if is(word, "is") => {
                let is_not = self.take_word("not")?;
                self.expect_word("null")?;
                if is_not { Test::IsNotNull } else { Test::IsNull }
            }
            _ => return Err(SelectError::Syntax),
        };
        Ok(test)
    }

    /// A value that counts as a comparison. The two of `between` are one.
    fn value(&mut self) -> Result<String, SelectError> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(SelectError::TooManyValues(VALUES_MAX));
        }
        self.text()
    }

    fn text(&mut self) -> Result<String, SelectError> {
        match self.next()? {
            Token::Value(value) => Ok(value),
            _ => Err(SelectError::Syntax),
        }
    }

    fn name(&mut self) -> Result<String, SelectError> {
        match self.next()? {
            Token::Name(name) if !name.is_empty() => Ok(name),
            Token::Word(word) if !RESERVED.iter().any(|reserved| is(word, reserved)) => {
                Ok(word.to_owned())
            }
            _ => Err(SelectError::Syntax),
        }
    }

    fn digits(&mut self) -> Result<&'a str, SelectError> {
        match self.next()? {
            Token::Digits(digits) => Ok(digits),
            _ => Err(SelectError::Syntax),
        }
    }

    fn take_item_name(&mut self) -> Result<bool, SelectError> {
        let is_taken = self.take_call("itemname")?;
        if is_taken {
            self.expect(&Token::Close)?;
        }
        Ok(is_taken)
    }

    /// Takes the word and the parenthesis behind it. The word alone is a name.
    fn take_call(&mut self, expected: &str) -> Result<bool, SelectError> {
        let Token::Word(word) = self.token else { return Ok(false) };
        if !is(word, expected) || !matches!(self.lexer.clone().next(), Ok(Token::Open)) {
            return Ok(false);
        }
        self.next()?;
        self.next()?;
        Ok(true)
    }

    fn take_word(&mut self, expected: &str) -> Result<bool, SelectError> {
        let is_there = matches!(self.token, Token::Word(word) if is(word, expected));
        if is_there {
            self.next()?;
        }
        Ok(is_there)
    }

    fn take(&mut self, expected: &Token<'_>) -> Result<bool, SelectError> {
        let is_there = self.token == *expected;
        if is_there {
            self.next()?;
        }
        Ok(is_there)
    }

    fn expect_word(&mut self, expected: &str) -> Result<(), SelectError> {
        if self.take_word(expected)? { Ok(()) } else { Err(SelectError::Syntax) }
    }

    fn expect(&mut self, expected: &Token<'_>) -> Result<(), SelectError> {
        if self.take(expected)? { Ok(()) } else { Err(SelectError::Syntax) }
    }

    /// Moves on. Returns the token that was next.
    fn next(&mut self) -> Result<Token<'a>, SelectError> {
        let following = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, following))
    }
}

/// Keywords are compared without regard to case.
fn is(word: &str, keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

fn check_output(output: &Output) -> Result<(), SelectError> {
    match output {
        Output::Attributes(names) if names.len() > ATTRIBUTES_MAX => {
            Err(SelectError::TooManyAttributes(ATTRIBUTES_MAX))
        }
        _ => Ok(()),
    }
}

/// Requires a predicate on the sort attribute, other than `is null`.
fn check_order(order: Option<&Order>, condition: Option<&Expression>) -> Result<(), SelectError> {
    let Some(order) = order else { return Ok(()) };
    let mut is_required = false;
    if let Some(condition) = condition {
        condition.visit(&mut |predicate| {
            is_required |= predicate.operand == order.by && predicate.test != Test::IsNull;
        });
    }
    if is_required { Ok(()) } else { Err(SelectError::Sort) }
}

fn limit_of(digits: &str) -> Result<u32, SelectError> {
    match digits.parse() {
        Ok(limit @ 1..=LIMIT_MAX) => Ok(limit),
        _ => Err(SelectError::Limit(digits.to_owned())),
    }
}
