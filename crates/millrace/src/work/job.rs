//! What is done with the messages of one queue, whichever way was asked for.

use millrace_worker::{Handler, HandlerError, Message, Outcome};

use super::{WorkFlags, dry_run::DryRun, exec::Exec, flags::ExecMode, lines::Lines, post::Post};
use crate::config::UsageError;

/// One of the handlers.
#[derive(Debug)]
pub(super) enum Job {
    DryRun(DryRun),
    Exec(Exec),
    Lines(Lines),
    Post(Box<Post>),
}

impl Job {
    /// The handler that the flags ask for.
    pub(super) fn new(queue_url: &str, flags: &WorkFlags) -> anyhow::Result<Job> {
        let handler = &flags.handler;
        Ok(match (&handler.exec, &handler.post) {
            _ if flags.dry_run => Job::DryRun(DryRun::new(queue_url, flags)),
            (Some(command), _) if flags.exec_mode == ExecMode::Lines => {
                Job::Lines(Lines::new(command, queue_url, flags))
            }
            (Some(command), _) => Job::Exec(Exec::new(command, queue_url, flags)),
            (None, Some(target)) => Job::Post(Box::new(Post::new(target, queue_url, flags)?)),
            (None, None) => return Err(UsageError("give --exec or --post".to_owned()).into()),
        })
    }

    /// No message comes any more.
    pub(super) async fn close(&self) {
        if let Job::Lines(lines) = self {
            lines.close().await;
        }
    }
}

impl Handler for Job {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        match self {
            Job::DryRun(dry_run) => dry_run.handle(messages).await,
            Job::Exec(exec) => exec.handle(messages).await,
            Job::Lines(lines) => lines.handle(messages).await,
            Job::Post(post) => post.handle(messages).await,
        }
    }
}
