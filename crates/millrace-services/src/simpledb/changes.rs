//! Actions that change something: each is one write of the tables.

use millrace_tables::{Tables, Write};
use millrace_wire::ApiError;
use millrace_wire::simpledb::{Batch, BoxUsage, ChangeItem, Domain};

use super::answer::Answer;
use super::{Owner, SimpleDb, check, error};

impl SimpleDb {
    pub(super) async fn create_domain(
        &self,
        owner: Owner<'_>,
        input: &Domain,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        self.change(Write::CreateDomain(domain), BoxUsage::DOMAIN).await
    }

    pub(super) async fn delete_domain(
        &self,
        owner: Owner<'_>,
        input: &Domain,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        self.change(Write::DeleteDomain(domain), BoxUsage::DOMAIN).await
    }

    pub(super) async fn put(
        &self,
        owner: Owner<'_>,
        input: &ChangeItem,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        let item = check::put_item(input.item_name.as_deref(), &input.attributes)?;
        let condition = check::condition(input)?;
        let write = Write::Put { domain, items: vec![item], condition };
        self.change(write, BoxUsage::change([input.attributes.len()])).await
    }

    pub(super) async fn delete(
        &self,
        owner: Owner<'_>,
        input: &ChangeItem,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        let item = check::deleted_item(input.item_name.as_deref(), &input.attributes)?;
        let condition = check::condition(input)?;
        let write = Write::Delete { domain, items: vec![item], condition };
        self.change(write, BoxUsage::change([input.attributes.len()])).await
    }

    pub(super) async fn batch_put(
        &self,
        owner: Owner<'_>,
        input: &Batch,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        let items = check::batch(&input.items, check::put_item, |item| &item.name)?;
        self.change(Write::Put { domain, items, condition: None }, usage_of(input)).await
    }

    pub(super) async fn batch_delete(
        &self,
        owner: Owner<'_>,
        input: &Batch,
    ) -> Result<Answer, ApiError> {
        let domain = check::domain(owner, input.domain_name.as_deref())?;
        let items = check::batch(&input.items, check::deleted_item, |item| &item.name)?;
        self.change(Write::Delete { domain, items, condition: None }, usage_of(input)).await
    }

    async fn change(&self, write: Write, usage: BoxUsage) -> Result<Answer, ApiError> {
        self.tables.write(write).await.map_err(error::of_write)?;
        Ok(Answer::Changed(usage))
    }
}

fn usage_of(batch: &Batch) -> BoxUsage {
    BoxUsage::change(batch.items.iter().map(|item| item.attributes.len()))
}

/// Deletes all domains of all accounts (test mode).
pub(crate) async fn reset(tables: &Tables) -> Result<(), ApiError> {
    for domain in tables.all_domains().await.map_err(error::of_read)? {
        tables.write(Write::DeleteDomain(domain)).await.map_err(error::of_write)?;
    }
    Ok(())
}
