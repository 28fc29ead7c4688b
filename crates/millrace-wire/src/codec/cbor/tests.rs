use proptest::prelude::*;

use super::*;

/// The value as JSON writes it.
fn decode(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    super::super::json::put(&read(bytes, usize::MAX)?, &mut text);
    Some(String::from_utf8(text).unwrap())
}

fn written(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    put(node, &mut out);
    out
}

#[test]
fn examples_of_the_standard_are_read() {
    // RFC 8949, appendix A.
    for (hex, expected) in [
        ("00", "0"),
        ("17", "23"),
        ("1818", "24"),
        ("1864", "100"),
        ("1b000000e8d4a51000", "1000000000000"),
        ("29", "-10"),
        ("3903e7", "-1000"),
        ("1bffffffffffffffff", "1.8446744073709552e19"),
        ("3bffffffffffffffff", "-1.8446744073709552e19"),
        ("f90000", "0.0"),
        ("f93e00", "1.5"),
        ("f97bff", "65504.0"),
        ("f90001", "5.960464477539063e-8"),
        ("f90400", "6.103515625e-5"),
        ("f9c400", "-4.0"),
        ("fa47c35000", "100000.0"),
        ("fb3ff199999999999a", "1.1"),
        ("f97c00", r#""Infinity""#),
        ("f97e00", r#""NaN""#),
        ("fbfff0000000000000", r#""-Infinity""#),
        ("f9fc00", r#""-Infinity""#),
        ("fa7f800000", r#""Infinity""#),
        ("f4", "false"),
        ("f5", "true"),
        ("f6", "null"),
        ("f7", "null"),
        ("c11a514b67b0", "1363896240"),
        ("6449455446", r#""IETF""#),
        ("4401020304", r#""AQIDBA==""#),
        ("5f42010243030405ff", r#""AQIDBAU=""#),
        ("83010203", "[1,2,3]"),
        ("9f018202039f0405ffff", "[1,[2,3],[4,5]]"),
        ("a26161016162820203", r#"{"a":1,"b":[2,3]}"#),
        ("bf61610161629f0203ffff", r#"{"a":1,"b":[2,3]}"#),
        ("7f657374726561646d696e67ff", r#""streaming""#),
        ("a17f61616162ff01", r#"{"ab":1}"#),
    ] {
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        assert_eq!(decode(&bytes), Some(expected.to_owned()), "{hex}");
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
        assert_eq!(written(&Node::Integer(number)), expected, "{number}");
    }
    assert_eq!(written(&Node::List(vec![Node::Truth(true), Node::Truth(false)])), b"\x82\xf5\xf4");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn what_is_written_reads_back(integer in any::<i64>(), number in -1e9..1e9_f64, text in ".{0,300}") {
        let list = Node::List(vec![
            Node::Integer(integer),
            Node::Float(number),
            Node::Text(text.clone()),
            Node::Blob(text.into_bytes()),
        ]);
        prop_assert_eq!(read(&written(&list), 0), Some(list));
    }
}
