//! The files in which versions up to 0.2 kept the history, and their conversion.
//!
//! ```text
//! catalog.log, 20614-1m.log, 20580-5m.log, 20310-1h.log     of a day, at one resolution
//! file   "MRMETRC1" | frame …
//! frame  length u32 | CRC32C of the payload u32 | payload       little-endian
//!
//! catalog  1 | entity | region | account | name space | dimensions | name | value …
//!          2 | entity | column | unit (byte) | metric
//!          3 | day | entity | column …          series with values on that day
//!          4 | entity                           the next entity's number at least
//!          5 | entity | column …                series that were removed
//! day      minute | row …
//!          1440 | { minute | bytes of its rows | row … } …
//! ```
//! Numbers are varints, texts stand behind their length. A frame whose checksum is wrong is left
//! out; where a length makes no sense, the file ends. The conversion holds one frame in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use rusqlite::Connection;

use crate::catalog::Catalog;
use crate::database::{self, io_error};
use crate::directory::{free_name, sync_dir};
use crate::number::Reader;
use crate::points;
use crate::resolution::{MINUTES_OF_DAY, Resolution};
use crate::row::Row;
use crate::{Entity, Scope, Unit};

const MAGIC: &[u8; 8] = b"MRMETRC1";
const HEAD_BYTES: usize = 8;
const FRAME_BYTES_MAX: usize = 64 << 20;
const CATALOG: &str = "catalog.log";

/// Makes a database of the old files of a directory, if there are any, and removes them. After a
/// crash or a failure meanwhile, either all old files are there or the whole database is.
pub(crate) fn convert(dir: &Path) -> io::Result<()> {
    let path = database::path_in(dir);
    let new = path.with_extension("new");
    // A crash may have left it.
    remove(&new)?;
    let days = days(dir)?;
    if !dir.join(CATALOG).exists() && days.is_empty() {
        return Ok(());
    }
    if !path.exists() {
        tracing::info!(days = days.len(), "the history of metrics is being converted");
        if let Err(error) = make_database(&new, dir, &days) {
            // The disk may be full.
            remove(&new)?;
            return Err(error);
        }
        std::fs::rename(&new, &path)?;
        sync_dir(dir)?;
        tracing::info!("the history of metrics is converted");
    }
    for (day, resolutions) in days {
        for resolution in resolutions {
            remove(&dir.join(name_of(day, resolution)))?;
        }
    }
    remove(&dir.join(CATALOG))?;
    sync_dir(dir)
}

/// Fills a new database with all of the old files, and syncs it.
fn make_database(new: &Path, dir: &Path, days: &BTreeMap<u64, Vec<Resolution>>) -> io::Result<()> {
    let connection = database::create(new)?;
    fill(&connection, dir, days)?;
    connection.close().map_err(|(_, error)| io_error(error))?;
    File::open(new)?.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Calls `frame` with the payload of each sound frame of a file. `InvalidData`: it is another kind
/// of file.
pub(crate) fn read_frames(path: &Path, mut frame: impl FnMut(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut magic = Vec::new();
    reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if !MAGIC.starts_with(&magic) {
        let what = format!("{} is no file of metrics", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut payload = Vec::new();
    let mut damaged = 0;
    loop {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        reader.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        if head.is_empty() {
            break;
        }
        let Some((length, checksum)) = head_of(&head) else {
            damaged += 1;
            break;
        };
        payload.clear();
        reader.by_ref().take(length as u64).read_to_end(&mut payload)?;
        if payload.len() == length && crc32c::crc32c(&payload) == checksum {
            frame(&payload);
        } else {
            damaged += 1;
        }
    }
    if damaged > 0 {
        let file = path.display();
        tracing::warn!(%file, damaged, "damaged frames of an old file of metrics are left out");
    }
    Ok(())
}

/// The length and the checksum of a payload; `None` if there can be no such frame.
fn head_of(head: &[u8]) -> Option<(usize, u32)> {
    let [a, b, c, d, checksum @ ..] = *head.first_chunk::<HEAD_BYTES>()?;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let is_possible = (1..=FRAME_BYTES_MAX).contains(&length);
    is_possible.then_some((length, u32::from_le_bytes(checksum)))
}

fn name_of(day: u64, resolution: Resolution) -> String {
    let resolution = match resolution {
        Resolution::Minute => "1m",
        Resolution::FiveMinutes => "5m",
        Resolution::Hour => "1h",
    };
    format!("{day}-{resolution}.log")
}

/// The days that have files, each with their resolutions.
fn days(dir: &Path) -> io::Result<BTreeMap<u64, Vec<Resolution>>> {
    let mut days: BTreeMap<u64, Vec<Resolution>> = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some((day, _)) = name.split_once('-') else { continue };
        let Ok(day) = day.parse::<u32>() else { continue };
        let day = u64::from(day);
        let resolution = Resolution::ALL.into_iter().find(|r| name_of(day, *r) == name);
        days.entry(day).or_default().extend(resolution);
    }
    days.retain(|_, resolutions| !resolutions.is_empty());
    Ok(days)
}

fn fill(
    connection: &Connection,
    dir: &Path,
    days: &BTreeMap<u64, Vec<Resolution>>,
) -> io::Result<()> {
    let mut catalog = Catalog::default();
    match read_frames(&dir.join(CATALOG), |payload| {
        if apply(&mut catalog, payload).is_none() {
            tracing::warn!("an old name of metrics makes no sense and is left out");
        }
    }) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::error!(dir = %dir.display(), "the old names of metrics are gone, and so are their values");
        }
        read => read?,
    }
    catalog.save(connection).map_err(io_error)?;
    for (day, resolutions) in days {
        // Where there are two files, the coarser one was made of the finer one.
        let Some(resolution) = resolutions.iter().max() else { continue };
        let path = dir.join(name_of(*day, *resolution));
        connection.execute_batch("BEGIN").map_err(io_error)?;
        let mut put = Ok(());
        let read = read_frames(&path, |payload| {
            each_minute(payload, |minute, mut rows| {
                rows.retain(|row| catalog.known(row.entity).is_some());
                if put.is_ok() {
                    put = points::put(connection, (*day, *resolution), minute, &rows);
                }
            });
        });
        match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => set_aside(&path, &error)?,
            read => read?,
        }
        put.and_then(|()| connection.execute_batch("COMMIT")).map_err(io_error)?;
    }
    Ok(())
}

/// Keeps a file of another kind under another name.
fn set_aside(path: &Path, error: &io::Error) -> io::Result<()> {
    let aside = free_name(path, "foreign")?;
    std::fs::rename(path, &aside)?;
    tracing::error!(%error, kept_as = %aside.display(), "a day of metrics is without its values");
    Ok(())
}

fn apply(catalog: &mut Catalog, payload: &[u8]) -> Option<()> {
    let mut reader = Reader(payload);
    match reader.byte()? {
        1 => {
            let id = reader.number()?;
            let scope = Scope { region: reader.text()?.into(), account: reader.text()?.into() };
            let namespace = reader.text()?;
            let count: u16 = reader.number()?;
            let mut dimensions = Vec::new();
            for _ in 0..count {
                dimensions.push((reader.text()?.to_owned(), reader.text()?.to_owned()));
            }
            catalog.insert(id, Entity::new(scope, namespace, dimensions));
        }
        2 => {
            let (id, number) = (reader.number()?, reader.number()?);
            let unit = Unit::of_code(reader.byte()?)?;
            catalog.add_numbered(id, number, (reader.text()?, unit), 0);
        }
        3 => {
            let day = reader.varint()?;
            while !reader.is_empty() {
                let (id, number) = (reader.number()?, reader.number()?);
                catalog.begin_after(id);
                catalog.saw_day(day, id, number);
            }
        }
        4 => catalog.begin_after(reader.number::<u32>()?.checked_sub(1)?),
        5 => {
            let id = reader.number()?;
            catalog.begin_after(id);
            while !reader.is_empty() {
                catalog.remove_column(id, reader.number()?);
            }
        }
        _ => return None,
    }
    Some(())
}

/// Calls `minute` with each minute of a payload and its rows.
fn each_minute(payload: &[u8], mut minute: impl FnMut(u16, Vec<Row>)) {
    let mut reader = Reader(payload);
    match reader.number() {
        Some(MINUTES_OF_DAY) => {
            while let Some(number) = reader.number() {
                let Some(rows) = reader.number().and_then(|bytes| reader.bytes(bytes)) else {
                    return;
                };
                minute(number, rows_of(rows));
            }
        }
        Some(number) => minute(number, rows_of(reader.0)),
        None => {}
    }
}

/// The rows up to the first that makes no sense.
fn rows_of(bytes: &[u8]) -> Vec<Row> {
    let mut reader = Reader(bytes);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        match Row::take(&mut reader, |_| true) {
            Ok(row) => rows.extend(row),
            Err(_) => break,
        }
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests;
