//! Panics of the user's code: an error of the message, and of nothing else.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use crate::{
    handler::{Handler, Message},
    outcome::{HandlerError, Outcome},
};

/// `work`, with a panic turned into an error. It is dropped then and never polled again.
pub(crate) async fn caught<T>(
    work: impl Future<Output = Result<T, HandlerError>>,
) -> Result<T, HandlerError> {
    let mut work = pin!(work);
    let polled =
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(result),
            Err(panic) => Poll::Ready(Err(as_error(panic.as_ref()))),
        });
    polled.await
}

/// What becomes of a message after `error`, as the handler says; a retry if saying so panics.
pub(crate) fn decide<H: Handler>(handler: &H, message: &Message, error: &HandlerError) -> Outcome {
    let decided = catch_unwind(AssertUnwindSafe(|| handler.on_error(message, error)));
    let outcome = decided.unwrap_or_else(|panic| {
        tracing::error!(panic = describe(panic.as_ref()), "deciding on an error panicked");
        Outcome::RETRY
    });
    let (message_id, receive_count) = (message.id(), message.receive_count());
    let becomes = match &outcome {
        Outcome::Ack => "deleted",
        Outcome::Retry { .. } => "retried",
        Outcome::Release => "released",
        Outcome::Reject { .. } => "rejected",
    };
    tracing::warn!(%message_id, receive_count, %error, becomes, "handler failed");
    outcome
}

/// The error that a panic of a handler counts as.
pub(crate) fn as_error(panic: &(dyn Any + Send)) -> HandlerError {
    format!("the handler panicked: {}", describe(panic)).into()
}

/// What a panic says.
pub(crate) fn describe(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text")
}
