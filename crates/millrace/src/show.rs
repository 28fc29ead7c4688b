//! `millrace config show`: every setting, its value and its origin.

use std::io::{self, Write};

use anyhow::Context;
use millrace_services::AccessKey;
use serde_json::{Map, Value as Json, json};

use crate::config::{Config, Resolved, Value};

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Format {
    /// What the flag `--json` asks for.
    pub(crate) fn new(json: bool) -> Format {
        if json { Format::Json } else { Format::Text }
    }
}

pub(crate) fn show(config: &Config, format: Format) -> anyhow::Result<()> {
    let text = match format {
        Format::Text => as_text(config),
        Format::Json => format!("{:#}\n", as_json(config)),
    };
    print(&text)
}

/// Prints text as it is. That nobody reads it any more is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("printing"),
    }
}

fn as_text(config: &Config) -> String {
    let lines: Vec<(String, String)> = config
        .resolved()
        .iter()
        .map(|resolved| {
            let key = resolved.setting.key;
            (format!("{key} = {}", value(resolved)), resolved.origin.to_string())
        })
        .collect();
    // Long values push their origin out of the column, not everybody's.
    let width = lines.iter().map(|(left, _)| left.len()).max().unwrap_or(0).min(48);
    let mut text = String::new();
    for (left, origin) in lines {
        text.push_str(&format!("{left:width$}  # {origin}\n"));
    }
    for credential in &config.credentials {
        let AccessKey { access_key, account, name, .. } = credential;
        text.push_str(&format!(
            "credential {access_key}: account {account}, secret key ***{}{name}\n",
            if name.is_empty() { "" } else { ", " }
        ));
    }
    for queue in &config.queues {
        text.push_str(&format!("queue {}:", queue.name));
        for (place, name) in [("region", &queue.region), ("account", &queue.account)] {
            if let Some(name) = name {
                text.push_str(&format!(" {place}={name}"));
            }
        }
        for (name, value) in &queue.attributes {
            text.push_str(&format!(" {name}={value}"));
        }
        for (key, value) in &queue.tags {
            text.push_str(&format!(" tag:{key}={value}"));
        }
        text.push('\n');
    }
    for topic in &config.topics {
        text.push_str(&format!(
            "topic {}: region={} account={}",
            topic.name, topic.region, topic.account
        ));
        for (name, value) in &topic.attributes {
            text.push_str(&format!(" {name}={value}"));
        }
        for (key, value) in &topic.tags {
            text.push_str(&format!(" tag:{key}={value}"));
        }
        text.push('\n');
        for subscription in &topic.subscriptions {
            text.push_str(&format!("  subscription {}:", subscription.endpoint));
            for (name, value) in &subscription.attributes {
                text.push_str(&format!(" {name}={value}"));
            }
            text.push('\n');
        }
    }
    for project in &config.projects {
        text.push_str(&format!(
            "project {}: region={} account={}",
            project.id, project.region, project.account
        ));
        for token in &project.tokens {
            text.push_str(&format!(" token:{}=***", token.name));
        }
        text.push('\n');
    }
    text
}

fn as_json(config: &Config) -> Json {
    let settings: Map<String, Json> = config
        .resolved()
        .iter()
        .map(|resolved| {
            let entry = json!({ "value": value(resolved), "origin": resolved.origin.to_string() });
            (resolved.setting.key.to_owned(), entry)
        })
        .collect();
    let credentials = config.credentials.iter().map(|credential| {
        json!({
            "access_key": credential.access_key,
            "secret_key": "***",
            "account": credential.account,
            "name": credential.name,
        })
    });
    let as_map = |pairs: &[(String, String)]| -> Map<String, Json> {
        pairs.iter().map(|(name, value)| (name.clone(), Json::from(value.clone()))).collect()
    };
    let queues = config.queues.iter().map(|queue| {
        json!({
            "name": queue.name,
            "region": queue.region,
            "account": queue.account,
            "attributes": as_map(&queue.attributes),
            "tags": as_map(&queue.tags),
        })
    });
    let topics = config.topics.iter().map(|topic| {
        let subscriptions = topic.subscriptions.iter().map(|it| {
            json!({
                "protocol": it.protocol,
                "endpoint": it.endpoint,
                "attributes": as_map(&it.attributes),
            })
        });
        json!({
            "name": topic.name,
            "region": topic.region,
            "account": topic.account,
            "attributes": as_map(&topic.attributes),
            "tags": as_map(&topic.tags),
            "subscriptions": subscriptions.collect::<Vec<_>>(),
        })
    });
    let projects = config.projects.iter().map(|project| {
        let tokens = project.tokens.iter().map(|it| (it.name.clone(), Json::from("***")));
        json!({
            "project": project.id,
            "region": project.region,
            "account": project.account,
            "tokens": tokens.collect::<Map<String, Json>>(),
        })
    });
    json!({
        "settings": settings,
        "credentials": credentials.collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(),
        "topics": topics.collect::<Vec<_>>(),
        "projects": projects.collect::<Vec<_>>(),
    })
}

/// As TOML has it, which is also JSON.
fn value(resolved: &Resolved) -> Json {
    match &resolved.value {
        Value::Text(text) if resolved.setting.is_secret && !text.is_empty() => Json::from("***"),
        Value::Text(text) => Json::from(text.clone()),
        Value::Number(number) => Json::from(*number),
        Value::Truth(truth) => Json::from(*truth),
        Value::List(list) => Json::from(list.clone()),
    }
}
