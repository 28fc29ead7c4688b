//! What a record says: which rows changed, with their ids. Applied again in order, it needs no
//! decisions.
//!
//! A record is the version of this layout (a byte) and its changes. A change is a byte and its
//! fields: numbers as LEB128, texts with their length before them.
//!
//! | byte | change | fields |
//! |--:|---|---|
//! | 1 | domain created | id, region, account, name |
//! | 2 | domain deleted | id |
//! | 3 | figures of a domain | id, items, bytes of their names, names, their bytes, pairs, bytes of values |
//! | 4 | name created | id, domain, name |
//! | 5 | pairs of a name (0: the name is gone), and items with it | id, pairs, items |
//! | 6 | item created | id, domain, name |
//! | 7 | item deleted, with its pairs | id |
//! | 8 | pair added | item, place, name, value |
//! | 9 | all pairs of a name removed | item, place |
//! | 10 | pair removed | item, place, value |

use super::log::LogError;
use crate::domain::DomainFigures;

const VERSION: u8 = 1;

/// One change of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    DomainCreated { id: u64, region: &'a str, account: &'a str, name: &'a str },
    DomainDeleted { id: u64 },
    Figures { id: u64, figures: DomainFigures },
    NameCreated { id: u64, domain: u64, name: &'a str },
    NameCounts { id: u64, pairs: u64, items: u64 },
    ItemCreated { id: u64, domain: u64, name: &'a str },
    ItemDeleted { id: u64 },
    PairAdded { item: u64, place: u64, name: u64, value: &'a str },
    NameRemoved { item: u64, place: u64 },
    PairRemoved { item: u64, place: u64, value: &'a str },
}

/// A record that is being written.
#[derive(Debug, Default)]
pub(super) struct RecordWriter(Vec<u8>);

/// A record that is read.
pub(super) struct RecordReader<'a>(&'a [u8]);

impl RecordWriter {
    pub(super) fn push(&mut self, change: &Change<'_>) {
        if self.0.is_empty() {
            self.0.push(VERSION);
        }
        match *change {
            Change::DomainCreated { id, region, account, name } => {
                self.fields(1, &[id], &[region, account, name]);
            }
            Change::DomainDeleted { id } => self.fields(2, &[id], &[]),
            Change::Figures { id, figures } => {
                let DomainFigures {
                    items,
                    item_name_bytes,
                    attribute_names,
                    attribute_name_bytes,
                    attribute_values,
                    attribute_value_bytes,
                } = figures;
                let names = [attribute_names, attribute_name_bytes];
                let values = [attribute_values, attribute_value_bytes];
                let [names, name_bytes] = names;
                let [values, value_bytes] = values;
                let numbers = [id, items, item_name_bytes, names, name_bytes, values, value_bytes];
                self.fields(3, &numbers, &[]);
            }
            Change::NameCreated { id, domain, name } => self.fields(4, &[id, domain], &[name]),
            Change::NameCounts { id, pairs, items } => self.fields(5, &[id, pairs, items], &[]),
            Change::ItemCreated { id, domain, name } => self.fields(6, &[id, domain], &[name]),
            Change::ItemDeleted { id } => self.fields(7, &[id], &[]),
            Change::PairAdded { item, place, name, value } => {
                self.fields(8, &[item, place, name], &[value]);
            }
            Change::NameRemoved { item, place } => self.fields(9, &[item, place], &[]),
            Change::PairRemoved { item, place, value } => {
                self.fields(10, &[item, place], &[value]);
            }
        }
    }

    /// The record. Empty if nothing changed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn fields(&mut self, kind: u8, numbers: &[u64], texts: &[&str]) {
        self.0.push(kind);
        numbers.iter().for_each(|number| self.number(*number));
        for text in texts {
            self.number(text.len() as u64);
            self.0.extend_from_slice(text.as_bytes());
        }
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

impl<'a> RecordReader<'a> {
    pub(super) fn new(record: &'a [u8]) -> Result<RecordReader<'a>, LogError> {
        match record.split_first() {
            Some((&VERSION, changes)) => Ok(RecordReader(changes)),
            Some((version, _)) => Err(LogError::Damaged(format!(
                "a record of tables has layout {version}, which this version cannot read"
            ))),
            None => Err(malformed()),
        }
    }

    /// The next change, if there is one more.
    pub(super) fn next(&mut self) -> Result<Option<Change<'a>>, LogError> {
        let Some((kind, rest)) = self.0.split_first() else { return Ok(None) };
        self.0 = rest;
        Ok(Some(match kind {
            1 => Change::DomainCreated {
                id: self.number()?,
                region: self.text()?,
                account: self.text()?,
                name: self.text()?,
            },
            2 => Change::DomainDeleted { id: self.number()? },
            3 => Change::Figures {
                id: self.number()?,
                figures: DomainFigures {
                    items: self.number()?,
                    item_name_bytes: self.number()?,
                    attribute_names: self.number()?,
                    attribute_name_bytes: self.number()?,
                    attribute_values: self.number()?,
                    attribute_value_bytes: self.number()?,
                },
            },
            4 => Change::NameCreated {
                id: self.number()?,
                domain: self.number()?,
                name: self.text()?,
            },
            5 => Change::NameCounts {
                id: self.number()?,
                pairs: self.number()?,
                items: self.number()?,
            },
            6 => Change::ItemCreated {
                id: self.number()?,
                domain: self.number()?,
                name: self.text()?,
            },
            7 => Change::ItemDeleted { id: self.number()? },
            8 => Change::PairAdded {
                item: self.number()?,
                place: self.number()?,
                name: self.number()?,
                value: self.text()?,
            },
            9 => Change::NameRemoved { item: self.number()?, place: self.number()? },
            10 => Change::PairRemoved {
                item: self.number()?,
                place: self.number()?,
                value: self.text()?,
            },
            _ => return Err(malformed()),
        }))
    }

    fn number(&mut self) -> Result<u64, LogError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(malformed)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(malformed())
    }

    fn text(&mut self) -> Result<&'a str, LogError> {
        let length = usize::try_from(self.number()?).map_err(|_| malformed())?;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        str::from_utf8(text).map_err(|_| malformed())
    }
}

fn malformed() -> LogError {
    LogError::Damaged("a record of tables is malformed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<Change<'static>> {
        let figures = DomainFigures {
            items: 1,
            item_name_bytes: 200,
            attribute_names: 3,
            attribute_name_bytes: 4,
            attribute_values: 5,
            attribute_value_bytes: u64::MAX,
        };
        vec![
            Change::DomainCreated { id: 1, region: "r", account: "1", name: "stocks" },
            Change::DomainDeleted { id: 1 },
            Change::Figures { id: 300, figures },
            Change::NameCreated { id: 2, domain: 1, name: "größe" },
            Change::NameCounts { id: 2, pairs: 0, items: 0 },
            Change::ItemCreated { id: 3, domain: 1, name: "item" },
            Change::ItemDeleted { id: 127 },
            Change::PairAdded { item: 3, place: 128, name: 2, value: "" },
            Change::NameRemoved { item: 3, place: 1 << 40 },
            Change::PairRemoved { item: 3, place: 0, value: "v" },
        ]
    }

    fn record() -> Vec<u8> {
        let mut record = RecordWriter::default();
        changes().iter().for_each(|change| record.push(change));
        record.0
    }

    fn read(record: &[u8]) -> Result<Vec<Change<'_>>, LogError> {
        let mut reader = RecordReader::new(record)?;
        let mut changes = Vec::new();
        while let Some(change) = reader.next()? {
            changes.push(change);
        }
        Ok(changes)
    }

    #[test]
    fn changes_round_trip() {
        assert_eq!(read(&record()).unwrap(), changes());
    }

    #[test]
    fn a_record_cut_short_or_of_another_layout_is_refused_or_shorter() {
        let record = record();
        for length in 0..record.len() {
            match read(&record[..length]) {
                Ok(read) => assert!(read.len() < changes().len()),
                Err(error) => assert!(matches!(error, LogError::Damaged(_))),
            }
        }
        assert!(
            read(&[2, 2, 1]).is_err() && read(&[1, 99]).is_err() && read(&[1, 2, 255]).is_err()
        );
        assert!(read(&[[1, 2].as_slice(), &[255; 11]].concat()).is_err());
    }
}
