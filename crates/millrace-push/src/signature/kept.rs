//! The signer of a server: a document in the journal, made when it is first needed.

use std::sync::{Arc, OnceLock};

use millrace_broker::{BrokerError, KeptChange, KeptError, Purpose, Shards};
use tokio::sync::Mutex;

use super::{Signer, SignerError};

const COLLECTION: &str = "signing-keys";
/// There is one.
const KEY: &str = "notifications";

/// The server's signer. Until it is needed there is none, and a server that never signs has no key.
#[derive(Debug)]
pub struct KeptSigner {
    signer: OnceLock<Signer>,
    /// Held while a key is made and stored, so that one is made.
    making: Mutex<()>,
}

/// Says why there is no signer.
#[derive(Debug, thiserror::Error)]
pub enum KeptSignerError {
    #[error(transparent)]
    Signer(#[from] SignerError),
    #[error("the signing key cannot be stored: {0}")]
    Store(#[from] KeptError),
}

impl KeptSigner {
    /// Reads the signer of an earlier run, if there is one.
    ///
    /// # Errors
    ///
    /// If what is stored is not a signer.
    pub fn open(shards: &Shards) -> Result<KeptSigner, KeptSignerError> {
        let kept = KeptSigner { signer: OnceLock::new(), making: Mutex::default() };
        if let Some(signer) = read(shards)? {
            kept.signer.get_or_init(|| signer);
        }
        Ok(kept)
    }

    /// The signer, if it has been needed before.
    pub fn get(&self) -> Option<&Signer> {
        self.signer.get()
    }

    /// The signer. The first call ever makes it on a thread of its own, and resolves once it is
    /// durable: nothing is signed with a key that a crash could forget. Cancel safe.
    ///
    /// # Errors
    ///
    /// If it cannot be made or stored now; a later call tries again.
    pub async fn ready(&self, shards: &Arc<Shards>) -> Result<&Signer, KeptSignerError> {
        if let Some(signer) = self.signer.get() {
            return Ok(signer);
        }
        let _making = self.making.lock().await;
        if let Some(signer) = self.signer.get() {
            return Ok(signer);
        }
        // An earlier call may have been dropped after it stored one.
        let signer = match read(shards)? {
            Some(signer) => signer,
            None => Signer::generate_aside(shards.now()).await?,
        };
        let home = shards.home().map_err(KeptError::from)?;
        let change = KeptChange::put(COLLECTION, KEY, signer.to_bytes());
        let ticket = home.kept().change(&[change], Purpose::Store)?;
        home.committed(Some(ticket)).await.map_err(KeptError::from)?;
        Ok(self.signer.get_or_init(|| signer))
    }
}

fn read(shards: &Shards) -> Result<Option<Signer>, KeptSignerError> {
    let home = shards.home().map_err(|error: BrokerError| KeptError::from(error))?;
    let document = home.kept().get(COLLECTION, KEY);
    Ok(document.map(|document| Signer::from_bytes(&document.bytes)).transpose()?)
}
