//! The replicated journal behind the traits through which any journal is opened.

use std::sync::Arc;

use millrace_journal::store::{End, JournalStore, Unowned};
use millrace_journal::{Journal, OpenError, Owner, ReadError, Replayed};

use crate::clock::{Clock, Patience};
use crate::copy::CopyPlace;
use crate::follower::Follower;
use crate::log::SharedLog;

/// A shared log, and the place of this node's copy.
pub struct ReplicatedStore {
    pub log: Arc<dyn SharedLog>,
    pub clock: Arc<dyn Clock>,
    pub patience: Patience,
    pub place: CopyPlace,
}

/// A shared log that was copied to its end.
pub struct UnownedReplicated(pub Follower);

impl JournalStore for ReplicatedStore {
    fn recover(
        &self,
        visitor: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Box<dyn Unowned>, OpenError> {
        let (log, clock) = (Arc::clone(&self.log), Arc::clone(&self.clock));
        let mut follower = Follower::start(log, clock, self.patience, &self.place, visitor)?;
        follower.catch_up(visitor)?;
        Ok(Box::new(UnownedReplicated(follower)))
    }
}

impl Unowned for UnownedReplicated {
    fn end(&self) -> End {
        self.0.end()
    }

    fn owner(&self) -> Result<Option<Owner>, ReadError> {
        self.0.owner()
    }

    fn start_epoch(self: Box<Self>, owner: &Owner) -> Result<Box<dyn Journal>, OpenError> {
        match self.0.start_epoch(owner) {
            Ok(journal) => Ok(Box::new(journal)),
            Err(refused) => Err(refused.error),
        }
    }
}
