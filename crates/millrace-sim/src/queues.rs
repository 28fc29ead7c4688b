//! What administrators do: create, change, purge and delete queues.

use std::sync::Arc;

use millrace_broker::{
    BrokerError, Creation, DeduplicationScope, Definition, Kind, NewQueue, Redrive, Settings,
    SharedQueue,
};
use millrace_core::{QueueKey, limits};

use crate::executor::{Output, Purpose, Task};
use crate::model::Change;
use crate::world::{Step, World};

const REGION: &str = "us-east-1";
const ACCOUNT: &str = "000000000000";
/// Each is dead-letter queue to the ones before it, of its kind.
const STANDARD: [&str; 3] = ["a", "b", "dead"];
const FIFO: [&str; 3] = ["a.fifo", "b.fifo", "dead.fifo"];

pub(crate) fn key(name: &str) -> QueueKey {
    QueueKey::new(REGION, ACCOUNT, name)
}

impl World {
    pub(crate) fn create_queue(&mut self) -> Step {
        let kind = self.random.pick(&[Kind::Standard, Kind::Fifo]);
        let name = match kind {
            Kind::Standard => self.random.pick(&STANDARD),
            Kind::Fifo => self.random.pick(&FIFO),
        };
        let mut settings = Settings { kind, ..Settings::default() };
        if self.random.chance(30) {
            settings.deduplication_scope = DeduplicationScope::MessageGroup;
        }
        self.vary(&mut settings, name);
        let tags = [("made".to_owned(), self.step.to_string())].into();
        let new = NewQueue { key: key(name), settings, attributes: Default::default(), tags };
        match self.shard()?.begin_create_queue(&new) {
            Ok((Creation::Existing(queue), ticket)) => {
                let id = queue.id().0;
                if !self.oracle.live.queues.contains_key(&id) {
                    return Err(format!("{name} should not exist").into());
                }
                Ok(self.record_told(id, ticket, None)?)
            }
            Ok((Creation::Created(queue), ticket)) => {
                if self.oracle.live.by_name(name).is_some() {
                    return Err(format!("{name} exists twice").into());
                }
                let definition = Definition::clone(&queue.definition());
                if definition.settings != new.settings || definition.tags != new.tags {
                    return Err(format!("asked for {new:?}, got {definition:?}").into());
                }
                self.oracle.check_queue_id(definition.id)?;
                self.note(format!("create {name} {:#x}", definition.id));
                let change = Change::Defined(Box::new(definition));
                Ok(self.record_told(queue.id().0, ticket, Some(change))?)
            }
            Err(error) => {
                self.note(format!("create {name}: {error}"));
                self.check_refusal(&error)
            }
        }
    }

    fn vary(&mut self, settings: &mut Settings, name: &str) {
        settings.visibility_timeout_s = self.random.pick(&[0, 2, 30, 30, 300]);
        settings.delay_s = self.random.pick(&[0, 0, 0, 3, 60]);
        settings.retention_s = self.random.pick(&[60, 600, 345_600, 345_600, 1_209_600]);
        let family = if settings.kind == Kind::Fifo { FIFO } else { STANDARD };
        let above = family.iter().position(|known| *known == name).unwrap_or_default();
        let target = family.get(above + 1..).unwrap_or_default();
        settings.redrive = (!target.is_empty() && self.random.chance(60)).then(|| Redrive {
            region: REGION.to_owned(),
            account: ACCOUNT.to_owned(),
            name: self.random.pick(target).to_owned(),
            max_receive_count: self.random.pick(&[1, 2, 4]),
        });
    }

    pub(crate) fn update_queue(&mut self) -> Step {
        let Some(queue) = self.some_queue()? else { return Ok(()) };
        let mut settings = queue.definition().settings.clone();
        self.vary(&mut settings, &queue.key().name);
        let shards = Arc::clone(self.shards()?);
        let (shared, step) = (Arc::clone(&queue), self.step);
        let wanted = settings.clone();
        let update = async move {
            let change = |definition: &mut Definition| {
                definition.settings = settings;
                definition.tags.insert("changed".to_owned(), step.to_string());
                Ok::<(), std::convert::Infallible>(())
            };
            Output::Done(shards.catalog().update_queue(&shared, change).await.map(drop))
        };
        self.begin("update", &queue, update, |queue| {
            let definition = Definition::clone(&queue.definition());
            if definition.settings != wanted {
                return Err(format!("asked for {wanted:?}, got {definition:?}"));
            }
            Ok(Change::Defined(Box::new(definition)))
        })
    }

    pub(crate) fn purge_or_delete_queue(&mut self) -> Step {
        let Some(queue) = self.some_queue()? else { return Ok(()) };
        let (id, now) = (queue.id().0, self.now());
        let shards = Arc::clone(self.shards()?);
        let shared = Arc::clone(&queue);
        if self.random.chance(50) {
            let delete = async move { Output::Done(shards.catalog().delete_queue(&shared).await) };
            return self
                .begin("delete", &queue, delete, |_| Ok(Change::QueueDeleted { queue: id }));
        }
        let last = queue.definition().purged_ms;
        let is_cooling =
            self.profile.has_purge_cool_down && last > 0 && now < last + limits::COOL_DOWN_S * 1000;
        let purge = async move {
            match shared.purge().await {
                Err(BrokerError::PurgeInProgress) if is_cooling => Output::Done(Ok(())),
                Ok(()) if is_cooling => {
                    Output::Done(Err(BrokerError::Internal("purged too soon".to_owned())))
                }
                other => Output::Done(other),
            }
        };
        self.begin("purge", &queue, purge, |_| Ok(Change::Purged { queue: id }))
    }

    /// Polls a change once, which makes it, and leaves the rest to the executor: it must not
    /// resolve before it is committed.
    fn begin(
        &mut self,
        what: &'static str,
        queue: &SharedQueue,
        future: impl Future<Output = Output> + 'static,
        change: impl FnOnce(&SharedQueue) -> Result<Change, String>,
    ) -> Step {
        let name = queue.key().name.clone();
        self.next_task += 1;
        let purpose = Purpose::Commit { what, serial: None };
        let mut task = Task::new(self.next_task, purpose, future);
        match task.poll() {
            Some(Output::Done(Err(error))) => {
                self.note(format!("{what} {name}: {error}"));
                return self.check_refusal(&error);
            }
            Some(_) => {
                // Refused for a good reason: a purge too soon.
                self.note(format!("{what} {name}: nothing"));
                return self.compare_queue(queue.id().0);
            }
            None => {}
        }
        let change = change(queue)?;
        if what == "purge" || what == "delete" {
            self.oracle.attempts.retain(|(id, _), _| *id != queue.id().0);
        }
        let serial = Some(self.record(change)?);
        task.purpose = Purpose::Commit { what, serial };
        self.tasks.push(task);
        self.note(format!("{what} {name}"));
        self.compare_queue(queue.id().0)
    }
}
