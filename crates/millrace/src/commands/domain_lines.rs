//! `domain import` and `domain export`: items as JSON lines or CSV.
//!
//! ```text
//! {"name":"2009-07-09_JAVA","attributes":{"Close":["9.20"],"Ticker":["JAVA"]}}
//!
//! item,Close,Ticker
//! 2009-07-09_JAVA,9.20,JAVA
//! ```
//! An attribute of a JSON line may be one text instead of a list. CSV has one value an attribute, and
//! none where a field is empty.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use millrace_client::sdb::{Item, SdbClient};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::connection::ConnectionFlags;
use super::domain::{add_attributes, of_domain, page};
use super::output;
use crate::logging::tell;

/// SimpleDB: items of a batch.
const BATCH_ITEMS: usize = 25;
/// Bytes of a batch, which takes at most three times that as a form. SimpleDB: 1 MB of a request.
const BATCH_BYTES: usize = 256 << 10;

#[derive(Args, Debug)]
pub(crate) struct ImportFlags {
    /// The domain, which must exist
    domain: String,
    /// File to read; without one, or with -, standard input
    file: Option<PathBuf>,
    /// Read CSV, whose first line has the names of the attributes
    #[arg(long)]
    csv: bool,
    /// The name of an item, made of columns: {Date}_{Ticker} [default: the first column, which is no
    /// attribute then]
    #[arg(long, value_name = "TEMPLATE", requires = "csv", value_parser = template)]
    item: Option<String>,
    /// Remove the values that these attributes had
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Args, Debug)]
pub(crate) struct ExportFlags {
    domain: String,
    /// Write CSV with these attributes, with commas between; those of several values are refused
    #[arg(long = "columns", value_name = "NAMES", value_delimiter = ',')]
    csv: Vec<String>,
    /// File to write, which only you may read [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Items that are put together.
#[derive(Debug, Default)]
struct Batch {
    items: Vec<Item>,
    bytes: usize,
}

pub(super) async fn import(flags: &ImportFlags) -> Result<()> {
    let sdb = flags.connection.connect_to_domains()?;
    let input: Box<dyn Read + Send> = match &flags.file {
        Some(path) if path.as_os_str() != "-" => {
            Box::new(File::open(path).with_context(|| format!("opening {}", path.display()))?)
        }
        _ => Box::new(io::stdin()),
    };
    let mut items = match flags.csv {
        true => read_csv(input, flags.item.clone())?,
        false => read_lines(input)?,
    };
    let mut batch = Batch::default();
    let mut put = 0;
    let outcome = async {
        while let Some(item) = items.recv().await {
            let item = item?;
            if !batch.has_room_for(&item) {
                put += batch.put(&sdb, flags).await?;
            }
            batch.push(item);
        }
        put += batch.put(&sdb, flags).await?;
        Ok(())
    };
    let outcome: Result<()> = outcome.await;
    tell(&format!("{} put", output::counted(put, "item")));
    outcome
}

pub(super) async fn export(flags: &ExportFlags) -> Result<()> {
    let sdb = flags.connection.connect_to_domains()?;
    let expression = format!("select * from `{}` limit 2500", flags.domain.replace('`', "``"));
    // Before a file is there: the domain may not.
    let mut found = page(&sdb, &expression, None).await?;
    let out: Box<dyn Write + Send> = match &flags.output {
        Some(path) => {
            let options = File::options().write(true).create_new(true).mode(0o600).open(path);
            Box::new(options.with_context(|| format!("creating {}", path.display()))?)
        }
        None => Box::new(io::stdout()),
    };
    let mut out = io::BufWriter::new(out);
    let mut written = 0;
    if !flags.csv.is_empty() {
        let heads = std::iter::once("item").chain(flags.csv.iter().map(|name| &**name));
        out.write_all(&csv_line(heads)?)?;
    }
    loop {
        for item in &found.items {
            match flags.csv.is_empty() {
                true => writeln!(out, "{}", json_line(item))?,
                false => out.write_all(&csv_line(row(item, &flags.csv)?)?)?,
            }
            written += 1;
        }
        let Some(token) = found.next_token else { break };
        found = page(&sdb, &expression, Some(token)).await?;
    }
    out.flush()?;
    tell(&format!("{} written", output::counted(written, "item")));
    Ok(())
}

/// An item as a line of JSON.
pub(super) fn json_line(item: &Item) -> String {
    let mut attributes = Map::new();
    for (name, value) in &item.attributes {
        let values = attributes.entry(name.clone()).or_insert_with(|| json!([]));
        if let Value::Array(values) = values {
            values.push(json!(value));
        }
    }
    json!({ "name": item.name, "attributes": attributes }).to_string()
}

impl Batch {
    fn has_room_for(&self, item: &Item) -> bool {
        let is_there = self.items.iter().any(|other| other.name == item.name);
        let is_full = self.bytes + bytes_of(item) > BATCH_BYTES && !self.items.is_empty();
        self.items.len() < BATCH_ITEMS && !is_there && !is_full
    }

    fn push(&mut self, item: Item) {
        self.bytes += bytes_of(&item);
        self.items.push(item);
    }

    /// Puts all of it, and returns how many items that were.
    async fn put(&mut self, sdb: &SdbClient, flags: &ImportFlags) -> Result<u64> {
        let items = std::mem::take(self).items;
        let Some(first) = items.first() else { return Ok(0) };
        let mut parameters = of_domain(&flags.domain);
        for (number, item) in (1..).zip(&items) {
            let prefix = format!("Item.{number}.");
            parameters.push((format!("{prefix}ItemName"), item.name.clone()));
            add_attributes(&mut parameters, &prefix, &item.attributes, flags.replace);
        }
        let put = sdb.call("BatchPutAttributes", parameters).await;
        put.with_context(|| format!("the batch that begins with item {}", first.name))?;
        Ok(u64::try_from(items.len()).unwrap_or_default())
    }
}

fn bytes_of(item: &Item) -> usize {
    // With the names of the parameters.
    const PARAMETERS_BYTES: usize = 64;
    let pair = |(name, value): &(String, String)| name.len() + value.len() + PARAMETERS_BYTES;
    item.name.len() + item.attributes.iter().map(pair).sum::<usize>()
}

/// The fields of an item as a line of CSV.
fn row<'a>(item: &'a Item, names: &[String]) -> Result<Vec<&'a str>> {
    let mut fields = vec![&*item.name];
    for name in names {
        let mut values = item.attributes.iter().filter(|(other, _)| other == name);
        fields.push(values.next().map_or("", |(_, value)| value));
        if values.next().is_some() {
            bail!("item {} has several values of {name}: CSV cannot say so, JSON can", item.name);
        }
    }
    Ok(fields)
}

fn csv_line<'a>(fields: impl IntoIterator<Item = &'a str>) -> Result<Vec<u8>> {
    let mut line = csv::Writer::from_writer(Vec::new());
    line.write_record(fields)?;
    line.into_inner().map_err(|error| anyhow!("{error}"))
}

type Items = mpsc::Receiver<Result<Item>>;

fn read_lines(input: Box<dyn Read + Send>) -> Result<Items> {
    let lines = BufReader::new(input).lines();
    spawn((1_u64..).zip(lines).filter_map(|(number, line)| {
        let item = line.map_err(Into::into).and_then(|line| item_of(&line));
        item.with_context(|| format!("line {number}")).transpose()
    }))
}

fn read_csv(input: Box<dyn Read + Send>, template: Option<String>) -> Result<Items> {
    let mut reader = csv::Reader::from_reader(BufReader::new(input));
    let heads: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    if let Some(template) = &template {
        name_of(template, &heads, &vec![""; heads.len()])?;
    }
    spawn(reader.into_records().map(move |record| {
        let record = record?;
        let fields: Vec<&str> = record.iter().collect();
        let name = match &template {
            Some(template) => name_of(template, &heads, &fields)?,
            None => fields.first().copied().unwrap_or_default().to_owned(),
        };
        let pairs = heads.iter().zip(&fields).skip(usize::from(template.is_none()));
        let given = pairs.filter(|(_, field)| !field.is_empty());
        let attributes = given.map(|(head, field)| (head.clone(), (*field).to_owned()));
        Ok(Item { name, attributes: attributes.collect() })
    }))
}

/// Reads on a thread, for reading may block.
fn spawn(items: impl Iterator<Item = Result<Item>> + Send + 'static) -> Result<Items> {
    let (sender, receiver) = mpsc::channel(BATCH_ITEMS);
    let read = move || {
        for item in items {
            if sender.blocking_send(item).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("items".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// The item of a line of JSON; none of a blank one.
fn item_of(line: &str) -> Result<Option<Item>> {
    const FORM: &str = r#"a line must be an item: {"name": "…", "attributes": {"a": ["1", "2"]}}"#;
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    if line.trim().is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(line).context(FORM)?;
    let name = value.get("name").and_then(Value::as_str).context(FORM)?.to_owned();
    let given = value.get("attributes").and_then(Value::as_object).context(FORM)?;
    let mut attributes = Vec::new();
    for (attribute, value) in given {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            other => std::slice::from_ref(other),
        };
        for value in values {
            attributes.push((attribute.clone(), value.as_str().context(FORM)?.to_owned()));
        }
    }
    Ok(Some(Item { name, attributes }))
}

/// A text without a column would be the name of all items, which the next row would change.
fn template(text: &str) -> Result<String, String> {
    match text.contains('{') {
        true => Ok(text.to_owned()),
        false => Err(format!("columns stand in braces: {{{text}}}")),
    }
}

/// The template with fields instead of the names of columns in braces.
fn name_of(template: &str, heads: &[String], fields: &[&str]) -> Result<String> {
    let mut name = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (column, behind) = behind.split_once('}').context("--item: a brace is open")?;
        let place = heads.iter().position(|head| head == column);
        let place = place.with_context(|| format!("--item: there is no column {column}"))?;
        name += before;
        name += fields.get(place).copied().unwrap_or_default();
        rest = behind;
    }
    Ok(name + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, attributes: &[(&str, &str)]) -> Item {
        let owned = attributes.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Item { name: name.into(), attributes: owned.collect() }
    }

    #[test]
    fn lines_of_json_are_read_as_they_are_written() {
        let written = item("i", &[("a", "1"), ("a", "2"), ("b", "\u{1}")]);
        assert_eq!(item_of(&json_line(&written)).unwrap(), Some(written));
        let single = item_of(r#"{"name":"i","attributes":{"a":"1"}}"#).unwrap();
        assert_eq!(single, Some(item("i", &[("a", "1")])));
        assert_eq!(item_of(" ").unwrap(), None);
        for wrong in ["x", "{}", r#"{"name":"i"}"#, r#"{"name":"i","attributes":{"a":1}}"#] {
            assert!(item_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_made_of_columns() {
        let heads = ["Date".to_owned(), "Ticker".to_owned()];
        let made = |template| name_of(template, &heads, &["2009", "JAVA"]).ok();
        assert_eq!(made("{Date}_{Ticker}").as_deref(), Some("2009_JAVA"));
        assert_eq!(made("all").as_deref(), Some("all"));
        assert_eq!([made("{Close}"), made("{Date")], [None, None]);
    }

    #[test]
    fn csv_has_one_value_an_attribute() {
        let names = ["b".to_owned(), "a".to_owned()];
        let line = |item: &Item| csv_line(row(item, &names)?);
        let quoted = line(&item("i", &[("a", "x,\"y"), ("c", "no")])).unwrap();
        assert_eq!(String::from_utf8(quoted).unwrap(), "i,,\"x,\"\"y\"\n");
        assert!(line(&item("i", &[("a", "1"), ("a", "2")])).is_err());
    }

    #[test]
    fn a_batch_has_no_item_twice() {
        let mut batch = Batch::default();
        batch.push(item("i", &[("a", "1")]));
        assert!(batch.has_room_for(&item("j", &[])) && !batch.has_room_for(&item("i", &[])));
        batch.push(item("j", &[("a", &"x".repeat(BATCH_BYTES))]));
        assert!(!batch.has_room_for(&item("k", &[])));
    }
}
