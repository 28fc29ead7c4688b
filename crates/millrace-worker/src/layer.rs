//! What is done with a message before its handler gets it: unwrap it, fetch its body, refuse it.
//!
//! A layer changes one message or decides what becomes of it. What has to stand around the work
//! itself, such as a time limit or a span, is a [`Handler`] that holds a handler.

use std::{fmt, ops::ControlFlow, vec};

use bytestring::ByteString;

use crate::{
    handler::{Handler, Message},
    outcome::{HandlerError, Outcome},
    panics,
};

/// One step before a handler. Of a batch no message is prepared once it is
/// [cancelled](Message::cancelled): it is released.
pub trait Layer: Send + Sync + 'static {
    /// The message that goes on, or what becomes of it without a handler. An error is treated as
    /// one of the handler.
    fn prepare(
        &self,
        message: Message,
    ) -> impl Future<Output = Result<ControlFlow<Outcome, Message>, HandlerError>> + Send;
}

/// A function of a message is a layer.
impl<F, Fut> Layer for F
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ControlFlow<Outcome, Message>, HandlerError>> + Send,
{
    async fn prepare(
        &self,
        message: Message,
    ) -> Result<ControlFlow<Outcome, Message>, HandlerError> {
        self(message).await
    }
}

/// A handler behind a layer; made by [`Handler::behind`].
pub struct Behind<L, H> {
    layer: L,
    handler: H,
}

impl<L, H> Behind<L, H> {
    pub(crate) fn new(layer: L, handler: H) -> Behind<L, H> {
        Behind { layer, handler }
    }
}

impl<L: Layer, H: Handler> Handler for Behind<L, H> {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let mut decided = Vec::with_capacity(messages.len());
        let mut prepared = Vec::with_capacity(messages.len());
        let mut stopped = Stopped::default();
        messages.iter().for_each(|message| message.set_begun(false));
        for message in messages {
            if message.is_cancelled() || stopped.contains(message.lane()) {
                decided.push((message, Some(Outcome::Release)));
                continue;
            }
            message.set_begun(true);
            let prepare = panics::caught(async { self.layer.prepare(message.clone()).await });
            let outcome = match prepare.await {
                Ok(ControlFlow::Continue(changed)) => {
                    prepared.push(changed);
                    decided.push((message, None));
                    continue;
                }
                Ok(ControlFlow::Break(outcome)) => outcome,
                Err(error) => panics::decide(&self.handler, &message, &error),
            };
            stopped.note(&message, &outcome);
            decided.push((message, Some(outcome)));
        }
        let handled = self.handle_prepared(prepared).await;
        Ok(merge(decided, handled))
    }

    fn on_error(&self, message: &Message, error: &HandlerError) -> Outcome {
        self.handler.on_error(message, error)
    }
}

impl<L: Layer, H: Handler> Behind<L, H> {
    async fn handle_prepared(&self, prepared: Vec<Message>) -> Vec<Outcome> {
        if prepared.is_empty() {
            return Vec::new();
        }
        // The layer's decisions about other messages stand.
        let handled = panics::caught(async { self.handler.handle(prepared.clone()).await });
        handled.await.unwrap_or_else(|error| {
            let messages = prepared.iter();
            messages.map(|message| panics::decide(&self.handler, message, &error)).collect()
        })
    }
}

impl<L, H> fmt::Debug for Behind<L, H> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Behind").finish_non_exhaustive()
    }
}

/// Outcomes in the order of the messages: the layer's, and the handler's where the layer has none.
fn merge(decided: Vec<(Message, Option<Outcome>)>, handled: Vec<Outcome>) -> Vec<Outcome> {
    let mut handled: vec::IntoIter<Outcome> = handled.into_iter();
    let mut stopped = Stopped::default();
    let mut outcomes = Vec::with_capacity(decided.len());
    for (message, by_layer) in decided {
        let outcome = match by_layer {
            // One ahead of it in its lane has failed in the handler meanwhile.
            Some(_) if stopped.contains(message.lane()) => Outcome::Release,
            Some(outcome) => outcome,
            None => handled.next().unwrap_or(Outcome::RETRY),
        };
        stopped.note(&message, &outcome);
        outcomes.push(outcome);
    }
    outcomes
}

/// Lanes in which a message is not done: none behind it may go on.
#[derive(Debug, Default)]
pub(crate) struct Stopped {
    lanes: Vec<ByteString>,
}

impl Stopped {
    pub(crate) fn contains(&self, lane: Option<&ByteString>) -> bool {
        lane.is_some_and(|lane| self.lanes.contains(lane))
    }

    pub(crate) fn note(&mut self, message: &Message, outcome: &Outcome) {
        if !message.lets_others_pass(outcome) {
            self.lanes.extend(message.lane().cloned());
        }
    }
}
