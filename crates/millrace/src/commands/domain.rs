//! `domain list|create|show|delete|select|put`: domains and items of SimpleDB.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use millrace_client::CallError;
use millrace_client::sdb::{Item, Page, Parameters, SdbClient};

use super::connection::ConnectionFlags;
use super::domain_lines::{self, ExportFlags, ImportFlags, json_line};
use super::output;
use super::values::pair;
use crate::config::UsageError;
use crate::logging::tell;

#[derive(Debug, Subcommand)]
pub(crate) enum DomainCommand {
    /// List domains and what they hold
    List {
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Create a domain; one that exists stays as it is
    Create {
        name: String,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Show the figures of a domain
    Show {
        name: String,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Delete a domain with all its items
    Delete {
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Print the items that a query finds
    Select(SelectFlags),
    /// Add attributes to an item
    Put(PutFlags),
    /// Put items from a file of JSON lines or CSV, 25 a request
    Import(ImportFlags),
    /// Write the items of a domain as JSON lines or CSV
    Export(ExportFlags),
}

#[derive(Args, Debug)]
pub(crate) struct SelectFlags {
    /// Such as: select * from `domain` where year > '2000'
    expression: String,
    /// Print all pages, not the first only
    #[arg(long)]
    all: bool,
    /// Print JSON, a line for each item
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Args, Debug)]
pub(crate) struct PutFlags {
    domain: String,
    item: String,
    /// Attributes; the same name may have several values
    #[arg(required = true, value_name = "NAME=VALUE")]
    attributes: Vec<String>,
    /// Remove the values that these attributes had
    #[arg(long)]
    replace: bool,
    /// Only if the attribute has this one value
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "if_absent")]
    if_value: Option<String>,
    /// Only if the item has no such attribute
    #[arg(long, value_name = "NAME")]
    if_absent: Option<String>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(command: &DomainCommand) -> Result<()> {
    match command {
        DomainCommand::List { connection } => list(&connection.connect_to_domains()?).await,
        DomainCommand::Create { name, connection } => {
            let sdb = connection.connect_to_domains()?;
            sdb.call("CreateDomain", of_domain(name)).await?;
            output::line(name)
        }
        DomainCommand::Show { name, connection } => {
            let sdb = connection.connect_to_domains()?;
            let figures = sdb.call("DomainMetadata", of_domain(name)).await?.texts;
            let rows: Vec<Vec<String>> =
                figures.into_iter().map(|(name, figure)| vec![name, figure]).collect();
            print_table(&["FIGURE", "VALUE"], &rows)
        }
        DomainCommand::Delete { name, yes, connection } => {
            let sdb = connection.connect_to_domains()?;
            if !yes && !output::confirm(&format!("Delete the domain {name} with all its items?"))? {
                bail!("nothing was deleted");
            }
            sdb.call("DeleteDomain", of_domain(name)).await?;
            Ok(())
        }
        DomainCommand::Select(flags) => select(flags).await,
        DomainCommand::Put(flags) => put(flags).await,
        DomainCommand::Import(flags) => domain_lines::import(flags).await,
        DomainCommand::Export(flags) => domain_lines::export(flags).await,
    }
}

/// A page of a query's answer.
pub(super) async fn page(
    sdb: &SdbClient,
    expression: &str,
    token: Option<String>,
) -> Result<Page, CallError> {
    let mut parameters = vec![("SelectExpression".to_owned(), expression.to_owned())];
    parameters.push(("ConsistentRead".to_owned(), "true".to_owned()));
    parameters.extend(token.map(|token| ("NextToken".to_owned(), token)));
    sdb.call("Select", parameters).await
}

pub(super) fn of_domain(name: &str) -> Parameters {
    vec![("DomainName".to_owned(), name.to_owned())]
}

/// Adds the attributes of an item, with `prefix` before their names.
pub(super) fn add_attributes(
    parameters: &mut Parameters,
    prefix: &str,
    attributes: &[(String, String)],
    replace: bool,
) {
    for (number, (name, value)) in (1..).zip(attributes) {
        let prefix = format!("{prefix}Attribute.{number}.");
        parameters.push((format!("{prefix}Name"), name.clone()));
        parameters.push((format!("{prefix}Value"), value.clone()));
        if replace {
            parameters.push((format!("{prefix}Replace"), "true".to_owned()));
        }
    }
}

async fn list(sdb: &SdbClient) -> Result<()> {
    let mut rows = Vec::new();
    let mut token = None;
    loop {
        let parameters = token.map(|token| ("NextToken".to_owned(), token));
        let page = sdb.call("ListDomains", parameters.into_iter().collect()).await?;
        for (_, name) in page.texts {
            let figures = sdb.call("DomainMetadata", of_domain(&name)).await?;
            let figure = |name| {
                let found = figures.texts.iter().find(|(other, _)| other == name);
                found.map_or_else(String::new, |(_, figure)| figure.clone())
            };
            let (items, pairs) = (figure("ItemCount"), figure("AttributeValueCount"));
            rows.push(vec![name, items, pairs]);
        }
        token = page.next_token;
        if token.is_none() {
            return print_table(&["NAME", "ITEMS", "VALUES"], &rows);
        }
    }
}

async fn select(flags: &SelectFlags) -> Result<()> {
    let sdb = flags.connection.connect_to_domains()?;
    let mut token = None;
    loop {
        let found = page(&sdb, &flags.expression, token).await?;
        match flags.json {
            true => found.items.iter().try_for_each(|item| output::line(&json_line(item)))?,
            false => print_items(&found.items)?,
        }
        token = found.next_token;
        match (&token, flags.all) {
            (None, _) => return Ok(()),
            (Some(_), true) => {}
            (Some(_), false) => {
                tell("there are more items: --all prints them");
                return Ok(());
            }
        }
    }
}

async fn put(flags: &PutFlags) -> Result<()> {
    let sdb = flags.connection.connect_to_domains()?;
    let mut parameters = of_domain(&flags.domain);
    parameters.push(("ItemName".to_owned(), flags.item.clone()));
    let given = flags.attributes.iter().map(|it| {
        let (name, value) = pair(it, "attribute")?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let attributes = given.collect::<Result<Vec<_>, UsageError>>()?;
    add_attributes(&mut parameters, "", &attributes, flags.replace);
    let mut expect = |name: &str, value: &str| {
        parameters.push((format!("Expected.{name}"), value.to_owned()));
    };
    if let Some(condition) = &flags.if_value {
        let (name, value) = pair(condition, "--if-value")?;
        expect("Name", name);
        expect("Value", value);
    }
    if let Some(name) = &flags.if_absent {
        expect("Name", name);
        expect("Exists", "false");
    }
    let put = sdb.call("PutAttributes", parameters).await;
    put.with_context(|| format!("item {}", flags.item))?;
    Ok(())
}

/// A column for each attribute; the values of one with a comma between.
fn print_items(items: &[Item]) -> Result<()> {
    let names: BTreeSet<&str> =
        items.iter().flat_map(|item| item.attributes.iter().map(|(name, _)| &**name)).collect();
    let heads: Vec<&str> = std::iter::once("ITEM").chain(names.iter().copied()).collect();
    let row = |item: &Item| {
        let values = |name: &&str| {
            let of_name = item.attributes.iter().filter(|(other, _)| other == name);
            of_name.map(|(_, value)| &**value).collect::<Vec<_>>().join(", ")
        };
        std::iter::once(item.name.clone()).chain(names.iter().map(values)).collect()
    };
    print_table(&heads, &items.iter().map(row).collect::<Vec<_>>())
}

fn print_table(heads: &[&str], rows: &[Vec<String>]) -> Result<()> {
    output::table(heads, rows).lines().try_for_each(output::line)
}
