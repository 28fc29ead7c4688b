//! `metrics delete`: CloudWatch's series, for which it has no call that deletes them.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use millrace_client::CallErrorKind;
use serde_json::{Map, Value, json};

use super::connection::ConnectionFlags;
use super::values::{account, give, pair};
use super::{Sqs, output};
use crate::config::UsageError;
use crate::logging::tell;

#[derive(Debug, Subcommand)]
pub(crate) enum MetricsCommand {
    /// Forget metrics of CloudWatch with all their data points (Millrace only)
    Delete(DeleteFlags),
}

#[derive(Args, Debug)]
#[command(mut_arg("region", |region| region.help("Only metrics in this region [default: all regions]")))]
pub(crate) struct DeleteFlags {
    /// Only metrics of this account; with credentials, yours is the only one [default: yours]
    #[arg(long, value_name = "DIGITS", value_parser = account)]
    account: Option<String>,
    /// Only metrics in this name space
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only metrics of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only metrics with this dimension; may be repeated
    #[arg(long = "dimension", value_name = "NAME=VALUE")]
    dimensions: Vec<String>,
    /// All metrics of the account
    #[arg(long, conflicts_with_all = ["namespace", "name", "dimensions"])]
    all: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(command: &MetricsCommand) -> Result<()> {
    match command {
        MetricsCommand::Delete(flags) => delete(flags).await,
    }
}

async fn delete(flags: &DeleteFlags) -> Result<()> {
    let mut asked = asked(flags)?;
    let sqs = flags.connection.connect()?;
    if !flags.yes {
        asked.insert("dry_run".to_owned(), true.into());
        let count = output::counted(removed(&sqs, &asked).await?, "metric");
        if !output::confirm(&format!("Delete {count} at {}?", sqs.endpoint()))? {
            bail!("nothing was changed");
        }
        asked.remove("dry_run");
    }
    let count = removed(&sqs, &asked).await?;
    if flags.json {
        return output::line(&json!({ "series": count }).to_string());
    }
    tell(&format!("{} deleted", output::counted(count, "metric")));
    Ok(())
}

/// The request's body.
fn asked(flags: &DeleteFlags) -> Result<Map<String, Value>, UsageError> {
    let mut dimensions = Map::new();
    for text in &flags.dimensions {
        let (name, value) = pair(text, "--dimension")?;
        give(&mut dimensions, "--dimension", name, value.into())?;
    }
    let texts = [
        ("account", flags.account.as_deref()),
        ("region", flags.connection.region()),
        ("namespace", flags.namespace.as_deref()),
        ("metric", flags.name.as_deref()),
    ];
    let is_narrow = flags.namespace.is_some() || flags.name.is_some() || !dimensions.is_empty();
    if !flags.all && !is_narrow {
        let text = "which metrics? --namespace, --name or --dimension, or --all";
        return Err(UsageError(text.to_owned()));
    }
    let given = texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
    let mut asked: Map<String, Value> = given.collect();
    if !dimensions.is_empty() {
        asked.insert("dimensions".to_owned(), dimensions.into());
    }
    if flags.all {
        asked.insert("all".to_owned(), true.into());
    }
    Ok(asked)
}

async fn removed(sqs: &Sqs, asked: &Map<String, Value>) -> Result<u64> {
    let body = Value::Object(asked.clone());
    let answer = sqs.call_own("/_millrace/metrics/delete", &body).await.map_err(|error| {
        let cannot = "metrics can be deleted at Millrace only, not at Amazon CloudWatch";
        match error.kind {
            CallErrorKind::Malformed => anyhow::Error::new(error).context(cannot),
            _ => error.into(),
        }
    })?;
    answer.get("series").and_then(Value::as_u64).context("the server does not tell how many")
}
