//! Kept documents, through a noun that only this test knows: what a new one costs.

use std::path::Path;
use std::sync::{Arc, Mutex};

use millrace_broker::{
    DOCUMENT_BYTES_MAX, Expected, KeptChange, KeptError, KeptFigures, Purpose, Shards,
};
use millrace_journal::{GroupCommit, SimFileSystem};

use crate::support::{create, fill_segments, open, run};

const NOTES: &str = "notes";

/// A note, typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    text: String,
    is_done: bool,
}

impl Note {
    fn new(text: &str) -> Note {
        Note { text: text.to_owned(), is_done: false }
    }

    fn bytes(&self) -> Vec<u8> {
        format!("{}{}", u8::from(self.is_done), self.text).into_bytes()
    }

    fn of_bytes(bytes: &[u8]) -> Note {
        let text = std::str::from_utf8(bytes).unwrap();
        Note { text: text[1..].to_owned(), is_done: text.starts_with('1') }
    }
}

/// The collection, typed.
struct Notes<'b>(&'b Shards, &'b GroupCommit);

impl Notes<'_> {
    fn put(&self, key: &str, note: &Note) {
        let changed = self
            .0
            .home()
            .unwrap()
            .kept()
            .change(&[KeptChange::put(NOTES, key, &note.bytes())], Purpose::Store);
        self.commit(changed.unwrap());
    }

    fn get(&self, key: &str) -> Option<Note> {
        self.0
            .home()
            .unwrap()
            .kept()
            .get(NOTES, key)
            .map(|document| Note::of_bytes(&document.bytes))
    }

    /// Of two that finish the same note one is refused.
    fn finish(&self, key: &str, version: u64) -> Result<(), KeptError> {
        let done = Note { is_done: true, ..self.get(key).unwrap() }.bytes();
        let change = KeptChange::put(NOTES, key, &done).if_it_is(Expected::Version(version));
        self.0
            .home()
            .unwrap()
            .kept()
            .change(&[change], Purpose::Store)
            .map(|ticket| self.commit(ticket))
    }

    fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let found = self.0.home().unwrap().kept().scan(NOTES, prefix, after, limit);
        found.into_iter().map(|(key, _)| key).collect()
    }

    fn commit(&self, ticket: millrace_journal::Ticket) {
        run(self.1, self.0.home().unwrap().committed(Some(ticket))).unwrap();
    }
}

fn opened(fs: &Arc<SimFileSystem>) -> (Arc<GroupCommit>, Arc<Shards>) {
    open(fs.clone(), Path::new("/journal"))
}

#[test]
fn documents_are_put_found_changed_once_and_deleted() {
    let (log, shards) = opened(&Arc::new(SimFileSystem::new(1)));
    let notes = Notes(&shards, &log);
    for key in ["b/1", "a/2", "b/2", "b/3", "c"] {
        notes.put(key, &Note::new(key));
    }

    assert_eq!(notes.get("a/2"), Some(Note::new("a/2")));
    assert_eq!(notes.get("a"), None);
    assert_eq!(notes.keys("b/", None, 2), ["b/1", "b/2"]);
    assert_eq!(notes.keys("b/", Some("b/2"), 2), ["b/3"]);
    assert_eq!(notes.keys("b/", Some("a/2"), 1), ["b/1"], "what comes after the prefix");
    assert_eq!(notes.keys("", Some("c"), 9), [""; 0]);

    let version = shards.home().unwrap().kept().get(NOTES, "b/2").unwrap().version;
    notes.finish("b/2", version).unwrap();
    assert!(notes.get("b/2").unwrap().is_done);
    assert!(matches!(notes.finish("b/2", version), Err(KeptError::Changed { .. })));
    let figures = KeptFigures { documents: 5, bytes: 2 * (4 * 3 + 1) + 5 };
    assert_eq!(shards.home().unwrap().kept().figures()[NOTES], figures);

    shards
        .home()
        .unwrap()
        .kept()
        .change(&[KeptChange::delete(NOTES, "b/2")], Purpose::Reclaim)
        .unwrap();
    assert_eq!(notes.get("b/2"), None);
    let absent = KeptChange::put(NOTES, "c", b"0").if_it_is(Expected::Absent);
    assert!(shards.home().unwrap().kept().change(&[absent], Purpose::Store).is_err());
    shards.close();
}

#[test]
fn several_changes_are_made_together_or_not_at_all() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = opened(&fs);
    let notes = Notes(&shards, &log);
    notes.put("old", &Note::new("old"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let listener = move |key: &str, to: Option<&[u8]>| {
        told.lock().unwrap().push((key.to_owned(), to.map(Note::of_bytes)));
    };
    shards.home().unwrap().kept().watch(NOTES, Box::new(listener));
    let new = Note::new("new").bytes();
    let rename = |absent: &'static str| {
        [
            KeptChange::delete(NOTES, "old"),
            KeptChange::put(NOTES, absent, &new).if_it_is(Expected::Absent),
            KeptChange::put("others", "o", b"o"),
        ]
    };

    assert!(
        shards.home().unwrap().kept().change(&rename("old"), Purpose::Store).is_err(),
        "as it was before all"
    );
    assert!(seen.lock().unwrap().is_empty() && notes.get("old").is_some());
    let large = vec![0; DOCUMENT_BYTES_MAX + 1];
    for change in [KeptChange::put(NOTES, "", b""), KeptChange::put(NOTES, "large", &large)] {
        assert!(shards.home().unwrap().kept().change(&[change], Purpose::Store).is_err());
    }
    notes.commit(shards.home().unwrap().kept().change(&rename("new"), Purpose::Store).unwrap());

    let changes = [("old".to_owned(), None), ("new".to_owned(), Some(Note::new("new")))];
    assert_eq!(*seen.lock().unwrap(), changes);
    shards.close();
    drop((shards, log));
    let (log, shards) = opened(&fs);
    let notes = Notes(&shards, &log);
    assert_eq!(notes.keys("", None, 9), ["new"]);
    assert_eq!(&*shards.home().unwrap().kept().get("others", "o").unwrap().bytes, b"o");
    shards.close();
}

#[test]
fn documents_outlive_the_segments_that_they_were_written_to() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = opened(&fs);
    let notes = Notes(&shards, &log);
    for number in 0..1_200 {
        notes.put(&format!("{number:04}"), &Note::new("kept"));
    }
    notes.put("gone", &Note::new("gone"));
    shards
        .home()
        .unwrap()
        .kept()
        .change(&[KeptChange::delete(NOTES, "gone")], Purpose::Reclaim)
        .unwrap();
    let version = shards.home().unwrap().kept().get(NOTES, "0007").unwrap().version;
    let first = log.segments()[0].id;
    for _ in 0..3 {
        let filler = fill_segments(&log, &shards);
        run(&log, shards.catalog().delete_queue(&filler)).unwrap();
        for _ in 0..30 {
            shards.maintain();
            while log.commit_step() {}
        }
    }
    assert!(log.segments()[0].id.0 > first.0 + 3, "{:?}", log.segments());
    assert_eq!(
        shards.home().unwrap().kept().get(NOTES, "0007").unwrap().version,
        version,
        "it did not change"
    );
    shards.close();
    drop((shards, log));

    let (log, shards) = opened(&fs);
    let notes = Notes(&shards, &log);
    assert_eq!(notes.keys("", None, 2_000).len(), 1_200);
    assert_eq!((notes.get("1199"), notes.get("gone")), (Some(Note::new("kept")), None));
    create(&log, &shards, "q");
    run(&log, shards.reset()).unwrap();
    assert!(shards.home().unwrap().kept().figures().is_empty());
    shards.close();
    drop((shards, log));
    let (_log, shards) = opened(&fs);
    assert!(shards.home().unwrap().kept().figures().is_empty(), "after a reset and a start");
    shards.close();
}
