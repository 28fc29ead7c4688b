//! One value per setting, from the topmost layer that gives one.

use std::{collections::HashMap, fmt, path::PathBuf};

use millrace_core::{Url, is_account, limits};
use millrace_process::{DurationError, parse_whole_seconds};
use millrace_server::TlsFiles;
use millrace_services::AccessKey;

use super::{
    UsageError, fault_of_secret,
    file::File,
    settings::{Kind, SETTINGS, Setting, nearest},
};
use crate::cli::Flags;

/// Variables that are no settings: the server's own, one of commands that are clients, one of
/// workers, and what a worker's command is told about its message, which may run any of them.
const NO_SETTINGS: [&str; 14] = [
    "MILLRACE_CONFIG",
    "MILLRACE_ENDPOINT",
    "MILLRACE_POST_KEY",
    "MILLRACE_QUEUE_URL",
    "MILLRACE_MESSAGE_ID",
    "MILLRACE_RECEIPT_HANDLE",
    "MILLRACE_RECEIVE_COUNT",
    "MILLRACE_SENT_AT_MS",
    "MILLRACE_FIRST_RECEIVED_AT_MS",
    "MILLRACE_SENDER_ID",
    "MILLRACE_TRACE_HEADER",
    "MILLRACE_GROUP_ID",
    "MILLRACE_DEDUPLICATION_ID",
    "MILLRACE_SEQUENCE_NUMBER",
];

/// The beginning of the names of all our variables.
const PREFIX: &str = "MILLRACE_";

/// Before the name of a message attribute, whatever that is.
const MESSAGE_ATTRIBUTE: &str = "MILLRACE_ATTRIBUTE_";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Environment(String),
    File {
        path: PathBuf,
        line: usize,
    },
    /// The setting `strict`.
    Strict,
    Default,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
    Truth(bool),
    List(Vec<String>),
}

/// A setting with its value.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) setting: &'static Setting,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// All settings with their values, in the order of [`SETTINGS`].
pub(crate) struct Layers {
    resolved: Vec<Resolved>,
    /// Settings that `strict` gives another value than somebody has given, one sentence each.
    overruled: Vec<String>,
}

impl Layers {
    pub(crate) fn resolve(
        flags: &Flags,
        environment: &[(String, String)],
        file: &File,
    ) -> Result<Layers, UsageError> {
        let mut given: HashMap<&str, (Value, Origin)> = HashMap::new();
        // From the lowest layer to the highest: later ones replace.
        for entry in file.settings() {
            let origin = Origin::File { path: file.path().to_owned(), line: entry.line };
            check(entry.setting, &entry.value, &origin)?;
            given.insert(entry.setting.key, (entry.value, origin));
        }
        let mut unknown = Vec::new();
        for (name, value) in environment {
            if is_service_link(name, value) {
                continue;
            }
            let setting = match setting_of(name) {
                Ok(Some(setting)) => setting,
                Ok(None) => continue,
                Err(UsageError(what)) => {
                    unknown.push(what);
                    continue;
                }
            };
            // Compose and the like make `${X:-}` of what is not set. Texts may be empty on purpose.
            if value.is_empty()
                && matches!(setting.kind, Kind::Number { .. } | Kind::Seconds { .. })
            {
                continue;
            }
            let origin = Origin::Environment(name.clone());
            given.insert(setting.key, (parse(setting, value, &origin)?, origin));
        }
        if !unknown.is_empty() {
            return Err(UsageError(unknown.join("\n")));
        }
        for (key, flag, value) in flags.settings() {
            let Some(setting) = Setting::named(key) else { continue };
            let origin = Origin::Flag(flag);
            given.insert(key, (parse(setting, &value, &origin)?, origin));
        }
        let is_strict = matches!(given.get("strict"), Some((Value::Truth(true), _)));
        let mut overruled = Vec::new();
        let resolved = SETTINGS.iter().map(|setting| {
            let (value, origin) = match given.remove(setting.key) {
                Some(found) => found,
                None => (parse(setting, setting.default, &Origin::Default)?, Origin::Default),
            };
            let (value, origin) = match limit_of_amazon(setting.key, &value) {
                Some(limit) if is_strict => {
                    if origin != Origin::Default {
                        let key = setting.key;
                        overruled.push(format!("{key} ({origin}) is {limit} while strict is on"));
                    }
                    (limit, Origin::Strict)
                }
                _ => (value, origin),
            };
            Ok(Resolved { setting, value, origin })
        });
        let resolved = resolved.collect::<Result<_, UsageError>>()?;
        Ok(Layers { resolved, overruled })
    }

    pub(crate) fn overruled(&self) -> &[String] {
        &self.overruled
    }

    pub(crate) fn into_resolved(self) -> Vec<Resolved> {
        self.resolved
    }

    pub(crate) fn text(&self, key: &str) -> String {
        match self.value(key) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }

    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            Some(Value::List(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn truth(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::Truth(true)))
    }

    /// Nobody gave a value.
    pub(crate) fn is_default(&self, key: &str) -> bool {
        self.found(key).is_none_or(|resolved| resolved.origin == Origin::Default)
    }

    /// Within the setting's bounds, none of which is negative.
    pub(crate) fn number(&self, key: &str) -> usize {
        match self.value(key) {
            Some(Value::Number(number)) => usize::try_from(*number).unwrap_or(0),
            _ => 0,
        }
    }

    pub(crate) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<T, UsageError> {
        let text = self.text(key);
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(*choice),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                Err(self.wrong(key, format_args!("{text:?} is not one of {}", names.join(", "))))
            }
        }
    }

    pub(crate) fn account(&self, key: &str) -> Result<String, UsageError> {
        let account = self.text(key);
        if is_account(&account) {
            return Ok(account);
        }
        Err(self.wrong(key, format_args!("{account:?} is not twelve digits")))
    }

    /// A URL, which errors do not quote: it may hold a password.
    pub(crate) fn url(&self, key: &str) -> Result<Option<Url>, UsageError> {
        let text = self.text(key);
        if text.is_empty() {
            return Ok(None);
        }
        match Url::parse(&text) {
            Ok(url) => Ok(Some(url)),
            Err(error) => Err(self.wrong(key, format_args!("{error}"))),
        }
    }

    /// A URL that paths are put behind, without a slash at its end.
    pub(crate) fn base_url(&self, key: &str) -> Result<Option<String>, UsageError> {
        if self.url(key)?.is_none() {
            return Ok(None);
        }
        let text = self.text(key);
        if text.contains(['?', '#']) {
            return Err(
                self.wrong(key, format_args!("the URL must not have a query or a fragment"))
            );
        }
        Ok(Some(text.trim_end_matches('/').to_owned()))
    }

    pub(crate) fn directory(&self, key: &str) -> Result<PathBuf, UsageError> {
        match self.text(key) {
            path if path.is_empty() => Err(self.wrong(key, format_args!("names no directory"))),
            path => Ok(path.into()),
        }
    }

    pub(crate) fn tls(&self) -> Result<Option<TlsFiles>, UsageError> {
        match self.both("tls_cert", "tls_key")? {
            None => Ok(None),
            Some((certificate, key)) => {
                Ok(Some(TlsFiles { certificate: certificate.into(), key: key.into() }))
            }
        }
    }

    pub(crate) fn single_credential(&self, account: &str) -> Result<Option<AccessKey>, UsageError> {
        let pair = self.both("access_key", "secret_key")?;
        for key in ["access_key", "secret_key"] {
            self.secret(key)?;
        }
        Ok(pair.map(|(access_key, secret_key)| AccessKey {
            access_key,
            secret_key,
            account: account.to_owned(),
            name: String::new(),
        }))
    }

    /// A key, secret or token, if there is one.
    pub(crate) fn secret(&self, key: &str) -> Result<Option<String>, UsageError> {
        let text = self.text(key);
        match fault_of_secret(&text) {
            Some(fault) => Err(self.wrong(key, format_args!("{fault}"))),
            None => Ok(Some(text).filter(|text| !text.is_empty())),
        }
    }

    /// Two settings that go together.
    fn both(&self, one: &str, other: &str) -> Result<Option<(String, String)>, UsageError> {
        match (self.text(one), self.text(other)) {
            (first, second) if first.is_empty() && second.is_empty() => Ok(None),
            (first, second) if !first.is_empty() && !second.is_empty() => Ok(Some((first, second))),
            (first, _) => {
                let given = if first.is_empty() { other } else { one };
                Err(self.wrong(given, format_args!("{one} and {other} need each other")))
            }
        }
    }

    /// Says where the value of a setting comes from, and what is wrong with it.
    pub(crate) fn wrong(&self, key: &str, what: fmt::Arguments<'_>) -> UsageError {
        let origin = self.found(key).map_or(Origin::Default, |resolved| resolved.origin.clone());
        UsageError(format!("{key} ({origin}): {what}"))
    }

    fn value(&self, key: &str) -> Option<&Value> {
        Some(&self.found(key)?.value)
    }

    fn found(&self, key: &str) -> Option<&Resolved> {
        self.resolved.iter().find(|resolved| resolved.setting.key == key)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => formatter.write_str(text),
            Value::Number(number) => number.fmt(formatter),
            Value::Truth(truth) => truth.fmt(formatter),
            Value::List(list) => formatter.write_str(&list.join(", ")),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(flag) => write!(formatter, "flag {flag}"),
            Origin::Environment(name) => write!(formatter, "environment {name}"),
            Origin::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Origin::Strict => formatter.write_str("strict"),
            Origin::Default => formatter.write_str("default"),
        }
    }
}

/// Returns the value that `strict` gives a setting that is more generous than Amazon SQS.
fn limit_of_amazon(key: &str, value: &Value) -> Option<Value> {
    match (key, value) {
        ("limits.recreate_cool_down" | "limits.purge_cool_down", Value::Truth(false)) => {
            Some(Value::Truth(true))
        }
        ("limits.in_flight", Value::Number(number)) => {
            let limit = i64::try_from(limits::IN_FLIGHT).ok()?;
            (*number > limit).then_some(Value::Number(limit))
        }
        _ => None,
    }
}

/// What Kubernetes tells every pod of a service whose name begins with `millrace`, and container
/// links did: `MILLRACE_SERVICE_HOST`, `MILLRACE_PORT_4566_TCP_ADDR`, `MILLRACE_PORT=tcp://…`.
fn is_service_link(variable: &str, value: &str) -> bool {
    let Some(rest) = variable.strip_prefix("MILLRACE") else { return false };
    let is_port = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    rest.ends_with("_SERVICE_HOST")
        || rest.ends_with("_SERVICE_PORT")
        || rest.contains("_SERVICE_PORT_")
        || rest.split_once("_PORT_").is_some_and(|(_, port)| is_port(port))
        || (rest.ends_with("_PORT") && value.contains("://"))
}

/// The setting that a variable names; an error if it looks like ours and is not.
fn setting_of(variable: &str) -> Result<Option<&'static Setting>, UsageError> {
    let is_no_setting = NO_SETTINGS.contains(&variable) || variable.starts_with(MESSAGE_ATTRIBUTE);
    if !variable.starts_with(PREFIX) || is_no_setting {
        return Ok(None);
    }
    let names: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
    if let Some(index) = names.iter().position(|name| name == variable) {
        return Ok(SETTINGS.get(index));
    }
    // What all begin with says nothing of how near they are.
    let wanted = variable.trim_start_matches(PREFIX);
    let hint = match nearest(wanted, names.iter().map(|name| name.trim_start_matches(PREFIX))) {
        Some(name) => format!("; did you mean {PREFIX}{name}?"),
        None => format!("; known are {}", names.join(", ")),
    };
    Err(UsageError(format!("environment variable {variable} sets nothing{hint}")))
}

fn parse(setting: &'static Setting, text: &str, origin: &Origin) -> Result<Value, UsageError> {
    let wrong = |what: &str| UsageError(format!("{} ({origin}): {text:?} is {what}", setting.key));
    let value = match setting.kind {
        Kind::Text => Value::Text(text.to_owned()),
        Kind::List => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::List(items.map(str::to_owned).collect())
        }
        Kind::Truth => match text {
            "true" | "1" | "on" | "yes" => Value::Truth(true),
            "false" | "0" | "off" | "no" | "" => Value::Truth(false),
            _ => return Err(wrong("neither true nor false")),
        },
        Kind::Number { .. } => {
            Value::Number(text.replace('_', "").parse().map_err(|_| wrong("not a number"))?)
        }
        Kind::Seconds { .. } => Value::Number(seconds(text).map_err(|error| {
            UsageError(format!("{} ({origin}): {text:?}: {error}", setting.key))
        })?),
    };
    check(setting, &value, origin)?;
    Ok(value)
}

/// Parses a duration of whole seconds.
pub(super) fn seconds(text: &str) -> Result<i64, DurationError> {
    let seconds = parse_whole_seconds(text)?;
    i64::try_from(seconds).map_err(|_| DurationError::TooLong)
}

fn check(setting: &Setting, value: &Value, origin: &Origin) -> Result<(), UsageError> {
    if let (Kind::Number { min, max } | Kind::Seconds { min, max }, Value::Number(number)) =
        (setting.kind, value)
        && !(min..=max).contains(number)
    {
        return Err(UsageError(format!(
            "{} ({origin}): {number} is not within {min} to {max}",
            setting.key
        )));
    }
    Ok(())
}
