//! Handlers of typed messages.

use std::pin::Pin;

use serde::de::DeserializeOwned;

use crate::{
    handler::{Each, Message, each},
    outcome::{HandlerError, Outcome},
};

/// What a handler of one message promises.
type Handling = Pin<Box<dyn Future<Output = Result<Outcome, HandlerError>> + Send>>;

/// A handler made of a function of the value that a message's body is as JSON, and of the message.
/// As [`each`] otherwise. A body that is no such value is rejected: no retry would make it one.
pub fn json<T, F, Fut>(function: F) -> Each<impl Fn(Message) -> Handling + Send + Sync + 'static>
where
    T: DeserializeOwned,
    F: Fn(T, Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, HandlerError>> + Send + 'static,
{
    each(move |message: Message| -> Handling {
        match serde_json::from_str(message.body()) {
            Ok(value) => Box::pin(function(value, message)),
            Err(error) => {
                let outcome = Outcome::reject(format!("the body is not what is expected: {error}"));
                Box::pin(async move { Ok(outcome) })
            }
        }
    })
}
