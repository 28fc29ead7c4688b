use std::collections::BTreeMap;

use proptest::prelude::*;

use super::input::STRUCTURES_MAX;
use super::toy::{Part, Toy};
use super::*;
use crate::ApiError;
use crate::protocol::{Protocol, ServiceMetadata, UNSERVED};
use crate::query::Parameters;

fn part(key: &str, values: &[i64]) -> Part {
    Part { key: key.to_owned(), values: values.to_vec() }
}

/// A member of every kind, with what is hardest to write.
fn toy() -> Toy {
    let inner = Toy { text: Some(String::new()), texts: Some(Vec::new()), ..Toy::default() };
    Toy {
        text: Some("a<\"é\r".into()),
        number: Some(1e16),
        integer: Some(-60),
        truth: Some(true),
        time: Some(Time(1_767_323_045_500)),
        blob: Some(Blob(vec![0, 255, 1])),
        part: Some(part("k", &[])),
        inner: Some(Box::new(inner)),
        texts: Some(vec!["a".into(), String::new()]),
        numbers: Some(vec![0.5, f64::INFINITY, f64::NEG_INFINITY]),
        times: Some(vec![Time(0), Time(1_767_323_040_000)]),
        blobs: Some(vec![Blob(Vec::new()), Blob(b"ab".to_vec())]),
        parts: Some(vec![part("p", &[1]), part("", &[])]),
        rows: Some(vec![vec![1, 2], vec![3]]),
        flat_texts: Some(vec!["f".into(), "g".into()]),
        flat_parts: Some(vec![part("h", &[2])]),
        texts_by_name: Some(BTreeMap::from([("a".into(), "b&".into()), ("c".into(), "".into())])),
        parts_by_name: Some(BTreeMap::from([("n".into(), part("v", &[3]))])),
        flat_map: Some(BTreeMap::from([("x".into(), true), ("y".into(), false)])),
        maps: Some(vec![BTreeMap::from([("m".into(), 7)])]),
    }
}

const JSON: &str = r#"{"Text":"a<\"é\r","Number":1e16,"Integer":-60,"Truth":true,"Time":1767323045.5,"Blob":"AP8B","Part":{"Key":"k","Values":[]},"Inner":{"Text":"","Texts":[]},"Texts":["a",""],"Numbers":[0.5,"Infinity","-Infinity"],"Times":[0.0,1767323040.0],"Blobs":["","YWI="],"Parts":[{"Key":"p","Values":[1]},{"Key":"","Values":[]}],"Rows":[[1,2],[3]],"FlatText":["f","g"],"FlatPart":[{"Key":"h","Values":[2]}],"TextsByName":{"a":"b&","c":""},"PartsByName":{"n":{"Key":"v","Values":[3]}},"FlatMap":{"x":true,"y":false},"Maps":[{"m":7}]}"#;

const FORM: &str = "Text=a%3C%22%C3%A9%0D&Number=1e16&Integer=-60&Truth=true\
    &Time=2026-01-02T03%3A04%3A05.500Z&Blob=AP8B&Part.Key=k&Part.Values=&Inner.Text=&Inner.Texts=\
    &Texts.member.1=a&Texts.member.2=&Numbers.member.1=0.5&Numbers.member.2=Infinity\
    &Numbers.member.3=-Infinity&Times.member.1=1970-01-01T00:00:00Z\
    &Times.member.2=2026-01-02T03:04:00Z&Blobs.member.1=&Blobs.member.2=YWI=\
    &Parts.member.1.Key=p&Parts.member.1.Values.member.1=1&Parts.member.2.Key=\
    &Rows.member.1.member.1=1&Rows.member.1.member.2=2&Rows.member.2.member.1=3\
    &FlatText.1=f&FlatText.2=g&FlatPart.1.Key=h&FlatPart.1.Values.member.1=2\
    &TextsByName.entry.1.key=a&TextsByName.entry.1.value=b%26&TextsByName.entry.2.key=c\
    &TextsByName.entry.2.value=&PartsByName.entry.1.Name=n&PartsByName.entry.1.Value.Key=v\
    &PartsByName.entry.1.Value.Values.member.1=3&FlatMap.1.Name=x&FlatMap.1.Value=true\
    &FlatMap.2.Name=y&FlatMap.2.Value=false&Maps.member.1.entry.1.key=m\
    &Maps.member.1.entry.1.value=7";

const XML: &str = "<Text>a&lt;&quot;é&#xD;</Text><Number>1e16</Number><Integer>-60</Integer>\
    <Truth>true</Truth><Time>2026-01-02T03:04:05.500Z</Time><Blob>AP8B</Blob>\
    <Part><Key>k</Key><Values/></Part><Inner><Text></Text><Texts/></Inner>\
    <Texts><member>a</member><member></member></Texts>\
    <Numbers><member>0.5</member><member>Infinity</member><member>-Infinity</member></Numbers>\
    <Times><member>1970-01-01T00:00:00Z</member><member>2026-01-02T03:04:00Z</member></Times>\
    <Blobs><member></member><member>YWI=</member></Blobs>\
    <Parts><member><Key>p</Key><Values><member>1</member></Values></member>\
    <member><Key></Key><Values/></member></Parts>\
    <Rows><member><member>1</member><member>2</member></member>\
    <member><member>3</member></member></Rows>\
    <FlatText>f</FlatText><FlatText>g</FlatText>\
    <FlatPart><Key>h</Key><Values><member>2</member></Values></FlatPart>\
    <TextsByName><entry><key>a</key><value>b&amp;</value></entry>\
    <entry><key>c</key><value></value></entry></TextsByName>\
    <PartsByName><entry><Name>n</Name><Value><Key>v</Key><Values><member>3</member></Values>\
    </Value></entry></PartsByName>\
    <FlatMap><Name>x</Name><Value>true</Value></FlatMap>\
    <FlatMap><Name>y</Name><Value>false</Value></FlatMap>\
    <Maps><member><entry><key>m</key><value>7</value></entry></member></Maps>";

fn cbor_bytes() -> Vec<u8> {
    let float = |number: f64| [&[0xfb][..], &number.to_be_bytes()].concat();
    [
        b"\xb4\x64Text\x66a<\"\xc3\xa9\r\x66Number".to_vec(),
        float(1e16),
        b"\x67Integer\x38\x3b\x65Truth\xf5\x64Time\xc1".to_vec(),
        float(1_767_323_045.5),
        b"\x64Blob\x43\x00\xff\x01\x64Part\xa2\x63Key\x61k\x66Values\x80".to_vec(),
        b"\x65Inner\xa2\x64Text\x60\x65Texts\x80\x65Texts\x82\x61a\x60\x67Numbers\x83".to_vec(),
        float(0.5),
        float(f64::INFINITY),
        float(f64::NEG_INFINITY),
        b"\x65Times\x82\xc1".to_vec(),
        float(0.0),
        b"\xc1".to_vec(),
        float(1_767_323_040.0),
        b"\x65Blobs\x82\x40\x42ab\x65Parts\x82\xa2\x63Key\x61p\x66Values\x81\x01".to_vec(),
        b"\xa2\x63Key\x60\x66Values\x80\x64Rows\x82\x82\x01\x02\x81\x03".to_vec(),
        b"\x68FlatText\x82\x61f\x61g\x68FlatPart\x81\xa2\x63Key\x61h\x66Values\x81\x02".to_vec(),
        b"\x6bTextsByName\xa2\x61a\x62b&\x61c\x60".to_vec(),
        b"\x6bPartsByName\xa1\x61n\xa2\x63Key\x61v\x66Values\x81\x03".to_vec(),
        b"\x67FlatMap\xa2\x61x\xf5\x61y\xf4\x64Maps\x81\xa1\x61m\x07".to_vec(),
    ]
    .concat()
}

fn read<T: Structure>(protocol: Protocol, body: &[u8]) -> Result<T, ApiError> {
    let parameters = match protocol {
        Protocol::Query | Protocol::QueryAsJson => Parameters::parse("", body)?,
        Protocol::Json | Protocol::Cbor => Parameters::default(),
    };
    decode(protocol, &parameters, body, T::read)
}

fn refusal<T: Structure>(protocol: Protocol, body: &[u8]) -> String {
    match read::<T>(protocol, body) {
        Ok(_) => "taken".to_owned(),
        Err(error) => format!("{}: {}", error.code, error.message),
    }
}

/// A service that is not served yet.
fn named(name: &str) -> &'static ServiceMetadata {
    UNSERVED.iter().find(|service| service.name == name).unwrap()
}

fn written(service: &ServiceMetadata, protocol: Protocol, result: Option<&Node>) -> Vec<u8> {
    Envelope { service, protocol, action: "Play", request_id: "id-1" }.response(result).body
}

fn written_text(service: &ServiceMetadata, protocol: Protocol, result: Option<&Node>) -> String {
    String::from_utf8(written(service, protocol, result)).unwrap()
}

#[test]
fn every_kind_of_member_is_read_and_written_in_every_protocol() {
    let toy = toy();
    let node = toy.members().into_node();
    let of = |protocol| written(&crate::cloudwatch::SERVICE, protocol, Some(&node));

    assert_eq!(read::<Toy>(Protocol::Json, JSON.as_bytes()), Ok(toy.clone()));
    assert_eq!(str::from_utf8(&of(Protocol::Json)), Ok(JSON));
    assert_eq!(read::<Toy>(Protocol::Cbor, &cbor_bytes()), Ok(toy.clone()));
    assert_eq!(of(Protocol::Cbor), cbor_bytes());
    assert_eq!(read::<Toy>(Protocol::Query, FORM.as_bytes()), Ok(toy.clone()));
    let xmlns = "http://monitoring.amazonaws.com/doc/2010-08-01/";
    let rest = "<ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata></PlayResponse>";
    let expected = format!("<PlayResponse xmlns=\"{xmlns}\"><PlayResult>{XML}</PlayResult>{rest}");
    assert_eq!(str::from_utf8(&of(Protocol::Query)), Ok(&*expected));
    let expected = format!(
        r#"{{"PlayResponse":{{"PlayResult":{JSON},"ResponseMetadata":{{"RequestId":"id-1"}}}}}}"#
    );
    assert_eq!(str::from_utf8(&of(Protocol::QueryAsJson)), Ok(&*expected));
}

#[test]
fn what_is_absent_is_left_out_or_is_the_default() {
    for (protocol, body) in [
        (Protocol::Json, &b"{}"[..]),
        (Protocol::Json, b""),
        (Protocol::Json, br#"{"Text":null,"Parts":null,"TextsByName":null,"Other":{"Text":1}}"#),
        (Protocol::Cbor, b"\xa1\x64Text\xf6"),
        (Protocol::Cbor, b""),
        (Protocol::Query, b"Other.Text=1&Number=&Integer=&Truth=&Time=&Part=&Inner=x"),
    ] {
        assert_eq!(read::<Toy>(protocol, body), Ok(Toy::default()));
        assert_eq!(read::<Part>(protocol, body), Ok(Part::default()));
    }
    let node = Toy::default().members().into_node();
    assert_eq!(written(named("iam"), Protocol::Json, Some(&node)), b"{}");
    let node = Part::default().members().into_node();
    assert_eq!(written(named("iam"), Protocol::Json, Some(&node)), br#"{"Key":"","Values":[]}"#);
}

#[test]
fn an_empty_parameter_is_an_empty_text_list_or_map() {
    let form = b"Text=&Blob=&Texts=&Parts=&Rows=&FlatText=&TextsByName=&FlatMap=";
    let expected = Toy {
        text: Some(String::new()),
        blob: Some(Blob::default()),
        texts: Some(Vec::new()),
        parts: Some(Vec::new()),
        rows: Some(Vec::new()),
        flat_texts: Some(Vec::new()),
        texts_by_name: Some(BTreeMap::new()),
        flat_map: Some(BTreeMap::new()),
        ..Toy::default()
    };
    assert_eq!(read::<Toy>(Protocol::Query, form), Ok(expected));
}

#[test]
fn envelopes_are_those_of_the_service() {
    let empty = Node::Structure(Vec::new());
    let metadata =
        "<ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata></PlayResponse>";
    for (service, xmlns) in [
        (named("cloudformation"), "http://cloudformation.amazonaws.com/doc/2010-05-15/"),
        (named("iam"), "https://iam.amazonaws.com/doc/2010-05-08/"),
    ] {
        let root = format!("<PlayResponse xmlns=\"{xmlns}\">");
        assert_eq!(written_text(service, Protocol::Query, None), format!("{root}{metadata}"));
        assert_eq!(
            written_text(service, Protocol::Query, Some(&empty)),
            format!("{root}<PlayResult></PlayResult>{metadata}")
        );
    }
    assert_eq!(written(&crate::cloudwatch::SERVICE, Protocol::Cbor, None), b"\xa0");
    assert_eq!(written(&crate::cloudwatch::SERVICE, Protocol::Json, None), b"{}");
    assert_eq!(written(named("kms"), Protocol::Json, None), b"");
    let envelope = Envelope {
        service: named("kms"),
        protocol: Protocol::Json,
        action: "Play",
        request_id: "id-1",
    };
    let response = envelope.response(Some(&empty));
    assert_eq!(&*response.body, b"{}");
    assert_eq!(response.content_type, "application/x-amz-json-1.1");
    // CloudFormation always says the milliseconds.
    let toy = Toy { time: Some(Time(0)), ..Toy::default() }.members().into_node();
    let text = written_text(named("cloudformation"), Protocol::Query, Some(&toy));
    assert!(text.contains("<Time>1970-01-01T00:00:00.000Z</Time>"), "{text}");
}

#[test]
fn wrong_types_are_refused_by_the_name_of_the_member() {
    for (body, expected) in [
        (r#"{"Text":1}"#, "Text is not a string"),
        (r#"{"Texts":["a",1]}"#, "Texts is not a list of strings"),
        (r#"{"Texts":"a"}"#, "Texts is not a list"),
        (r#"{"Texts":[null]}"#, "Texts is not a list of strings"),
        (r#"{"Number":"2.5"}"#, "Number is not a number"),
        (r#"{"Numbers":[1,true]}"#, "Numbers is not a number"),
        (r#"{"Integer":1.5}"#, "Integer is not an integer"),
        (r#"{"Integer":9223372036854775808}"#, "Integer is not an integer"),
        (r#"{"Rows":[1]}"#, "Rows is not a list of lists"),
        (r#"{"Rows":[[true]]}"#, "Rows is not a list of integers"),
        (r#"{"Truth":"true"}"#, "Truth is not a boolean"),
        (r#"{"Time":"yesterday"}"#, "Time is not a time"),
        (r#"{"Time":true}"#, "Time is not a number"),
        (r#"{"Blob":"*"}"#, "Blob is not base64"),
        (r#"{"Blobs":[1]}"#, "Blobs is not a list of base64"),
        (r#"{"Part":[]}"#, "Part is not a structure"),
        (r#"{"Parts":[1]}"#, "Parts is not a list of structures"),
        (r#"{"TextsByName":[]}"#, "TextsByName is not a map"),
        (r#"{"TextsByName":{"a":1}}"#, "TextsByName is not a list of strings"),
        (r#"{"Maps":[1]}"#, "Maps is not a list of maps"),
        (r#"{"Inner":{"Text":1}}"#, "Text is not a string"),
        ("[]", "body is not a structure"),
    ] {
        let expected = format!("SerializationException: {expected}");
        assert_eq!(refusal::<Toy>(Protocol::Json, body.as_bytes()), expected, "{body}");
    }
    for (form, expected) in [
        ("Text=%FF", "parameter Text is not UTF-8"),
        ("Number=x", "parameter Number is not a number"),
        ("Numbers.member.1=", "parameter Numbers is not a number"),
        ("Integer=1.5", "parameter Integer is not an integer"),
        ("Rows.member.1.member.1=x", "parameter Rows is not an integer"),
        ("Truth=1", "parameter Truth is not a boolean"),
        ("Time=1", "parameter Time is not a time"),
        ("Blob=*", "parameter Blob is not base64"),
        ("FlatMap.1.Name=x&FlatMap.1.Value=y", "parameter Value is not a boolean"),
    ] {
        let expected = format!("MalformedInput: {expected}");
        assert_eq!(refusal::<Toy>(Protocol::Query, form.as_bytes()), expected, "{form}");
    }
    let nan = [&b"\xa1\x64Time\xfb"[..], &f64::NAN.to_be_bytes()].concat();
    for (body, expected) in [
        (&b"\xa1\x64Text\x41a"[..], "Text is not a string"),
        (b"\xa1\x64Blob\x01", "Blob is not base64"),
        (&nan, "Time is not a time"),
        (b"\x80", "body is not a structure"),
    ] {
        let expected = format!("SerializationException: {expected}");
        assert_eq!(refusal::<Toy>(Protocol::Cbor, body), expected, "{body:?}");
    }
}

#[test]
fn members_may_be_spelled_in_the_ways_that_clients_have() {
    let toy = |protocol, body: &str| read::<Toy>(protocol, body.as_bytes()).unwrap();

    for truth in ["True", "TRUE", "true"] {
        assert_eq!(toy(Protocol::Query, &format!("Truth={truth}")).truth, Some(true));
    }
    assert_eq!(toy(Protocol::Query, "Truth=False").truth, Some(false));
    assert_eq!(toy(Protocol::Query, "Texts.member=a").texts, Some(vec!["a".into()]));
    let gaps = toy(Protocol::Query, "Texts.member.9=c&Texts.member.10=d&Texts.member.2=b");
    assert_eq!(gaps.texts, Some(vec!["b".into(), "c".into(), "d".into()]));
    assert_eq!(toy(Protocol::Query, "FlatText.0=a").flat_texts, Some(vec!["a".into()]));
    assert_eq!(toy(Protocol::Json, r#"{"Blob":"YQ"}"#).blob, Some(Blob(b"a".to_vec())));
    assert!(toy(Protocol::Json, r#"{"Number":"NaN"}"#).number.unwrap().is_nan());
    assert_eq!(
        toy(Protocol::Json, r#"{"Number":9223372036854775808}"#).number,
        Some(2_f64.powi(63))
    );
    for (time, expected) in [
        ("1", 1000),
        ("1.0005", 1001),
        ("-1", -1000),
        ("1e300", i64::MAX),
        (r#""1970-01-01T00:00:01.5Z""#, 1500),
    ] {
        let body = format!(r#"{{"Time":{time}}}"#);
        assert_eq!(toy(Protocol::Json, &body).time, Some(Time(expected)));
    }
}

#[test]
fn of_equal_names_the_last_counts_in_a_body_and_the_first_in_a_form() {
    let text = |protocol, body: &[u8]| read::<Toy>(protocol, body).unwrap().text;

    assert_eq!(text(Protocol::Json, br#"{"Text":1,"Text":"b"}"#), Some("b".into()));
    assert_eq!(text(Protocol::Json, br#"{"Text":"a","Text":null}"#), None);
    assert_eq!(text(Protocol::Cbor, b"\xa2\x64Text\x01\x64Text\x61b"), Some("b".into()));
    assert_eq!(text(Protocol::Query, b"Text=a&Text=b"), Some("a".into()));
    let keys = read::<Toy>(Protocol::Json, br#"{"TextsByName":{"k":"a","k":"b"}}"#).unwrap();
    assert_eq!(keys.texts_by_name, Some(BTreeMap::from([("k".into(), "b".into())])));
}

#[test]
fn structures_within_structures_end_at_a_bounded_depth() {
    let json = |depth: usize| {
        let body = format!("{}{}", r#"{"Inner":"#.repeat(depth), "}".repeat(depth));
        refusal::<Toy>(Protocol::Json, body.replace(":}", ":{}}").as_bytes())
    };
    assert_eq!(json(100), "taken");
    let expected = "SerializationException: recursion limit exceeded at line 1 column 1144";
    assert_eq!(json(60_000), expected);

    let cbor = |depth: usize| {
        let body = [b"\xa1\x65Inner".repeat(depth), b"\xa0".to_vec()].concat();
        refusal::<Toy>(Protocol::Cbor, &body)
    };
    assert_eq!(cbor(cbor::DEPTH_MAX - 1), "taken");
    let no_cbor = "SerializationException: body is not CBOR, or has more than 65536 structures";
    assert_eq!(cbor(cbor::DEPTH_MAX), no_cbor);
    assert_eq!(cbor(100_000), no_cbor);

    let query = |depth: usize| {
        let form = format!("{}Text=a", "Inner.".repeat(depth));
        refusal::<Toy>(Protocol::Query, form.as_bytes())
    };
    let most = usize::from(value::QUERY_DEPTH_MAX);
    assert_eq!(query(most), "taken");
    let expected = "MalformedInput: parameters have names of at most 64 levels";
    assert_eq!(query(most + 1), expected);
    assert_eq!(query(100_000), expected);
}

#[test]
fn structures_and_lists_of_a_request_are_bounded_by_what_it_holds() {
    let json = |count: usize| {
        let list = vec!["{}"; count - 1].join(",");
        refusal::<Toy>(Protocol::Json, format!(r#"{{"Parts":[{list}]}}"#).as_bytes())
    };
    let cbor = |count: usize| {
        let list = vec![0xa0; count - 1];
        refusal::<Toy>(Protocol::Cbor, &[&b"\xa1\x65Parts\x9f"[..], &list, b"\xff"].concat())
    };
    let form = |count: usize| {
        let numbers = (1..=count).map(|number| format!("Numbers.member.{number}=1&"));
        refusal::<Toy>(Protocol::Query, numbers.collect::<String>().as_bytes())
    };
    let no_cbor = "SerializationException: body is not CBOR, or has more than 65536 structures";

    assert_eq!((&*json(STRUCTURES_MAX), &*cbor(STRUCTURES_MAX)), ("taken", "taken"));
    assert_eq!(
        json(STRUCTURES_MAX + 1),
        "SerializationException: a request has at most 65536 structures"
    );
    assert_eq!(cbor(STRUCTURES_MAX + 1), no_cbor);
    assert_eq!(form(65_536), "taken");
    assert_eq!(form(65_537), "MalformedQueryString: a request has at most 65536 parameters");
    let flat = "Numbers.member.4294967295=1&Numbers.member.99999999999=2";
    assert_eq!(read::<Toy>(Protocol::Query, flat.as_bytes()).unwrap().numbers, Some(vec![1.0]));
    // Lengths that are claimed: of a list, a map, a text, bytes.
    for head in [b"\x9b", b"\xbb", b"\x7b", b"\x5b"] {
        for len in [&b"\x7f\xff\xff\xff\xff\xff\xff\xff"[..], b"\xff\xff\xff\xff\xff\xff\xff\xff"] {
            let body = [&b"\xa1\x65Texts"[..], head, len, b"\x00"].concat();
            assert_eq!(refusal::<Toy>(Protocol::Cbor, &body), no_cbor);
        }
    }
}

#[test]
fn bodies_that_are_cut_off_are_refused() {
    for end in 1..JSON.len() {
        let refused = refusal::<Toy>(Protocol::Json, JSON.as_bytes().get(..end).unwrap());
        assert!(refused.starts_with("SerializationException: EOF while parsing"), "{refused}");
    }
    let whole = cbor_bytes();
    let no_cbor = "SerializationException: body is not CBOR, or has more than 65536 structures";
    for end in 1..whole.len() {
        assert_eq!(refusal::<Toy>(Protocol::Cbor, whole.get(..end).unwrap()), no_cbor, "{end}");
    }
    let longer = [&whole[..], b"\x00"].concat();
    assert_eq!(refusal::<Toy>(Protocol::Cbor, &longer), no_cbor);
}

proptest! {
    #[test]
    fn requests_that_are_slightly_wrong_never_panic(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let whole = [JSON.as_bytes().to_vec(), cbor_bytes(), FORM.as_bytes().to_vec()];
        for (protocol, mut body) in (0..).zip(whole) {
            for (at, byte) in &changes {
                let at = at % body.len();
                body[at] = *byte;
            }
            crate::fuzz::cloudwatch(&[&[protocol, 0], &body[..]].concat());
        }
    }
}
