//! The token of a request, and the project that it opens.
//!
//! Where no credentials are configured, any project and token will do. Policies of queues do not
//! apply: a token is of the project's owner.

use std::borrow::Cow;
use std::sync::Arc;

use millrace_wire::{Request, Tenant};

use super::refusal::Refusal;
use crate::principal::tenant_of;
use crate::projects::{Namespace, Projects, is_project_id};

/// The namespace of a project, if the request's token opens it. An unknown project is refused as
/// one with another token is.
pub(super) fn enter(
    projects: &Projects,
    project: &str,
    request: &Request<'_>,
) -> Result<Arc<Namespace>, Refusal> {
    if !is_project_id(project) {
        return Err(Refusal::new(404, "Project not found"));
    }
    if !projects.is_guarded() {
        return Ok(projects.namespace(project));
    }
    let token = token(request).ok_or_else(Refusal::no_token)?;
    projects.opened(project, &token).ok_or_else(Refusal::wrong_token)
}

/// The tenant that requests for a project are of. Accounts that are not authenticated are one.
pub(super) fn tenant(projects: &Projects, namespace: &Namespace) -> Tenant {
    if projects.is_guarded() { tenant_of(&namespace.account) } else { Tenant::EVERYBODY }
}

/// The token of a request, from its header or, for links that others call, from its URL.
fn token<'a>(request: &Request<'a>) -> Option<Cow<'a, str>> {
    let of_header = request.header("authorization").and_then(|value| {
        let (scheme, token) = value.trim().split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("oauth") && !token.is_empty()).then_some(token)
    });
    if let Some(token) = of_header {
        return Some(Cow::Borrowed(token));
    }
    let parameters = millrace_wire::query::Parameters::parse(request.query, &[]).ok()?;
    let token = parameters.get("oauth").filter(|token| !token.is_empty())?;
    Some(Cow::Owned(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use millrace_wire::Header;

    use super::*;

    fn token_of(authorization: Option<&str>, query: &str) -> Option<String> {
        let header = authorization.map(|value| Header::new("Authorization", value));
        let headers: Vec<Header<'_>> = header.into_iter().collect();
        let request = Request { query, ..Request::post(&headers, b"") };
        token(&request).map(Cow::into_owned)
    }

    #[test]
    fn a_token_is_in_the_header_or_else_in_the_url() {
        for (header, query, expected) in [
            (Some("OAuth abc"), "", Some("abc")),
            (Some("oauth  abc "), "oauth=def", Some("abc")),
            (Some("OAuth "), "oauth=def", Some("def")),
            (Some("Bearer abc"), "n=1&oauth=d%65f", Some("def")),
            (Some("Bearer abc"), "", None),
            (None, "oauth=", None),
            (None, "", None),
        ] {
            assert_eq!(token_of(header, query).as_deref(), expected, "{header:?} {query}");
        }
    }
}
