//! Changes of domains and items, and why they are refused.

use thiserror::Error;

use crate::domain::DomainKey;
use crate::item::Attribute;

/// A change: made as a whole or not at all. Its sizes were checked by who asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    CreateDomain(DomainKey),
    DeleteDomain(DomainKey),
    /// A condition is of the one item that there is then.
    Put {
        domain: DomainKey,
        items: Vec<PutItem>,
        condition: Option<Condition>,
    },
    Delete {
        domain: DomainKey,
        items: Vec<DeletedItem>,
        condition: Option<Condition>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutItem {
    pub name: String,
    pub attributes: Vec<PutAttribute>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutAttribute {
    pub name: String,
    pub value: String,
    /// Removes the values that were there before the call.
    pub replace: bool,
}

/// An item to delete: as a whole if nothing is named, else those attributes, or pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedItem {
    pub name: String,
    /// A name, and its one value that goes; all values go without one.
    pub attributes: Vec<(String, Option<String>)>,
}

/// What must be true of an item for it to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The attribute has that value, and no other.
    Is(Attribute),
    Absent(String),
}

/// Why a change was not made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    #[error("the domain does not exist")]
    NoSuchDomain,
    #[error("the account has {0} domains, its limit")]
    TooManyDomains(u64),
    #[error("an item would have more than {0} attributes")]
    TooManyItemAttributes(u64),
    #[error("the domain would have more than {0} attributes")]
    TooManyDomainAttributes(u64),
    #[error("the domain would have more than {0} bytes")]
    TooManyDomainBytes(u64),
    /// The condition names an attribute that the item does not have.
    #[error("the attribute {0} does not exist")]
    AttributeDoesNotExist(String),
    #[error("the attribute {name} is {found}, not {expected}")]
    OtherValue { name: String, found: String, expected: String },
    #[error("the attribute {0} exists")]
    AttributeExists(String),
    #[error("the attribute {0} has several values")]
    MultiValued(String),
    /// Nothing can be stored at the moment: the disk is full, or the server is about to stop.
    #[error("not stored: {0}")]
    Unavailable(String),
    /// Neither the journal nor SQLite says whether the change was stored.
    #[error("the store failed: {0}")]
    Failed(String),
}

impl Write {
    pub fn domain(&self) -> &DomainKey {
        match self {
            Write::CreateDomain(domain) | Write::DeleteDomain(domain) => domain,
            Write::Put { domain, .. } | Write::Delete { domain, .. } => domain,
        }
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        const OVERHEAD_BYTES: usize = 64;
        let key = self.domain();
        let key_bytes = key.region.len() + key.account.len() + key.name.len();
        let items: usize = match self {
            Write::CreateDomain(_) | Write::DeleteDomain(_) => 0,
            Write::Put { items, .. } => {
                let pair =
                    |pair: &PutAttribute| pair.name.len() + pair.value.len() + OVERHEAD_BYTES;
                let item = |item: &PutItem| {
                    item.name.len()
                        + OVERHEAD_BYTES
                        + item.attributes.iter().map(pair).sum::<usize>()
                };
                items.iter().map(item).sum()
            }
            Write::Delete { items, .. } => {
                let pair = |(name, value): &(String, Option<String>)| {
                    name.len() + value.as_ref().map_or(0, String::len) + OVERHEAD_BYTES
                };
                let item = |item: &DeletedItem| {
                    item.name.len()
                        + OVERHEAD_BYTES
                        + item.attributes.iter().map(pair).sum::<usize>()
                };
                items.iter().map(item).sum()
            }
        };
        key_bytes + items + OVERHEAD_BYTES
    }
}
