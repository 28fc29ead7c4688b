//! Dates of the proleptic Gregorian calendar.

/// A date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// Of the month, from 1.
    pub day: u64,
}

impl Date {
    /// From days since 1970.
    pub(crate) fn of_days(days: u64) -> Date {
        // Years that begin in March, so that leap days come last: 400 of them have 146,097 days.
        let shifted = days + 719_468;
        let (era, day) = (shifted / 146_097, shifted % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        Date { year: era * 400 + year + u64::from(month <= 2), month, day }
    }

    /// From seconds since 1970.
    pub(crate) fn of_seconds(time_s: u64) -> Date {
        Date::of_days(time_s / 86_400)
    }
}

/// `2026-01-02T03:04:05.678+0000`.
pub(crate) fn shown_ms(time_ms: u64) -> String {
    let time_s = time_ms / 1000;
    let Date { year, month, day } = Date::of_seconds(time_s);
    let (hour, minute, second) = (time_s / 3_600 % 24, time_s / 60 % 60, time_s % 60);
    let ms = time_ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_cloudwatch_shows_them() {
        assert_eq!(shown_ms(1_767_323_045_678), "2026-01-02T03:04:05.678+0000");
    }

    #[test]
    fn leap_days_are_dates() {
        assert_eq!(Date::of_days(11_016), Date { year: 2000, month: 2, day: 29 });
        assert_eq!(Date::of_days(0), Date { year: 1970, month: 1, day: 1 });
        assert_eq!(Date::of_days(20_454), Date { year: 2026, month: 1, day: 1 });
    }
}
