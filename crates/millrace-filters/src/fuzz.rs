//! The entry point for fuzzing: any bytes go in, nothing may panic but what shows a defect.

use crate::{Attribute, AttributeKind, FilterPolicy, Filters, Message, Scope};

/// A policy, a body, then name, type and value of attributes, all separated by NUL. The policy is
/// read in both scopes, and must match with the index as without.
pub fn filter(input: &[u8]) {
    let Ok(input) = str::from_utf8(input) else { return };
    let mut parts = input.split('\0');
    let policy = parts.next().unwrap_or_default();
    let body = parts.next().unwrap_or_default();
    let mut attributes = Vec::new();
    while let (Some(name), Some(kind), Some(value)) = (parts.next(), parts.next(), parts.next()) {
        attributes.push(Attribute { name, kind: AttributeKind::of(kind), value });
    }
    let message = Message::new(body, attributes);
    let mut filters = Filters::new();
    let mut expected = Vec::new();
    for (key, scope) in [(0, Scope::MessageAttributes), (1, Scope::MessageBody)] {
        match FilterPolicy::parse(policy, scope) {
            Ok(policy) => {
                if policy.matches(&message) {
                    expected.push(key);
                }
                filters.insert(key, policy);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let mut found = Vec::new();
    filters.matching(&message, &mut found);
    assert_eq!(found, expected, "{policy}");
    for key in [0, 1] {
        filters.remove(key);
    }
    assert_eq!(filters.matching(&message, &mut found), 0, "{policy}");
}
