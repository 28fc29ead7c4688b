//! The messages of one receive's answer.

use std::ops::Range;

use super::{
    dialect::{Dialect, Places},
    ledger::Id,
    template::Bodies,
};

/// What one receive brought: ids, and raw receipt handles in one buffer.
#[derive(Default)]
pub(super) struct Received {
    pub(super) messages: Vec<(Option<Id>, Range<usize>)>,
    handles: Vec<u8>,
    places: Places,
}

impl Received {
    /// A message whose body is not what was sent has no id.
    pub(super) fn take(&mut self, answer: &[u8], dialect: &Dialect, bodies: &Bodies) {
        self.messages.clear();
        self.handles.clear();
        for index in 0..dialect.find(answer, &mut self.places) {
            let start = self.handles.len();
            self.places.put_handle(index, answer, &mut self.handles);
            let text = self.places.body(index, answer);
            let id = Id::parse(text).filter(|_| bodies.are_like(text));
            self.messages.push((id, start..self.handles.len()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(|(_, at)| self.handles.get(at.clone()).unwrap_or_default())
    }

    pub(super) fn ids(&self, left_out: &[usize]) -> impl Iterator<Item = Option<Id>> {
        let all = self.messages.iter().enumerate();
        all.filter(|(index, _)| !left_out.contains(index)).map(|(_, (id, _))| *id)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Url;

    use super::*;
    use crate::{access::Access, load::ledger::ID_BYTES};

    fn received(bodies: [&str; 2]) -> Received {
        let answer = format!(
            r#"{{"Messages":[{{"ReceiptHandle":"h1","Body":"{}"}},{{"ReceiptHandle":"h2","Body":"{}"}}]}}"#,
            bodies[0], bodies[1]
        );
        let mut received = Received::default();
        let bodies = Bodies::new(vec![ID_BYTES + 4]);
        received.take(
            answer.as_bytes(),
            &Dialect::new(&Access::open(), &Url::parse("http://h").unwrap()),
            &bodies,
        );
        received
    }

    #[test]
    fn handles_and_ids_belong_together() {
        let id = Id { run: 1, producer: 2, group: 3, sequence: 4 };
        let body = String::from_utf8(id.digits().to_vec()).unwrap() + "Thro";

        let received = received([&body, "other"]);

        assert_eq!(received.handles().collect::<Vec<_>>(), [b"h1", b"h2"]);
        assert_eq!(received.ids(&[]).collect::<Vec<_>>(), [Some(id), None]);
        assert_eq!(received.ids(&[0]).collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn an_altered_body_has_no_id() {
        let id = Id { run: 1, producer: 2, group: 3, sequence: 4 };
        let digits = String::from_utf8(id.digits().to_vec()).unwrap();

        let received = received([&format!("{digits}Thr"), &format!("{digits}xhro")]);

        assert_eq!(received.ids(&[]).collect::<Vec<_>>(), [None, None]);
    }
}
