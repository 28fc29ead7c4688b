//! All projects as requests see them: in memory, replaced as a whole with each change.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use millrace_broker::{Kept, Shards};

use super::declared::DeclaredProject;
use super::document::{PROJECTS, ProjectDocument};
use super::token::TokenHash;
use super::{Namespace, account_of};

/// The choice between checking tokens and accounts of callers, and not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No credentials are configured: any token opens any project.
    Open,
    Guarded,
}

/// The directory of projects.
pub(crate) struct Projects {
    pub(super) shards: Arc<Shards>,
    /// The region of projects that are not mapped to one.
    region: String,
    access: Access,
    pub(super) table: Arc<Table>,
}

/// Projects by their ids.
pub(super) struct Table {
    declared: HashMap<String, DeclaredProject>,
    known: ArcSwap<HashMap<Arc<str>, Arc<Known>>>,
}

/// A project that is declared or kept.
struct Known {
    namespace: Arc<Namespace>,
    tokens: Box<[TokenHash]>,
}

impl Projects {
    /// The projects that are declared and those that are kept; the latter are watched.
    pub(crate) fn open(
        shards: Arc<Shards>,
        declared: &[DeclaredProject],
        region: &str,
        access: Access,
    ) -> Projects {
        let table = Arc::new(Table::new(declared));
        match shards.home() {
            Ok(home) => {
                table.clone().follow(home.kept());
                table.warn_of_hidden_queues(&shards, home.kept());
            }
            Err(cause) => tracing::error!(%cause, "projects cannot be read"),
        }
        Projects { shards, region: region.to_owned(), access, table }
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.access == Access::Guarded
    }

    /// The namespace of a project, for a caller without a token that is checked.
    pub(crate) fn namespace(&self, project: &str) -> Arc<Namespace> {
        match self.table.known.load().get(project) {
            Some(known) => known.namespace.clone(),
            None => Arc::new(Namespace {
                project: project.to_owned(),
                region: self.region.clone(),
                account: account_of(project),
            }),
        }
    }

    /// The namespace of a project, if that token opens it. `None` does not say whether there is
    /// such a project.
    pub(crate) fn opened(&self, project: &str, token: &str) -> Option<Arc<Namespace>> {
        let hash = TokenHash::of(token);
        let known = self.table.known.load();
        let known = known.get(project)?;
        // All of them: the time does not say which one it is.
        let matches = known.tokens.iter().filter(|token| token.is(&hash)).count();
        (matches > 0).then(|| known.namespace.clone())
    }

    /// Up to `limit` projects whose queues are in that region and account, by id.
    pub(crate) fn of_place(&self, region: &str, account: &str, limit: usize) -> Vec<String> {
        let known = self.table.known.load();
        of_place(known.values().map(|known| &**known), (region, account), limit)
    }

    /// The namespace of an access key `project:token`; `None` if it is no such key, or if
    /// credentials are configured and the token does not open the project.
    pub(crate) fn of_access_key(&self, access_key: &str) -> Option<Arc<Namespace>> {
        let (project, token) = access_key.split_once(':')?;
        match self.access {
            Access::Guarded => self.opened(project, token),
            Access::Open => Some(self.namespace(project)),
        }
    }

    pub(super) fn is_known(&self, project: &str) -> bool {
        self.table.known.load().contains_key(project)
    }

    pub(super) fn count(&self) -> usize {
        self.table.known.load().len()
    }
}

impl Table {
    fn new(declared: &[DeclaredProject]) -> Table {
        let by_id = declared.iter().map(|project| (project.id.clone(), project.clone()));
        Table { declared: by_id.collect(), known: ArcSwap::default() }
    }

    pub(super) fn declared(&self, project: &str) -> Option<&DeclaredProject> {
        self.declared.get(project)
    }

    pub(super) fn all_declared(&self) -> impl Iterator<Item = &DeclaredProject> {
        self.declared.values()
    }

    /// Reads all documents, and follows their changes from now on.
    fn follow(self: Arc<Table>, kept: &Kept) {
        let documents = PROJECTS.scan(kept, "", None, usize::MAX);
        let mut known = HashMap::new();
        for project in self.declared.values() {
            known.insert(Arc::from(project.id.as_str()), Arc::new(Known::of(Some(project), None)));
        }
        for document in documents {
            let declared = self.declared.get(&document.id);
            let id = Arc::from(document.id.as_str());
            known.insert(id, Arc::new(Known::of(declared, Some(document))));
        }
        self.known.store(Arc::new(known));
        // One change after the other: the documents' lock is held.
        kept.watch(PROJECTS.name(), Box::new(move |id, bytes| self.changed(id, bytes)));
    }

    /// Warns of each declaration that moves a project away from an account and region with queues:
    /// its clients do not see them any more.
    fn warn_of_hidden_queues(&self, shards: &Shards, kept: &Kept) {
        for declared in self.declared.values() {
            let Some(found) = PROJECTS.get(kept, &declared.id) else { continue };
            let old = (found.value.region.as_str(), found.value.account.as_str());
            if old == (declared.region.as_str(), declared.account.as_str())
                || shards.catalog().list_queues(old, "", None, 1, |_| true).is_empty()
            {
                continue;
            }
            tracing::warn!(
                project = declared.id,
                old_region = old.0,
                old_account = old.1,
                region = declared.region,
                account = declared.account,
                "the configuration moves a project to another place; the queues of its old \
                 account and region stay there, and the project does not show them"
            );
        }
    }

    fn changed(&self, id: &str, bytes: Option<&[u8]>) {
        let document = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
        let declared = self.declared.get(id);
        let mut known = HashMap::clone(&self.known.load());
        if declared.is_none() && document.is_none() {
            known.remove(id);
        } else {
            known.insert(Arc::from(id), Arc::new(Known::of(declared, document)));
        }
        self.known.store(Arc::new(known));
    }
}

impl Known {
    /// What is declared counts. Tokens that were made at run time open the account that made them
    /// and no other.
    fn of(declared: Option<&DeclaredProject>, kept: Option<ProjectDocument>) -> Known {
        let (region, account) = match (declared, &kept) {
            (Some(declared), _) => (declared.region.clone(), declared.account.clone()),
            (None, Some(kept)) => (kept.region.clone(), kept.account.clone()),
            (None, None) => Default::default(),
        };
        let project = declared.map(|it| &it.id).or(kept.as_ref().map(|it| &it.id));
        let project = project.cloned().unwrap_or_default();
        let kept = kept.filter(|kept| kept.account == account);
        let of_file = declared.iter().flat_map(|it| it.tokens.iter().map(|it| it.hash.clone()));
        let of_kept = kept.into_iter().flat_map(|it| it.tokens).map(|token| token.hash);
        let tokens = of_file.chain(of_kept).collect();
        Known { namespace: Arc::new(Namespace { project, region, account }), tokens }
    }
}

fn of_place<'k>(
    known: impl Iterator<Item = &'k Known>,
    (region, account): (&str, &str),
    limit: usize,
) -> Vec<String> {
    let is_there = |it: &&Known| it.namespace.account == account && it.namespace.region == region;
    let mut found: Vec<String> =
        known.filter(is_there).map(|it| it.namespace.project.clone()).collect();
    found.sort_unstable();
    found.truncate(limit);
    found
}

#[cfg(test)]
mod tests {
    use super::super::declared::DeclaredToken;
    use super::super::document::TokenDocument;
    use super::*;

    fn kept(account: &str, token: &str) -> ProjectDocument {
        let hash = TokenHash::of(token);
        let token = TokenDocument { id: "1".into(), label: String::new(), hash, created_ms: 0 };
        ProjectDocument {
            id: "p".into(),
            region: "eu-west-1".into(),
            account: account.into(),
            created_ms: 0,
            tokens: vec![token],
        }
    }

    fn declared(account: &str) -> DeclaredProject {
        DeclaredProject {
            id: "p".into(),
            region: "us-east-1".into(),
            account: account.into(),
            tokens: vec![DeclaredToken::new("ci", "of the file")],
        }
    }

    fn opens(known: &Known, token: &str) -> bool {
        known.tokens.iter().any(|hash| hash.is(&TokenHash::of(token)))
    }

    #[test]
    fn a_declaration_counts_and_tokens_of_another_account_open_nothing() {
        let known = Known::of(Some(&declared("1")), Some(kept("1", "made")));
        assert_eq!(known.namespace.region, "us-east-1");
        assert!(opens(&known, "made") && opens(&known, "of the file") && !opens(&known, ""));

        let known = Known::of(Some(&declared("1")), Some(kept("2", "made")));
        assert_eq!(known.namespace.account, "1");
        assert!(!opens(&known, "made") && opens(&known, "of the file"));
    }

    #[test]
    fn projects_of_a_place_are_named_in_order() {
        let mut other = declared("1");
        other.id = "a".to_owned();
        let known: Vec<Known> = [declared("1"), other, declared("2")]
            .iter()
            .map(|it| Known::of(Some(it), None))
            .collect();
        let place = |region, account, limit| of_place(known.iter(), (region, account), limit);

        assert_eq!(place("us-east-1", "1", 9), ["a", "p"]);
        assert_eq!(place("us-east-1", "1", 1), ["a"]);
        assert!(place("eu-west-1", "1", 9).is_empty());
    }

    #[test]
    fn changes_of_documents_are_followed() {
        let table = Table::new(&[]);
        let bytes = serde_json::to_vec(&kept("1", "made")).unwrap();

        table.changed("p", Some(&bytes));
        assert!(opens(table.known.load().get("p").unwrap(), "made"));

        table.changed("p", None);
        assert!(table.known.load().is_empty());
    }
}
