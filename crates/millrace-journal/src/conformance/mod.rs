//! Rules that every journal must keep, as tests for implementations.
//!
//! ```text
//!  #[test]
//!  fn my_journal_conforms() {
//!      millrace_journal::conformance::run(|| Box::new(MySite::new()));
//!  }
//! ```
//! Each check gets a fresh [`Site`] and panics where the journal there breaks its contract, which
//! stands in [`crate::journal`]. The thread that panics has the name of the rule.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "checks panic")]

mod owners;
mod records;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::group::{GroupCommit, GroupOptions};
use crate::journal::Journal;
use crate::owner::Owner;
use crate::position::{Position, Purpose, Ticket};
use crate::record::Record;
use crate::store::JournalStore;

/// Segments of about this size let the checks begin several.
pub const SEGMENT_BYTES: u32 = 16 << 10;

/// Where journals of one kind are kept, and what can happen to them there.
pub trait Site {
    /// The store as a process that is started now sees it.
    fn store(&self) -> Box<dyn JournalStore>;

    /// All processes end at once, and the machine with them if commits survive that. Nothing that
    /// their journals still do arrives. What was not committed may be lost.
    fn crash(&mut self);

    /// Nothing of what is appended by the journals that are open now arrives any more, and they
    /// learn of it. Stores that are asked for later are not affected.
    fn cut_off(&mut self);

    /// From now on there is no space for a further segment.
    fn fill(&mut self);

    /// There is space again, and time enough has passed for journals to look.
    fn free(&mut self);

    /// The fate of an owner that opens the log while another has it.
    fn second_owner(&self) -> SecondOwner;
}

/// The way in which a kind of journal keeps to one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondOwner {
    /// It is refused while the first is open.
    Refused,
    /// It fences the first.
    Fences,
}

/// A rule and the check of it.
type Check = (&'static str, fn(&mut dyn Site));

/// Checks all rules, each at a fresh site.
pub fn run(mut fresh: impl FnMut() -> Box<dyn Site> + Send) {
    for (rule, check) in checks() {
        let fresh = &mut fresh;
        let ended = std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name(rule.into());
            let checking = named.spawn_scoped(scope, move || check(&mut *fresh()));
            checking.expect("a thread starts").join()
        });
        assert!(ended.is_ok(), "the journal breaks the rule {rule}");
    }
}

macro_rules! rules {
    ($($module:ident: $($rule:ident),+;)+) => {
        vec![$($((stringify!($rule), $module::$rule as fn(&mut dyn Site)),)+)+]
    };
}

fn checks() -> Vec<Check> {
    rules! {
        records:
            opens_with_an_epoch_and_a_tail_behind_it,
            positions_are_final_and_ascend,
            reads_back_at_every_stage,
            reads_several_in_any_order,
            batch_is_in_one_frame,
            replay_shows_each_record_once,
            replay_breaks_off,
            truncation_takes_only_the_oldest,
            stale_frame_is_fenced,
            oversized_batch_is_refused;
        owners:
            opened_again_it_shows_what_was_committed,
            recovering_starts_no_epoch,
            log_names_its_owner,
            crash_loses_only_what_was_not_committed,
            truncated_records_do_not_come_back,
            second_owner_is_refused_or_fences_the_first,
            of_candidates_at_one_end_one_becomes_owner,
            owner_that_was_cut_off_acknowledges_nothing,
            owners_follow_one_another_in_one_process,
            full_store_refuses_what_adds_and_takes_what_frees;
    }
}

/// A journal of a new epoch, what is kept in it having been shown to nobody.
fn start(site: &dyn Site) -> Box<dyn Journal> {
    let unowned = site.store().recover(&mut |_| {}).expect("the log is recovered");
    unowned.start_epoch(&owner()).expect("an epoch is started")
}

/// An owner as no other.
fn owner() -> Owner {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    Owner::unnamed(NUMBER.fetch_add(1, Ordering::Relaxed).into())
}

/// A group commit that reads everything from the journal.
fn without_cache(journal: Box<dyn Journal>) -> Arc<GroupCommit> {
    GroupCommit::new(journal, GroupOptions { recent_bytes: 0, ..GroupOptions::default() })
}

/// Appends one batch, which is admitted, and does not commit it.
fn append(
    group_commit: &GroupCommit,
    records: &[Record<'_>],
    positions: &mut Vec<Position>,
) -> Ticket {
    let bytes = records.iter().map(Record::encoded_bytes).sum();
    let reservation = group_commit.reserve(bytes, Purpose::Store).expect("a batch is admitted");
    group_commit.append(reservation, records, positions)
}

/// Appends and commits `count` records of about 1 KiB, each in its own group, numbered from 0.
fn fill(group_commit: &GroupCommit, count: u32) -> Vec<(Position, u32)> {
    fill_from(group_commit, 0, count)
}

/// The same with numbers from `first`.
fn fill_from(group_commit: &GroupCommit, first: u32, count: u32) -> Vec<(Position, u32)> {
    let payload = vec![7; 1000];
    let mut places = Vec::new();
    for number in first..first + count {
        let index = number.to_le_bytes();
        let record = Record { index: &index, payload: &payload };
        let mut positions = Vec::new();
        let ticket = append(group_commit, &[record], &mut positions);
        while group_commit.commit_step() {}
        assert_eq!(group_commit.outcome(ticket), Some(Ok(())));
        places.extend(positions.iter().map(|at| (*at, record.encoded_bytes() as u32)));
    }
    places
}
