//! Takes over the alarms that versions up to 0.2 kept in a file beside the metrics.

use std::path::Path;

use futures_executor::block_on;
use millrace_broker::{KeptChange, KeptError, Purpose, Shard};
use millrace_metrics::alarm::OldAlarms;

use super::history::{HISTORY, Numbered};
use super::{ALARMS, OUTBOX};

/// Bytes of one batch, but for a document that has more alone.
const BATCH_BYTES: usize = 1 << 20;

/// Why the alarms of a file were not taken over. What was is not changed by the next try.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    #[error("alarms.log: {0}")]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Kept(#[from] KeptError),
}

/// Keeps what `alarms.log` in the directory of the metrics holds as documents, and removes the file
/// once they are durable. A document that is there already is newer and stays.
pub fn convert_alarms(shard: &Shard, dir: &Path) -> Result<(), ConversionError> {
    let Some(old) = OldAlarms::read(dir)? else { return Ok(()) };
    let alarms = old.alarms().map(|alarm| ALARMS.put(alarm));
    let items = (1..).zip(old.history.iter().cloned());
    let history = items.map(|(id, item)| HISTORY.put(&Numbered { id, item }));
    let owed = old.owed().map(|owed| OUTBOX.put(owed));
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for change in alarms.chain(history).chain(owed) {
        let change = change?;
        if shard.kept().get(change.collection, &change.key).is_some() {
            continue;
        }
        if bytes + change.record_bytes() > BATCH_BYTES {
            append(shard, &std::mem::take(&mut batch))?;
            bytes = 0;
        }
        bytes += change.record_bytes();
        batch.push(change);
    }
    append(shard, &batch)?;
    tracing::info!(alarms = old.alarms().count(), "alarms.log was taken over into the journal");
    Ok(old.remove()?)
}

fn append(shard: &Shard, batch: &[KeptChange<'_>]) -> Result<(), KeptError> {
    if batch.is_empty() {
        return Ok(());
    }
    let ticket = shard.kept().change(batch, Purpose::Store)?;
    Ok(block_on(shard.committed(Some(ticket)))?)
}
