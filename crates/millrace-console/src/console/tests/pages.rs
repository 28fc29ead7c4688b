//! Pages, paths and places.

use super::*;

#[tokio::test]
async fn a_queues_page_is_there_as_soon_as_the_queue_is() {
    let browser = Browser::with_page().await; // Takes a sample that stays fresh for a while.
    let path = "/queues/us-east-1/000000000000/letters";
    assert_eq!(browser.get(path).await.status, 404);

    browser.create("letters").await;

    assert_eq!(browser.get(path).await.status, 200);
}

#[tokio::test]
async fn a_page_says_that_it_is_only_read() {
    let refused = Browser::with_page().await.ask("POST", "/queues", &[], "").await;

    assert_eq!(refused.status, 405);
    assert!(refused.headers.contains(&("Allow", "GET, HEAD".to_owned())));
}

#[tokio::test]
async fn a_path_below_api_says_which_methods_it_has() {
    for browser in [Browser::with_page().await, Browser::new(vec![key()])] {
        for (method, path, allowed) in [
            ("GET", "/api/login", "POST"),
            ("GET", "/api/logout", "POST"),
            ("GET", "/api/call/sqs/ListQueues", "POST"),
            ("POST", "/api/session", "GET"),
            ("DELETE", "/api/browse", "GET"),
            ("POST", "/events", "GET"),
        ] {
            let refused = browser.ask(method, path, &[], "").await;
            assert_eq!(refused.status, 405, "{method} {path}");
            assert!(refused.headers.contains(&("Allow", allowed.to_owned())), "{path}");
        }
        let unknown = browser.ask("POST", "/api/nonsense", &[], "").await;
        assert_ne!(unknown.status, 405);
    }
}

#[tokio::test]
async fn an_unknown_path_is_a_page_and_browsers_find_the_icon() {
    for browser in [Browser::with_page().await, Browser::new(vec![key()])] {
        for target in ["/nonsense", "/queues/us-east-1/000000000000/q/nonsense"] {
            let page = browser.get(target).await;
            assert_eq!((page.status, page.content_type), (404, "text/html; charset=utf-8"));
            let html = str::from_utf8(&page.body).unwrap();
            assert!(html.contains(r#"<a href="/queues">"#), "{html}");
        }
        let icon = browser.get("/favicon.ico").await;
        assert_eq!((icon.status, icon.content_type), (200, "image/svg+xml"));
        assert_eq!(
            browser.get("/api/nonsense").await.status,
            if browser.token.is_empty() { 401 } else { 404 }
        );
    }
}

#[tokio::test]
async fn places_are_where_queues_and_alarms_are() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let token = [("X-CSRF-Token", browser.token.as_str())];
    let elsewhere = "region=eu-west-1&account=000000000000";
    let call = async |action: &str, input: Value| {
        let target = format!("/api/call/{action}?{elsewhere}");
        let answer = browser.ask("POST", &target, &token, &input.to_string()).await;
        assert_eq!(answer.status, 200);
    };
    call("sqs/CreateQueue", json!({ "QueueName": "far" })).await;
    let places = async |query: &str| json(&browser.get(&format!("/api/places{query}")).await);
    let place = |region: &str| json!({ "region": region, "account": "000000000000" });
    assert_eq!(places("?having=alarms").await, json!([]));

    let alarm = json!({
        "AlarmName": "backlog", "Namespace": "AWS/SQS", "MetricName": "NumberOfMessagesSent",
        "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold",
    });
    call("cloudwatch/PutMetricAlarm", alarm).await;

    assert_eq!(places("").await, json!([place("eu-west-1"), place("us-east-1")]));
    assert_eq!(places("?having=alarms").await, json!([place("eu-west-1")]));
}
