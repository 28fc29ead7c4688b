//! What is done with the messages of one queue, whichever way was asked for.

use std::sync::Arc;

use millrace_worker::{Handler, HandlerError, Message, Outcome};

use super::{
    WorkFlags,
    commands::Commands,
    dry_run::DryRun,
    exec::Exec,
    flags::ExecMode,
    lambda::Lambda,
    lines::{Lines, Running},
    post::Post,
    queues::Found,
};
use crate::config::UsageError;

/// One of the handlers.
#[derive(Debug)]
pub(super) enum Job {
    DryRun(DryRun),
    Exec(Exec),
    Lines(Lines),
    Post(Box<Post>),
    Lambda(Box<Lambda>),
}

impl Job {
    /// The handler that the flags ask for; commands that stay share places with other queues'.
    pub(super) fn new(
        queue: &Found,
        flags: &WorkFlags,
        commands: &Arc<Commands<Running>>,
    ) -> anyhow::Result<Job> {
        let queue_url = queue.url.as_str();
        let handler = &flags.handler;
        Ok(match (&handler.exec, &handler.post, &handler.lambda) {
            _ if flags.dry_run => Job::DryRun(DryRun::new(queue_url, flags)?),
            (Some(command), ..) if flags.exec_mode == ExecMode::Lines => {
                Job::Lines(Lines::new(command, queue_url, flags, Arc::clone(commands)))
            }
            (Some(command), ..) => Job::Exec(Exec::new(command, queue_url, flags)),
            (None, Some(url), _) => Job::Post(Box::new(Post::new(url, queue, flags)?)),
            (None, None, Some(url)) => Job::Lambda(Box::new(Lambda::new(url, queue, flags)?)),
            (None, None, None) => {
                return Err(UsageError("give --exec, --post or --lambda".to_owned()).into());
            }
        })
    }

    /// Whether it is given several messages at a time.
    pub(super) fn takes_batches(&self) -> bool {
        matches!(self, Job::Lambda(_))
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
            Job::Exec(exec) => one_by_one(&messages, |message| exec.run(message)).await,
            Job::Lines(lines) => one_by_one(&messages, |message| lines.run(message)).await,
            Job::Post(post) => one_by_one(&messages, |message| post.post(message)).await,
            Job::Lambda(lambda) => lambda.handle(messages).await,
        }
    }
}

/// Unlike with [`millrace_worker::each`], an error stays one, for the worker to log.
async fn one_by_one<'m, Fut>(
    messages: &'m [Message],
    work: impl Fn(&'m Message) -> Fut,
) -> Result<Vec<Outcome>, HandlerError>
where
    Fut: Future<Output = Result<Outcome, HandlerError>>,
{
    let mut outcomes = Vec::with_capacity(messages.len());
    for message in messages {
        outcomes.push(work(message).await?);
    }
    Ok(outcomes)
}
