use std::{
    pin::pin,
    task::{Context, Waker},
};

use super::*;

fn is_woken(share: &Share) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(share.woken()).as_mut().poll(&mut context).is_ready()
}

/// Ends the handler and lets whoever is next start one; tells who it was.
fn pass_on(shares: &[Share], slot: &mut Option<Slot>) -> usize {
    *slot = None;
    let next = shares.iter().position(|share| {
        *slot = share.take();
        slot.is_some()
    });
    next.unwrap()
}

fn weighted(slots: &Slots, weights: &[u32]) -> Vec<Share> {
    weights.iter().map(|weight| slots.share(Priority { rank: 0, weight: *weight })).collect()
}

#[test]
fn queues_of_a_rank_start_by_weight() {
    let slots = Slots::new(1);
    let shares = weighted(&slots, &[1, 3]);
    let mut slot = shares[0].take();
    assert!(shares[1].take().is_none());

    let started: Vec<usize> = (0..399).map(|_| pass_on(&shares, &mut slot)).collect();

    // 400 in all, of which the lighter one had the first.
    let heavy = started.iter().filter(|queue| **queue == 1).count();
    assert!((299..=301).contains(&heavy), "{heavy}");
    // Evenly, too: no four in a row without the lighter one.
    assert!(started.windows(5).all(|five| five.contains(&0)));
}

#[test]
fn lower_rank_goes_first_and_leaves_what_it_does_not_want() {
    let slots = Slots::new(1);
    let low = slots.share(Priority { rank: 1, weight: 100 });
    let high = slots.share(Priority { rank: 0, weight: 1 });
    let slot = low.take();
    assert!(slot.is_some() && high.take().is_none() && low.take().is_none());

    drop(slot);
    assert!(low.take().is_none());
    let slot = high.take();
    assert!(slot.is_some());
    high.expect(0);
    drop(slot);

    assert!(low.take().is_some());
}

#[test]
fn idle_time_is_no_credit() {
    let slots = Slots::new(1);
    let shares = weighted(&slots, &[1, 1]);
    for _ in 0..100 {
        assert!(shares[0].take().is_some());
    }
    let mut slot = shares[0].take();
    assert!(shares[1].take().is_none());

    let started: Vec<usize> = (0..10).map(|_| pass_on(&shares, &mut slot)).collect();

    assert_eq!(started.iter().filter(|queue| **queue == 1).count(), 5);
}

#[test]
fn free_slot_wakes_whose_turn_it_is() {
    let slots = Slots::new(1);
    let shares = weighted(&slots, &[1, 1, 1]);
    let slot = shares[0].take();
    shares[0].expect(0);
    assert!(shares[1].take().is_none() && shares[2].take().is_none());
    assert!(!is_woken(&shares[1]));

    drop(slot);
    assert!(is_woken(&shares[1]) && !is_woken(&shares[2]));
    // It does not want it any more: the turn goes on.
    shares[1].expect(0);
    assert!(is_woken(&shares[2]));
}

#[test]
fn slots_are_kept_for_what_is_expected() {
    let slots = Slots::new(3);
    let [high, low] = [0, 1].map(|rank| slots.share(Priority { rank, weight: 1 }));
    high.expect(2);

    let one = low.take();
    assert!(one.is_some() && low.take().is_none());
    assert!(!is_woken(&low));
    let two = high.take();
    assert!(two.is_some());
    high.expect(0);

    assert!(is_woken(&low));
    assert!(low.take().is_some());
}

#[test]
fn nothing_is_kept_from_those_whose_turn_comes_before() {
    let slots = Slots::new(1);
    let [high, low] = [0, 1].map(|rank| slots.share(Priority { rank, weight: 1 }));

    low.expect(1);

    assert!(high.take().is_some());
}

#[test]
fn end_of_a_worker_passes_its_turn_on() {
    let slots = Slots::new(1);
    let mut shares = weighted(&slots, &[1, 1, 1]);
    let slot = shares[0].take();
    assert!(shares[1].take().is_none() && shares[2].take().is_none());
    drop(slot);

    drop(shares.remove(1));
    shares[0].expect(0);

    assert!(is_woken(&shares[1]));
    assert!(shares[1].take().is_some());
}

#[test]
fn queue_may_count_on_free_slots_or_its_part() {
    let slots = Slots::new(4);
    let shares = weighted(&slots, &[1, 3]);
    assert_eq!((shares[0].free(), shares[1].free()), (4, 4));

    let mut taken: Vec<Slot> = (0..4).filter_map(|_| shares[0].take()).collect();
    assert_eq!((shares[0].free(), shares[1].free()), (0, 3));

    taken.pop();
    assert_eq!((shares[0].free(), shares[1].free()), (1, 3));
    assert!(!is_woken(&shares[0]), "it gave the slot back itself");
}

#[test]
fn higher_rank_may_count_on_all_slots_and_the_lower_on_what_is_left() {
    let slots = Slots::new(4);
    let high = slots.share(Priority { rank: 0, weight: 1 });
    let low = slots.share(Priority { rank: 1, weight: 1 });
    let low_slots: Vec<Slot> = (0..4).filter_map(|_| low.take()).collect();
    assert_eq!((high.free(), low.free()), (4, 0));
    drop(low_slots);

    let mut high_slots: Vec<Slot> = (0..4).filter_map(|_| high.take()).collect();
    assert_eq!((high.free(), low.free()), (0, 0));
    high_slots.pop();

    assert!(is_woken(&low));
    assert_eq!(low.free(), 1);
}
