//! Projects of IronMQ: the account and region that the queues of each are in, and the tokens that
//! open it.
//!
//! [`Projects`] answers from memory, in the path of each request; kept documents and the
//! configuration are behind it. Of a token only its hash is kept, and nothing shows or logs one.

mod declared;
mod directory;
mod document;
mod manage;
mod token;

use millrace_core::{is_account, sha256_hex};

pub use declared::{DeclaredProject, DeclaredToken};
pub(crate) use directory::{Access, Projects};
pub(crate) use manage::{Listed, Owner};

/// The longest id of a project. IronMQ's have 24 characters.
const PROJECT_ID_BYTES: usize = 128;

/// The place of a project's queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub project: String,
    pub region: String,
    pub account: String,
}

/// Returns true for an id that a project may be kept under: letters, digits, dots, hyphens and
/// underscores. A colon would end it in an access key.
pub fn is_project_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=PROJECT_ID_BYTES).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// The account of a project that is not mapped to one: that of its number, or one of its hash.
fn account_of(project: &str) -> String {
    if is_account(project) {
        return project.to_owned();
    }
    let hash = sha256_hex(project.as_bytes());
    let number = hash.get(..15).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    format!("{:012}", number.unwrap_or_default() % 1_000_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_an_account() {
        assert_eq!(account_of("000000000000"), "000000000000");
        let other = account_of("53a3b3bd5e8edd1245000001");
        assert!(is_account(&other));
        assert_eq!(other, account_of("53a3b3bd5e8edd1245000001"));
        assert_ne!(other, account_of("53a3b3bd5e8edd1245000002"));
    }

    #[test]
    fn ids_of_projects_are_plain() {
        for id in ["53a3b3bd5e8edd1245000001", "a", "my-shop_2.eu", &"x".repeat(128)] {
            assert!(is_project_id(id), "{id}");
        }
        for id in ["", "a:b", "a/b", "a b", "\u{e9}", "a\n", &"x".repeat(129)] {
            assert!(!is_project_id(id), "{id}");
        }
    }
}
