//! Kept documents, through a noun that only this test knows: what a new one costs.

use std::path::Path;
use std::sync::{Arc, Mutex};

use millrace_broker::{
    Collection, DOCUMENT_BYTES_MAX, Expected, Found, KEY_BYTES_MAX, KeptChange, KeptError,
    KeptFigures, Purpose, Shard, Shards,
};
use millrace_journal::{GroupCommit, SimFileSystem};
use serde::{Deserialize, Serialize};

use crate::support::{create, fill_segments, open, run};

/// A noun, and its collection: nothing else is needed for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    name: String,
    text: String,
    #[serde(default)]
    is_done: bool,
}

const NOTES: Collection<Note> = Collection::new("notes", |note| note.name.clone());

impl Note {
    fn new(name: &str, text: &str) -> Note {
        Note { name: name.to_owned(), text: text.to_owned(), is_done: false }
    }
}

/// What a service of notes would do.
struct Notes<'b>(&'b Shard, &'b GroupCommit);

impl Notes<'_> {
    fn put(&self, note: &Note) {
        let changed = self.0.kept().change(&[NOTES.put(note).unwrap()], Purpose::Store);
        self.commit(changed.unwrap());
    }

    fn get(&self, name: &str) -> Option<Note> {
        NOTES.get(self.0.kept(), name).map(|found| found.value)
    }

    /// Of two that finish the same note one is refused.
    fn finish(&self, note: Found<Note>) -> Result<(), KeptError> {
        let done = Note { is_done: true, ..note.value };
        let change = NOTES.put(&done)?.if_it_is(Expected::Version(note.version));
        self.0.kept().change(&[change], Purpose::Store).map(|ticket| self.commit(ticket))
    }

    fn names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let found = NOTES.scan(self.0.kept(), prefix, after, limit);
        found.into_iter().map(|note| note.name).collect()
    }

    fn commit(&self, ticket: millrace_journal::Ticket) {
        run(self.1, self.0.committed(Some(ticket))).unwrap();
    }
}

fn opened(fs: &Arc<SimFileSystem>) -> (Arc<GroupCommit>, Arc<Shards>) {
    open(fs.clone(), Path::new("/journal"))
}

#[test]
fn documents_are_put_found_changed_once_and_deleted() {
    let (log, shards) = opened(&Arc::new(SimFileSystem::new(1)));
    let home = shards.home().unwrap();
    let notes = Notes(&home, &log);
    for key in ["b/1", "a/2", "b/2", "b/3", "c"] {
        notes.put(&Note::new(key, "text"));
    }

    assert_eq!(notes.get("a/2"), Some(Note::new("a/2", "text")));
    assert_eq!(notes.get("a"), None);
    assert_eq!(notes.names("b/", None, 2), ["b/1", "b/2"]);
    assert_eq!(notes.names("b/", Some("b/2"), 2), ["b/3"]);
    assert_eq!(notes.names("b/", Some("a/2"), 1), ["b/1"], "what comes after the prefix");
    assert_eq!(notes.names("", Some("c"), 9), [""; 0]);

    let note = NOTES.get(shards.home().unwrap().kept(), "b/2").unwrap();
    notes.finish(note.clone()).unwrap();
    assert!(notes.get("b/2").unwrap().is_done);
    assert!(matches!(notes.finish(note), Err(KeptError::Changed { .. })));

    shards.home().unwrap().kept().change(&[NOTES.delete("b/2")], Purpose::Reclaim).unwrap();
    assert_eq!(notes.get("b/2"), None);
    let absent = NOTES.put(&Note::new("c", "")).unwrap().if_it_is(Expected::Absent);
    assert!(shards.home().unwrap().kept().change(&[absent], Purpose::Store).is_err());
    shards.close();
}

#[test]
fn the_size_of_a_collection_follows_its_changes() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = opened(&fs);
    let change = |changes: &[KeptChange<'_>]| {
        let ticket = shards.home().unwrap().kept().change(changes, Purpose::Store).unwrap();
        run(&log, shards.home().unwrap().committed(Some(ticket))).unwrap();
    };
    let put = |key, bytes: &'static [u8]| KeptChange::put("c", key, bytes);

    change(&[put("a", b"123"), put("bb", b"1"), put("gone", b"12345")]);
    change(&[put("a", b"1"), KeptChange::delete("c", "gone"), KeptChange::delete("c", "absent")]);

    let figures = KeptFigures { documents: 2, bytes: (1 + 1) + (2 + 1) };
    assert_eq!(shards.home().unwrap().kept().figures()["c"], figures);
    shards.close();
    drop((shards, log));
    let (_log, shards) = opened(&fs);
    assert_eq!(shards.home().unwrap().kept().figures()["c"], figures, "after a start");
    shards.close();
}

#[test]
fn a_document_that_cannot_be_read_is_left_out_and_stays() {
    let (log, shards) = opened(&Arc::new(SimFileSystem::new(1)));
    let home = shards.home().unwrap();
    let notes = Notes(&home, &log);
    notes.put(&Note::new("b", "text"));
    let older = KeptChange::put(NOTES.name(), "a", br#"{"name":"a","text":""}"#);
    let broken = KeptChange::put(NOTES.name(), "c", b"{");
    notes.commit(shards.home().unwrap().kept().change(&[older, broken], Purpose::Store).unwrap());

    assert_eq!(notes.names("", None, 9), ["a", "b"]);
    assert_eq!(notes.get("c"), None);
    assert!(shards.home().unwrap().kept().get(NOTES.name(), "c").is_some());
    shards.close();
}

#[test]
fn a_value_that_is_no_json_is_refused() {
    type Pairs = std::collections::BTreeMap<(u8, u8), u8>;
    const PAIRS: Collection<Pairs> = Collection::new("pairs", |_| "key".to_owned());

    let refused = PAIRS.put(&Pairs::from([((1, 2), 3)]));

    assert!(matches!(refused, Err(KeptError::NotEncoded { collection: "pairs", .. })));
}

#[test]
fn several_changes_are_made_together_or_not_at_all() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = opened(&fs);
    let home = shards.home().unwrap();
    let notes = Notes(&home, &log);
    notes.put(&Note::new("old", "text"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let listener = move |key: &str, to: Option<&[u8]>| {
        told.lock().unwrap().push((key.to_owned(), to.map(|bytes| bytes.len() > 1)));
    };
    shards.home().unwrap().kept().watch(NOTES.name(), Box::new(listener));
    let rename = |absent| {
        let new = NOTES.put(&Note::new(absent, "text")).unwrap();
        let other = KeptChange::put("others", "o", b"o");
        [NOTES.delete("old"), new.if_it_is(Expected::Absent), other]
    };

    assert!(
        shards.home().unwrap().kept().change(&rename("old"), Purpose::Store).is_err(),
        "as it was before all"
    );
    assert!(seen.lock().unwrap().is_empty() && notes.get("old").is_some());
    let large = vec![0; DOCUMENT_BYTES_MAX + 1];
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    let put = |key, bytes| KeptChange::put(NOTES.name(), key, bytes);
    for change in [put("", &b""[..]), put("large", &large), put(&long, b"")] {
        assert!(shards.home().unwrap().kept().change(&[change], Purpose::Store).is_err());
    }
    notes.commit(shards.home().unwrap().kept().change(&rename("new"), Purpose::Store).unwrap());

    let changes = [("old".to_owned(), None), ("new".to_owned(), Some(true))];
    assert_eq!(*seen.lock().unwrap(), changes);
    shards.close();
    drop((home, shards, log));
    let (log, shards) = opened(&fs);
    let home = shards.home().unwrap();
    let notes = Notes(&home, &log);
    assert_eq!(notes.names("", None, 9), ["new"]);
    assert_eq!(&*shards.home().unwrap().kept().get("others", "o").unwrap().bytes, b"o");
    shards.close();
}

#[test]
fn documents_outlive_the_segments_that_they_were_written_to() {
    let fs = Arc::new(SimFileSystem::new(1));
    let (log, shards) = opened(&fs);
    let home = shards.home().unwrap();
    let notes = Notes(&home, &log);
    for number in 0..1_200 {
        notes.put(&Note::new(&format!("{number:04}"), "kept"));
    }
    notes.put(&Note::new("gone", "gone"));
    shards.home().unwrap().kept().change(&[NOTES.delete("gone")], Purpose::Reclaim).unwrap();
    let version = NOTES.get(shards.home().unwrap().kept(), "0007").unwrap().version;
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
        NOTES.get(shards.home().unwrap().kept(), "0007").unwrap().version,
        version,
        "it did not change"
    );
    shards.close();
    drop((home, shards, log));

    let (log, shards) = opened(&fs);
    let home = shards.home().unwrap();
    let notes = Notes(&home, &log);
    assert_eq!(notes.names("", None, 2_000).len(), 1_200);
    assert_eq!((notes.get("1199"), notes.get("gone")), (Some(Note::new("1199", "kept")), None));
    create(&log, &shards, "q");
    run(&log, shards.reset()).unwrap();
    assert!(shards.home().unwrap().kept().figures().is_empty());
    shards.close();
    drop((home, shards, log));
    let (_log, shards) = opened(&fs);
    assert!(shards.home().unwrap().kept().figures().is_empty(), "after a reset and a start");
    shards.close();
}
