//! Expressions of metric math, from text to a tree.
//!
//! ```text
//! or      = and { ("OR" | "||") and }
//! and     = compare { ("AND" | "&&") compare }
//! compare = sum { ("==" | "!=" | "<=" | ">=" | "<" | ">") sum }
//! sum     = product { ("+" | "-") product }
//! product = unary { ("*" | "/") unary }
//! unary   = "-" unary | power
//! power   = primary [ "^" unary ]
//! primary = number | text | name | name "(" [ or { "," or } ] ")" | "[" or { "," or } "]" | "(" or ")"
//! ```

use super::MathError;

/// CloudWatch: characters of an expression at most.
const EXPRESSION_BYTES_MAX: usize = 2_048;
/// Expressions within expressions at most.
const DEPTH_MAX: usize = 64;

/// An expression as a tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(f64),
    Text(String),
    /// The id of a query, or a keyword such as `REPEAT`.
    Name(String),
    Negated(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    List(Vec<Expression>),
    /// The function's name in upper case.
    Call(String, Vec<Expression>),
}

impl Expression {
    /// Whether a function is called anywhere in it.
    pub(super) fn calls(&self, function: &str) -> bool {
        let mut open = vec![self];
        while let Some(expression) = open.pop() {
            match expression {
                Expression::Call(name, _) if name == function => return true,
                Expression::Call(_, inner) | Expression::List(inner) => open.extend(inner),
                Expression::Negated(inner) => open.push(inner),
                Expression::Binary(_, left, right) => open.extend([&**left, &**right]),
                Expression::Number(_) | Expression::Text(_) | Expression::Name(_) => {}
            }
        }
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Name(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 19] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "^", "(", ")", "[", "]", ",",
    "!",
];

pub(super) fn parse(text: &str) -> Result<Expression, MathError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(MathError::new("the expression is longer than 2048 characters"));
    }
    // No id begins with a capital letter.
    if text.trim_start().starts_with("SELECT ") {
        return Err(MathError::new("queries of Metrics Insights (SELECT) are not supported"));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let expression = parser.or(DEPTH_MAX)?;
    match parser.tokens.get(parser.at) {
        None => Ok(expression),
        Some(token) => Err(MathError::new(format!("unexpected {}", shown(token)))),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, MathError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, len) = if first.is_ascii_digit() || first == '.' {
            let len = number_len(rest);
            let digits = rest.get(..len).unwrap_or_default();
            let number = digits.parse();
            let number = number.map_err(|_| MathError::new(format!("{digits} is no number")))?;
            (Token::Number(number), len)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            (Token::Name(rest.get(..len).unwrap_or_default().to_owned()), len)
        } else if matches!(first, '\'' | '"') {
            let inside = rest.get(1..).unwrap_or_default();
            let end = inside.find(first).ok_or_else(|| MathError::new("a text has no end"))?;
            (Token::Text(inside.get(..end).unwrap_or_default().to_owned()), end + 2)
        } else {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let symbol = symbol.ok_or_else(|| MathError::new(format!("unexpected {first}")))?;
            (Token::Symbol(symbol), symbol.len())
        };
        tokens.push(token);
        rest = rest.get(len..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

/// Digits, a fraction and an exponent.
fn number_len(text: &str) -> usize {
    let mut previous = ' ';
    let is_end = |c: char| {
        let is_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
        previous = c;
        !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || is_sign)
    };
    text.find(is_end).unwrap_or(text.len())
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn or(&mut self, depth: usize) -> Result<Expression, MathError> {
        let depth =
            depth.checked_sub(1).ok_or_else(|| MathError::new("the expression is too deep"))?;
        self.left(depth, &[("OR", Operator::Or), ("||", Operator::Or)], Self::and)
    }

    fn and(&mut self, depth: usize) -> Result<Expression, MathError> {
        self.left(depth, &[("AND", Operator::And), ("&&", Operator::And)], Self::compare)
    }

    fn compare(&mut self, depth: usize) -> Result<Expression, MathError> {
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        self.left(depth, &operators, Self::sum)
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, MathError> {
        self.left(depth, &[("+", Operator::Add), ("-", Operator::Subtract)], Self::product)
    }

    fn product(&mut self, depth: usize) -> Result<Expression, MathError> {
        self.left(depth, &[("*", Operator::Multiply), ("/", Operator::Divide)], Self::unary)
    }

    fn unary(&mut self, depth: usize) -> Result<Expression, MathError> {
        let depth =
            depth.checked_sub(1).ok_or_else(|| MathError::new("the expression is too deep"))?;
        if self.takes("-") {
            return Ok(Expression::Negated(Box::new(self.unary(depth)?)));
        }
        let base = self.primary(depth)?;
        if self.takes("^") {
            let exponent = self.unary(depth)?;
            return Ok(Expression::Binary(Operator::Power, Box::new(base), Box::new(exponent)));
        }
        Ok(base)
    }

    fn primary(&mut self, depth: usize) -> Result<Expression, MathError> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Number(number)) => Ok(Expression::Number(number)),
            Some(Token::Text(text)) => Ok(Expression::Text(text)),
            Some(Token::Name(name)) if self.takes("(") => {
                let arguments = self.list(")", depth)?;
                Ok(Expression::Call(name.to_ascii_uppercase(), arguments))
            }
            Some(Token::Name(name)) => Ok(Expression::Name(name)),
            Some(Token::Symbol("[")) => Ok(Expression::List(self.list("]", depth)?)),
            Some(Token::Symbol("(")) => {
                let inner = self.or(depth)?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(token) => Err(MathError::new(format!("unexpected {}", shown(&token)))),
            None => Err(MathError::new("the expression ends early")),
        }
    }

    fn list(&mut self, end: &str, depth: usize) -> Result<Vec<Expression>, MathError> {
        let mut list = Vec::new();
        if self.takes(end) {
            return Ok(list);
        }
        loop {
            list.push(self.or(depth)?);
            if self.takes(end) {
                return Ok(list);
            }
            self.expect(",")?;
        }
    }

    /// Operators that bind to the left.
    fn left(
        &mut self,
        depth: usize,
        operators: &[(&str, Operator)],
        operand: fn(&mut Self, usize) -> Result<Expression, MathError>,
    ) -> Result<Expression, MathError> {
        let mut left = operand(self, depth)?;
        while let Some((_, operator)) = operators.iter().find(|(text, _)| self.takes(text)) {
            let right = operand(self, depth)?;
            left = Expression::Binary(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn expect(&mut self, symbol: &str) -> Result<(), MathError> {
        match self.takes(symbol) {
            true => Ok(()),
            false => Err(MathError::new(format!("expected {symbol}"))),
        }
    }

    /// Whether the next token is this symbol or keyword; takes it if so.
    fn takes(&mut self, text: &str) -> bool {
        let is_it = match self.tokens.get(self.at) {
            Some(Token::Symbol(symbol)) => *symbol == text,
            Some(Token::Name(name)) => name == text,
            _ => false,
        };
        self.at += usize::from(is_it);
        is_it
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Number(number) => number.to_string(),
        Token::Text(text) => format!("'{text}'"),
        Token::Name(name) => name.clone(),
        Token::Symbol(symbol) => (*symbol).to_owned(),
    }
}
