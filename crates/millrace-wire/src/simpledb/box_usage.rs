//! The machine hours that answers report. They are no measure of this server: the formulas are
//! those that answers of the real service fit, so that clients see what they are used to.

use std::fmt;

/// Machine hours, in units of 1e-10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxUsage(u64);

/// Of a change of one item, without its attributes.
const CHANGE: u64 = 219_907;
/// Of a query, without what it finds.
const QUERY: u64 = 140_000;

impl BoxUsage {
    /// CreateDomain and DeleteDomain, whether or not anything changed.
    pub const DOMAIN: BoxUsage = BoxUsage(55_590_278);
    /// ListDomains and DomainMetadata.
    pub const METADATA: BoxUsage = BoxUsage(71_759);
    /// A request that was refused.
    pub const REFUSED: BoxUsage = BoxUsage(CHANGE);
    /// A query that was refused.
    pub const REFUSED_QUERY: BoxUsage = BoxUsage(137_200);

    /// A change of items; for each, how many pairs the request names.
    pub fn change(pairs_of_items: impl IntoIterator<Item = usize>) -> BoxUsage {
        let mut items = 0_u64;
        let mut sum = 0_u64;
        for pairs in pairs_of_items {
            items += 1;
            let pairs = u64::try_from(pairs).unwrap_or(u64::MAX);
            let cost = CHANGE.saturating_add(pairs.saturating_pow(3).saturating_mul(2));
            sum = sum.saturating_add(cost);
        }
        // Several together are cheaper.
        BoxUsage(if items > 1 { sum.saturating_mul(7) / 10 } else { sum })
    }

    /// GetAttributes that found so many pairs.
    pub fn get(pairs: usize) -> BoxUsage {
        let pairs = u64::try_from(pairs).unwrap_or(u64::MAX);
        BoxUsage(93_202_u64.saturating_add(pairs.saturating_pow(4).saturating_mul(32) / 1000))
    }

    /// A query that found so many items.
    pub fn select(items: usize) -> BoxUsage {
        let items = u64::try_from(items).unwrap_or(u64::MAX);
        BoxUsage(QUERY.saturating_add(items.saturating_mul(80)))
    }

    /// A query that counted so many items. The real service's count of 2,625 is the only one known.
    pub fn count(items: u64) -> BoxUsage {
        BoxUsage(QUERY.saturating_add(items.saturating_mul(294_338) / 2_625))
    }
}

impl fmt::Display for BoxUsage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNIT: u64 = 10_000_000_000;
        write!(formatter, "{}.{:010}", self.0 / UNIT, self.0 % UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the real service has answered.
    #[test]
    fn the_formulas_give_the_figures_of_recorded_answers() {
        for (usage, recorded) in [
            (BoxUsage::DOMAIN, "0.0055590278"),
            (BoxUsage::METADATA, "0.0000071759"),
            (BoxUsage::REFUSED, "0.0000219907"),
            (BoxUsage::REFUSED_QUERY, "0.0000137200"),
            (BoxUsage::change([1]), "0.0000219909"),
            (BoxUsage::change([3]), "0.0000219961"),
            (BoxUsage::change([4]), "0.0000220035"),
            (BoxUsage::change([9]), "0.0000221365"),
            (BoxUsage::change([3; 25]), "0.0003849317"),
            (BoxUsage::change([3; 3]), "0.0000461918"),
            (BoxUsage::change([0, 2]), "0.0000307881"),
            (BoxUsage::change([0; 25]), "0.0003848372"),
            (BoxUsage::get(5), "0.0000093222"),
            (BoxUsage::get(10), "0.0000093522"),
            (BoxUsage::select(100), "0.0000148000"),
            (BoxUsage::select(2500), "0.0000340000"),
            (BoxUsage::select(2), "0.0000140160"),
            (BoxUsage::count(2625), "0.0000434338"),
        ] {
            assert_eq!(usage.to_string(), recorded);
        }
    }

    #[test]
    fn huge_counts_do_not_overflow() {
        assert!(BoxUsage::change([usize::MAX; 3]).0 > 0);
        assert!(BoxUsage::get(usize::MAX).0 > 0 && BoxUsage::count(u64::MAX).0 > 0);
    }
}
