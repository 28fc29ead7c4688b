//! The units of CloudWatch.

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
