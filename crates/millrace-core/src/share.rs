//! How much of what all accounts share one account may take.

/// How many times as much as is left free an account may have.
const TIMES_FREE: usize = 10;

/// Decides whether an account may take one more part of what all accounts share.
///
/// An account that is alone gets `most`; a tenth more is there for others. An account gets more as
/// long as it has less than ten times what is left free, so that two or three cannot leave nothing:
/// each account finds a part that is free when it comes.
pub const fn may_take(of_account: usize, of_all: usize, most: usize) -> bool {
    let pool = most.saturating_add(most.div_ceil(TIMES_FREE));
    let free = pool.saturating_sub(of_all);
    of_account < most && of_account < free.saturating_mul(TIMES_FREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What accounts get that come one after the other and take all they can.
    fn shares(most: usize, accounts: usize) -> Vec<usize> {
        let mut shares = vec![0; accounts];
        for account in 0..accounts {
            while may_take(shares[account], shares.iter().sum(), most) {
                shares[account] += 1;
            }
        }
        shares
    }

    #[test]
    fn an_account_alone_gets_all_and_each_that_comes_finds_a_part() {
        assert_eq!(shares(100, 1), [100]);
        assert_eq!(shares(1_024, 1), [1_024]);
        assert_eq!(shares(1_000, 3), [1_000, 91, 9]);
        assert!(!may_take(0, 110, 100), "nothing is left");
        assert!(!may_take(0, 111, 100), "nor where more was taken than there is");
        assert!(may_take(usize::MAX - 1, 0, usize::MAX), "no overflow");
    }
}
