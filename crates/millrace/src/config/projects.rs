//! Projects of IronMQ declared in the file: `[projects.NAME]`.

use millrace_core::is_account;
use millrace_services::{DeclaredProject, DeclaredToken, is_project_id, is_region};

use super::{
    UsageError, fault_of_secret,
    file::{File, Item},
};

/// The keys of a table `[projects.NAME]`.
pub(super) const KEYS: [&str; 3] = ["region", "account", "tokens"];

pub(crate) fn declared(
    file: &File,
    region: &str,
    account: &str,
) -> Result<Vec<DeclaredProject>, UsageError> {
    file.projects().iter().map(|(id, item)| project(id, item, region, account)).collect()
}

/// Of tokens, only hashes leave this function.
fn project(
    id: &str,
    item: &Item,
    region: &str,
    account: &str,
) -> Result<DeclaredProject, UsageError> {
    if !is_project_id(id) {
        return Err(item.place.wrong(
            "the id of a project has 1 to 128 letters of ASCII, digits, dots, hyphens and \
             underscores",
        ));
    }
    let region = item.text("region")?.unwrap_or_else(|| region.to_owned());
    if !is_region(&region) {
        return Err(item.place.wrong("region is not the name of a region"));
    }
    let account = item.text("account")?.unwrap_or_else(|| account.to_owned());
    if !is_account(&account) {
        return Err(item.place.wrong("account is not twelve digits"));
    }
    let given = item.table("tokens")?;
    let place = item.field("tokens").map_or(&item.place, |field| &field.place);
    let token = |(name, token): &(String, String)| match fault_of_secret(token) {
        _ if token.is_empty() => Err(place.wrong(format_args!("token {name} is empty"))),
        Some(fault) => Err(place.wrong(format_args!("token {name} {fault}"))),
        None => Ok(DeclaredToken::new(name, token)),
    };
    let tokens = given.iter().map(token).collect::<Result<_, _>>()?;
    Ok(DeclaredProject { id: id.to_owned(), region, account, tokens })
}
