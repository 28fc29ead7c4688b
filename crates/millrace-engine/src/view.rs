//! Views: what is kept beside the journal and made from its records. What they hold means nothing
//! to the engine; a record names its view, and the rest of it is in the payload.

use crate::record::{DecodeError, Input, Records};
use crate::replay::Replay;

pub(crate) const VIEW: u8 = 18;

/// A change of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewRecord<'a> {
    pub view: &'a str,
}

impl<'a> ViewRecord<'a> {
    /// Adds the record, with what the view makes of it.
    pub fn write<'p>(&self, change: &'p [u8], records: &mut Records<'p>) {
        records.add(VIEW, 2 + self.view.len(), change, |out| out.text(self.view));
    }

    pub(crate) fn read(from: &mut Input<'a>) -> Result<ViewRecord<'a>, DecodeError> {
        Ok(ViewRecord { view: from.text()? })
    }

    /// The view itself is brought up to date later, from where it is.
    pub(crate) fn replay(&self, replay: &mut Replay, position: u64) {
        match replay.views.get_mut(self.view) {
            Some(latest) => *latest = position,
            None => drop(replay.views.insert(self.view.to_owned(), position)),
        }
    }
}
