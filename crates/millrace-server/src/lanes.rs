//! The ways to all workers, for whoever hands connections out.

use std::sync::Arc;

use tokio::sync::mpsc::{Sender, error::TrySendError};

use crate::{
    load::Load,
    worker::{Accepted, Stream, Worker},
};

/// The way to one worker.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) worker: Arc<Worker>,
    pub(crate) sender: Sender<Accepted>,
}

/// In the workers' order.
#[derive(Clone)]
pub(crate) struct Lanes(pub(crate) Vec<Lane>);

impl Lanes {
    /// Open connections of all workers.
    pub(crate) fn open(&self) -> usize {
        self.0.iter().map(|lane| lane.worker.open()).sum()
    }

    /// The first worker that has time, or else the one with the fewest connections.
    pub(crate) fn first_with_time(&self) -> Option<&Lane> {
        self.0.iter().find(|lane| lane.worker.load.get().has_time()).or_else(|| self.fewest())
    }

    /// The worker with the fewest connections, among equals the first.
    pub(crate) fn fewest(&self) -> Option<&Lane> {
        self.0.iter().min_by_key(|lane| lane.worker.open())
    }

    /// How busy the workers before this one are.
    pub(crate) fn loads_before(&self, worker: &Worker) -> impl Iterator<Item = Load> {
        self.0.iter().take(worker.index).map(|lane| lane.worker.load.get())
    }

    /// The same for those behind it.
    pub(crate) fn loads_behind(&self, worker: &Worker) -> impl Iterator<Item = Load> {
        self.0.iter().skip(worker.index + 1).map(|lane| lane.worker.load.get())
    }

    /// The worker with the most time, which has less from now on.
    pub(crate) fn idlest(&self, adds: Load) -> Option<&Lane> {
        let lane = self.0.iter().min_by_key(|lane| lane.worker.load.get())?;
        lane.worker.load.add(adds);
        Some(lane)
    }
}

impl Lane {
    /// Hands a connection over from another worker's thread, without waiting; gives it back if
    /// that worker takes none now.
    pub(crate) fn pass(&self, mut connection: Accepted) -> Result<(), Accepted> {
        connection.stream = match connection.stream {
            Stream::Watched(stream) => match stream.into_std() {
                Ok(stream) => Stream::Unwatched(stream),
                Err(error) => {
                    tracing::warn!(peer = %connection.peer, %error, "connection cannot be moved");
                    return Ok(());
                }
            },
            unwatched @ Stream::Unwatched(_) => unwatched,
        };
        let from = connection.place.move_to(&self.worker);
        self.sender.try_send(connection).map_err(|refused| {
            let (TrySendError::Full(mut connection) | TrySendError::Closed(mut connection)) =
                refused;
            connection.place.move_to(&from);
            connection
        })
    }
}
