//! One filter policy, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::condition::Condition;
use crate::node::{Node, Scalar};
use crate::{FilterError, Message, parse};

/// The part of a message that a policy is applied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    #[default]
    MessageAttributes,
    MessageBody,
}

/// A filter policy. Matches a message if any of its alternatives does; there are several if it has
/// `$or`.
#[derive(Clone, Debug)]
pub struct FilterPolicy {
    scope: Scope,
    pub(crate) alternatives: Vec<Alternative>,
}

/// Conditions on keys, all of which hold.
#[derive(Clone, Debug)]
pub(crate) struct Alternative {
    tree: Branch,
    /// The keys that have conditions of equality only, by which the alternative can be indexed.
    pub(crate) exact: Vec<Rule>,
}

/// The conditions on one key, of which one must hold.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) path: Path,
    pub(crate) conditions: Arc<[Condition]>,
}

/// A key by its levels.
pub(crate) type Path = Vec<Arc<str>>;

/// The part of an alternative at one level of keys.
#[derive(Clone, Debug, Default)]
struct Branch {
    conditions: Option<Arc<[Condition]>>,
    children: BTreeMap<Arc<str>, Branch>,
}

impl FilterPolicy {
    /// Compiles the text of a `FilterPolicy` attribute, at most 256 KiB. A blank text and `{}` are
    /// no policy: see [`FilterPolicy::is_empty`].
    pub fn parse(text: &str, scope: Scope) -> Result<Self, FilterError> {
        Ok(Self { scope, alternatives: parse::alternatives(text, scope)? })
    }

    /// Returns whether the subscription has no policy, and so takes all messages.
    pub fn is_empty(&self) -> bool {
        self.alternatives.is_empty()
    }

    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns whether the message is for the subscription.
    pub fn matches(&self, message: &Message<'_>) -> bool {
        if self.is_empty() {
            return true;
        }
        let Some(tree) = message.tree(self.scope) else { return false };
        self.alternatives.iter().any(|alternative| alternative.tree.matches(tree))
    }
}

impl Alternative {
    /// Of rules for the same key, the last one counts.
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut last = BTreeMap::new();
        for Rule { path, conditions } in rules {
            last.insert(path, conditions);
        }
        let mut tree = Branch::default();
        for (path, conditions) in &last {
            let mut branch = &mut tree;
            for name in path {
                branch = branch.children.entry(name.clone()).or_default();
            }
            branch.conditions = Some(conditions.clone());
        }
        last.retain(|_, conditions| {
            conditions.iter().all(|condition| matches!(condition, Condition::Equals(_)))
        });
        let exact = last.into_iter().map(|(path, conditions)| Rule { path, conditions }).collect();
        Self { tree, exact }
    }
}

impl Branch {
    fn matches(&self, node: &Node<'_>) -> bool {
        let own = node.elements.is_empty() || node.has_own_part();
        own && self.matches_part(node) || node.elements.iter().any(|part| self.matches_part(part))
    }

    /// Applies the conditions to what is at the key besides elements, or to one element.
    fn matches_part(&self, part: &Node<'_>) -> bool {
        self.allows(&part.values)
            && self.children.iter().all(|(name, child)| match part.member(name) {
                Some(node) => child.matches(node),
                None => child.matches_absence(),
            })
    }

    fn matches_absence(&self) -> bool {
        self.allows(&[]) && self.children.values().all(Self::matches_absence)
    }

    fn allows(&self, values: &[Scalar<'_>]) -> bool {
        self.conditions
            .as_ref()
            .is_none_or(|conditions| conditions.iter().any(|condition| condition.matches(values)))
    }
}
