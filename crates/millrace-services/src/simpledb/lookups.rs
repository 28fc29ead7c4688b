//! Actions that read domains, their figures and single items. What was acknowledged is always seen:
//! reads are consistent, whether or not they ask for it.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millrace_metrics::Scope;
use millrace_tables::{DomainKey, Tables};
use millrace_wire::ApiError;
use millrace_wire::simpledb::{Domain, GetAttributes, ListDomains};

use super::answer::Answer;
use super::{Owner, SimpleDb, check, error};

/// What tokens of ListDomains begin with; the name of the last domain shown follows.
const TOKEN_VERSION: &str = "1:";

impl SimpleDb {
    pub(super) async fn list_domains(
        &self,
        Owner { region, account }: Owner<'_>,
        input: &ListDomains,
    ) -> Result<Answer, ApiError> {
        let limit = check::max_number_of_domains(input.max_number_of_domains.as_deref())?;
        let after = input.next_token.as_deref().map(read_token).transpose()?;
        // One more shows whether there is a next page.
        let found = self.tables.list_domains(region, account, after.as_deref(), limit + 1);
        let mut names = found.await.map_err(error::of_read)?;
        let has_more = names.len() > limit;
        names.truncate(limit);
        let next_token = names.last().filter(|_| has_more).map(|name| token(name));
        Ok(Answer::Domains { names, next_token })
    }

    pub(super) async fn domain_metadata(
        &self,
        owner: Owner<'_>,
        input: &Domain,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        let figures = self.tables.figures(&domain).await.map_err(error::of_read)?;
        let figures = figures.ok_or_else(error::no_such_domain)?;
        Ok(Answer::Metadata { figures, now_s: self.shards.now().seconds() })
    }

    pub(super) async fn get(
        &self,
        owner: Owner<'_>,
        input: &GetAttributes,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        let item = check::item_name(input.item_name.as_deref())?;
        check::flag("ConsistentRead", input.consistent_read.as_deref())?;
        let names = input.attribute_names.as_deref().map(check::requested_names).transpose()?;
        let found = self.tables.item(&domain, item, names).await.map_err(error::of_read)?;
        Ok(Answer::Attributes(found.ok_or_else(error::no_such_domain)?))
    }
}

/// Regions and accounts that have domains.
pub(crate) async fn scopes(tables: &Tables) -> Result<BTreeSet<Scope>, ApiError> {
    let domains = tables.all_domains().await.map_err(error::of_read)?;
    let scope = |domain: DomainKey| Scope { region: domain.region, account: domain.account };
    Ok(domains.into_iter().map(scope).collect())
}

fn token(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{TOKEN_VERSION}{name}"))
}

fn read_token(token: &str) -> Result<String, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let name = text.as_deref().and_then(|text| text.strip_prefix(TOKEN_VERSION));
    let name = name.filter(|name| check::is_domain_name(name)).map(str::to_owned);
    name.ok_or_else(error::invalid_next_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_the_last_domain() {
        assert_eq!(read_token(&token("a.b-c_D")).unwrap(), "a.b-c_D");
        for foreign in ["", "abc", "====", &URL_SAFE_NO_PAD.encode("2:abc"), &token("a b c")] {
            assert_eq!(read_token(foreign).unwrap_err().code, "InvalidNextToken", "{foreign}");
        }
    }
}
