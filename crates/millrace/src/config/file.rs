//! The TOML file: settings by section, `[[credentials]]`, `[queues.NAME]`, `[topics.NAME]` and
//! `[projects.NAME]`.
//!
//! A key that means nothing is an error that names its line.

use std::{
    fmt,
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
};

use millrace_core::is_account;
use millrace_process::parse_whole_seconds;
use millrace_services::AccessKey;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    UsageError, fault_of_secret,
    layers::{Value, seconds},
    projects, queues,
    settings::{Kind, SETTINGS, Setting, nearest},
    topics,
};

const CREDENTIAL_KEYS: [&str; 4] = ["access_key", "secret_key", "account", "name"];

/// A file that was read; by default, an empty one.
#[derive(Default)]
pub(crate) struct File {
    path: PathBuf,
    text: String,
    settings: Vec<Entry>,
    credentials: Vec<Item>,
    queues: Vec<(String, Item)>,
    topics: Vec<(String, Item)>,
    projects: Vec<(String, Item)>,
    /// One sentence for each key that means nothing.
    unknown: Vec<String>,
}

/// A setting in the file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) setting: &'static Setting,
    pub(crate) value: Value,
    pub(crate) line: usize,
}

/// A table of values that may not contain keys unknown to whoever takes them out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) place: Place,
    pub(crate) fields: Vec<(String, Field)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) place: Place,
    pub(crate) value: FieldValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue {
    Text(String),
    Number(i64),
    Truth(bool),
    /// Names and what they are, as text.
    Table(Vec<(String, String)>),
    /// A list of tables.
    Items(Vec<Item>),
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    path: PathBuf,
    line: usize,
}

impl File {
    pub(crate) fn read(path: &Path) -> Result<File, UsageError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            UsageError(format!("reading configuration file {}: {error}", path.display()))
        })?;
        File::parse(path, text)
    }

    pub(crate) fn parse(path: &Path, text: String) -> Result<File, UsageError> {
        let table = DeTable::parse(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(&text, &span));
            UsageError(format!("{}:{line}: {}", path.display(), error.message()))
        })?;
        let mut file = File { path: path.to_owned(), text: text.clone(), ..File::default() };
        for (key, value) in table.get_ref() {
            file.take_top(key, value)?;
        }
        let mut unknown = std::mem::take(&mut file.unknown);
        let credentials = file.credentials.iter().map(|item| (item, &CREDENTIAL_KEYS[..]));
        let queue_keys = queues::keys();
        let queues = file.queues.iter().map(|(_, item)| (item, &queue_keys[..]));
        let topics = file.topics.iter().map(|(_, item)| (item, &topics::KEYS[..]));
        let subscriptions = file.topics.iter().flat_map(|(_, item)| item.all_items());
        let subscriptions = subscriptions.map(|item| (item, &topics::SUBSCRIPTION_KEYS[..]));
        let projects = file.projects.iter().map(|(_, item)| (item, &projects::KEYS[..]));
        let declared = queues.chain(topics).chain(subscriptions).chain(projects);
        for (item, known) in credentials.chain(declared) {
            unknown.extend(item.unknown(known));
        }
        match unknown.is_empty() {
            true => Ok(file),
            false => Err(UsageError(unknown.join("\n"))),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn settings(&self) -> impl Iterator<Item = Entry> {
        self.settings.iter().cloned()
    }

    /// Returns whether the file holds a secret key or a token.
    pub(crate) fn has_secrets(&self) -> bool {
        let is_given = |entry: &Entry| entry.value != Value::Text(String::new());
        !self.credentials.is_empty()
            || self.projects.iter().any(|(_, project)| project.field("tokens").is_some())
            || self.settings.iter().any(|entry| entry.setting.is_secret && is_given(entry))
    }

    /// The tables `[queues.NAME]`.
    pub(crate) fn queues(&self) -> &[(String, Item)] {
        &self.queues
    }

    /// The tables `[topics.NAME]`.
    pub(crate) fn topics(&self) -> &[(String, Item)] {
        &self.topics
    }

    /// The tables `[projects.NAME]`.
    pub(crate) fn projects(&self) -> &[(String, Item)] {
        &self.projects
    }

    pub(crate) fn credentials(&self, account: &str) -> Result<Vec<AccessKey>, UsageError> {
        let mut credentials: Vec<AccessKey> = Vec::new();
        for item in &self.credentials {
            let credential = AccessKey {
                access_key: item.text("access_key")?.unwrap_or_default(),
                secret_key: item.text("secret_key")?.unwrap_or_default(),
                account: item.text("account")?.unwrap_or_else(|| account.to_owned()),
                name: item.text("name")?.unwrap_or_default(),
            };
            if credential.access_key.is_empty() || credential.secret_key.is_empty() {
                return Err(item.place.wrong("credentials need access_key and secret_key"));
            }
            for name in ["access_key", "secret_key"] {
                let Some(field) = item.field(name) else { continue };
                if let FieldValue::Text(text) = &field.value
                    && let Some(fault) = fault_of_secret(text)
                {
                    return Err(field.place.wrong(format_args!("{name} {fault}")));
                }
            }
            if !is_account(&credential.account) {
                return Err(item.place.wrong("account is not twelve digits"));
            }
            if credentials.iter().any(|other| other.access_key == credential.access_key) {
                return Err(item.place.wrong("access_key is given twice"));
            }
            credentials.push(credential);
        }
        Ok(credentials)
    }

    fn take_top(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), UsageError> {
        let place = self.place(key.span());
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("credentials", DeValue::Array(items)) => {
                for item in items {
                    let DeValue::Table(table) = item.get_ref() else {
                        return Err(place.wrong("credentials are tables: [[credentials]]"));
                    };
                    self.credentials.push(self.item(self.place(item.span()), table)?);
                }
                Ok(())
            }
            (kind @ ("queues" | "topics" | "projects"), DeValue::Table(tables)) => {
                for (name, table) in tables {
                    let place = self.place(name.span());
                    let DeValue::Table(table) = table.get_ref() else {
                        let one = kind.trim_end_matches('s');
                        return Err(place.wrong(format_args!("a {one} is a table: [{kind}.NAME]")));
                    };
                    let item = (name.get_ref().to_string(), self.item(place, table)?);
                    match kind {
                        "queues" => self.queues.push(item),
                        "topics" => self.topics.push(item),
                        _ => self.projects.push(item),
                    }
                }
                Ok(())
            }
            ("credentials" | "queues" | "topics" | "projects", _) => {
                Err(place.wrong("not a table"))
            }
            (section, DeValue::Table(table)) => {
                for (key, value) in table {
                    self.take_setting(&format!("{section}.{}", key.get_ref()), key.span(), value)?;
                }
                Ok(())
            }
            (name, _) => self.take_setting(name, key.span(), value),
        }
    }

    fn take_setting(
        &mut self,
        name: &str,
        span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), UsageError> {
        let place = self.place(span);
        let Some(setting) = Setting::named(name) else {
            let known = SETTINGS.iter().map(|setting| setting.key);
            let tables = ["credentials", "queues", "topics", "projects"];
            let unknown = place.unknown(name, known.chain(tables));
            self.unknown.push(unknown.0);
            return Ok(());
        };
        let value = match (setting.kind, value.get_ref()) {
            (Kind::Text, DeValue::String(text)) => Value::Text(text.to_string()),
            (Kind::Truth, DeValue::Boolean(truth)) => Value::Truth(*truth),
            (Kind::Number { .. } | Kind::Seconds { .. }, DeValue::Integer(number)) => {
                Value::Number(
                    integer(number)
                        .ok_or_else(|| place.wrong(format_args!("{name} is too large")))?,
                )
            }
            (Kind::Seconds { .. }, DeValue::String(text)) => Value::Number(
                seconds(text).map_err(|error| place.wrong(format_args!("{name}: {error}")))?,
            ),
            (Kind::List, DeValue::String(text)) => Value::List(vec![text.to_string()]),
            (Kind::List, DeValue::Array(items)) => Value::List(
                items
                    .iter()
                    .map(|item| match item.get_ref() {
                        DeValue::String(text) => Ok(text.to_string()),
                        _ => Err(place.wrong(format_args!("{name} is a list of strings"))),
                    })
                    .collect::<Result<_, _>>()?,
            ),
            (kind, found) => {
                let expected = match kind {
                    Kind::Text => "a string",
                    Kind::Truth => "true or false",
                    Kind::Number { .. } => "a whole number",
                    Kind::Seconds { .. } => "a duration such as \"45s\", or a number of seconds",
                    Kind::List => "a list of strings",
                };
                let found = found.type_str();
                return Err(place.wrong(format_args!("{name} is {expected}, not {found}")));
            }
        };
        self.settings.push(Entry { setting, value, line: place.line });
        Ok(())
    }

    fn item(&self, place: Place, table: &DeTable<'_>) -> Result<Item, UsageError> {
        let fields = table.iter().map(|(key, value)| {
            let place = self.place(key.span());
            let name = key.get_ref().to_string();
            let value = match value.get_ref() {
                DeValue::Table(table) => FieldValue::Table(
                    table
                        .iter()
                        .map(|(key, value)| {
                            let place = self.place(key.span());
                            Ok((key.get_ref().to_string(), as_text(value.get_ref(), &place)?))
                        })
                        .collect::<Result<_, UsageError>>()?,
                ),
                DeValue::Array(items) => FieldValue::Items(
                    items
                        .iter()
                        .map(|item| match item.get_ref() {
                            DeValue::Table(table) => self.item(self.place(item.span()), table),
                            _ => Err(place.wrong(format_args!("{name} is a list of tables"))),
                        })
                        .collect::<Result<_, _>>()?,
                ),
                DeValue::String(text) => FieldValue::Text(text.to_string()),
                DeValue::Boolean(truth) => FieldValue::Truth(*truth),
                DeValue::Integer(number) => FieldValue::Number(
                    integer(number).ok_or_else(|| place.wrong("number is too large"))?,
                ),
                other => {
                    let found = other.type_str();
                    return Err(place.wrong(format_args!("{name} cannot be of type {found}")));
                }
            };
            Ok((name, Field { place, value }))
        });
        Ok(Item { place, fields: fields.collect::<Result<_, _>>()? })
    }

    fn place(&self, span: Range<usize>) -> Place {
        Place { path: self.path.clone(), line: line_of(&self.text, &span) }
    }
}

impl Item {
    /// One sentence for each key that is not known.
    fn unknown(&self, known: &[&str]) -> impl Iterator<Item = String> {
        let unknown = self.fields.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        unknown.map(|(name, field)| field.place.unknown(name, known.iter().copied()).0)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, field)| field)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, UsageError> {
        match self.field(name) {
            None => Ok(None),
            Some(Field { value: FieldValue::Text(text), .. }) => Ok(Some(text.clone())),
            Some(field) => Err(field.place.wrong(format_args!("{name} is a string"))),
        }
    }

    pub(crate) fn truth(&self, name: &str) -> Result<Option<bool>, UsageError> {
        match self.field(name) {
            None => Ok(None),
            Some(Field { value: FieldValue::Truth(truth), .. }) => Ok(Some(*truth)),
            Some(field) => Err(field.place.wrong(format_args!("{name} is true or false"))),
        }
    }

    pub(crate) fn number_within(
        &self,
        name: &str,
        bounds: &RangeInclusive<u64>,
    ) -> Result<Option<u64>, UsageError> {
        let Some(field) = self.field(name) else { return Ok(None) };
        let FieldValue::Number(number) = field.value else {
            return Err(field.place.wrong(format_args!("{name} is a whole number")));
        };
        within(name, number.into(), bounds, &field.place).map(Some)
    }

    /// A duration, or a number of seconds.
    pub(crate) fn seconds_within(
        &self,
        name: &str,
        bounds: &RangeInclusive<u64>,
    ) -> Result<Option<u64>, UsageError> {
        let Some(Field { place, value: FieldValue::Text(text) }) = self.field(name) else {
            return self.number_within(name, bounds);
        };
        let wrong = |error| place.wrong(format_args!("{name}: {error}"));
        let seconds = parse_whole_seconds(text).map_err(wrong)?;
        within(name, seconds.into(), bounds, place).map(Some)
    }

    /// The tables of a list.
    pub(crate) fn items(&self, name: &str) -> Result<&[Item], UsageError> {
        match self.field(name) {
            None => Ok(&[]),
            Some(Field { value: FieldValue::Items(items), .. }) => Ok(items),
            Some(field) => Err(field.place.wrong(format_args!("{name} is a list of tables"))),
        }
    }

    fn all_items(&self) -> impl Iterator<Item = &Item> {
        self.fields.iter().flat_map(|(_, field)| match &field.value {
            FieldValue::Items(items) => &items[..],
            _ => &[],
        })
    }

    pub(crate) fn table(&self, name: &str) -> Result<Vec<(String, String)>, UsageError> {
        match self.field(name) {
            None => Ok(Vec::new()),
            Some(Field { value: FieldValue::Table(table), .. }) => Ok(table.clone()),
            Some(field) => Err(field.place.wrong(format_args!("{name} is a table"))),
        }
    }
}

impl Place {
    pub(crate) fn wrong(&self, what: impl fmt::Display) -> UsageError {
        UsageError(format!("{}:{}: {what}", self.path.display(), self.line))
    }

    fn unknown<'a>(&self, name: &str, known: impl Iterator<Item = &'a str>) -> UsageError {
        match nearest(name, known) {
            Some(meant) => self.wrong(format_args!("unknown key {name}; did you mean {meant}?")),
            None => self.wrong(format_args!("unknown key {name}")),
        }
    }
}

fn within(
    name: &str,
    number: i128,
    bounds: &RangeInclusive<u64>,
    place: &Place,
) -> Result<u64, UsageError> {
    match u64::try_from(number).ok().filter(|number| bounds.contains(number)) {
        Some(number) => Ok(number),
        None => {
            let (min, max) = (bounds.start(), bounds.end());
            Err(place.wrong(format_args!("{name}: {number} is not within {min} to {max}")))
        }
    }
}

fn as_text(value: &DeValue<'_>, place: &Place) -> Result<String, UsageError> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Integer(number) => match integer(number) {
            Some(number) => Ok(number.to_string()),
            None => Err(place.wrong("the number is too large")),
        },
        other => Err(place.wrong(format_args!("a string is needed, not {}", other.type_str()))),
    }
}

fn integer(number: &toml::de::DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
}
