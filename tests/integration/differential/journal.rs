//! Reads a journal as it grows, a session at a time. Knows the form of its lines and nothing of what should be in it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::window::Place;

/// How long a fate may take to be written.
const PATIENCE: Duration = Duration::from_secs(20);

/// A record of the journal.
#[derive(Clone, Debug)]
pub struct Record {
    pub action: String,
    pub table: String,
    pub column: String,
    pub old: u128,
    pub new: Option<u128>,
    pub place: Place,
    pub first: Place,
    pub fate: String,
}

/// A journal file, read up to some place.
pub struct Journal {
    path: PathBuf,
    read: u64,
    /// By application name, which each session has its own of.
    records: HashMap<String, Vec<(String, Record)>>,
    /// Which application's record has this id, and where.
    places: HashMap<String, (String, usize)>,
}

fn key(of: &Json) -> Option<u128> {
    Some(uuid::Uuid::try_parse(of.as_str()?).ok()?.as_u128())
}

fn place(of: &Json) -> Place {
    let number = |name: &str| of[name].as_u64().unwrap_or_default();
    (number("statement"), number("row"))
}

impl Journal {
    /// A journal of which nothing was read.
    pub fn at(path: PathBuf) -> Journal {
        Journal { path, read: 0, records: HashMap::new(), places: HashMap::new() }
    }

    /// The records of a session since the last time, once each has a fate.
    pub fn take(&mut self, application: &str) -> Result<Vec<Record>, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.read_on();
            let records = self.records.get(application).map(Vec::as_slice).unwrap_or_default();
            if records.iter().all(|(_, record)| record.fate != "pending") {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("fates stay pending: {records:#?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let taken = self.records.remove(application).unwrap_or_default();
        taken.iter().for_each(|(id, _)| drop(self.places.remove(id)));
        Ok(taken.into_iter().map(|(_, record)| record).collect())
    }

    fn read_on(&mut self) {
        let mut text = String::new();
        let Ok(mut file) = File::open(&self.path) else { return };
        file.seek(SeekFrom::Start(self.read)).expect("a file has a place");
        file.read_to_string(&mut text).expect("the journal is text");
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        for line in text[..whole].lines() {
            let line: Json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            self.line(&line);
        }
    }

    fn line(&mut self, line: &Json) {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let id = text("id");
        if line.get("action").is_none() {
            if let Some((application, at)) = self.places.get(&id)
                && let Some(records) = self.records.get_mut(application)
            {
                records[*at].1.fate = text("fate");
            }
            return;
        }
        let record = Record {
            action: text("action"),
            table: text("table"),
            column: text("column"),
            old: key(&line["old"]).expect("a record has a key"),
            new: key(&line["new"]),
            place: place(line),
            first: place(&line["first"]),
            fate: text("fate"),
        };
        let records = self.records.entry(text("application")).or_default();
        self.places.insert(id.clone(), (text("application"), records.len()));
        records.push((id, record));
    }
}
