//! Select against databases in memory.

mod corpus;
mod database;
mod hostile;
mod pages;
mod properties;
mod speed;

use self::database::Database;
use super::{Bounds, Found, Page, Query, SelectError, run};
use crate::item::Item;
