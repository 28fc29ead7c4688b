//! Projects: which account and region the queues of one are in, and who may use it.
//!
//! Where no credentials are configured, any project and token will do: one of twelve digits is the
//! account of that number, any other has an account made of its hash.

use millrace_core::{is_account, sha256_hex};
use millrace_wire::Request;

use super::refusal::Refusal;
use crate::auth::Auth;

/// Where the queues of a project are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Namespace {
    pub project: String,
    pub region: String,
    pub account: String,
}

/// All projects.
pub(super) struct Projects {
    auth: std::sync::Arc<Auth>,
    region: String,
}

impl Projects {
    /// Projects that say nothing else are in that region.
    pub(super) fn new(auth: std::sync::Arc<Auth>, region: String) -> Projects {
        Projects { auth, region }
    }

    /// The namespace of a project, if the request's token opens it.
    pub(super) fn enter(&self, project: &str, request: &Request<'_>) -> Result<Namespace, Refusal> {
        if self.auth.is_on() {
            return Err(match token(request) {
                Some(_) => Refusal::wrong_token(),
                None => Refusal::no_token(),
            });
        }
        Ok(Namespace {
            project: project.to_owned(),
            region: self.region.clone(),
            account: account_of(project),
        })
    }
}

/// The token of a request, from its header or, for links that others call, from its URL.
fn token(request: &Request<'_>) -> Option<String> {
    let given = request.header("authorization").and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("oauth").then(|| token.trim().to_owned())
    });
    let of_url = || {
        let parameters = millrace_wire::query::Parameters::parse(request.query, &[]).ok()?;
        parameters.get("oauth").map(str::to_owned)
    };
    given.or_else(of_url).filter(|token| !token.is_empty())
}

/// The account of a project that nobody has mapped to one.
pub(super) fn account_of(project: &str) -> String {
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
}
