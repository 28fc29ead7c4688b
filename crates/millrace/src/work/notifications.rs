//! Messages as they were published, out of the notifications that SNS sends to queues.

use millrace_worker::{Handler, HandlerError, Message, Outcome, SnsEnvelope};

/// A handler that is given what was published, if that is asked for; else messages as they are.
#[derive(Debug)]
pub(super) struct Unwrapped<H> {
    handler: H,
    envelope: Option<SnsEnvelope>,
}

impl<H> Unwrapped<H> {
    pub(super) fn new(handler: H, envelope: Option<SnsEnvelope>) -> Unwrapped<H> {
        Unwrapped { handler, envelope }
    }
}

impl<H: Handler> Handler for Unwrapped<H> {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let messages = match self.envelope {
            Some(envelope) => {
                let opened = messages.into_iter().map(|message| envelope.open(message));
                opened.collect::<Result<_, _>>()?
            }
            None => messages,
        };
        self.handler.handle(messages).await
    }

    fn on_error(&self, message: &Message, error: &HandlerError) -> Outcome {
        self.handler.on_error(message, error)
    }
}
