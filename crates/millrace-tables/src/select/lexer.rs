//! Splits an expression into tokens.

use super::error::SelectError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword or a bare name.
    Word(&'a str),
    Digits(&'a str),
    /// A name in backticks.
    Name(String),
    /// A value in single or double quotes.
    Value(String),
    Star,
    Comma,
    Open,
    Close,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    End,
}

/// What is left of an expression.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(expression: &'a str) -> Lexer<'a> {
        Lexer { rest: expression }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, SelectError> {
        self.rest = self.rest.trim_ascii_start();
        let mut characters = self.rest.chars();
        let Some(first) = characters.next() else { return Ok(Token::End) };
        let behind = characters.as_str();
        let is_followed_by_equal = behind.starts_with('=');
        let (token, bytes) = match first {
            '\'' | '"' => return self.quoted(behind, first).map(Token::Value),
            '`' => return self.quoted(behind, first).map(Token::Name),
            '*' => (Token::Star, 1),
            ',' => (Token::Comma, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '=' => (Token::Equal, 1),
            '!' if is_followed_by_equal => (Token::NotEqual, 2),
            '<' if is_followed_by_equal => (Token::LessOrEqual, 2),
            '>' if is_followed_by_equal => (Token::GreaterOrEqual, 2),
            '<' => (Token::Less, 1),
            '>' => (Token::Greater, 1),
            '0'..='9' | 'a'..='z' | 'A'..='Z' | '_' | '$' => return self.word(),
            _ => return Err(SelectError::Syntax),
        };
        self.skip(bytes);
        Ok(token)
    }

    fn word(&mut self) -> Result<Token<'a>, SelectError> {
        let is_of_word = |character: char| {
            character.is_ascii_alphanumeric() || character == '_' || character == '$'
        };
        let end = self.rest.find(|character| !is_of_word(character)).unwrap_or(self.rest.len());
        let (word, behind) = self.rest.split_at(end);
        self.rest = behind;
        if !word.starts_with(|first: char| first.is_ascii_digit()) {
            Ok(Token::Word(word))
        } else if word.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(Token::Digits(word))
        } else {
            Err(SelectError::Syntax)
        }
    }

    /// Reads up to the closing quote. A doubled quote is one of the text.
    fn quoted(&mut self, behind: &'a str, quote: char) -> Result<String, SelectError> {
        let mut text = String::new();
        let mut rest = behind;
        loop {
            let (before, after) = rest.split_once(quote).ok_or(SelectError::Syntax)?;
            text.push_str(before);
            match after.strip_prefix(quote) {
                Some(after) => {
                    text.push(quote);
                    rest = after;
                }
                None => {
                    self.rest = after;
                    return Ok(text);
                }
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}
