//! Parameters of the AWS Query protocol: from the URL and from a form body, flat names made into
//! lists and structures.
//!
//! Parameters are sorted by name once. What belongs to a list or a structure is then one run of
//! the sorted parameters, so that lookups cost a binary search and nothing is copied, however
//! many parameters there are.

use std::borrow::Cow;
use std::convert::Infallible;

use memchr::memchr;

use crate::ApiError;
use crate::percent;

/// Parameters of one request at most. A CloudWatch request of 1 MB may hold some ten thousands.
const PARAMETERS_MAX: usize = 65_536;

/// All parameters of a request.
#[derive(Clone, Debug, Default)]
pub struct Parameters<'a> {
    /// In ascending order of names, without duplicates.
    sorted: Vec<Parameter<'a>>,
}

#[derive(Clone, Debug)]
struct Parameter<'a> {
    name: Cow<'a, [u8]>,
    value: Cow<'a, [u8]>,
}

/// Some parameters, seen without the prefix that they have in common: a whole request or one
/// element of a list.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'p> {
    parameters: &'p [Parameter<'p>],
    prefix_bytes: usize,
    /// Names and numbers in the prefix.
    depth: u8,
}

impl<'a> Parameters<'a> {
    /// Reads the query string of the URL and a form body, percent-encoded, plus signs for spaces.
    /// Of parameters with the same name the first counts, and the body counts before the URL.
    ///
    /// # Errors
    ///
    /// MalformedQueryString if there are too many parameters.
    pub fn parse(query: &'a str, form: &'a [u8]) -> Result<Parameters<'a>, ApiError> {
        let mut sorted = Vec::new();
        for pair in split_pairs(form).chain(split_pairs(query.as_bytes())) {
            if sorted.len() == PARAMETERS_MAX {
                let message = format!("a request has at most {PARAMETERS_MAX} parameters");
                return Err(ApiError::malformed_query_string(message));
            }
            let (name, value) = split_once(pair, b'=');
            sorted.push(Parameter { name: percent::decode(name), value: percent::decode(value) });
        }

        // Stable, hence the first of equal names stays first.
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let given = sorted.len();
        sorted.dedup_by(|later, earlier| later.name == earlier.name);
        if sorted.len() < given / 2 {
            // They stay for as long as the request waits.
            sorted.shrink_to_fit();
        }
        Ok(Parameters { sorted })
    }

    /// All of them.
    pub fn scope(&self) -> Scope<'_> {
        Scope { parameters: &self.sorted, prefix_bytes: 0, depth: 0 }
    }

    /// All names and values, in ascending order of names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.sorted.iter().map(|parameter| (&*parameter.name, &*parameter.value))
    }

    /// The value of that name, if it is UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.scope().bytes(name).and_then(|value| str::from_utf8(value).ok())
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there is no parameter.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}

impl<'p> Scope<'p> {
    /// The value of that name, which may be any bytes.
    pub fn bytes(&self, name: &str) -> Option<&'p [u8]> {
        let found = self
            .parameters
            .binary_search_by(|parameter| self.local(parameter).cmp(name.as_bytes()))
            .ok()?;
        self.parameters.get(found).map(|parameter| &*parameter.value)
    }

    /// The value of that name as text; empty counts as present.
    ///
    /// # Errors
    ///
    /// MalformedInput if it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&'p str>, ApiError> {
        self.bytes(name).map(|value| utf8(name, value)).transpose()
    }

    /// The value of the first name that is that one but for the case of its letters. Looks at all
    /// parameters.
    ///
    /// # Errors
    ///
    /// MalformedInput if it is not UTF-8.
    pub fn text_in_any_case(&self, name: &str) -> Result<Option<&'p str>, ApiError> {
        let is_meant = |it: &&Parameter<'_>| self.local(it).eq_ignore_ascii_case(name.as_bytes());
        let found = self.parameters.iter().find(is_meant);
        found.map(|parameter| utf8(name, &parameter.value)).transpose()
    }

    /// The value of that name as an integer; empty counts as absent.
    ///
    /// # Errors
    ///
    /// MalformedInput if it is not an integer, like the SerializationException of JSON.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name)?.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(ApiError::malformed_input(format!("parameter {name} is not an integer"))),
        }
    }

    /// The list `name.1`, `name.2`, … in the order of the numbers; gaps are fine. A single value
    /// may lack its number. None if there is no element; `name=` is how an empty list is sent.
    ///
    /// # Errors
    ///
    /// MalformedInput if an element is not UTF-8.
    pub fn list(&self, name: &str) -> Result<Option<Vec<&'p str>>, ApiError> {
        let (before, rest) = self.split_at(name);
        self.list_of(name, before, self.begin_of(rest, name), |_| Ok(()))
    }

    /// The same of a list of which all that begins with `name.` is an element. If there is none,
    /// the name may have an s behind it.
    ///
    /// # Errors
    ///
    /// Also MalformedInput if no number from 1 follows.
    pub fn strict_list(&self, name: &str) -> Result<Option<Vec<&'p str>>, ApiError> {
        let check = |number| check_number(number, "Start of list found where not expected");
        let (before, rest) = self.split_at(name);
        self.list_of(name, before, self.begin_or_plural_of(rest, name), check)
    }

    fn list_of(
        &self,
        name: &str,
        before: &[Parameter<'_>],
        members: Scope<'p>,
        check: impl Fn(Option<u32>) -> Result<(), ApiError>,
    ) -> Result<Option<Vec<&'p str>>, ApiError> {
        let mut numbered = Vec::new();
        for parameter in members.parameters {
            let number = parse_number(members.local(parameter));
            check(number)?;
            if let Some(number) = number {
                numbered.push((number, utf8(name, &parameter.value)?));
            }
        }
        if numbered.is_empty() {
            // It would stand before all that only begin like it.
            let near = before.last().filter(|it| self.local(it).starts_with(name.as_bytes()));
            let single = near.map_or(Ok(None), |_| self.text(name))?;
            let single = single.filter(|text| !text.is_empty());
            return Ok(single.map(|text| vec![text]));
        }
        numbered.sort_by_key(|(number, _)| *number);
        Ok(Some(numbered.into_iter().map(|(_, text)| text).collect()))
    }

    /// The structures `name.1.…`, `name.2.…`, … in the order of the numbers; gaps are fine.
    pub fn structures(&self, name: &str) -> Vec<Scope<'p>> {
        let Ok(found) = self.nested(name).elements(|_| Ok::<_, Infallible>(()));
        found
    }

    /// The same of a list of which all that begins with `name.` belongs to an element. If there is
    /// nothing of it, the name may have an s behind it.
    ///
    /// # Errors
    ///
    /// MalformedInput if no number from 1 follows.
    pub fn strict_structures(&self, name: &str) -> Result<Vec<Scope<'p>>, ApiError> {
        self.nested_or_plural(name).elements(|number| {
            check_number(number, "Start of list element found where not expected")
        })
    }

    fn elements<E>(
        &self,
        check: impl Fn(Option<u32>) -> Result<(), E>,
    ) -> Result<Vec<Scope<'p>>, E> {
        let mut numbered = Vec::new();
        let mut rest = self.parameters;
        while let Some(first) = rest.first() {
            let (digits, _) = split_once(self.local(first), b'.');
            let prefix_bytes = self.prefix_bytes + digits.len() + 1;
            let number = parse_number(digits);
            check(number)?;
            let Some((number, prefix)) = number.zip(first.name.get(..prefix_bytes)) else {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            };
            let end = rest.partition_point(|parameter| parameter.name.starts_with(prefix));
            let (parameters, tail) = rest.split_at(end);
            numbered.push((number, Scope { parameters, prefix_bytes, depth: self.deeper() }));
            rest = tail;
        }
        numbered.sort_by_key(|(number, _)| *number);
        Ok(numbered.into_iter().map(|(_, scope)| scope).collect())
    }

    /// The parameters `name.…`, seen without that prefix.
    pub fn nested(&self, name: &str) -> Scope<'p> {
        self.begin_of(self.split_at(name).1, name)
    }

    /// The parameters `name.…`, or if there are none, `names.…`.
    pub fn nested_or_plural(&self, name: &str) -> Scope<'p> {
        self.begin_or_plural_of(self.split_at(name).1, name)
    }

    fn begin_or_plural_of(&self, rest: &'p [Parameter<'p>], name: &str) -> Scope<'p> {
        let first = rest.first().and_then(|it| self.local(it).strip_prefix(name.as_bytes()));
        // All that begin with the name stand side by side.
        match first {
            Some([b'.', ..]) => self.begin_of(rest, name),
            Some(_) => self.nested(&format!("{name}s")),
            None => Scope { parameters: &[], prefix_bytes: 0, depth: 0 },
        }
    }

    /// The parameters before `name.`, and those from there on.
    fn split_at(&self, name: &str) -> (&'p [Parameter<'p>], &'p [Parameter<'p>]) {
        let below = |parameter: &Parameter<'_>| {
            let local = self.local(parameter);
            let (head, tail) = local.split_at(local.len().min(name.len()));
            (head, tail.first().copied()) < (name.as_bytes(), Some(b'.'))
        };
        self.parameters.split_at(self.parameters.partition_point(below))
    }

    /// What is `name.…` at the begin of `rest`.
    fn begin_of(&self, rest: &'p [Parameter<'p>], name: &str) -> Scope<'p> {
        let is_within = |parameter: &Parameter<'_>| {
            let tail = self.local(parameter).strip_prefix(name.as_bytes());
            tail.is_some_and(|tail| tail.first() == Some(&b'.'))
        };
        let end = rest.partition_point(is_within);
        let parameters = rest.get(..end).unwrap_or_default();
        let prefix_bytes = self.prefix_bytes + name.len() + 1;
        Scope { parameters, prefix_bytes, depth: self.deeper() }
    }

    /// Whether there is no parameter.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    /// The depth of nesting: each [`Scope::nested`] and each element of a list is one level.
    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    fn deeper(&self) -> u8 {
        self.depth.saturating_add(1)
    }

    /// The name without the common prefix.
    fn local<'n>(&self, parameter: &'n Parameter<'_>) -> &'n [u8] {
        parameter.name.get(self.prefix_bytes..).unwrap_or_default()
    }
}

/// The non-empty pieces between ampersands. Ampersands side by side are passed over at once: a body
/// may hold millions.
fn split_pairs(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let begin = rest.iter().position(|byte| *byte != b'&')?;
        let text = rest.get(begin..)?;
        let (pair, behind) = split_at_separator(text, b'&').unwrap_or((text, &[]));
        rest = behind;
        Some(pair)
    })
}

/// What stands before and after the first `separator`.
fn split_once(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    split_at_separator(text, separator).unwrap_or((text, &[]))
}

fn split_at_separator(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr(separator, text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// A list number in its only spelling: without sign and leading zeros, so that equal numbers have
/// equal names.
fn parse_number(digits: &[u8]) -> Option<u32> {
    let is_plain = matches!(digits, [b'0'] | [b'1'..=b'9', ..]);
    str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
}

/// `unnumbered` is what AWS says of a name that has no number.
fn check_number(number: Option<u32>, unnumbered: &'static str) -> Result<(), ApiError> {
    match number {
        Some(0) => Err(ApiError::malformed_input("0 is not a valid index")),
        Some(_) => Ok(()),
        None => Err(ApiError::malformed_input(unnumbered)),
    }
}

fn utf8<'p>(name: &str, value: &'p [u8]) -> Result<&'p str, ApiError> {
    simdutf8::basic::from_utf8(value)
        .map_err(|_| ApiError::malformed_input(format!("parameter {name} is not UTF-8")))
}

#[cfg(test)]
mod tests;
