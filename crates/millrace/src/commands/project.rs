//! `project …`: projects of IronMQ and their tokens.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use millrace_client::CallErrorKind;
use serde_json::{Value, json};

use super::connection::{ConnectionFlags, list, text};
use super::values::account;
use super::{Sqs, output};
use crate::logging::tell;

/// The most pages that a server may answer for a list that never ends.
const PAGES_MAX: usize = 10_000;

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// List projects with their accounts, regions and tokens
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Create a project in your account and region; one that exists stays as it is
    Create(CreateFlags),
    /// Delete a project with all its tokens; its queues stay
    Delete {
        /// The id of the project
        project: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Make and revoke the tokens that open a project
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Args, Debug)]
#[command(mut_arg("region", |region| region.help("The region that the project's queues are in [default: AWS_REGION, else the server's]")))]
pub(crate) struct CreateFlags {
    /// The id, as clients have it in their settings
    project: String,
    /// The account that its queues are in; with credentials, yours is the only one [default: yours]
    #[arg(long, value_name = "DIGITS", value_parser = account)]
    account: Option<String>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it; it is not shown again
    Create {
        /// The id of the project that the token opens
        project: String,
        /// A name for people, by which the token can be revoked
        #[arg(long, value_name = "NAME", default_value = "")]
        label: String,
        /// Print one JSON document, with the token's id
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Revoke tokens: from now on they are refused
    Revoke {
        /// The id of the project that the tokens open
        project: String,
        /// The token's id, or the label of one or several
        #[arg(value_name = "ID|LABEL")]
        token: String,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
}

pub(super) async fn run(command: &ProjectCommand) -> Result<()> {
    match command {
        ProjectCommand::List { json, connection } => {
            let projects = projects(&connection.connect()?).await?;
            if *json {
                return output::line(&Value::Array(projects).to_string());
            }
            let rows: Vec<Vec<String>> = projects.iter().map(row).collect();
            let table = output::table(&["PROJECT", "REGION", "ACCOUNT", "TOKENS"], &rows);
            table.lines().try_for_each(output::line)
        }
        ProjectCommand::Create(flags) => {
            let mut asked = json!({ "project": flags.project });
            if let Some(account) = &flags.account {
                asked["account"] = account.as_str().into();
            }
            let made = call(&flags.connection.connect()?, "/create", &asked).await?;
            let (region, account) = (text(&made, "region"), text(&made, "account"));
            tell(&format!("project {} is in region {region}, account {account}", flags.project));
            Ok(())
        }
        ProjectCommand::Delete { project, yes, connection } => {
            let sqs = connection.connect()?;
            let question = format!("Delete project {project} with all its tokens?");
            if !yes && !output::confirm(&question)? {
                bail!("nothing was deleted");
            }
            call(&sqs, "/delete", &json!({ "project": project })).await?;
            Ok(())
        }
        ProjectCommand::Token(command) => token(command).await,
    }
}

async fn token(command: &TokenCommand) -> Result<()> {
    match command {
        TokenCommand::Create { project, label, json, connection } => {
            let asked = json!({ "project": project, "label": label });
            let made = call(&connection.connect()?, "/tokens/create", &asked).await?;
            if *json {
                return output::line(&made.to_string());
            }
            tell(&format!("token {} created; it will not be shown again:", text(&made, "id")));
            output::line(text(&made, "token"))
        }
        TokenCommand::Revoke { project, token, connection } => {
            let asked = json!({ "project": project, "token": token });
            let answer = call(&connection.connect()?, "/tokens/revoke", &asked).await?;
            let revoked = answer.get("revoked").and_then(Value::as_u64);
            let revoked = revoked.context("the server does not tell how many")?;
            tell(&format!("{} revoked", output::counted(revoked, "token")));
            Ok(())
        }
    }
}

/// All projects, over all pages.
async fn projects(sqs: &Sqs) -> Result<Vec<Value>> {
    let mut projects = Vec::new();
    let mut after = String::new();
    for _ in 0..PAGES_MAX {
        let page = call(sqs, "", &json!({ "after": after })).await?;
        projects.extend(list(&page, "projects").iter().cloned());
        after = text(&page, "next").to_owned();
        if after.is_empty() {
            return Ok(projects);
        }
    }
    bail!("the server has more than {PAGES_MAX} pages of projects")
}

/// Tokens by id, with their labels.
fn row(project: &Value) -> Vec<String> {
    let tokens = list(project, "tokens").iter().map(|token| {
        match (text(token, "id"), text(token, "label")) {
            (id, "") => id.to_owned(),
            (id, label) => format!("{id} ({label})"),
        }
    });
    let tokens = tokens.collect::<Vec<_>>().join(", ");
    let cell = |name| text(project, name).to_owned();
    vec![cell("project"), cell("region"), cell("account"), tokens]
}

async fn call(sqs: &Sqs, below: &str, asked: &Value) -> Result<Value> {
    let answer = sqs.call_own(&format!("/_millrace/projects{below}"), asked).await;
    answer.map_err(|error| {
        let advice = match error.kind {
            CallErrorKind::Malformed => "only Millrace has projects; this server is none, or an older one",
            CallErrorKind::Refused if error.message.contains("There is no project") => {
                "`millrace project list` lists your projects; `millrace project create` creates one"
            }
            CallErrorKind::Refused if error.message.contains("has no token") => {
                "give the token's id or label, not the token: `millrace project list` lists both"
            }
            CallErrorKind::Refused if error.message.contains("exists already, with another") => {
                "`millrace project list` says where it is, if it is yours: use it there, or move it \
                 with `millrace project delete` and `create`, which leave its queues in the old \
                 place and revoke its tokens; if it is not yours, choose another id"
            }
            _ => return error.into(),
        };
        match error.kind {
            CallErrorKind::Malformed => anyhow::Error::new(error).context(advice),
            _ => anyhow::anyhow!("{error}\n{advice}"),
        }
    })
}
