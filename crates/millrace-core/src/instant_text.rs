//! Instants as text, in the forms that AWS protocols use, for the years 1970 to 9999. Instants
//! are seconds (or, where the name says so, milliseconds) since the epoch; everything is UTC.

use crate::Date;

/// 9999-12-31T23:59:59Z: no form below has room for a fifth digit of the year.
const LAST_SECOND: u64 = 253_402_300_799;

const SECONDS_PER_DAY: u64 = 86_400;

const DAY_NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTH_NAMES: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A second, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// `20260102T030405Z`, the form of signatures.
pub fn format_basic(seconds: u64) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::of(seconds);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Reads `20260102T030405Z`.
pub fn parse_basic(text: &str) -> Option<u64> {
    let mut reader = Reader { rest: text.as_bytes() };
    let (year, month, day) = (reader.number(4)?, reader.number(2)?, reader.number(2)?);
    reader.byte(b'T')?;
    let (hour, minute, second) = (reader.number(2)?, reader.number(2)?, reader.number(2)?);
    reader.byte(b'Z')?;
    reader.end()?;
    Civil { year, month, day, hour, minute, second }.seconds()
}

/// `Fri, 02 Jan 2026 03:04:05 GMT`, the form of HTTP headers.
pub fn format_http(seconds: u64) -> String {
    let seconds = seconds.min(LAST_SECOND);
    let Civil { year, month, day, hour, minute, second } = Civil::of(seconds);
    let day_name = name_at(&DAY_NAMES, seconds / SECONDS_PER_DAY % 7);
    let month = name_at(&MONTH_NAMES, month - 1);
    format!("{day_name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Reads `Fri, 02 Jan 2026 03:04:05 GMT`; the day's name is not compared.
pub fn parse_http(text: &str) -> Option<u64> {
    let (_, text) = text.split_once(", ")?;
    let mut reader = Reader { rest: text.as_bytes() };
    let day = reader.number(2)?;
    reader.byte(b' ')?;
    let name = reader.take(3)?;
    let month = (1..).zip(MONTH_NAMES).find(|(_, month)| month.as_bytes() == name)?.0;
    reader.byte(b' ')?;
    let year = reader.number(4)?;
    reader.byte(b' ')?;
    let (hour, minute, second) = reader.time()?;
    if !matches!(reader.rest, b" GMT" | b" UTC" | b" +0000") {
        return None;
    }
    Civil { year, month, day, hour, minute, second }.seconds()
}

/// `2026-01-02T03:04:05Z`.
pub fn format_iso8601(seconds: u64) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::of(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2026-01-02T03:04:05.678Z`.
pub fn format_iso8601_ms(milliseconds: u64) -> String {
    let mut text = format_iso8601(milliseconds / 1000);
    text.truncate(text.len() - 1);
    text + &format!(".{:03}Z", milliseconds % 1000)
}

/// Reads `2026-01-02T03:04:05Z` to milliseconds. Seconds may have a fraction, of which three
/// digits count; instead of `Z` there may be an offset such as `+01:00`, or nothing.
pub fn parse_iso8601_ms(text: &str) -> Option<u64> {
    let mut reader = Reader { rest: text.as_bytes() };
    let year = reader.number(4)?;
    reader.byte(b'-')?;
    let month = reader.number(2)?;
    reader.byte(b'-')?;
    let day = reader.number(2)?;
    reader.byte(b'T').or_else(|| reader.byte(b' '))?;
    let (hour, minute, second) = reader.time()?;
    let fraction_ms = reader.fraction_ms()?;
    let seconds = Civil { year, month, day, hour, minute, second }.seconds()?;
    let utc = match reader.take(1) {
        None | Some(b"Z" | b"z") => seconds,
        Some(b"+") => seconds.checked_sub(reader.offset_seconds()?)?,
        Some(b"-") => seconds.checked_add(reader.offset_seconds()?)?,
        Some(_) => return None,
    };
    reader.end()?;
    Some(utc * 1000 + fraction_ms)
}

impl Civil {
    /// Later instants than the last second count as that.
    fn of(seconds: u64) -> Civil {
        let seconds = seconds.min(LAST_SECOND);
        let Date { year, month, day } = Date::of_seconds(seconds);
        let rest = seconds % SECONDS_PER_DAY;
        Civil { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }

    /// None if there is no such second. A leap second counts as the one before it.
    fn seconds(self) -> Option<u64> {
        if self.hour >= 24 || self.minute >= 60 || self.second > 60 {
            return None;
        }
        let days = Date { year: self.year, month: self.month, day: self.day }.days()?;
        let time = self.hour * 3600 + self.minute * 60 + self.second.min(59);
        Some(days * SECONDS_PER_DAY + time)
    }
}

fn name_at(names: &[&'static str], index: u64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self, expected: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[expected])?;
        Some(())
    }

    /// A number of that many digits.
    fn number(&mut self, digits: usize) -> Option<u64> {
        let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
        self.take(digits)?.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))
    }

    /// `03:04:05`.
    fn time(&mut self) -> Option<(u64, u64, u64)> {
        let hour = self.number(2)?;
        self.byte(b':')?;
        let minute = self.number(2)?;
        self.byte(b':')?;
        Some((hour, minute, self.number(2)?))
    }

    /// `.678` or nothing.
    fn fraction_ms(&mut self) -> Option<u64> {
        if self.byte(b'.').is_none() {
            return Some(0);
        }
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = self.take(count).filter(|digits| !digits.is_empty())?;
        let weighted = digits.iter().zip([100, 10, 1]);
        Some(weighted.map(|(digit, weight)| u64::from(digit - b'0') * weight).sum())
    }

    /// `01:00` or `0100`.
    fn offset_seconds(&mut self) -> Option<u64> {
        let hours = self.number(2)?;
        let _ = self.byte(b':');
        let minutes = self.number(2)?;
        (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)
    }

    fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-01-02T03:04:05Z, a Friday.
    const INSTANT: u64 = 1_767_323_045;

    #[test]
    fn one_instant_in_all_forms() {
        assert_eq!(format_basic(INSTANT), "20260102T030405Z");
        assert_eq!(format_http(INSTANT), "Fri, 02 Jan 2026 03:04:05 GMT");
        assert_eq!(format_iso8601(INSTANT), "2026-01-02T03:04:05Z");
        assert_eq!(format_iso8601_ms(INSTANT * 1000 + 67), "2026-01-02T03:04:05.067Z");
        assert_eq!(format_http(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(format_basic(u64::MAX), "99991231T235959Z");
        assert_eq!(format_http(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(format_basic(82_800), "19700101T230000Z");
        for (days, name) in (0..).zip(["Fri", "Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"]) {
            assert!(format_http(INSTANT + days * SECONDS_PER_DAY).starts_with(name));
        }
    }

    #[test]
    fn dates_of_http_are_utc_under_three_names() {
        for zone in ["GMT", "UTC", "+0000"] {
            let text = format!("Fri, 02 Jan 2026 03:04:05 {zone}");
            assert_eq!(parse_http(&text), Some(INSTANT), "{zone}");
        }
    }

    #[test]
    fn iso_8601_may_have_fraction_and_offset() {
        let instant_ms = Some(INSTANT * 1000);

        assert_eq!(parse_iso8601_ms("2026-01-02T03:04:05Z"), instant_ms);
        assert_eq!(parse_iso8601_ms("2026-01-02T03:04:05"), instant_ms);
        assert_eq!(parse_iso8601_ms("2026-01-02 03:04:05z"), instant_ms);
        assert_eq!(parse_iso8601_ms("2026-01-02T04:04:05+01:00"), instant_ms);
        assert_eq!(parse_iso8601_ms("2026-01-01T22:04:05-0500"), instant_ms);
        assert_eq!(parse_iso8601_ms("2026-01-02T08:34:05+05:30"), instant_ms);
        assert_eq!(parse_iso8601_ms("2026-01-03T03:03:05+23:59"), instant_ms);
        assert_eq!(parse_iso8601_ms("2026-01-02T03:04:05.6789Z"), Some(INSTANT * 1000 + 678));
        assert_eq!(parse_iso8601_ms("2026-01-02T03:04:05.6Z"), Some(INSTANT * 1000 + 600));
    }

    #[test]
    fn a_leap_second_counts_as_the_one_before() {
        assert_eq!(parse_basic("20161231T235960Z"), parse_basic("20161231T235959Z"));
        assert!(parse_basic("20161231T235960Z").is_some());
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "20260102T030405",
            "20260102T030405Zx",
            "20260230T000000Z",
            "20261301T000000Z",
            "20260100T000000Z",
            "20260001T000000Z",
            "20260102T240000Z",
            "20260102T236000Z",
            "20260102T235961Z",
            "19691231T235959Z",
            "2026+102T030405Z",
            "2a260102T030405Z",
        ] {
            assert_eq!(parse_basic(text), None, "{text}");
        }
        for text in [
            "Fri, 02 Foo 2026 03:04:05 GMT",
            "02 Jan 2026 03:04:05 GMT",
            "Fri, ",
            "Fri, Fri, 02 Jan 2026 03:04:05 GMT",
            "Fri, 02 Jan 2026 03:04:05",
            "Fri, 02 Jan 2026 03:04:05 EST",
            "Fri, 02 Jan 2026 03:04:05 +0100",
        ] {
            assert_eq!(parse_http(text), None, "{text}");
        }
        for text in [
            "2026-01-02",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+1",
            "1970-01-01T00:00:00+01:00",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05+01:60",
            "2026-01-02T03:04:05+01:00Z",
            "2026-01-02T03:04:05x",
        ] {
            assert_eq!(parse_iso8601_ms(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_form_reads_back(seconds in 0..=LAST_SECOND) {
            prop_assert_eq!(parse_basic(&format_basic(seconds)), Some(seconds));
            prop_assert_eq!(parse_http(&format_http(seconds)), Some(seconds));
            prop_assert_eq!(parse_iso8601_ms(&format_iso8601(seconds)), Some(seconds * 1000));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9]{4}-?[0-9]{2}-?[0-9]{2}T[0-9]{2}:?[0-9]{2}:?[0-9]{2}[.Z+-]?[0-9:]{0,5}") {
            let _ = parse_basic(&text);
            let _ = parse_http(&text);
            let _ = parse_iso8601_ms(&text);
        }
    }
}
