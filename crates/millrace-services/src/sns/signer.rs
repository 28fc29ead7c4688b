//! Signs notifications with the server's key, and shows its certificate to those who verify them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use millrace_broker::Shards;
use millrace_push::BoxFuture;
use millrace_push::signature::{
    KeptSigner, KeptSignerError, SignatureVersion as KeyVersion, Signer,
};
use millrace_wire::{Judgement, Request, Response};
use tokio::sync::oneshot;

use super::envelope::Sign;
use super::topic_attributes::SignatureVersion;
use crate::service::Boxed;
use crate::table::Branch;

/// First and last part of the path of a certificate; its id is between.
const PATH: [&str; 2] = ["/SimpleNotificationService-", ".pem"];

/// The key that is kept in the journal.
pub struct TopicSigner {
    shards: Arc<Shards>,
    kept: Arc<KeptSigner>,
    path: OnceLock<String>,
    threads: OnceLock<Option<Mutex<Sender<Job>>>>,
}

/// A text that a thread is to sign.
struct Job {
    version: KeyVersion,
    text: Vec<u8>,
    signature: oneshot::Sender<Option<String>>,
}

impl TopicSigner {
    /// The signer of an earlier run, or one that will be made when it is first needed.
    ///
    /// # Errors
    ///
    /// If what is stored cannot be read.
    pub fn open(shards: Arc<Shards>) -> Result<TopicSigner, KeptSignerError> {
        let kept = Arc::new(KeptSigner::open(&shards)?);
        Ok(TopicSigner { shards, kept, path: OnceLock::new(), threads: OnceLock::new() })
    }

    /// The threads that sign, one for each core, started when they are first needed. They end with
    /// the signer. None if they cannot be started.
    fn threads(&self) -> Option<&Mutex<Sender<Job>>> {
        let threads = self.threads.get_or_init(|| {
            let (jobs, waiting) = channel::<Job>();
            let waiting = Arc::new(Mutex::new(waiting));
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                let (waiting, kept) = (waiting.clone(), self.kept.clone());
                let thread = std::thread::Builder::new().name("sign".to_owned());
                thread.spawn(move || sign_all(&waiting, &kept)).ok()?;
            }
            Some(Mutex::new(jobs))
        });
        threads.as_ref()
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
        self.kept.get()?.sign(key_version(version), text).ok()
    }

    fn sign_aside(
        &self,
        version: SignatureVersion,
        text: Vec<u8>,
    ) -> BoxFuture<'static, Option<String>> {
        let (sender, receiver) = oneshot::channel();
        let job = Job { version: key_version(version), text, signature: sender };
        if let Some(threads) = self.threads() {
            // Without a thread, no signature comes, and it is made where it is needed.
            let _ = threads.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        }
        Box::pin(async { receiver.await.ok().flatten() })
    }

    fn certificate_path(&self) -> &str {
        self.kept.get().map_or("", |signer| self.path(signer))
    }

    fn certificate_pem(&self) -> Option<&str> {
        self.kept.get().map(Signer::certificate_pem)
    }
}

fn key_version(version: SignatureVersion) -> KeyVersion {
    match version {
        SignatureVersion::One => KeyVersion::V1,
        SignatureVersion::Two => KeyVersion::V2,
    }
}

fn sign_all(waiting: &Mutex<Receiver<Job>>, kept: &KeptSigner) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { version, text, signature }) = job else { return };
        // Whoever has left needs none.
        if !signature.is_closed() {
            let _ = signature.send(kept.get().and_then(|it| it.sign(version, &text).ok()));
        }
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
