//! CBOR (RFC 8949), as far as Smithy RPC v2 uses it: maps with text keys, lists, texts, numbers of
//! any width, booleans, null, and times as tag 1. Lengths may be definite or not.

use serde_json::{Map, Number, Value};

/// Structures within structures at most.
const DEPTH_MAX: usize = 32;

/// Reads one value, which must be all there is. `None`: the bytes are malformed, or there are more
/// maps than `maps_max`. Numbers that JSON cannot express become the texts that AWS JSON has for
/// them.
pub(crate) fn decode(bytes: &[u8], maps_max: usize) -> Option<Value> {
    let mut decoder = Decoder { rest: bytes, maps_left: maps_max };
    let value = decoder.value(DEPTH_MAX)?;
    decoder.rest.is_empty().then_some(value)
}

struct Decoder<'a> {
    rest: &'a [u8],
    maps_left: usize,
}

/// The first byte of an item and the number that goes with it.
struct Head {
    major: u8,
    /// None: the length is indefinite.
    argument: Option<u64>,
    info: u8,
}

const BREAK: u8 = 0xff;

impl<'a> Decoder<'a> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        let Head { major, argument, info } = self.head()?;
        Some(match major {
            0 => Value::Number(argument?.into()),
            1 => match i64::try_from(argument?) {
                Ok(number) => Value::Number((-1 - number).into()),
                Err(_) => float(-1.0 - argument? as f64),
            },
            2 | 3 => Value::String(self.text(major, argument)?),
            4 => Value::Array(self.list(argument, depth)?),
            5 => Value::Object(self.map(argument, depth)?),
            // Tags: of times; what is tagged stands for itself.
            6 => self.value(depth)?,
            _ => match (info, argument?) {
                (20, _) => Value::Bool(false),
                (21, _) => Value::Bool(true),
                (22 | 23, _) => Value::Null,
                (25, bits) => float(half(bits as u16)),
                (26, bits) => float(f64::from(f32::from_bits(bits as u32))),
                (27, bits) => float(f64::from_bits(bits)),
                _ => return None,
            },
        })
    }

    fn head(&mut self) -> Option<Head> {
        let first = self.byte()?;
        let (major, info) = (first >> 5, first & 31);
        let argument = match info {
            0..=23 => Some(u64::from(info)),
            24..=27 => {
                let bytes = self.take(1 << (info - 24))?;
                Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            }
            31 if matches!(major, 2..=5) => None,
            _ => return None,
        };
        Some(Head { major, argument, info })
    }

    fn text(&mut self, major: u8, len: Option<u64>) -> Option<String> {
        let Some(len) = len else {
            let mut text = String::new();
            while !self.is_break()? {
                let head = self.head().filter(|head| head.major == major)?;
                text.push_str(&self.text(major, Some(head.argument?))?);
            }
            return Some(text);
        };
        let bytes = self.take(usize::try_from(len).ok()?)?;
        str::from_utf8(bytes).ok().map(str::to_owned)
    }

    fn list(&mut self, len: Option<u64>, depth: usize) -> Option<Vec<Value>> {
        let mut list = Vec::new();
        while self.goes_on(len, list.len())? {
            list.push(self.value(depth)?);
        }
        Some(list)
    }

    fn map(&mut self, len: Option<u64>, depth: usize) -> Option<Map<String, Value>> {
        self.maps_left = self.maps_left.checked_sub(1)?;
        let mut map = Map::new();
        let mut pairs = 0;
        while self.goes_on(len, pairs)? {
            let head = self.head().filter(|head| head.major == 3)?;
            let key = self.text(3, head.argument)?;
            map.insert(key, self.value(depth)?);
            pairs += 1;
        }
        Some(map)
    }

    /// Whether there is another element after `seen` of them.
    fn goes_on(&mut self, len: Option<u64>, seen: usize) -> Option<bool> {
        match len {
            Some(len) => Some((seen as u64) < len),
            None => self.is_break().map(|is_break| !is_break),
        }
    }

    /// Whether an indefinite length ends here; takes the break if so.
    fn is_break(&mut self) -> Option<bool> {
        let is_break = *self.rest.first()? == BREAK;
        if is_break {
            self.byte()?;
        }
        Some(is_break)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }
}

fn float(number: f64) -> Value {
    let text = if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    Number::from_f64(number).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

/// IEEE 754 half precision.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// Appends the head of an item.
pub(crate) fn put_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    match argument {
        0..=23 => out.push(major | argument as u8),
        24..=0xff => out.extend_from_slice(&[major | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, 3, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_integer(out: &mut Vec<u8>, number: i64) {
    match u64::try_from(number) {
        Ok(number) => put_head(out, 0, number),
        Err(_) => put_head(out, 1, (-1 - number) as u64),
    }
}

pub(crate) fn put_float(out: &mut Vec<u8>, number: f64) {
    out.push(0xfb);
    out.extend_from_slice(&number.to_be_bytes());
}

pub(crate) fn put_truth(out: &mut Vec<u8>, truth: bool) {
    out.push(if truth { 0xf5 } else { 0xf4 });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn decode(bytes: &[u8]) -> Option<Value> {
        super::decode(bytes, usize::MAX)
    }

    #[test]
    fn examples_of_the_standard_are_read() {
        // RFC 8949, appendix A.
        for (hex, expected) in [
            ("00", json!(0)),
            ("17", json!(23)),
            ("1818", json!(24)),
            ("1864", json!(100)),
            ("1b000000e8d4a51000", json!(1_000_000_000_000_u64)),
            ("29", json!(-10)),
            ("3903e7", json!(-1000)),
            ("1bffffffffffffffff", json!(u64::MAX)),
            ("3bffffffffffffffff", json!(-18_446_744_073_709_551_616.0)),
            ("f90000", json!(0.0)),
            ("f93e00", json!(1.5)),
            ("f97bff", json!(65504.0)),
            ("f90001", json!(5.960464477539063e-8)),
            ("f90400", json!(0.00006103515625)),
            ("f9c400", json!(-4.0)),
            ("fa47c35000", json!(100_000.0)),
            ("fb3ff199999999999a", json!(1.1)),
            ("f97c00", json!("Infinity")),
            ("f97e00", json!("NaN")),
            ("fbfff0000000000000", json!("-Infinity")),
            ("f9fc00", json!("-Infinity")),
            ("fa7f800000", json!("Infinity")),
            ("f4", json!(false)),
            ("f5", json!(true)),
            ("f6", json!(null)),
            ("f7", json!(null)),
            ("c11a514b67b0", json!(1_363_896_240)),
            ("6449455446", json!("IETF")),
            ("4401020304", json!("\u{1}\u{2}\u{3}\u{4}")),
            ("5f42010243030405ff", json!("\u{1}\u{2}\u{3}\u{4}\u{5}")),
            ("83010203", json!([1, 2, 3])),
            ("9f018202039f0405ffff", json!([1, [2, 3], [4, 5]])),
            ("a26161016162820203", json!({"a": 1, "b": [2, 3]})),
            ("bf61610161629f0203ffff", json!({"a": 1, "b": [2, 3]})),
            ("7f657374726561646d696e67ff", json!("streaming")),
            ("a17f61616162ff01", json!({"ab": 1})),
        ] {
            let bytes: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(decode(&bytes), Some(expected), "{hex}");
        }
    }

    #[test]
    fn malformed_and_deep_values_are_refused() {
        for bytes in [&b""[..], b"\x18", b"\x62a", b"\x81", b"\xa1\x01\x01", b"\x00\x00", b"\x1f"] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
        for bytes in [
            // Lengths that have no meaning, of a number and of others without one.
            &b"\x1c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..],
            b"\x3f",
            b"\xdf\x00",
            // Text of bytes, of indefinite parts, and of what is no text; a key of bytes.
            b"\x5f\x61a\xff",
            b"\x7f\x7f\x61a\xff\xff",
            b"\x61\xff",
            b"\xa1\x41a\x01",
            // Simple values, and a break that ends nothing.
            b"\xe0",
            b"\xf8\x20",
            b"\xff",
        ] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
        let nested = |depth: usize| [vec![0x81; depth - 1], vec![0]].concat();
        assert!(decode(&nested(DEPTH_MAX)).is_some());
        assert_eq!(decode(&nested(DEPTH_MAX + 1)), None);
        assert_eq!(decode(&[0x81; 10_000]), None);
        assert_eq!(decode(b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }

    #[test]
    fn numbers_are_written_as_short_as_can_be() {
        // RFC 8949, section 4.1.
        for (number, expected) in [
            (0, &b"\x00"[..]),
            (23, b"\x17"),
            (24, b"\x18\x18"),
            (0xff, b"\x18\xff"),
            (0x100, b"\x19\x01\x00"),
            (0xffff, b"\x19\xff\xff"),
            (0x1_0000, b"\x1a\x00\x01\x00\x00"),
            (0xffff_ffff, b"\x1a\xff\xff\xff\xff"),
            (0x1_0000_0000, b"\x1b\x00\x00\x00\x01\x00\x00\x00\x00"),
            (-1, b"\x20"),
            (-0x1_0001, b"\x3a\x00\x01\x00\x00"),
            (i64::MIN, b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
        ] {
            let mut out = Vec::new();
            put_integer(&mut out, number);
            assert_eq!(out, expected, "{number}");
        }
        let mut out = Vec::new();
        put_truth(&mut out, true);
        put_truth(&mut out, false);
        assert_eq!(out, b"\xf5\xf4");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn what_is_written_reads_back(integer in any::<i64>(), number in -1e9..1e9_f64, text in ".{0,300}") {
            let mut out = Vec::new();
            put_head(&mut out, 4, 3);
            put_integer(&mut out, integer);
            put_float(&mut out, number);
            put_text(&mut out, &text);
            prop_assert_eq!(decode(&out), Some(json!([integer, number, text])));
        }
    }
}
