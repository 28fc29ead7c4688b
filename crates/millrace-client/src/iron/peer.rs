//! One queue of IronMQ.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use percent_encoding::utf8_percent_encode;

use super::body::{
    Delete, DeleteEntry, Post, PostMessage, Posted, Reservation, Reserve, Reserved, Touched,
    delivery, done, json, malformed, parse,
};
use super::exchange::{Exchange, Request};
use crate::encoding::{RESERVED, seconds};
use crate::error::{CallError, CallErrorKind, EntryError};
use crate::message::{Delivery, Outgoing, ReceiptHandle, Sent};
use crate::peer::{Capabilities, Peer, ReceiveRequest, Visibility};
use crate::transport::{Endpoint, Repeat, Transport, TransportOptions};

/// IronMQ: messages of one reserve, peek or delete call.
const BATCH_ENTRIES: usize = 100;
/// IronMQ: 256 KB a request on the larger plans, all around the bodies included.
const REQUEST_BYTES: usize = 256 << 10;
/// IronMQ: longest `wait` of a reserve call.
const WAIT: Duration = Duration::from_secs(30);
/// IronMQ, version 1: a touch extends by the message's own timeout, which is the sender's choice,
/// 60 s unless it makes one, and 30 s at least.
const TOUCH: Duration = Duration::from_secs(30);

/// One queue of IronMQ. Message attributes, group ids and deduplication ids have no place there
/// and are left out.
///
/// A touch or a release is one call for each message, and a touch ends the reservation before it:
/// who asks for several at once and does not wait for the end loses what the first have become.
/// IronMQ counts touches as receives. A batch delete that is refused is repeated entry by entry to
/// find out which it was. Sends are not repeated on a connection that turned out to be closed,
/// because nothing would notice the second message. A batch whose request would be larger than
/// IronMQ takes is refused unsent; [`Retrying`](crate::Retrying) divides it.
#[derive(Clone, Debug)]
pub struct IronPeer {
    exchange: Exchange,
    version: IronVersion,
    /// `/3/projects/…/queues/…`
    path: Arc<str>,
}

/// How to reach a project.
#[derive(Clone, Debug)]
pub struct IronOptions {
    pub version: IronVersion,
    pub project_id: String,
    pub token: String,
    pub transport: TransportOptions,
}

/// Which interface to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IronVersion {
    /// Paths begin with `/1`; what IronMQ called its version 2 speaks it too.
    V1,
    V3,
}

impl IronPeer {
    /// Opens no connection yet. The queue need not exist: the first send creates it.
    ///
    /// # Errors
    ///
    /// If the endpoint is `https` and no certificate authority can be read.
    pub fn new(
        endpoint: Endpoint,
        queue: &str,
        options: &IronOptions,
    ) -> Result<IronPeer, CallError> {
        let number = match options.version {
            IronVersion::V1 => 1,
            IronVersion::V3 => 3,
        };
        let project = utf8_percent_encode(&options.project_id, RESERVED);
        let queue = utf8_percent_encode(queue, RESERVED);
        Ok(IronPeer {
            exchange: Exchange {
                transport: Arc::new(Transport::new(endpoint, &options.transport)?),
                authorization: format!("OAuth {}", options.token).into(),
            },
            version: options.version,
            path: format!("/{number}/projects/{project}/queues/{queue}").into(),
        })
    }

    /// The connections.
    pub fn transport(&self) -> &Transport {
        &self.exchange.transport
    }

    async fn call(&self, request: Request<'_>) -> Result<Bytes, CallError> {
        self.exchange.call(request).await
    }

    /// A request about one message: `what` is empty, `/touch` or `/release`.
    async fn about_message(
        &self,
        method: &'static str,
        handle: &ReceiptHandle,
        what: &str,
        reservation: Reservation<'_>,
    ) -> Result<Bytes, EntryOrCall> {
        let id = utf8_percent_encode(&handle.message_id, RESERVED);
        let target = format!("{}/messages/{id}{what}", self.path);
        let body = json(&reservation)?;
        let (wait, repeat) = (Duration::ZERO, Repeat::Safe);
        let request = Request { method, target: &target, body, wait, repeat };
        Ok(self.call(request).await?)
    }

    /// The reservation id, which version 1 does not have.
    fn reservation<'h>(&self, handle: &'h ReceiptHandle) -> Option<&'h str> {
        (self.version == IronVersion::V3).then_some(&*handle.token)
    }

    async fn delete_all(&self, handles: &[ReceiptHandle]) -> Result<(), CallError> {
        let body = match self.version {
            IronVersion::V1 => {
                json(&Delete { ids: handles.iter().map(|handle| &*handle.message_id).collect() })?
            }
            IronVersion::V3 => {
                let ids = handles.iter().map(|handle| DeleteEntry {
                    id: &handle.message_id,
                    reservation_id: &handle.token,
                });
                json(&Delete { ids: ids.collect() })?
            }
        };
        let target = format!("{}/messages", self.path);
        let (method, wait, repeat) = ("DELETE", Duration::ZERO, Repeat::Safe);
        done(&self.call(Request { method, target: &target, body, wait, repeat }).await?)
    }

    async fn delete_one(&self, handle: &ReceiptHandle) -> Result<(), EntryOrCall> {
        let reservation =
            Reservation { reservation_id: self.reservation(handle), timeout: None, delay: None };
        Ok(done(&self.about_message("DELETE", handle, "", reservation).await?)?)
    }

    async fn change_one(&self, change: &Visibility) -> Result<ReceiptHandle, EntryOrCall> {
        let handle = &change.handle;
        let reservation_id = self.reservation(handle);
        if change.timeout.is_zero() {
            return self.release_one(change).await;
        }
        let timeout = (self.version == IronVersion::V3).then(|| seconds(change.timeout));
        let reservation = Reservation { reservation_id, timeout, delay: None };
        let answer = self.about_message("POST", handle, "/touch", reservation).await?;
        let touched: Touched = parse(&answer)?;
        // Version 3 ends the old reservation with every touch.
        let token = touched.reservation_id.map_or_else(|| handle.token.clone(), ByteString::from);
        Ok(ReceiptHandle { token, ..handle.clone() })
    }

    async fn release_one(&self, change: &Visibility) -> Result<ReceiptHandle, EntryOrCall> {
        let handle = &change.handle;
        let reservation = Reservation {
            reservation_id: self.reservation(handle),
            timeout: None,
            delay: Some(seconds(change.timeout)),
        };
        done(&self.about_message("POST", handle, "/release", reservation).await?)?;
        Ok(handle.clone())
    }
}

impl Peer for IronPeer {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        let messages: Vec<_> = messages
            .iter()
            .map(|message| PostMessage { body: &message.body, delay: message.delay.map(seconds) })
            .collect();
        let count = messages.len();
        let target = format!("{}/messages", self.path);
        let body = json(&Post { messages })?;
        // The bodies alone may have been within the limit. What IronMQ says then is not documented,
        // so that nobody would divide the batch; one message may be within what a plan allows.
        if count > 1 && body.len() > REQUEST_BYTES {
            let problem = format!("request is {} bytes, limit {REQUEST_BYTES}", body.len());
            let kind = CallErrorKind::BatchTooLarge;
            return Err(CallError::new(kind, "request-too-large", problem));
        }
        let (method, wait, repeat) = ("POST", Duration::ZERO, Repeat::Never);
        let answer = self.call(Request { method, target: &target, body, wait, repeat }).await?;
        let posted: Posted = parse(&answer)?;
        if posted.ids.len() != count {
            let problem = format!("{} ids for {count} messages", posted.ids.len());
            return Err(malformed(problem));
        }
        let sent = |id: String| Ok(Sent { message_id: id.into(), sequence_number: None });
        Ok(posted.ids.into_iter().map(sent).collect())
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        let wait = request.wait.min(WAIT);
        let timeout = request.visibility.map(seconds);
        let reserve = Reserve { n: request.max, wait: seconds(wait), timeout };
        let (method, target, body) = match self.version {
            IronVersion::V3 => ("POST", format!("{}/reservations", self.path), json(&reserve)?),
            IronVersion::V1 => {
                let mut target =
                    format!("{}/messages?n={}&wait={}", self.path, reserve.n, reserve.wait);
                if let Some(timeout) = timeout {
                    target.push_str(&format!("&timeout={timeout}"));
                }
                ("GET", target, Bytes::new())
            }
        };
        let repeat = Repeat::Safe;
        let answer = self.call(Request { method, target: &target, body, wait, repeat }).await?;
        let reserved: Reserved = parse(&answer)?;
        Ok(reserved.messages.into_iter().map(delivery).collect())
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        if handles.len() > 1 {
            match self.delete_all(handles).await {
                Ok(()) => return Ok(handles.iter().map(|_| Ok(())).collect()),
                // Some of them may be deleted already; those are then refused, which is why a
                // missing message counts as deleted below.
                Err(error) if error.kind == CallErrorKind::Refused => {}
                Err(error) => return Err(error),
            }
        }
        let mut outcomes = Vec::with_capacity(handles.len());
        for handle in handles {
            outcomes.push(match entry(self.delete_one(handle).await)? {
                Err(error) if error.code == "HTTP 404" && handles.len() > 1 => Ok(()),
                outcome => outcome,
            });
        }
        Ok(outcomes)
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            note(&mut outcomes, self.change_one(change).await)?;
        }
        Ok(outcomes)
    }

    async fn release(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            note(&mut outcomes, self.release_one(change).await)?;
        }
        Ok(outcomes)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_batch: BATCH_ENTRIES,
            max_visibility_batch: 1,
            sure_extension: (self.version == IronVersion::V1).then_some(TOUCH),
            max_batch_bytes: REQUEST_BYTES,
            max_receive: BATCH_ENTRIES as u32,
            long_poll: Some(WAIT),
            ordered_groups: false,
        }
    }
}

/// An error of a call about one message: the message's own, or one of the call.
enum EntryOrCall {
    Entry(EntryError),
    Call(CallError),
}

impl From<CallError> for EntryOrCall {
    fn from(error: CallError) -> EntryOrCall {
        if error.kind == CallErrorKind::Refused {
            return EntryOrCall::Entry(EntryError::new(error.code, error.message, true));
        }
        EntryOrCall::Call(error)
    }
}

fn entry<T>(outcome: Result<T, EntryOrCall>) -> Result<Result<T, EntryError>, CallError> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(EntryOrCall::Entry(error)) => Ok(Err(error)),
        Err(EntryOrCall::Call(error)) => Err(error),
    }
}

/// Adds an outcome; an error of the call fails all of it only if nothing came before.
fn note(
    outcomes: &mut Vec<Result<ReceiptHandle, EntryError>>,
    outcome: Result<ReceiptHandle, EntryOrCall>,
) -> Result<(), CallError> {
    outcomes.push(match entry(outcome) {
        Ok(outcome) => outcome,
        Err(error) if outcomes.is_empty() => return Err(error),
        // Earlier entries have new handles, which must not be lost.
        Err(error) => {
            let is_final = !error.is_retryable();
            Err(EntryError::new(error.code, error.message, is_final))
        }
    });
    Ok(())
}
