//! The queues that the flags name.

use anyhow::Context;
use millrace_client::sqs::SqsPeer;

use super::WorkFlags;

/// A queue that was found, and where its dead letters go.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) peer: SqsPeer,
    pub(super) url: String,
    pub(super) dead_letters: Option<SqsPeer>,
}

/// Finds a queue given by name or URL.
pub(super) async fn find(queue: &str, flags: &WorkFlags) -> anyhow::Result<Found> {
    let client = flags.connection.client_of(queue)?;
    let open = async |name: &str| {
        let peer = SqsPeer::open(client.clone(), name).await;
        peer.with_context(|| format!("finding the queue {name}"))
    };
    let peer = open(queue).await?;
    let dead_letters = match &flags.dead_letter_queue {
        Some(name) => Some(open(name).await?),
        None => None,
    };
    Ok(Found { url: peer.queue_url().to_owned(), peer, dead_letters })
}

impl Found {
    /// The last part of its URL.
    pub(super) fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }
}
