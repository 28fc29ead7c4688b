//! Policies against messages.

mod errors;
mod hostile;
mod index;
mod matching;
mod oracle;
mod properties;

use crate::{Attribute, AttributeKind, FilterPolicy, Message, Scope};

fn policy(text: &str, scope: Scope) -> FilterPolicy {
    FilterPolicy::parse(text, scope).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Applies a policy to a body.
fn body_matches(text: &str, body: &str) -> bool {
    policy(text, Scope::MessageBody).matches(&Message::new(body, Vec::new()))
}

fn attribute<'a>(name: &'a str, data_type: &str, value: &'a str) -> Attribute<'a> {
    Attribute { name, kind: AttributeKind::of(data_type), value }
}

/// Applies a policy to a message with these attributes: name, type, value.
fn attributes_match(text: &str, attributes: &[(&str, &str, &str)]) -> bool {
    let attributes = attributes.iter().map(|(name, kind, value)| attribute(name, kind, value));
    policy(text, Scope::MessageAttributes).matches(&Message::new("body", attributes.collect()))
}
