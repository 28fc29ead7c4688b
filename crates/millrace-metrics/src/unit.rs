//! The units of CloudWatch.

use std::collections::BTreeSet;

macro_rules! units {
    ($($variant:ident = $code:literal, $name:literal;)*) => {
        /// A unit as CloudWatch knows them. The number of each is part of the files' format.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Unit {
            $(#[doc = $name] $variant = $code,)*
            /// No unit.
            #[default]
            None = 0,
        }

        impl Unit {
            /// By the name that CloudWatch gives it, such as `Count/Second`.
            pub fn of_name(name: &str) -> Option<Unit> {
                Some(match name {
                    $($name => Unit::$variant,)*
                    "None" => Unit::None,
                    _ => return None,
                })
            }

            /// The name that CloudWatch gives it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Unit::$variant => $name,)*
                    Unit::None => "None",
                }
            }

            pub(crate) fn of_code(code: u8) -> Option<Unit> {
                Some(match code {
                    $($code => Unit::$variant,)*
                    0 => Unit::None,
                    _ => return None,
                })
            }
        }
    };
}

units! {
    Seconds = 1, "Seconds";
    Microseconds = 2, "Microseconds";
    Milliseconds = 3, "Milliseconds";
    Bytes = 4, "Bytes";
    Kilobytes = 5, "Kilobytes";
    Megabytes = 6, "Megabytes";
    Gigabytes = 7, "Gigabytes";
    Terabytes = 8, "Terabytes";
    Bits = 9, "Bits";
    Kilobits = 10, "Kilobits";
    Megabits = 11, "Megabits";
    Gigabits = 12, "Gigabits";
    Terabits = 13, "Terabits";
    Percent = 14, "Percent";
    Count = 15, "Count";
    BytesPerSecond = 16, "Bytes/Second";
    KilobytesPerSecond = 17, "Kilobytes/Second";
    MegabytesPerSecond = 18, "Megabytes/Second";
    GigabytesPerSecond = 19, "Gigabytes/Second";
    TerabytesPerSecond = 20, "Terabytes/Second";
    BitsPerSecond = 21, "Bits/Second";
    KilobitsPerSecond = 22, "Kilobits/Second";
    MegabitsPerSecond = 23, "Megabits/Second";
    GigabitsPerSecond = 24, "Gigabits/Second";
    TerabitsPerSecond = 25, "Terabits/Second";
    CountPerSecond = 26, "Count/Second";
}

/// Which unit is shown where there are several and none is asked for: the first of these.
/// CloudWatch lists them in this order where it refuses a unit, and has been seen to choose by it.
const PREFERENCE: [Unit; 27] = [
    Unit::Megabits,
    Unit::Terabits,
    Unit::Gigabits,
    Unit::Count,
    Unit::Bytes,
    Unit::Gigabytes,
    Unit::GigabytesPerSecond,
    Unit::Kilobytes,
    Unit::KilobitsPerSecond,
    Unit::Terabytes,
    Unit::TerabitsPerSecond,
    Unit::BytesPerSecond,
    Unit::Percent,
    Unit::Megabytes,
    Unit::MegabitsPerSecond,
    Unit::Milliseconds,
    Unit::Microseconds,
    Unit::KilobytesPerSecond,
    Unit::GigabitsPerSecond,
    Unit::MegabytesPerSecond,
    Unit::Bits,
    Unit::BitsPerSecond,
    Unit::CountPerSecond,
    Unit::Seconds,
    Unit::Kilobits,
    Unit::TerabytesPerSecond,
    Unit::None,
];

impl Unit {
    /// These units, each once, the one to be shown first.
    pub(crate) fn by_preference(units: impl Iterator<Item = Unit>) -> Vec<Unit> {
        let found: BTreeSet<Unit> = units.collect();
        PREFERENCE.into_iter().filter(|unit| found.contains(unit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_has_its_place() {
        let all: Vec<Unit> = (0..=u8::MAX).filter_map(Unit::of_code).collect();

        assert_eq!(Unit::by_preference(all.into_iter()), PREFERENCE);
    }
}
