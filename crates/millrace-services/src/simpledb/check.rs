//! Reads requests strictly: everything that is wrong with one by itself is found here. Sizes are of
//! UTF-8 bytes.

use std::collections::HashSet;

use millrace_tables::{
    Attribute as Pair, Condition, DeletedItem, DomainKey, PutAttribute, PutItem,
};
use millrace_wire::ApiError;
use millrace_wire::simpledb::{self, Attribute, BatchItem, ChangeItem, Expected};

use super::{Owner, error};

/// SimpleDB: bytes of a name of an item or attribute, and of a value.
const TEXT_BYTES_MAX: usize = 1024;
/// SimpleDB: pairs of an item in a call, and attributes that are asked for by name.
const ATTRIBUTES_MAX: usize = 256;
/// SimpleDB: items of a batch.
const ITEMS_MAX: usize = 25;
/// SimpleDB: domains of a page, and what a page has if nothing is said.
const DOMAINS_MAX: usize = 100;

/// An attribute of a request, as it was given. Requests may lack either half.
enum Given<'a> {
    Pair(&'a str, &'a str),
    NameOnly(&'a str),
}

/// Clients may leave the version out.
pub(super) fn version(given: Option<&str>) -> Result<(), ApiError> {
    match given {
        Some(version) if !simpledb::SERVICE.versions.contains(&version) => {
            Err(error::no_such_version())
        }
        _ => Ok(()),
    }
}

pub(super) fn domain(owner: Owner<'_>, name: Option<&str>) -> Result<DomainKey, ApiError> {
    let name = name.ok_or_else(|| error::missing("DomainName"))?;
    if !is_domain_name(name) {
        return Err(error::invalid_value(name, "DomainName", ""));
    }
    let (region, account) = (owner.region.to_owned(), owner.account.to_owned());
    Ok(DomainKey { region, account, name: name.to_owned() })
}

pub(super) fn is_domain_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (3..=255).contains(&name.len()) && name.bytes().all(is_allowed)
}

pub(super) fn item_name(name: Option<&str>) -> Result<&str, ApiError> {
    let name = name.ok_or_else(|| error::missing("ItemName"))?;
    if name.is_empty() {
        let reason = "The empty string is an illegal item name";
        return Err(error::invalid_value(name, "ItemName", reason));
    }
    if name.len() > TEXT_BYTES_MAX {
        return Err(error::too_long(name, "ItemName", "Value exceeds max length of 1024."));
    }
    Ok(name)
}

/// Booleans are written in one way only.
pub(super) fn flag(parameter: &str, given: Option<&str>) -> Result<Option<bool>, ApiError> {
    match given {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => {
            let (_, name) = parameter.rsplit_once('.').unwrap_or(("", parameter));
            let reason = format!("The {name} flag should be either true or false.");
            Err(error::invalid_value(other, parameter, &reason))
        }
    }
}

pub(super) fn max_number_of_domains(given: Option<&str>) -> Result<usize, ApiError> {
    let Some(text) = given else { return Ok(DOMAINS_MAX) };
    let number = text.parse().ok().filter(|number| (1..=DOMAINS_MAX).contains(number));
    number.ok_or_else(|| {
        let reason = "MaxNumberOfDomains must be between 1 and 100.";
        error::invalid_value(text, "MaxNumberOfDomains", reason)
    })
}

/// The names of the attributes that are asked for.
pub(super) fn requested_names(names: &[String]) -> Result<Vec<String>, ApiError> {
    if names.len() > ATTRIBUTES_MAX {
        return Err(error::too_many_requested_attributes());
    }
    names.iter().try_for_each(|name| attribute_name(name))?;
    Ok(names.to_vec())
}

pub(super) fn put_item(name: Option<&str>, attributes: &[Attribute]) -> Result<PutItem, ApiError> {
    let name = item_name(name)?;
    if attributes.is_empty() {
        return Err(error::no_attributes(name));
    }
    check_count(name, attributes)?;
    let put = |it: &Attribute| match given(it)? {
        Given::NameOnly(name) => Err(error::value_missing(name)),
        Given::Pair(name, value) => Ok(PutAttribute {
            name: name.to_owned(),
            value: value.to_owned(),
            replace: flag("Replace", it.replace.as_deref())?.unwrap_or_default(),
        }),
    };
    let attributes = attributes.iter().map(put).collect::<Result<_, _>>()?;
    Ok(PutItem { name: name.to_owned(), attributes })
}

pub(super) fn deleted_item(
    name: Option<&str>,
    attributes: &[Attribute],
) -> Result<DeletedItem, ApiError> {
    let name = item_name(name)?;
    check_count(name, attributes)?;
    let delete = |it: &Attribute| {
        Ok(match given(it)? {
            Given::NameOnly(name) => (name.to_owned(), None),
            Given::Pair(name, value) => (name.to_owned(), Some(value.to_owned())),
        })
    };
    let attributes = attributes.iter().map(delete).collect::<Result<_, ApiError>>()?;
    Ok(DeletedItem { name: name.to_owned(), attributes })
}

/// The items of a batch, each read by `read`.
pub(super) fn batch<T>(
    items: &[BatchItem],
    read: impl Fn(Option<&str>, &[Attribute]) -> Result<T, ApiError>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<T>, ApiError> {
    if items.is_empty() {
        return Err(error::missing("Item"));
    }
    if items.len() > ITEMS_MAX {
        return Err(error::too_many_items());
    }
    let read = |it: &BatchItem| read(it.item_name.as_deref(), &it.attributes);
    let checked = items.iter().map(read).collect::<Result<Vec<T>, _>>()?;
    let mut names = HashSet::with_capacity(checked.len());
    match checked.iter().map(name).find(|name| !names.insert(*name)) {
        Some(twice) => Err(error::duplicate_item(twice)),
        None => Ok(checked),
    }
}

/// The condition of a change, if it has one.
pub(super) fn condition(input: &ChangeItem) -> Result<Option<Condition>, ApiError> {
    let given = |it: &&Expected| **it != Expected::default();
    let all: Vec<&Expected> =
        input.expected.iter().chain(&input.numbered_expected).filter(given).collect();
    let several = |member: fn(&Expected) -> &Option<String>| {
        all.iter().filter(|it| member(it).is_some()).nth(1).is_some()
    };
    if several(|it| &it.name) {
        return Err(error::several_expected("MultipleExpectedNames", "Expected.Name"));
    }
    if several(|it| &it.value) {
        return Err(error::several_expected("MultipleExpectedValues", "Expected.Value"));
    }
    if several(|it| &it.exists) {
        return Err(error::several_expected("MultipleExistsConditions", "Expected.Exists"));
    }
    if all.is_empty() {
        return Ok(None);
    }
    // Of two, one has the name and the other has the rest.
    let member =
        |member: fn(&Expected) -> &Option<String>| all.iter().find_map(|it| member(it).as_deref());
    let (value, exists) = (member(|it| &it.value), member(|it| &it.exists));
    let name = member(|it| &it.name).ok_or_else(|| error::missing("Expected.Name"))?;
    attribute_name(name)?;
    let exists = flag("Expected.Exists", exists)?;
    match (value, exists) {
        (Some(_), Some(false)) => Err(error::exists_and_expected_value()),
        (Some(value), _) => {
            attribute_value(value)?;
            let (name, value) = (name.to_owned(), value.to_owned());
            Ok(Some(Condition::Is(Pair { name, value })))
        }
        (None, Some(false)) => Ok(Some(Condition::Absent(name.to_owned()))),
        (None, _) => Err(error::incomplete_expected()),
    }
}

fn given(attribute: &Attribute) -> Result<Given<'_>, ApiError> {
    let value = attribute.value.as_deref();
    let Some(name) = attribute.name.as_deref() else {
        return Err(error::name_missing(value.unwrap_or_default()));
    };
    attribute_name(name)?;
    let Some(value) = value else { return Ok(Given::NameOnly(name)) };
    attribute_value(value)?;
    Ok(Given::Pair(name, value))
}

fn attribute_name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        let reason = "The empty string is an illegal attribute name";
        return Err(error::invalid_value(name, "Name", reason));
    }
    check_length(name, "Name")
}

fn attribute_value(value: &str) -> Result<(), ApiError> {
    check_length(value, "Value")
}

fn check_length(text: &str, parameter: &str) -> Result<(), ApiError> {
    if text.len() > TEXT_BYTES_MAX {
        let reason = "Value exceeds maximum length of 1024.";
        return Err(error::too_long(text, parameter, reason));
    }
    Ok(())
}

fn check_count(item: &str, attributes: &[Attribute]) -> Result<(), ApiError> {
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(error::too_many_submitted_attributes(item));
    }
    Ok(())
}
