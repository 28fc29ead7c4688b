//! Shows what would be done, and does nothing.

use std::io::{self, Write};

use millrace_worker::{Handler, HandlerError, Message, Outcome};
use serde_json::json;

use super::{WorkFlags, target::url};
use crate::config::UsageError;

/// Characters of a body that are shown.
const SHOWN: usize = 200;

/// Prints each message as a line of JSON and gives it back.
#[derive(Debug)]
pub(super) struct DryRun {
    queue_url: String,
    action: String,
}

impl DryRun {
    pub(super) fn new(queue_url: &str, flags: &WorkFlags) -> Result<DryRun, UsageError> {
        let handler = &flags.handler;
        let action = match (&handler.exec, &handler.post, &handler.lambda) {
            (Some(command), ..) => format!("exec {command}"),
            (None, Some(text), _) => format!("post {}", url("--post", text)?),
            (None, None, Some(text)) => format!("lambda {}", url("--lambda", text)?),
            (None, None, None) => String::new(),
        };
        Ok(DryRun { queue_url: queue_url.to_owned(), action })
    }
}

impl Handler for DryRun {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        for message in &messages {
            let line = json!({
                "queue_url": self.queue_url,
                "action": self.action,
                "message_id": &**message.id(),
                "receive_count": message.receive_count(),
                "group_id": message.delivery().group_id().map(|group| group.to_string()),
                "size_bytes": message.body().len(),
                "body": message.body().chars().take(SHOWN).collect::<String>(),
            });
            // Whoever does not read it does not keep the message hidden.
            let _ = writeln!(io::stdout(), "{line}");
        }
        Ok(vec![Outcome::Release; messages.len()])
    }
}
