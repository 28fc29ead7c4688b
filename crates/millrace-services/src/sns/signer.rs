//! Signs notifications with the server's key, and shows its certificate to those who verify them.

use std::sync::{Arc, OnceLock};

use millrace_broker::Shards;
use millrace_push::BoxFuture;
use millrace_push::signature::{
    KeptSigner, KeptSignerError, SignatureVersion as KeyVersion, Signer,
};
use millrace_wire::{Judgement, Request, Response};

use super::envelope::Sign;
use super::topic_attributes::SignatureVersion;
use crate::service::Boxed;
use crate::table::Branch;

/// What the path of a certificate begins and ends with; its id is between.
const PATH: [&str; 2] = ["/SimpleNotificationService-", ".pem"];

/// The key that is kept in the journal.
pub struct TopicSigner {
    shards: Arc<Shards>,
    kept: KeptSigner,
    path: OnceLock<String>,
}

impl TopicSigner {
    /// The signer of an earlier run, or one that will be made when it is first needed.
    ///
    /// # Errors
    ///
    /// If what is stored cannot be read.
    pub fn open(shards: Arc<Shards>) -> Result<TopicSigner, KeptSignerError> {
        let kept = KeptSigner::open(&shards)?;
        Ok(TopicSigner { shards, kept, path: OnceLock::new() })
    }

    fn path(&self, signer: &Signer) -> &str {
        let [begin, end] = PATH;
        self.path.get_or_init(|| format!("{begin}{}{end}", signer.certificate_id()))
    }
}

impl Sign for TopicSigner {
    fn is_ready(&self) -> bool {
        self.kept.get().is_some()
    }

    fn make_ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let ready = self.kept.ready(&self.shards).await;
            ready.map(drop).map_err(|error| error.to_string())
        })
    }

    fn sign(&self, version: SignatureVersion, text: &[u8]) -> Option<String> {
        let version = match version {
            SignatureVersion::One => KeyVersion::V1,
            SignatureVersion::Two => KeyVersion::V2,
        };
        self.kept.get()?.sign(version, text).ok()
    }

    fn certificate_path(&self) -> &str {
        self.kept.get().map_or("", |signer| self.path(signer))
    }

    fn certificate_pem(&self) -> Option<&str> {
        self.kept.get().map(Signer::certificate_pem)
    }
}

/// The certificate by its path. Everybody may have it.
pub(crate) struct Certificate(pub Option<Arc<dyn Sign>>);

impl Branch for Certificate {
    fn takes(&self, request: &Request<'_>) -> bool {
        let is_read = matches!(request.method, "GET" | "HEAD");
        let signer = self.0.as_ref().filter(|_| is_read && request.path.ends_with(PATH[1]));
        signer.is_some_and(|signer| signer.certificate_path() == request.path)
    }

    fn answer<'a>(&'a self, _: &'a Request<'a>, _: &'a str) -> Boxed<'a, Response> {
        let pem = self.0.as_ref().and_then(|signer| signer.certificate_pem()).unwrap_or_default();
        let response = Response::new(200, "application/x-pem-file", pem.to_owned());
        Box::pin(std::future::ready(response))
    }

    fn judge(&self, _head: &Request<'_>) -> Option<Judgement> {
        Some(Judgement::Admitted)
    }
}
