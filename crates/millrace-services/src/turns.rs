//! Turns at what takes long: so many at a time, and one of each account, so that no account waits for
//! more than one turn of each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Accounts that are remembered before those without a turn are forgotten.
const REMEMBERED: usize = 100;

pub(crate) struct Turns {
    all: Semaphore,
    by_account: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A turn, which ends when it is dropped.
pub(crate) struct Turn<'a> {
    _of_all: Option<SemaphorePermit<'a>>,
    _of_account: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(crate) fn new(at_a_time: usize) -> Turns {
        Turns { all: Semaphore::new(at_a_time), by_account: Mutex::default() }
    }

    /// Waits for a turn of that account. Dropped, it waits no more.
    pub(crate) async fn take(&self, account: &str) -> Turn<'_> {
        let of_account = self.of_account(account).acquire_owned().await.ok();
        Turn { _of_all: self.all.acquire().await.ok(), _of_account: of_account }
    }

    fn of_account(&self, account: &str) -> Arc<Semaphore> {
        let mut known = self.by_account.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        known.entry(account.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn an_account_has_one_turn_at_a_time_and_others_wait_for_no_more_than_that() {
        let turns = Turns::new(2);
        let task = &mut Context::from_waker(Waker::noop());
        let mut of_a = pin!(turns.take("a"));
        let mut again = pin!(turns.take("a"));
        let mut of_b = pin!(turns.take("b"));
        let mut of_c = pin!(turns.take("c"));

        let Poll::Ready(first) = of_a.as_mut().poll(task) else { panic!("it is free") };
        assert!(again.as_mut().poll(task).is_pending(), "it has one");
        let Poll::Ready(second) = of_b.as_mut().poll(task) else { panic!("one is left") };
        assert!(of_c.as_mut().poll(task).is_pending(), "two are taken");
        drop(first);
        assert!(again.as_mut().poll(task).is_pending(), "it comes after the other account");
        let Poll::Ready(_third) = of_c.as_mut().poll(task) else { panic!("it is its turn") };
        drop(second);
        assert!(again.as_mut().poll(task).is_ready());
    }

    #[test]
    fn accounts_without_a_turn_are_forgotten() {
        let turns = Turns::new(1_000);
        let kept = turns.of_account("kept");
        (0..1_000).for_each(|account| drop(turns.of_account(&account.to_string())));

        assert!(turns.by_account.lock().unwrap().len() <= REMEMBERED);
        assert!(Arc::ptr_eq(&kept, &turns.of_account("kept")));
    }
}
