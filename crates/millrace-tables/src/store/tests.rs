//! The store as a whole: what writes come to, and what is left after a crash.

mod crashes;
mod model;
mod rebuild;
mod rules;

use std::path::Path;
use std::sync::Arc;

use futures_executor::block_on;

use super::log::Log;
use super::open::{OpenError, Place};
use super::tables::{Options, Tables};
use crate::domain::DomainKey;
use crate::testing::MemoryLog;
use crate::write::{DeletedItem, PutAttribute, PutItem, Write, WriteError};

fn key(name: &str) -> DomainKey {
    let (region, account) = ("us-east-1".to_owned(), "000000000000".to_owned());
    DomainKey { region, account, name: name.to_owned() }
}

fn open(directory: &Path, log: &Arc<MemoryLog>) -> Result<Tables, OpenError> {
    let log: Arc<dyn Log> = log.clone();
    Tables::open(&Place::Directory(directory.to_owned()), log, Options::default())
}

fn create(tables: &Tables, domain: &str) {
    block_on(tables.write(Write::CreateDomain(key(domain)))).unwrap();
}

fn put_of(domain: &str, item: &str, pairs: &[(&str, &str)]) -> Write {
    let attribute = |(name, value): &(&str, &str)| {
        let (name, value) = ((*name).to_owned(), (*value).to_owned());
        PutAttribute { name, value, replace: false }
    };
    let attributes = pairs.iter().map(attribute).collect();
    let items = vec![PutItem { name: item.to_owned(), attributes }];
    Write::Put { domain: key(domain), items, condition: None }
}

fn delete_of(domain: &str, item: &str) -> Write {
    let items = vec![DeletedItem { name: item.to_owned(), attributes: Vec::new() }];
    Write::Delete { domain: key(domain), items, condition: None }
}

fn put(tables: &Tables, item: &str, pairs: &[(&str, &str)]) -> Result<(), WriteError> {
    block_on(tables.write(put_of("d", item, pairs)))
}

/// Name and value of each pair of an item.
fn item(tables: &Tables, item: &str) -> Option<Vec<(String, String)>> {
    let found = block_on(tables.item(&key("d"), item, None)).unwrap()?;
    Some(found.into_iter().map(|pair| (pair.name, pair.value)).collect())
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
