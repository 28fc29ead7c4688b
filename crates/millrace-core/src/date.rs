//! Dates of the proleptic Gregorian calendar, in UTC.

const SECONDS_PER_DAY: u64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE: u64 = 719_468;
/// Days in 400 years, after which the calendar repeats.
const ERA_DAYS: u64 = 146_097;

/// A date from 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// Of the month, from 1.
    pub day: u64,
}

impl Date {
    /// From days since 1970. Years are counted from March, so that the leap day is the last one.
    pub fn of_days(days: u64) -> Date {
        let shifted = days + DAYS_BEFORE;
        let (era, day) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        Date { year: era * 400 + year + u64::from(month <= 2), month, day }
    }

    /// From seconds since 1970.
    pub fn of_seconds(seconds: u64) -> Date {
        Date::of_days(seconds / SECONDS_PER_DAY)
    }

    /// Days since 1970; none if there is no such date, or it is earlier or beyond the year 9999.
    pub fn days(self) -> Option<u64> {
        let Date { year, month, day } = self;
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return None;
        }
        let march_year = year - u64::from(month <= 2);
        let (era, year_of_era) = (march_year / 400, march_year % 400);
        let march_month = if month > 2 { month - 3 } else { month + 9 };
        let day_of_year = (153 * march_month + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * ERA_DAYS + day_of_era - DAYS_BEFORE;
        // The 31st of a shorter month comes back as another day.
        (Date::of_days(days) == self).then_some(days)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn leap_days_are_dates() {
        let date = |year, month, day| Date { year, month, day };
        assert_eq!(Date::of_days(0), date(1970, 1, 1));
        assert_eq!(Date::of_days(11_016), date(2000, 2, 29));
        assert_eq!(Date::of_seconds(20_454 * SECONDS_PER_DAY + 1), date(2026, 1, 1));
        assert_eq!(date(2000, 2, 29).days(), Some(11_016));
    }

    #[test]
    fn what_is_no_date_has_no_days() {
        for (year, month, day) in [
            (2026, 2, 30),
            (2026, 2, 29),
            (2100, 2, 29),
            (2026, 13, 1),
            (2026, 0, 1),
            (2026, 1, 0),
            (2026, 4, 31),
            (1969, 12, 31),
            (10_000, 1, 1),
        ] {
            assert_eq!(Date { year, month, day }.days(), None, "{year}-{month}-{day}");
        }
    }

    proptest! {
        #[test]
        fn days_read_back(days in 0..2_932_897_u64) {
            prop_assert_eq!(Date::of_days(days).days(), Some(days));
        }
    }
}
