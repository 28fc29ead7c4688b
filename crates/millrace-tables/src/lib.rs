//! SimpleDB's domains and items. SQLite holds them, as a view of the journal: each change is a
//! record of the journal first. Knows nothing of HTTP.

mod domain;
mod item;
pub mod schema;
pub mod select;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod write;

pub use domain::{DomainFigures, DomainKey};
pub use item::{Attribute, Item};
pub use store::{Limits, OpenError, Options, Place, ReadError, Tables};
pub use write::{Condition, DeletedItem, PutAttribute, PutItem, Write, WriteError};
