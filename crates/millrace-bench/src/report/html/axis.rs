//! From numbers to places: ranges, ticks and their labels.

use super::super::{
    Axis, Scale,
    number::{short, significant},
};

/// An axis laid over the pixels `from` to `to`.
#[derive(Clone, Debug)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    /// Over all of `values`; linear axes begin at zero or below.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
    ) -> Ruler {
        let values = values.map(|value| place(axis.scale, value)).filter(|value| value.is_finite());
        let (mut low, mut high) = values
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        match axis.scale {
            Scale::Linear => low = low.min(0.0),
            Scale::Logarithmic => (low, high) = (log_floor(low), log_ceiling(high)),
            Scale::Nines => low = 0.0,
        }
        if high - low < 1e-9 {
            high = low + 1.0;
        }
        Ruler { scale: axis.scale, low, high, from, to }
    }

    /// A value axis: linear ones end at a round number above the greatest value.
    pub(super) fn rounded(mut self) -> Ruler {
        if self.scale == Scale::Linear {
            let step = step(self.high - self.low);
            self.high = (self.high / step).ceil() * step;
        }
        self
    }

    /// The pixel of a value; `None` if it has no place on this axis.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let share = (place(self.scale, value) - self.low) / (self.high - self.low);
        share.is_finite().then(|| self.from + share.clamp(0.0, 1.0) * (self.to - self.from))
    }

    /// Pixels and labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let values: Vec<(f64, String)> = match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|turn| turn as f64 * step).map(|v| (v, short(v))).collect()
            }
            Scale::Logarithmic => self.powers(),
            Scale::Nines => NINES
                .iter()
                .filter(|(share, _)| place(Scale::Nines, *share) <= self.high)
                .map(|(share, label)| (*share, (*label).to_owned()))
                .collect(),
        };
        values.into_iter().filter_map(|(value, label)| Some((self.at(value)?, label))).collect()
    }

    /// Powers of ten, with 2 and 5 between them while there are few.
    fn powers(&self) -> Vec<(f64, String)> {
        let parts: &[f64] = if self.high - self.low <= 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let exponents = self.low.floor() as i32..=self.high.ceil() as i32;
        let values = exponents
            .flat_map(|exponent| parts.iter().map(move |part| part * 10f64.powi(exponent)));
        values
            .filter(|value| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10()))
            .map(|value| (value, if value < 1.0 { plain(value) } else { short(value) }))
            .collect()
    }
}

const NINES: [(f64, &str); 6] = [
    (0.0, "0 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
];

/// Where a value stands before it is scaled to pixels.
fn place(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Logarithmic => value.log10(),
        Scale::Nines => -(1.0 - value).log10(),
    }
}

/// The greatest of 1, 2 or 5 times a power of ten that is not above `10^low`, as an exponent.
fn log_floor(low: f64) -> f64 {
    let whole = low.floor();
    let parts = [5f64, 2.0, 1.0].map(|part| whole + part.log10());
    parts.into_iter().find(|place| *place <= low + 1e-9).unwrap_or(whole)
}

fn log_ceiling(high: f64) -> f64 {
    let whole = high.floor();
    let parts = [1f64, 2.0, 5.0, 10.0].map(|part| whole + part.log10());
    parts.into_iter().find(|place| *place >= high - 1e-9).unwrap_or(whole + 1.0)
}

/// A round step that divides `range` into about five.
fn step(range: f64) -> f64 {
    let rough = range / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let parts = [1.0, 2.0, 2.5, 5.0, 10.0].map(|part| part * power);
    parts.into_iter().find(|step| *step >= rough - 1e-12).unwrap_or(power)
}

fn plain(value: f64) -> String {
    let text = significant(value);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ruler: &Ruler) -> Vec<String> {
        ruler.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn linear_axes_begin_at_zero_and_end_at_a_round_number() {
        let ruler =
            Ruler::new(&Axis::linear(""), [310.0, 871.0].into_iter(), (100.0, 0.0)).rounded();

        assert_eq!(labels(&ruler), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!((ruler.at(0.0), ruler.at(1000.0)), (Some(100.0), Some(0.0)));
    }

    #[test]
    fn logarithmic_axes_have_no_place_for_zero() {
        let ruler = Ruler::new(&Axis::logarithmic(""), [0.03, 4.0].into_iter(), (0.0, 1.0));

        assert_eq!(ruler.at(0.0), None);
        assert_eq!(labels(&ruler), ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]);
    }

    #[test]
    fn nines_stand_equally_far_apart() {
        let axis = Axis { label: String::new(), scale: Scale::Nines };
        let ruler = Ruler::new(&axis, [0.5, 0.999].into_iter(), (0.0, 30.0));

        let places: Vec<i64> = ruler.ticks().iter().map(|(at, _)| at.round() as i64).collect();
        assert_eq!(places, [0, 10, 20, 30]);
        assert_eq!(ruler.at(1.0), None);
    }

    #[test]
    fn nothing_to_show_is_still_an_axis() {
        let ruler = Ruler::new(&Axis::linear(""), std::iter::empty(), (0.0, 1.0)).rounded();
        assert_eq!(labels(&ruler).len(), 6);

        let ruler = Ruler::new(&Axis::logarithmic(""), [5.0].into_iter(), (0.0, 1.0));
        assert!(ruler.at(5.0).is_some());
    }
}
