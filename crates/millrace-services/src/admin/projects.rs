//! Paths below `/_millrace/projects`: projects of IronMQ and their tokens, which the API itself has
//! no calls for.
//!
//! All take a POST with JSON. With credentials, they are about the caller's account and no other.
//!
//! | path | body | answer |
//! |---|---|---|
//! | `/_millrace/projects` | `after`, an id | `projects`, and `next` if there are more |
//! | `…/create` | `project`, `account` (the caller's) | the project; the region is the signature's |
//! | `…/delete` | `project` | `{}` |
//! | `…/tokens/create` | `project`, `label` | `id` and `token`, which nothing shows a second time |
//! | `…/tokens/revoke` | `project`, `token`: an id or a label | `revoked`, a number |

use millrace_core::{is_account, limits};
use millrace_wire::{ApiError, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::json;
use crate::principal::Caller;
use crate::projects::{Listed, Namespace, Owner, Projects};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Listing {
    after: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Creation {
    project: String,
    account: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deletion {
    project: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenCreation {
    project: String,
    #[serde(default)]
    label: String,
}

/// No `Debug`: somebody may give the token itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revocation {
    project: String,
    token: String,
}

/// Answers a request for one of the paths; `None` if there is no such path.
pub(super) async fn act(
    projects: &Projects,
    path: &str,
    caller: &Caller<'_>,
    body: &[u8],
) -> Option<Result<Response, ApiError>> {
    let answer = match path {
        "/_millrace/projects" => list(projects, owner(caller), body).await,
        "/_millrace/projects/create" => create(projects, caller, body).await,
        "/_millrace/projects/delete" => delete(projects, owner(caller), body).await,
        "/_millrace/projects/tokens/create" => create_token(projects, owner(caller), body).await,
        "/_millrace/projects/tokens/revoke" => revoke_token(projects, owner(caller), body).await,
        _ => return None,
    };
    Some(answer.map(|answer| json(answer.to_string())))
}

async fn list(projects: &Projects, owner: Owner<'_>, body: &[u8]) -> Result<Value, ApiError> {
    let Listing { after } = parse(body)?;
    let limit = *limits::LIST_RESULTS.end() as usize;
    let found = projects.list(owner, &after, limit + 1).await?;
    let next = found.get(limit - 1).filter(|_| found.len() > limit);
    let next = next.map(|listed| &listed.namespace.project);
    let shown: Vec<Value> = found.iter().take(limit).map(shown).collect();
    Ok(json!({ "projects": shown, "next": next }))
}

fn shown(listed: &Listed) -> Value {
    let Listed { namespace: Namespace { project, region, account }, is_declared, tokens } = listed;
    let tokens = tokens.iter().map(
        |token| json!({ "id": token.id, "label": token.label, "created_ms": token.created_ms }),
    );
    json!({
        "project": project,
        "region": region,
        "account": account,
        "declared": is_declared,
        "tokens": tokens.collect::<Vec<_>>(),
    })
}

async fn create(projects: &Projects, caller: &Caller<'_>, body: &[u8]) -> Result<Value, ApiError> {
    let Creation { project, account } = parse(body)?;
    let account = account.unwrap_or_else(|| caller.principal.account.to_string());
    if !is_account(&account) {
        return Err(ApiError::invalid_parameter_value("An account is twelve digits."));
    }
    if caller.principal.is_foreign_to(&account) {
        return Err(ApiError::access_denied(format!(
            "The access key is of account {}, and maps projects to that account only: leave \
             --account out, or sign with a key of account {account}.",
            caller.principal.account
        )));
    }
    let namespace = Namespace { project, region: caller.region.to_string(), account };
    projects.create(&namespace).await?;
    let Namespace { project, region, account } = &namespace;
    tracing::info!(project, region, account, "project created");
    Ok(json!({ "project": project, "region": region, "account": account }))
}

async fn delete(projects: &Projects, owner: Owner<'_>, body: &[u8]) -> Result<Value, ApiError> {
    let Deletion { project } = parse(body)?;
    projects.delete(owner, &project).await?;
    tracing::info!(project, "project deleted");
    Ok(json!({}))
}

async fn create_token(
    projects: &Projects,
    owner: Owner<'_>,
    body: &[u8],
) -> Result<Value, ApiError> {
    let TokenCreation { project, label } = parse(body)?;
    let (id, token) = projects.create_token(owner, &project, &label).await?;
    tracing::info!(project, id, "token created");
    Ok(json!({ "id": id, "token": token }))
}

async fn revoke_token(
    projects: &Projects,
    owner: Owner<'_>,
    body: &[u8],
) -> Result<Value, ApiError> {
    let Revocation { project, token } = parse(body)?;
    let revoked = projects.revoke_token(owner, &project, &token).await?;
    tracing::info!(project, revoked, "tokens revoked");
    Ok(json!({ "revoked": revoked }))
}

fn owner<'a>(caller: &'a Caller<'_>) -> Owner<'a> {
    match caller.principal.is_authenticated() {
        true => Owner::Account(&caller.principal.account),
        false => Owner::Any,
    }
}

/// The error quotes the body to its sender only: nothing logs it.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::serialization(error.to_string()))
}
