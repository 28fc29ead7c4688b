//! What the user of the library writes: the work done for a message.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytestring::ByteString;
use millrace_client::{Delivery, MessageAttribute};
use tokio_util::sync::CancellationToken;

use crate::{
    held::Held,
    layer::{Behind, Layer, Stopped},
    outcome::{HandlerError, Outcome},
    panics,
    trace::Trace,
};

/// A message for a handler. Cloning copies nothing of the body.
#[derive(Clone, Debug)]
pub struct Message {
    delivery: Delivery,
    lane: Option<ByteString>,
    receive_count: u32,
    cancel: CancellationToken,
    is_begun: Arc<AtomicBool>,
    /// Instead of the sender's.
    trace: Option<Trace>,
    has_dead_letters: bool,
}

impl Message {
    /// A held message as a handler gets it. Rejected, it goes to the dead-letter queue, if any.
    pub(crate) fn of(held: &Held, has_dead_letters: bool) -> Message {
        Message {
            delivery: held.delivery.clone(),
            lane: held.group.clone(),
            receive_count: held.receive_count,
            cancel: held.cancel.clone(),
            is_begun: Arc::clone(&held.is_begun),
            trace: None,
            has_dead_letters,
        }
    }

    /// Whether an outcome lets those behind it in its lane go on: it succeeded, or is for the
    /// dead-letter queue. Without one a rejected message is retried; one that the dead-letter queue
    /// refuses in the end comes back behind them.
    pub(crate) fn lets_others_pass(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Ack => true,
            Outcome::Reject { .. } => self.has_dead_letters,
            _ => false,
        }
    }

    /// Notes whether work on it has begun. It counts as begun once a handler has it: only who works
    /// through a batch, one message after the other, can tell better. Relaxed: it is read after the
    /// handler's task has ended.
    pub(crate) fn set_begun(&self, is_begun: bool) {
        self.is_begun.store(is_begun, Ordering::Relaxed);
    }

    /// The body as sent.
    pub fn body(&self) -> &ByteString {
        &self.delivery.body
    }

    /// The id that the server gave it.
    pub fn id(&self) -> &ByteString {
        self.delivery.message_id()
    }

    /// How often it was received, this time included; 1 if the server does not say.
    pub fn receive_count(&self) -> u32 {
        self.receive_count
    }

    /// The group inside which order is kept; none on a standard queue.
    pub fn lane(&self) -> Option<&ByteString> {
        self.lane.as_ref()
    }

    /// The same message with another body.
    pub fn with_body(mut self, body: impl Into<ByteString>) -> Message {
        self.delivery.body = body.into();
        self
    }

    /// The same message with other attributes.
    pub fn with_attributes(mut self, attributes: Vec<MessageAttribute>) -> Message {
        self.delivery.attributes = attributes;
        self
    }

    /// The trace that the work on it belongs to: the sender's, unless a handler around this one has
    /// begun another.
    pub fn trace(&self) -> Trace {
        self.trace.clone().unwrap_or_else(|| Trace::of(&self.delivery))
    }

    /// The same message, with another trace for the work on it; what came with it stays as it is.
    pub fn with_trace(mut self, trace: Trace) -> Message {
        self.trace = Some(trace);
        self
    }

    /// All that came with it.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Resolves when the work is better stopped: the lease is lost, so that another worker may have
    /// the message, or the worker ends. What is done anyway may be done twice.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether [`Message::cancelled`] has resolved.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

/// The work done for messages. Runs as a task of its own for each batch; when the worker is cut
/// off, the future is dropped, which must stop the work.
pub trait Handler: Send + Sync + 'static {
    /// Handles as many messages as the worker's batch size says at most, and tells of each, in
    /// order, what is to become of it: some may have succeeded and others not. Messages without an
    /// outcome are retried; outcomes beyond the messages are ignored. An error stands for all of
    /// the messages. Who handles batches of a FIFO queue must not go on in a
    /// [lane](Message::lane) after a message of it that did not succeed.
    fn handle(
        &self,
        messages: Vec<Message>,
    ) -> impl Future<Output = Result<Vec<Outcome>, HandlerError>> + Send;

    /// What becomes of a message whose handling failed with an error or a panic; a retry unless
    /// overridden.
    fn on_error(&self, message: &Message, error: &HandlerError) -> Outcome {
        let _ = (message, error);
        Outcome::RETRY
    }

    /// This handler, for what a layer makes of each message. The layer added last is the first to
    /// see a message.
    fn behind<L: Layer>(self, layer: L) -> Behind<L, Self>
    where
        Self: Sized,
    {
        Behind::new(layer, self)
    }
}

/// A shared handler is a handler.
impl<H: Handler> Handler for Arc<H> {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        (**self).handle(messages).await
    }

    fn on_error(&self, message: &Message, error: &HandlerError) -> Outcome {
        (**self).on_error(message, error)
    }
}

/// A handler made of a function of one message. With a batch size above 1, the messages of a batch
/// are handled one after the other, each with an outcome of its own also if another panics. None is
/// begun with after one of its lane that is to be received again, nor once it is
/// [cancelled](Message::cancelled): it is released.
pub fn each<F, Fut>(function: F) -> Each<F>
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, HandlerError>> + Send,
{
    Each { function, on_error: Box::new(|_, _| Outcome::RETRY) }
}

/// Made by [`each`].
pub struct Each<F> {
    function: F,
    on_error: Box<ErrorHandler>,
}

type ErrorHandler = dyn Fn(&Message, &HandlerError) -> Outcome + Send + Sync;

impl<F> Each<F> {
    /// The same handler with a word on what becomes of a message after an error or a panic.
    pub fn on_error(
        mut self,
        on_error: impl Fn(&Message, &HandlerError) -> Outcome + Send + Sync + 'static,
    ) -> Each<F> {
        self.on_error = Box::new(on_error);
        self
    }
}

impl<F, Fut> Handler for Each<F>
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, HandlerError>> + Send,
{
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let mut outcomes = Vec::with_capacity(messages.len());
        let mut stopped = Stopped::default();
        messages.iter().for_each(|message| message.set_begun(false));
        for message in messages {
            let outcome = if message.is_cancelled() || stopped.contains(message.lane()) {
                Outcome::Release
            } else {
                message.set_begun(true);
                // A panic of the whole batch would lose the outcomes so far.
                let work = panics::caught(async { (self.function)(message.clone()).await });
                work.await.unwrap_or_else(|error| panics::decide(self, &message, &error))
            };
            stopped.note(&message, &outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn on_error(&self, message: &Message, error: &HandlerError) -> Outcome {
        (self.on_error)(message, error)
    }
}

impl<F> fmt::Debug for Each<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Each").finish_non_exhaustive()
    }
}
