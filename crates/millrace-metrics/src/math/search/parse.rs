//! The text of a SEARCH, to what it looks for.
//!
//! ```text
//! search = [ "{" name { "," name } "}" [ "," ] ] [ any ]
//! any    = all { "OR" all }
//! all    = one { [ "AND" ] one }
//! one    = "NOT" one | "(" any ")" | word [ "=" ( word | "(" any ")" ) ]
//! ```
//! A name or a word may stand in quotes, within which `\` takes the next character as it is.

use super::super::MathError;
use super::tokens::Pattern;

/// Brackets and NOT within one another at most.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Search {
    pub schema: Option<Schema>,
    pub term: Option<Term>,
}

/// What stands in braces.
#[derive(Debug)]
pub(super) struct Schema {
    pub namespace: String,
    /// The exact set of names, in ascending order.
    pub dimensions: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Term {
    Any(Vec<Term>),
    All(Vec<Term>),
    Not(Box<Term>),
    Word {
        /// `MetricName`, `Namespace` or the name of a dimension; none: any of them.
        property: Option<String>,
        wanted: Wanted,
    },
}

#[derive(Debug)]
pub(super) enum Wanted {
    /// In quotes.
    Exactly(String),
    Tokens(Pattern),
}

pub(super) fn parse(text: &str) -> Result<Search, MathError> {
    let mut parser = Parser { rest: text.trim_start() };
    let schema = match parser.takes('{') {
        true => Some(parser.schema()?),
        false => None,
    };
    let term = match parser.rest {
        "" => None,
        _ => Some(parser.any(None, DEPTH_MAX)?),
    };
    match parser.rest {
        "" => Ok(Search { schema, term }),
        _ => Err(MathError::new("SEARCH has a ) too many")),
    }
}

struct Parser<'a> {
    /// Begins with no white space.
    rest: &'a str,
}

impl Parser<'_> {
    fn schema(&mut self) -> Result<Schema, MathError> {
        let ends = ['{', '}', ','];
        let (namespace, _) = self.word(&ends)?;
        let mut dimensions = Vec::new();
        while self.takes(',') {
            dimensions.push(self.word(&ends)?.0);
        }
        if !self.takes('}') {
            return Err(MathError::new("SEARCH lacks a }"));
        }
        self.takes(',');
        dimensions.sort_unstable();
        Ok(Schema { namespace, dimensions })
    }

    fn any(&mut self, property: Option<&str>, depth: usize) -> Result<Term, MathError> {
        let depth = depth.checked_sub(1).ok_or_else(|| MathError::new("SEARCH is too deep"))?;
        let mut terms = vec![self.all(property, depth)?];
        while self.takes_keyword("OR") {
            terms.push(self.all(property, depth)?);
        }
        Ok(Term::Any(terms))
    }

    fn all(&mut self, property: Option<&str>, depth: usize) -> Result<Term, MathError> {
        let mut terms = vec![self.one(property, depth)?];
        while !self.rest.is_empty() && !self.rest.starts_with(')') && !self.is_keyword("OR") {
            self.takes_keyword("AND");
            terms.push(self.one(property, depth)?);
        }
        Ok(Term::All(terms))
    }

    fn one(&mut self, property: Option<&str>, depth: usize) -> Result<Term, MathError> {
        if self.takes_keyword("NOT") {
            let depth = depth.checked_sub(1).ok_or_else(|| MathError::new("SEARCH is too deep"))?;
            return Ok(Term::Not(Box::new(self.one(property, depth)?)));
        }
        if self.takes('(') {
            return self.group(property, depth);
        }
        if self.is_keyword("AND") || self.is_keyword("OR") {
            return Err(MathError::new("SEARCH has an operator without a word"));
        }
        let (word, is_quoted) = self.word(&['(', ')', '='])?;
        if !self.takes('=') {
            return term(property, word, is_quoted);
        }
        if self.takes('(') {
            return self.group(Some(&word), depth);
        }
        let (value, is_quoted) = self.word(&['(', ')', '='])?;
        term(Some(&word), value, is_quoted)
    }

    /// What stands in brackets, the first of which is taken.
    fn group(&mut self, property: Option<&str>, depth: usize) -> Result<Term, MathError> {
        let inner = self.any(property, depth)?;
        match self.takes(')') {
            true => Ok(inner),
            false => Err(MathError::new("SEARCH lacks a )")),
        }
    }

    /// The next word, and whether it stands in quotes. Others end at white space, a quote, or at
    /// one of these characters.
    fn word(&mut self, ends: &[char]) -> Result<(String, bool), MathError> {
        if self.takes_exactly('"') {
            return Ok((self.quoted()?, true));
        }
        let is_end = |c: char| c == '"' || c.is_whitespace() || ends.contains(&c);
        let len = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        if word.is_empty() {
            return Err(MathError::new("SEARCH lacks a word"));
        }
        self.rest = rest.trim_start();
        Ok((word.to_owned(), false))
    }

    fn quoted(&mut self) -> Result<String, MathError> {
        let mut text = String::new();
        let mut chars = self.rest.chars();
        loop {
            match chars.next() {
                None => return Err(MathError::new("a text in SEARCH has no end")),
                Some('"') => break,
                Some('\\') => text.extend(chars.next()),
                Some(c) => text.push(c),
            }
        }
        self.rest = chars.as_str().trim_start();
        Ok(text)
    }

    fn takes(&mut self, symbol: char) -> bool {
        let is_it = self.takes_exactly(symbol);
        self.rest = self.rest.trim_start();
        is_it
    }

    /// Leaves the white space behind it.
    fn takes_exactly(&mut self, symbol: char) -> bool {
        let rest = self.rest.strip_prefix(symbol);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn takes_keyword(&mut self, keyword: &str) -> bool {
        let is_it = self.is_keyword(keyword);
        if is_it {
            self.rest = self.rest.get(keyword.len()..).unwrap_or_default().trim_start();
        }
        is_it
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        let rest = self.rest.strip_prefix(keyword);
        rest.is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_alphanumeric() || "-_.=".contains(c))
        })
    }
}

fn term(property: Option<&str>, word: String, is_quoted: bool) -> Result<Term, MathError> {
    let wanted = match is_quoted {
        true => Wanted::Exactly(word),
        false => Wanted::Tokens(
            Pattern::of(&word)
                .ok_or_else(|| MathError::new(format!("SEARCH cannot look for {word}")))?,
        ),
    };
    Ok(Term::Word { property: property.map(str::to_owned), wanted })
}
