//! Numbers as people read them.

/// With separators and without a fraction: 1,234,567.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits and the unit that suits: 87.1 µs, 4.20 ms, 1.25 s.
pub(crate) fn microseconds(us: f64) -> String {
    let (value, unit) = match us.abs() {
        size if size < 999.5 => (us, "µs"),
        size if size < 999_500.0 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    format!("{} {unit}", significant(value))
}

/// Three significant digits; whole numbers from 100 on get separators.
pub(crate) fn significant(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    let digits = match size {
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{size:.1e}"),
        size if size < 0.1 => format!("{size:.4}"),
        size if size < 9.995 => format!("{size:.2}"),
        size if size < 99.95 => format!("{size:.1}"),
        _ => thousands(size),
    };
    format!("{sign}{digits}")
}

/// Short, for the ends of an axis: 0, 250, 20k, 1.5M.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 999_500.0 => (value / 1e6, "M"),
        size if size >= 9_999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = format!("{scaled:.3}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!((thousands(999.4), thousands(1_234_567.0)), ("999".into(), "1,234,567".into()));
    }

    #[test]
    fn durations_take_the_unit_that_suits() {
        let shown: Vec<_> = [0.0, 87.12, 4200.0, 999_400.0, 1_250_000.0, 75e6, -30.0]
            .map(microseconds)
            .into_iter()
            .collect();

        assert_eq!(shown, ["0 µs", "87.1 µs", "4.20 ms", "999 ms", "1.25 s", "75.0 s", "-30.0 µs"]);
    }

    #[test]
    fn axes_are_labelled_briefly() {
        let shown = [0.0, 0.25, 250.0, 20_000.0, 1_500_000.0].map(short);

        assert_eq!(shown, ["0", "0.25", "250", "20k", "1.5M"]);
    }
}
