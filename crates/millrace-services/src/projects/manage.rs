//! Projects made, listed and deleted, and their tokens made and revoked, by the accounts that they
//! are of.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_broker::{
    BrokerError, Expected, Found, KeptChange, KeptError, Purpose, Shard, Ticket,
};
use millrace_wire::ApiError;

use super::declared::DeclaredProject;
use super::directory::Projects;
use super::document::{PROJECTS, ProjectDocument, TokenDocument};
use super::token::{TokenHash, new_token};
use super::{Namespace, is_project_id};
use crate::sqs::of_broker;

/// Projects of all accounts: each change copies the directory.
const PROJECTS_MAX: usize = 10_000;
/// Tokens of a project: each request is compared with all of them.
const TOKENS_MAX: usize = 100;
/// Bytes of a token's label.
const LABEL_BYTES_MAX: usize = 128;
/// Documents that are read before other tasks get their turn.
const DOCUMENTS_PER_TURN: usize = 64;
/// Changes of one project at once, after which others get a turn.
const ATTEMPTS_MAX: usize = 20;

/// The account whose projects somebody may see and change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'a> {
    /// No credentials are configured.
    Any,
    Account(&'a str),
}

/// A project as it is listed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub namespace: Namespace,
    pub is_declared: bool,
    pub tokens: Vec<ListedToken>,
}

/// A token as it is listed: never itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedToken {
    pub id: String,
    pub label: String,
    /// `None`: the configuration declares it.
    pub created_ms: Option<u64>,
}

impl Owner<'_> {
    fn is(self, account: &str) -> bool {
        match self {
            Owner::Any => true,
            Owner::Account(owner) => owner == account,
        }
    }
}

impl Projects {
    /// Maps a project to an account and a region. One that is mapped so already stays as it is.
    pub(crate) async fn create(&self, wanted: &Namespace) -> Result<(), ApiError> {
        if !is_project_id(&wanted.project) {
            return Err(ApiError::invalid_parameter_value(
                "The id of a project has 1 to 128 letters of ASCII, digits, dots, hyphens and \
                 underscores.",
            ));
        }
        if self.is_known(&wanted.project) {
            return match *self.namespace(&wanted.project) == *wanted {
                true => Ok(()),
                false => Err(taken(&wanted.project)),
            };
        }
        match self.keep(wanted) {
            Ok(Some(ticket)) => self.committed(ticket).await,
            Ok(None) => Err(ApiError::invalid_parameter_value(format!(
                "There are {PROJECTS_MAX} projects, and no more are possible: delete some first."
            ))),
            Err(KeptError::Changed { .. }) => Err(taken(&wanted.project)),
            Err(error) => Err(of_kept(error)),
        }
    }

    /// Keeps a project that comes into being with its first queue, where no credentials are
    /// configured. The ticket is committed before those of later changes; `None` if nothing has to
    /// be kept, or nothing more can be.
    pub(crate) fn remember(&self, namespace: &Namespace) -> Result<Option<Ticket>, BrokerError> {
        if self.is_known(&namespace.project) || !is_project_id(&namespace.project) {
            return Ok(None);
        }
        match self.keep(namespace) {
            Err(KeptError::Changed { .. }) => Ok(None),
            kept => Ok(kept?),
        }
    }

    /// Deletes a project with all its tokens. Its queues stay.
    pub(crate) async fn delete(&self, owner: Owner<'_>, project: &str) -> Result<(), ApiError> {
        if self.declared_of(owner, project).is_some() {
            return Err(declared_in_file("Project", project));
        }
        self.change(owner, project, |found, _| {
            found.ok_or_else(|| no_such_project(project))?;
            Ok((None, ()))
        })
        .await
    }

    /// Makes a token of a project; returns its id and the token itself, which is shown only here.
    pub(crate) async fn create_token(
        &self,
        owner: Owner<'_>,
        project: &str,
        label: &str,
    ) -> Result<(String, String), ApiError> {
        if label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
            return Err(ApiError::invalid_parameter_value(format!(
                "A label has {LABEL_BYTES_MAX} bytes at most, and no control characters."
            )));
        }
        self.change(owner, project, |found, now_ms| {
            let mut document = match (found, self.declared_of(owner, project)) {
                (Some(document), _) => document,
                (None, Some(declared)) => ProjectDocument {
                    id: declared.id.clone(),
                    region: declared.region.clone(),
                    account: declared.account.clone(),
                    created_ms: now_ms,
                    tokens: Vec::new(),
                },
                (None, None) => return Err(no_such_project(project)),
            };
            if document.tokens.len() >= TOKENS_MAX {
                return Err(ApiError::invalid_parameter_value(format!(
                    "A project has {TOKENS_MAX} tokens at most: revoke some first."
                )));
            }
            let (token, id) = new_token().map_err(|cause| {
                tracing::error!(%cause, "the system gives no random bits");
                ApiError::internal_failure()
            })?;
            let (hash, label) = (TokenHash::of(&token), label.to_owned());
            let made = TokenDocument { id: id.clone(), label, hash, created_ms: now_ms };
            document.tokens.push(made);
            Ok((Some(document), (id, token)))
        })
        .await
    }

    /// Revokes the token of that id, or the tokens of that label: from now on they open nothing.
    /// Returns how many.
    pub(crate) async fn revoke_token(
        &self,
        owner: Owner<'_>,
        project: &str,
        token: &str,
    ) -> Result<usize, ApiError> {
        let declared = self.declared_of(owner, project);
        if declared.is_some_and(|it| it.tokens.iter().any(|it| it.name == token)) {
            return Err(declared_in_file("Token", token));
        }
        self.change(owner, project, |found, _| {
            if found.is_none() && declared.is_none() {
                return Err(no_such_project(project));
            }
            let mut document = found.ok_or_else(|| no_such_token(project))?;
            let before = document.tokens.len();
            document.tokens.retain(|it| it.id != token && (it.label != token || token.is_empty()));
            match before - document.tokens.len() {
                0 => Err(no_such_token(project)),
                revoked => Ok((Some(document), revoked)),
            }
        })
        .await
    }

    /// Up to `limit` projects, by id, from behind `after` on.
    pub(crate) async fn list(
        &self,
        owner: Owner<'_>,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Listed>, ApiError> {
        let is_listed = |id: &str, account: &str| id > after && owner.is(account);
        let declared = self.table.all_declared();
        let declared = declared.filter(|it| is_listed(&it.id, &it.account));
        let mut listed: BTreeMap<String, Listed> = declared
            .map(|it| {
                let namespace = Namespace {
                    project: it.id.clone(),
                    region: it.region.clone(),
                    account: it.account.clone(),
                };
                let token = |name: &String| ListedToken {
                    id: name.clone(),
                    label: String::new(),
                    created_ms: None,
                };
                let tokens = it.tokens.iter().map(|it| token(&it.name)).collect();
                (it.id.clone(), Listed { namespace, is_declared: true, tokens })
            })
            .collect();
        for document in self.documents(owner, after, limit).await? {
            let ProjectDocument { id, region, account, tokens, .. } = document;
            let is_overruled = self.table.declared(&id).is_some_and(|it| it.account != account);
            if is_overruled {
                continue;
            }
            let namespace = Namespace { project: id.clone(), region, account };
            let new = Listed { namespace, is_declared: false, tokens: Vec::new() };
            let tokens = tokens.into_iter().map(|it| ListedToken {
                id: it.id,
                label: it.label,
                created_ms: Some(it.created_ms),
            });
            listed.entry(id).or_insert(new).tokens.extend(tokens);
        }
        Ok(listed.into_values().take(limit).collect())
    }

    /// Up to `limit` documents of an owner, by id, from behind `after` on.
    async fn documents(
        &self,
        owner: Owner<'_>,
        after: &str,
        limit: usize,
    ) -> Result<Vec<ProjectDocument>, ApiError> {
        let home = self.home()?;
        let mut found = Vec::new();
        let mut last = after.to_owned();
        loop {
            let documents = PROJECTS.scan(home.kept(), "", Some(&last), DOCUMENTS_PER_TURN);
            let Some(document) = documents.last() else { return Ok(found) };
            last.clone_from(&document.id);
            found.extend(documents.into_iter().filter(|it| owner.is(&it.account)));
            if found.len() >= limit {
                return Ok(found);
            }
            tokio::task::yield_now().await;
        }
    }

    fn declared_of(&self, owner: Owner<'_>, project: &str) -> Option<&DeclaredProject> {
        self.table.declared(project).filter(|declared| owner.is(&declared.account))
    }

    fn keep(&self, namespace: &Namespace) -> Result<Option<Ticket>, KeptError> {
        if self.count() >= PROJECTS_MAX {
            tracing::debug!(PROJECTS_MAX, "a project is not kept: there are too many");
            return Ok(None);
        }
        let home = self.shards.home().map_err(KeptError::from)?;
        let document = ProjectDocument {
            id: namespace.project.clone(),
            region: namespace.region.clone(),
            account: namespace.account.clone(),
            created_ms: self.shards.now().0,
            tokens: Vec::new(),
        };
        let put = PROJECTS.put(&document)?.if_it_is(Expected::Absent);
        home.kept().change(&[put], Purpose::Store).map(Some)
    }

    /// Changes the document of a project of that account, or deletes it, as often as somebody else
    /// has changed it meanwhile.
    async fn change<T>(
        &self,
        owner: Owner<'_>,
        project: &str,
        to: impl Fn(Option<ProjectDocument>, u64) -> Result<(Option<ProjectDocument>, T), ApiError>,
    ) -> Result<T, ApiError> {
        let home = self.home()?;
        for _ in 0..ATTEMPTS_MAX {
            let found = PROJECTS.get(home.kept(), project);
            if found.as_ref().is_some_and(|found| !owner.is(&found.value.account)) {
                return Err(no_such_project(project));
            }
            let expected =
                found.as_ref().map_or(Expected::Absent, |it| Expected::Version(it.version));
            let value = found.map(|Found { value, .. }| value);
            let (document, outcome) = to(value, self.shards.now().0)?;
            let (change, purpose): (KeptChange<'_>, _) = match &document {
                Some(document) => (PROJECTS.put(document).map_err(of_kept)?, Purpose::Store),
                None => (PROJECTS.delete(project), Purpose::Reclaim),
            };
            match home.kept().change(&[change.if_it_is(expected)], purpose) {
                Ok(ticket) => {
                    self.committed(ticket).await?;
                    return Ok(outcome);
                }
                Err(KeptError::Changed { .. }) => {}
                Err(error) => return Err(of_kept(error)),
            }
        }
        Err(ApiError::throttling("The project is changed by others at the same time."))
    }

    fn home(&self) -> Result<Arc<Shard>, ApiError> {
        self.shards.home().map_err(of_broker)
    }

    async fn committed(&self, ticket: Ticket) -> Result<(), ApiError> {
        self.home()?.committed(Some(ticket)).await.map_err(of_broker)
    }
}

fn of_kept(error: KeptError) -> ApiError {
    of_broker(error.into())
}

/// The same for a project of another account.
fn no_such_project(project: &str) -> ApiError {
    ApiError::invalid_parameter_value(format!("There is no project {project} of this account."))
}

/// Does not repeat what was given: it may be the token itself.
fn no_such_token(project: &str) -> ApiError {
    let text = format!("Project {project} has no token with this id or label.");
    ApiError::invalid_parameter_value(text)
}

fn declared_in_file(what: &str, name: &str) -> ApiError {
    ApiError::invalid_parameter_value(format!(
        "{what} {name} is declared in the configuration file: remove it there, and restart the \
         server."
    ))
}

/// Does not say which account has it.
fn taken(project: &str) -> ApiError {
    ApiError::invalid_parameter_value(format!(
        "Project {project} exists already, with another region or account."
    ))
}
