use super::*;
use crate::{Header, cloudwatch, simpledb, sns};

/// All services that are recognised, as the table of services lists them.
fn services() -> Vec<&'static ServiceMetadata> {
    let served: [&ServiceMetadata; 4] =
        [&sqs::SERVICE, &sns::SERVICE, &cloudwatch::SERVICE, &simpledb::SERVICE];
    served.into_iter().chain(UNSERVED).collect()
}

const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=AK/ID/20260102/eu-west-1/sqs/aws4_request,SignedHeaders=host,Signature=00";
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");

/// Service, protocol, action, region, access key.
fn summary(
    (path, query): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> (&'static str, Protocol, String, Option<String>, Option<String>) {
    let headers: Vec<_> = headers.iter().map(|(name, value)| Header::new(name, value)).collect();
    let request = Request { path, query, ..Request::post(&headers, body.as_bytes()) };
    let target = detect(&request, &services()).unwrap();
    let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    (
        target.service.name,
        target.protocol,
        target.action.into_owned(),
        owned(target.region),
        owned(target.access_key),
    )
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn json_requests_name_the_action_in_the_target() {
    let headers = [
        ("authorization", SIGNED),
        ("x-amz-target", "AmazonSQS.SendMessage"),
        ("content-type", "application/x-amz-json-1.0; charset=utf-8"),
    ];
    assert_eq!(
        summary(("/", ""), &headers, "{}"),
        ("sqs", Protocol::Json, "SendMessage".into(), some("eu-west-1"), some("AK/ID"))
    );
    // On a queue's path too, unsigned, and without content type.
    assert_eq!(
        summary(("/123456789012/q", ""), &headers[1..2], "{}"),
        ("sqs", Protocol::Json, "SendMessage".into(), None, None)
    );
    // No target, or that of another service than the signed one.
    let untargeted = summary(("/", ""), &[headers[0], headers[2]], "{}");
    assert_eq!((untargeted.1, untargeted.2.as_str()), (Protocol::Json, ""));
    let foreign = [headers[0], ("x-amz-target", "TrentService.DescribeKey")];
    let foreign = summary(("/", ""), &foreign, "{}");
    assert_eq!((foreign.0, foreign.2.as_str()), ("sqs", ""));
}

#[test]
fn query_requests_name_the_action_in_a_parameter() {
    let body = "Action=ListQueues&Version=2012-11-05";
    let expected = ("sqs", Protocol::Query, "ListQueues".to_owned(), None, None);

    assert_eq!(summary(("/", ""), &[FORM], body), expected);
    assert_eq!(summary(("/", ""), &[], body), expected);
    assert_eq!(summary(("/", body), &[], ""), expected);
    assert_eq!(summary(("/", "Action=ListQueues"), &[], ""), expected);
    assert_eq!(summary(("/123456789012/q", "Action=ListQueues"), &[], ""), expected);
    // A body that says that it is no form is none.
    let plain = summary(("/", ""), &[("content-type", "text/plain")], body);
    assert_eq!((plain.0, plain.2.as_str()), ("other", ""));
}

/// Amazon::SQS::Simple for Perl and the connector of Ballerina do so.
#[test]
fn a_target_of_the_query_api_makes_no_json_request() {
    let form = "Action=CreateQueue&QueueName=q&Version=2012-11-05";
    let headers = [
        ("x-amz-target", "AmazonSQSv20121105.CreateQueue"),
        ("content-type", "application/x-www-form-urlencoded;charset=utf-8"),
    ];

    let (service, protocol, action, ..) = summary(("/", ""), &headers, form);

    assert_eq!((service, protocol), ("sqs", Protocol::Query));
    assert_eq!(action, "CreateQueue");
}

#[test]
fn query_answers_are_json_if_accepted() {
    let protocol = |accept| summary(("/", "Action=ListQueues"), &[("Accept", accept)], "").1;

    assert_eq!(protocol("application/json"), Protocol::QueryAsJson);
    assert_eq!(protocol("text/xml, application/json;q=0.5"), Protocol::QueryAsJson);
    assert_eq!(protocol("*/*"), Protocol::Query);
}

#[test]
fn cbor_requests_name_the_operation_in_the_path() {
    let path = "/service/GraniteServiceVersion20100801/operation/PutMetricData";
    let cbor = summary((path, ""), &[("Smithy-Protocol", "rpc-v2-cbor")], "");

    assert_eq!(cbor, ("cloudwatch", Protocol::Cbor, "PutMetricData".to_owned(), None, None));
    assert_eq!(summary((path, ""), &[], "").1, Protocol::Query);
}

#[test]
fn presigned_requests_are_scoped_in_the_url() {
    let query = "Action=Publish&X-Amz-Credential=AKID%2F20260102%2Fus-east-2%2Fsns%2Faws4_request";

    assert_eq!(
        summary(("/", query), &[], ""),
        ("sns", Protocol::Query, "Publish".into(), some("us-east-2"), some("AKID"))
    );
}

#[test]
fn other_headers_of_the_same_lengths_say_nothing() {
    let headers = [
        ("date", "sns.us-east-1.amazonaws.com"),
        ("cookie", "application/json"),
        ("x-request-id", "AmazonSQS.SendMessage"),
        ("cache-control", SIGNED),
        ("accept-language", "rpc-v2-cbor"),
    ];
    for path in ["/", "/service/GraniteServiceVersion20100801/operation/PutMetricData"] {
        assert_eq!(summary((path, ""), &headers, ""), summary((path, ""), &[], ""));
    }
}

#[test]
fn credentials_are_found_in_any_order_of_parameters() {
    let credential = "Credential=AKID/20260102/eu-west-1/sns/aws4_request";
    for parameters in [
        format!("SignedHeaders=host, {credential} ,Signature=00"),
        format!("Signature=00,{credential}"),
        format!("\t{credential}"),
        credential.replace('=', "= \t"),
        format!("Signature=00,{}", credential.replace('=', "= \t")),
    ] {
        let signed = format!("AWS4-HMAC-SHA256 {parameters}");

        let found = summary(("/", ""), &[("authorization", &signed)], "");

        let (service, key) = ("sns", some("AKID"));
        assert_eq!((found.0, found.3, found.4), (service, some("eu-west-1"), key), "{signed}");
    }
}

/// As the signature's check reads them.
#[test]
fn access_keys_may_hold_what_separates() {
    let header = "AWS4-HMAC-SHA256 Signature=00, Credential=a=b/c+d/20260102/r/sqs/aws4_request";
    let query = "X-Amz-Credential=a=b/c%2Bd%2F20260102/r/sqs/aws4_request";

    assert_eq!(summary(("/", ""), &[("authorization", header)], "").4, some("a=b/c+d"));
    assert_eq!(summary(("/", query), &[], "").4, some("a=b/c+d"));
}

#[test]
fn media_types_are_read_in_any_case_and_without_parameters() {
    let json = [
        "application/x-amz-json-1.0",
        "Application/X-Amz-JSON-1.1",
        " application/x-amz-json-1.0 ; charset=utf-8; x=y",
    ];
    for content_type in json {
        let found = summary(("/", ""), &[("content-type", content_type)], "");
        assert_eq!(found.1, Protocol::Json, "{content_type}");
    }
    let form = [
        ("content-type", "Application/X-WWW-Form-URLencoded;a;b"),
        ("accept", "Application/JSON;q=1;x"),
    ];
    let found = summary(("/", ""), &form, "Action=ListQueues");
    assert_eq!((found.1, &*found.2), (Protocol::QueryAsJson, "ListQueues"));
}

#[test]
fn headers_that_are_no_text_say_nothing() {
    let names =
        ["host", "accept", "content-type", "x-amz-target", "authorization", "smithy-protocol"];
    let headers = names.map(|name| Header { name, value: b"\xff" });

    let target = detect(&Request::post(&headers, b""), &services()).unwrap();

    assert_eq!((target.service.name, &*target.action), ("other", ""));
    assert!(target.access_key.is_none());
}

/// As the signature covers them.
#[test]
fn a_plus_sign_is_a_space_signed_or_not() {
    let query = ("/", "Action=a+b%2Bc");

    assert_eq!(summary(query, &[("authorization", SIGNED)], "").2, "a b+c");
    assert_eq!(summary(query, &[], "").2, "a b+c");
}

#[test]
fn services_are_found_in_a_fixed_order() {
    let service = |(path, query), headers: &[(&str, &str)]| summary((path, query), headers, "").0;
    let signed = [("authorization", SIGNED), ("host", "sns.us-east-1.amazonaws.com")];
    let target = [("x-amz-target", "GraniteServiceVersion20100801.ListMetrics"), signed[1]];

    assert_eq!(service(("/", "Version=2010-05-08"), &signed), "sqs");
    assert_eq!(service(("/", "Version=2010-05-08"), &target), "cloudwatch");
    assert_eq!(service(("/123456789012/q", ""), &signed[1..]), "sns");
    assert_eq!(service(("/123456789012/q", "Version=2010-03-31"), &[]), "sqs");
    assert_eq!(service(("/queue/q", ""), &[]), "sqs");
    assert_eq!(service(("/", "Version=2010-05-08&Action=ListQueues"), &[]), "iam");
    assert_eq!(service(("/", "Action=AddPermission&QueueUrl=q"), &[]), "sqs");
    assert_eq!(service(("/", "Action=AddPermission&QueueName=q"), &[]), "sqs");
    assert_eq!(service(("/", "Action=AddPermission&TopicArn=t"), &[]), "sns");
    assert_eq!(service(("/", "Action=AddPermission&SubscriptionArn=t"), &[]), "sns");
    assert_eq!(service(("/", "Action=AddPermission"), &[]), "other");
    let link = "Action=Unsubscribe&SubscriptionArn=a";
    assert_eq!(service(("/", link), &[]), "sns");
    assert_eq!(service(("/3/projects", ""), &[]), "other");
}

#[test]
fn hosts_give_service_and_region() {
    let of_host = |host| {
        let all = summary(("/", ""), &[("Host", host)], "");
        (all.0, all.3)
    };

    let sqs = "sqs";
    assert_eq!(of_host("sqs.us-east-1.amazonaws.com"), (sqs, some("us-east-1")));
    assert_eq!(of_host("queue.amazonaws.com"), (sqs, None));
    assert_eq!(of_host("eu-west-3.queue.amazonaws.com"), (sqs, some("eu-west-3")));
    assert_eq!(of_host("sqs.eu-west-3.localhost.localstack.cloud:4566"), (sqs, some("eu-west-3")));
    assert_eq!(
        of_host("us-east-1.queue.localhost.localstack.cloud:4566"),
        (sqs, some("us-east-1"))
    );
    assert_eq!(of_host("sqs:9324"), (sqs, None));
    assert_eq!(of_host("monitoring.us-east-1.amazonaws.com"), ("cloudwatch", None));
    assert_eq!(of_host("localhost:9324"), ("other", None));
}

#[test]
fn local_stack_paths_give_the_region() {
    let target = summary(("/queue/us-west-2/000000000000/q", "Action=ReceiveMessage"), &[], "");

    assert_eq!((target.0, target.3), ("sqs", some("us-west-2")));
}

/// A signature of version 2 names the key in a parameter, and no region: the host may.
#[test]
fn simple_db_is_recognised_by_version_scope_host_and_action() {
    let expected = |region, key| ("simpledb", Protocol::Query, "Select".to_owned(), region, key);
    let signed = "Action=Select&Version=2009-04-15&AWSAccessKeyId=AKID&SignatureVersion=2";
    let host = [("host", "sdb.eu-west-1.amazonaws.com:443"), FORM];
    let scope = [("authorization", SIGNED.replace("/sqs/", "/sdb/"))];
    let scope = scope.each_ref().map(|(name, value)| (*name, &**value));

    assert_eq!(summary(("/", ""), &[FORM], signed), expected(None, some("AKID")));
    assert_eq!(summary(("/", signed), &[], ""), expected(None, some("AKID")));
    assert_eq!(summary(("/", ""), &host, "Action=Select"), expected(some("eu-west-1"), None));
    assert_eq!(
        summary(("/", ""), &scope, "Action=Select"),
        expected(some("eu-west-1"), some("AK/ID"))
    );
    assert_eq!(summary(("/", "Action=Select"), &[], ""), expected(None, None));
}
