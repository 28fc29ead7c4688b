//! The file `alarms.log` beside the metrics, where versions up to 0.2 kept alarms: one JSON text a
//! frame, each a change.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind::NotADirectory, ErrorKind::NotFound};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Alarm, Change, HistoryItem, Owed};
use crate::Scope;
use crate::directory::sync_dir;
use crate::old_files::read_frames;

/// The contents of such a file.
#[derive(Debug)]
pub struct OldAlarms {
    path: PathBuf,
    alarms: BTreeMap<(Scope, String), Alarm>,
    /// In the order in which it happened.
    pub history: Vec<HistoryItem>,
    owed: BTreeMap<u64, Owed>,
}

#[derive(Deserialize)]
enum Frame {
    Alarm(Box<Alarm>),
    Deleted { scope: Scope, name: String },
    History(HistoryItem),
    Entered { id: u64, change: Box<Change>, item: HistoryItem },
    Owed(Box<Owed>),
    Acted { id: u64, arn: String, item: HistoryItem },
}

impl OldAlarms {
    /// Reads the file in a directory of metrics, if there is one.
    pub fn read(dir: &Path) -> io::Result<Option<OldAlarms>> {
        let path = dir.join("alarms.log");
        match path.symlink_metadata() {
            Ok(_) => {}
            // What is in the directory's place is none.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
            Err(error) => return Err(error),
        }
        let (alarms, history, owed) = Default::default();
        let mut old = OldAlarms { path: path.clone(), alarms, history, owed };
        read_frames(&path, |payload| match serde_json::from_slice(payload) {
            Ok(frame) => old.apply(frame),
            Err(error) => tracing::error!(%error, "a frame of the alarms is left out"),
        })?;
        Ok(Some(old))
    }

    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.values()
    }

    pub fn owed(&self) -> impl Iterator<Item = &Owed> {
        self.owed.values().filter(|owed| !owed.arns.is_empty())
    }

    /// Removes the file, once all of it is kept elsewhere.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)?;
        self.path.parent().map_or(Ok(()), sync_dir)
    }

    fn apply(&mut self, frame: Frame) {
        match frame {
            Frame::Alarm(alarm) => self.put(*alarm),
            Frame::Deleted { scope, name } => drop(self.alarms.remove(&(scope, name))),
            Frame::History(item) => self.history.push(item),
            Frame::Entered { id, change, item } => {
                self.put(change.alarm.clone());
                self.history.push(item);
                self.owed.insert(id, Owed::of(id, *change));
            }
            Frame::Owed(owed) => drop(self.owed.insert(owed.id, *owed)),
            Frame::Acted { id, arn, item } => {
                self.history.push(item);
                let owed = self.owed.get_mut(&id);
                let at = owed.as_ref().and_then(|o| o.arns.iter().position(|owed| *owed == arn));
                if let (Some(owed), Some(at)) = (owed, at) {
                    owed.arns.remove(at);
                }
            }
        }
    }

    fn put(&mut self, alarm: Alarm) {
        self.alarms.insert((alarm.scope.clone(), alarm.name.clone()), alarm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::definition::tests::alarm;

    #[test]
    fn a_file_says_what_its_frames_left() {
        let dir = tempfile::tempdir().unwrap();
        assert!(OldAlarms::read(dir.path()).unwrap().is_none(), "there is no file");
        let mut oldest = serde_json::to_value(alarm("a")).unwrap();
        oldest.as_object_mut().unwrap().remove("says_queries").unwrap();
        oldest["queries"][0].as_object_mut().unwrap().remove("account").unwrap();
        let owed = |id| Owed { id, change: change(), arns: vec!["arn:x".into(), "arn:y".into()] };
        let acted = |arn: &str| serde_json::json!({"Acted": {"id": 7, "arn": arn, "item": item()}});
        let frames = [
            serde_json::json!({"Alarm": oldest}),
            serde_json::json!({"Alarm": alarm("gone")}),
            serde_json::json!({"Deleted": {"scope": alarm("gone").scope, "name": "gone"}}),
            serde_json::json!({"Entered": {"id": 6, "change": change(), "item": item()}}),
            serde_json::json!({"Owed": owed(7)}),
            serde_json::json!({"Owed": owed(8)}),
            acted("arn:x"),
            serde_json::json!({"Later": {}}),
            serde_json::json!({"History": item()}),
        ];
        let frames = frames.map(|frame| frame.to_string().into_bytes());
        crate::old_files::tests::write(&dir.path().join("alarms.log"), &frames);

        let old = OldAlarms::read(dir.path()).unwrap().unwrap();

        assert_eq!(old.alarms().collect::<Vec<_>>(), [&alarm("a"), &change().alarm]);
        assert_eq!(old.history.len(), 3);
        let left: Vec<_> = old.owed().map(|owed| (owed.id, owed.arns.join(" "))).collect();
        let expected = [(6, "arn:alarm"), (7, "arn:y"), (8, "arn:x arn:y")];
        assert_eq!(left, expected.map(|(id, arns)| (id, arns.to_owned())));
        old.remove().unwrap();
        assert!(OldAlarms::read(dir.path()).unwrap().is_none());
    }

    fn change() -> Change {
        let state = crate::alarm::State::Alarm;
        Change { alarm: Alarm { state, ..alarm("b") }, before: alarm("b").state }
    }

    fn item() -> HistoryItem {
        HistoryItem::acted(&alarm("a"), "arn:x", None, millrace_core::Timestamp(1))
    }
}
