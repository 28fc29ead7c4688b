//! Places for commands that stay, of all queues: never more commands than handlers may run.
//!
//! A command is given a place before it is looked for. Where idle commands of other queues fill the
//! places, one of them is to be ended before a new one is started. What a burst has left idle for
//! [`IDLE_MAX`] is surplus, but for one command of each queue.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Long enough for bursts that come every few minutes to find their commands started.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(300);

/// The places, and the commands in them that wait for a message.
#[derive(Debug)]
pub(super) struct Commands<C> {
    most: usize,
    /// The lock is held for a look at the list, which is no longer than `most`.
    state: Mutex<State<C>>,
}

#[derive(Debug)]
struct State<C> {
    /// Places of commands that have a message, or are about to be started.
    busy: usize,
    /// The one that has waited longest comes first.
    idle: Vec<Idle<C>>,
}

#[derive(Debug)]
struct Idle<C> {
    queue_url: String,
    since: Instant,
    command: C,
}

/// A place that is taken, given back when dropped. To be dropped after its command.
#[derive(Debug)]
pub(super) struct Place<C> {
    commands: Arc<Commands<C>>,
    queue_url: String,
    is_kept: bool,
}

/// What to do for a command in a place.
#[derive(Debug)]
pub(super) enum Next<C> {
    /// Take this one, which waits for a message of the queue.
    Take(C),
    /// End this one, then ask again.
    End(C),
    /// Start one.
    Start,
}

impl<C> Commands<C> {
    /// Places for `most` commands; as many handlers may run at a time.
    pub(super) fn new(most: usize) -> Commands<C> {
        Commands { most, state: Mutex::new(State { busy: 0, idle: Vec::new() }) }
    }

    /// A place for a command of the queue.
    pub(super) fn place(self: &Arc<Commands<C>>, queue_url: &str) -> Place<C> {
        self.state().busy += 1;
        Place { commands: Arc::clone(self), queue_url: queue_url.to_owned(), is_kept: false }
    }

    /// The commands of the queue that wait, to be ended.
    pub(super) fn close(&self, queue_url: &str) -> Vec<C> {
        let mut state = self.state();
        state
            .idle
            .extract_if(.., |idle| idle.queue_url == queue_url)
            .map(|idle| idle.command)
            .collect()
    }

    /// The commands that have waited for too long, to be ended; their places are theirs until then.
    /// The last of each queue that began to wait stays for the message to come.
    pub(super) fn surplus(self: &Arc<Commands<C>>, now: Instant) -> Vec<(C, Place<C>)> {
        let mut surplus = Vec::new();
        let mut kept = HashSet::new();
        let mut state = self.state();
        for index in (0..state.idle.len()).rev() {
            let Some(idle) = state.idle.get(index) else { continue };
            let is_last = kept.insert(idle.queue_url.clone());
            if !is_last && now.saturating_duration_since(idle.since) >= IDLE_MAX {
                surplus.push(state.idle.remove(index));
            }
        }
        drop(state);
        let placed = |idle: Idle<C>| (idle.command, self.place(&idle.queue_url));
        surplus.into_iter().map(placed).collect()
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Place<C> {
    /// A command for the place, or how to come by one.
    pub(super) fn next(&self) -> Next<C> {
        let mut state = self.commands.state();
        if let Some(index) = state.idle.iter().rposition(|idle| idle.queue_url == self.queue_url) {
            return Next::Take(state.idle.remove(index).command);
        }
        if state.idle.is_empty() || state.busy + state.idle.len() <= self.commands.most {
            return Next::Start;
        }
        Next::End(state.idle.remove(0).command)
    }

    /// A command to end where there is no room for another: the one that has waited longest.
    pub(super) fn make_room(&self) -> Option<C> {
        let mut state = self.commands.state();
        (!state.idle.is_empty()).then(|| state.idle.remove(0).command)
    }

    /// The command waits for the next message in its place.
    pub(super) fn keep(mut self, command: C) {
        let mut state = self.commands.state();
        state.busy = state.busy.saturating_sub(1);
        let (queue_url, since) = (self.queue_url.clone(), Instant::now());
        state.idle.push(Idle { queue_url, since, command });
        drop(state);
        self.is_kept = true;
    }
}

impl<C> Drop for Place<C> {
    fn drop(&mut self) {
        if !self.is_kept {
            let mut state = self.commands.state();
            state.busy = state.busy.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(commands: &Arc<Commands<u32>>, queue: &str, count: u32) {
        let places: Vec<_> = (0..count).map(|_| commands.place(queue)).collect();
        (0..).zip(places).for_each(|(command, place)| place.keep(command));
    }

    #[test]
    fn command_of_the_queue_that_waited_last_is_taken() {
        let commands = Arc::new(Commands::new(3));
        idle(&commands, "a", 2);
        idle(&commands, "b", 1);

        let place = commands.place("a");

        assert!(matches!(place.next(), Next::Take(1)));
    }

    #[test]
    fn idle_commands_of_other_queues_are_ended_where_they_fill_the_places() {
        let commands = Arc::new(Commands::new(3));
        idle(&commands, "a", 2);

        let (first, second) = (commands.place("b"), commands.place("b"));
        // Two idle, two busy: one too many.
        assert!(matches!(first.next(), Next::End(0)));
        assert!(matches!(first.next(), Next::Start));
        assert!(matches!(second.next(), Next::Start));

        drop(second);
        let third = commands.place("b");
        assert!(matches!(third.next(), Next::Start), "its place was given back");
    }

    #[test]
    fn where_there_is_no_room_the_command_that_waited_longest_is_to_end() {
        let commands = Arc::new(Commands::new(9));
        idle(&commands, "a", 2);
        let place = commands.place("b");

        assert!(matches!(place.next(), Next::Start));
        assert_eq!(
            [place.make_room(), place.make_room(), place.make_room()],
            [Some(0), Some(1), None]
        );
    }

    #[test]
    fn queue_that_ends_takes_no_commands_of_others_along() {
        let commands = Arc::new(Commands::new(3));
        idle(&commands, "a", 1);
        idle(&commands, "b", 2);

        assert_eq!(commands.close("b"), [0, 1]);
        assert!(matches!(commands.place("a").next(), Next::Take(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_too_long_is_surplus_but_for_one_of_each_queue() {
        let commands = Arc::new(Commands::new(5));
        idle(&commands, "a", 3);
        idle(&commands, "b", 1);
        tokio::time::advance(IDLE_MAX / 2).await;
        idle(&commands, "b", 1);
        let surplus = |commands: &Arc<Commands<u32>>| {
            let surplus = commands.surplus(Instant::now());
            surplus.into_iter().map(|(command, _)| command).collect::<Vec<_>>()
        };

        assert_eq!(surplus(&commands), [0; 0]);
        tokio::time::advance(IDLE_MAX / 2).await;

        assert_eq!(surplus(&commands), [0, 1, 0], "the one of b that waited first, two of a");
        assert_eq!((commands.close("a"), commands.close("b")), (vec![2], vec![0]));
        assert_eq!(commands.state().busy, 0);
    }
}
