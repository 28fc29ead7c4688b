//! Whether a commit waits for those whom the one before answered.
//!
//! Clients that wait for an answer and then send the next request are back at once, and share the
//! next commit if that waits for them. If it does not, they wait for its end and then for a commit
//! of their own: with few clients two short commits for what one could do. Waiting is only a delay
//! where they do not come back, or where others come all the time: that shows, and after each wait
//! in vain twice as many commits do without. If only some do not come back, the others are waited
//! for.

use super::pace::worth_gathering;

/// Commits without waiting, at most, after one that waited in vain.
const LONGEST_PAUSE: u32 = 128;
/// Waits that bring what they are to, until one more is waited for.
const WAITS_PER_PROBE: u32 = 32;

/// What the committing thread has learnt of waiting.
#[derive(Default)]
pub(super) struct Patience {
    /// Commits without waiting, after the latest wait in vain.
    pause: u32,
    /// Of them, left.
    left: u32,
    /// Of those under way, as many do not come back within a wait.
    missing: u32,
    /// Waits since that was found.
    waits: u32,
    /// Waited long for all that were under way. They are in the latest commit, so it seemed.
    has_all: bool,
}

impl Patience {
    /// For how many batches the next commit is to wait, after one that answered `answered` of them
    /// while `gathered` others came. All that come back are waited for if they are `few`. Zero for
    /// none: as few as `most_here` commit themselves.
    pub(super) fn wanted(&mut self, answered: u32, gathered: u32, most_here: u32, few: u32) -> u32 {
        if std::mem::take(&mut self.has_all) {
            self.judge(gathered == 0);
        }
        if self.left > 0 {
            self.left -= 1;
            return 0;
        }
        let under_way = answered.saturating_add(gathered);
        if under_way <= most_here {
            0
        } else if under_way <= few {
            under_way - self.missing.min(under_way / 4)
        } else {
            worth_gathering(answered, gathered)
        }
    }

    /// So many were waited for, and as many came. `was_long`: they took a good part of a commit.
    pub(super) fn waited(&mut self, wanted: u32, came: u32, was_long: bool, few: u32) {
        if came < wanted - wanted / 4 {
            self.judge(false);
            return;
        }
        if came < wanted {
            // What is not used, as there are fewer now, would take long to be forgotten.
            self.missing = self.missing.min(wanted / 3) + wanted - came;
            self.waits = 0;
        } else {
            self.waits += 1;
            if self.waits >= WAITS_PER_PROBE {
                self.missing = self.missing.saturating_sub(1);
                self.waits = 0;
            }
        }
        // Whether those were all is known when their commit is over.
        self.has_all = was_long && wanted <= few;
        if !self.has_all {
            self.judge(true);
        }
    }

    fn judge(&mut self, was_worth_it: bool) {
        self.pause = if was_worth_it { 0 } else { (self.pause * 2).clamp(1, LONGEST_PAUSE) };
        self.left = self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: u32 = 10;

    /// Commits until the next that waits, of which each answers and gathers so many.
    fn commits_without_waiting(patience: &mut Patience, answered: u32, gathered: u32) -> u32 {
        let wants = |_: &u32| patience.wanted(answered, gathered, 2, FEW) > 0;
        (0..1000).find(wants).unwrap()
    }

    #[test]
    fn few_are_waited_for_and_of_many_half() {
        let mut patience = Patience::default();

        assert_eq!(patience.wanted(4, 0, 2, FEW), 4);
        assert_eq!(patience.wanted(FEW - 3, 3, 2, FEW), FEW);
        assert_eq!(patience.wanted(40, 24, 2, FEW), 32);
        assert_eq!(patience.wanted(40, 24, 2, 64), 64);
        assert_eq!(patience.wanted(1, 1, 2, FEW), 0, "they commit themselves");
        assert_eq!(patience.wanted(40, 24, u32::MAX, FEW), 0, "they commit themselves");
    }

    #[test]
    fn after_each_wait_in_vain_twice_as_many_do_without() {
        let mut patience = Patience::default();
        for pause in [0, 1, 2, 4, 8, 16, 32, 64, 128, 128] {
            assert_eq!(commits_without_waiting(&mut patience, 8, 0), pause);
            patience.waited(8, 5, true, FEW);
        }
        assert_eq!(commits_without_waiting(&mut patience, 40, 24), 128);
        patience.waited(32, 32, true, FEW);
        assert_eq!(commits_without_waiting(&mut patience, 40, 24), 0);
    }

    #[test]
    fn waiting_long_for_all_is_in_vain_when_others_come_meanwhile() {
        let mut patience = Patience::default();
        patience.waited(8, 8, true, FEW);
        assert_eq!(commits_without_waiting(&mut patience, 8, 0), 0);

        patience.waited(8, 8, true, FEW);
        assert_eq!(commits_without_waiting(&mut patience, 6, 2), 1);
        patience.waited(8, 8, true, FEW);
        assert_eq!(commits_without_waiting(&mut patience, 6, 2), 2);

        patience.waited(8, 8, false, FEW);
        assert_eq!(commits_without_waiting(&mut patience, 6, 2), 0, "it took little");
    }

    #[test]
    fn those_who_do_not_come_back_are_not_waited_for_again_soon() {
        let mut patience = Patience::default();
        assert_eq!(patience.wanted(62, 4, 2, 100), 66);
        patience.waited(66, 64, true, 100);

        assert_eq!(patience.wanted(64, 0, 2, 100), 62);
        for _ in 0..WAITS_PER_PROBE {
            patience.waited(64, 64, false, 100);
        }
        assert_eq!(patience.wanted(62, 4, 2, 100), 65);
    }

    #[test]
    fn at_most_a_quarter_is_not_waited_for_and_no_more_is_remembered() {
        let mut patience = Patience::default();
        for _ in 0..100 {
            patience.waited(60, 50, true, 100);
        }
        assert_eq!(patience.wanted(80, 0, 2, 100), 60);

        for _ in 0..30 * WAITS_PER_PROBE {
            patience.waited(60, 60, false, 100);
        }
        assert_eq!(patience.wanted(80, 0, 2, 100), 80);
    }
}
