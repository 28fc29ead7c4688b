use super::*;

fn subscription(retry: &str) -> Result<DeliveryPolicy, String> {
    let text = format!(r#"{{"healthyRetryPolicy":{retry}}}"#);
    let policy = SubscriptionPolicy::parse(&text).map_err(|error| error.to_string())?;
    Ok(DeliveryPolicy::of(&TopicPolicy::default(), &policy))
}

/// The delays in seconds before the second and all further attempts.
fn delays(retry: &str) -> Vec<u64> {
    let retry = subscription(retry).unwrap().retry;
    (2..).map_while(|attempt| retry.delay_before(attempt)).map(|it| it.as_secs()).collect()
}

#[test]
fn by_default_there_are_three_retries_20_seconds_apart() {
    let retry = DeliveryPolicy::default().retry;

    let before = |attempt| retry.delay_before(attempt).map(|it| it.as_secs());
    assert_eq!([1, 2, 3, 4, 5].map(before), [Some(0), Some(20), Some(20), Some(20), None]);
    assert_eq!(before(u32::MAX), None);
}

#[test]
fn the_four_phases_follow_each_other() {
    let all = delays(
        r#"{"minDelayTarget":2,"maxDelayTarget":10,"numRetries":11,"numNoDelayRetries":2,
            "numMinDelayRetries":2,"numMaxDelayRetries":2,"backoffFunction":"linear"}"#,
    );

    assert_eq!(all, [0, 0, 2, 2, 2, 4, 6, 8, 10, 10, 10]);
}

#[test]
fn every_back_off_function_goes_from_min_to_max_in_its_own_way() {
    let of = |function| {
        delays(&format!(
            r#"{{"minDelayTarget":1,"maxDelayTarget":81,"numRetries":5,
                "backoffFunction":"{function}"}}"#
        ))
    };

    assert_eq!(of("linear"), [1, 21, 41, 61, 81]);
    assert_eq!(of("arithmetic"), [1, 9, 25, 49, 81]);
    assert_eq!(of("exponential"), [1, 6, 17, 38, 81]);
    assert_eq!(of("geometric"), [1, 3, 9, 27, 81]);
}

#[test]
fn delays_never_shrink_nor_leave_their_bounds() {
    for function in Backoff::ALL {
        for steps in 0..=RETRIES_MAX {
            for (min, max) in [(1, 1), (1, 2), (1, 3600), (20, 20), (3599, 3600)] {
                let delays = (0..steps).map(|step| function.delay_s(step, steps, min, max));
                let delays: Vec<u32> = delays.collect();
                assert!(delays.is_sorted(), "{function:?} {steps} {min} {max}: {delays:?}");
                assert!(delays.iter().all(|delay| (min..=max).contains(delay)));
                assert!(delays.first().is_none_or(|first| *first == min));
                assert!(steps < 2 || delays.last() == Some(&max));
            }
        }
    }
}

#[test]
fn what_is_out_of_its_limits_is_refused_by_name() {
    let cases = [
        ("7", "healthyRetryPolicy must be an object"),
        (
            r#"{"minDelayTarget":0}"#,
            "healthyRetryPolicy.minDelayTarget must be greater than or equal to 1",
        ),
        (
            r#"{"minDelayTarget":-1}"#,
            "healthyRetryPolicy.minDelayTarget must be greater than or equal to 1",
        ),
        (
            r#"{"maxDelayTarget":3601}"#,
            "healthyRetryPolicy.maxDelayTarget must be less than or equal to 3600",
        ),
        (
            r#"{"maxDelayTarget":9999999999}"#,
            "healthyRetryPolicy.maxDelayTarget must be less than or equal to 3600",
        ),
        (
            r#"{"minDelayTarget":21}"#,
            "healthyRetryPolicy.maxDelayTarget must be greater than or equal to \
             healthyRetryPolicy.minDelayTarget",
        ),
        (
            r#"{"numRetries":101}"#,
            "healthyRetryPolicy.numRetries must be less than or equal to 100",
        ),
        (r#"{"numRetries":1.5}"#, "healthyRetryPolicy.numRetries must be an integer"),
        (r#"{"numRetries":"3"}"#, "healthyRetryPolicy.numRetries must be an integer"),
        (
            r#"{"numNoDelayRetries":2,"numMaxDelayRetries":2}"#,
            "healthyRetryPolicy.numRetries must be greater than or equal to the retries of all phases",
        ),
        (
            r#"{"backoffFunction":"random"}"#,
            "healthyRetryPolicy.backoffFunction must be arithmetic, exponential, geometric or linear",
        ),
        (
            r#"{"minDelayTarget":1,"maxDelayTarget":3600,"numRetries":3}"#,
            "the total delay of healthyRetryPolicy must be less than or equal to 3600 seconds",
        ),
        (r#"{"retries":3}"#, "Unexpected JSON member: retries"),
    ];
    for (retry, text) in cases {
        assert_eq!(subscription(retry).unwrap_err(), text);
    }
}

#[test]
fn the_other_members_are_checked_too() {
    let error = |text| SubscriptionPolicy::parse(text).unwrap_err().to_string();
    let long = format!(r#"{{"requestPolicy":{{"headerContentType":"{}"}}}}"#, "x".repeat(257));

    assert_eq!(error("{"), "failed to parse JSON.");
    assert_eq!(error("[]"), "failed to parse JSON.");
    assert_eq!(
        error(r#"{"throttlePolicy":{"maxReceivesPerSecond":0}}"#),
        "throttlePolicy.maxReceivesPerSecond must be greater than or equal to 1"
    );
    assert_eq!(
        error(r#"{"requestPolicy":{"headerContentType":"a\r\nb"}}"#),
        "requestPolicy.headerContentType must be a content type"
    );
    assert_eq!(error(&long), "requestPolicy.headerContentType must be a content type");
    assert_eq!(error(r#"{"http":{}}"#), "Unexpected JSON member: http");
    assert_eq!(
        TopicPolicy::parse(r#"{"http":{"disableSubscriptionOverrides":1}}"#).unwrap_err(),
        wrong("http.disableSubscriptionOverrides", "a boolean")
    );
    assert_eq!(
        TopicPolicy::parse(r#"{"http":{"defaultHealthyRetryPolicy":{"numRetries":-1}}}"#)
            .unwrap_err()
            .to_string(),
        "http.defaultHealthyRetryPolicy.numRetries must be greater than or equal to 0"
    );
    for empty in ["", "{}", r#"{"healthyRetryPolicy":null,"throttlePolicy":null}"#] {
        assert_eq!(SubscriptionPolicy::parse(empty).unwrap(), SubscriptionPolicy::default());
    }
    for empty in ["", "{}", r#"{"http":null}"#, r#"{"http":{}}"#] {
        assert_eq!(TopicPolicy::parse(empty).unwrap(), TopicPolicy::default());
    }
}

#[test]
fn effective_policies_read_as_the_service_writes_them() {
    let topic = TopicPolicy::default();
    assert_eq!(
        topic.effective_json(),
        r#"{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"disableSubscriptionOverrides":false,"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}"#
    );
    let effective = DeliveryPolicy::default();
    assert_eq!(
        effective.effective_json(),
        r#"{"healthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"sicklyRetryPolicy":null,"throttlePolicy":null,"requestPolicy":{"headerContentType":"text/plain; charset=UTF-8"},"guaranteed":false}"#
    );
    // What it wrote can be given back to it.
    assert_eq!(
        DeliveryPolicy::of(
            &topic,
            &SubscriptionPolicy::parse(&effective.effective_json()).unwrap()
        ),
        effective
    );
    TopicPolicy::parse(&topic.effective_json()).unwrap();
}

#[test]
fn a_subscription_goes_before_its_topic_unless_the_topic_forbids_it() {
    let topic = |disable| {
        TopicPolicy::parse(&format!(
            r#"{{"http":{{"defaultHealthyRetryPolicy":{{"numRetries":5}},
                "defaultThrottlePolicy":{{"maxReceivesPerSecond":7}},
                "disableSubscriptionOverrides":{disable}}}}}"#
        ))
        .unwrap()
    };
    let subscription = SubscriptionPolicy::parse(
        r#"{"healthyRetryPolicy":{"numRetries":1},
            "requestPolicy":{"headerContentType":"application/json"}}"#,
    )
    .unwrap();

    let own = DeliveryPolicy::of(&topic(false), &subscription);
    assert_eq!(own.retry.retries, 1);
    assert_eq!(own.max_receives_per_second, Some(7));
    assert_eq!(own.content_type, "application/json");
    assert!(topic(true).effective_json().contains(r#""maxReceivesPerSecond":7"#));

    let overridden = DeliveryPolicy::of(&topic(true), &subscription);
    assert_eq!(overridden.retry.retries, 5);
    assert_eq!(overridden.content_type, CONTENT_TYPE);
}
