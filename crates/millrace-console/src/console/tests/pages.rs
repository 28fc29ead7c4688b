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
            ("GET", "/api/states", "POST"),
            ("GET", "/api/handles", "POST"),
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

#[tokio::test]
async fn the_server_page_counts_requests_and_one_account_of_several_sees_only_that_it_runs() {
    let browser = Browser::with_page().await;
    let server = json(&browser.get("/api/snapshot?view=server").await);
    assert_eq!(server["head"]["durability"], "memory");
    assert!(server["head"]["syncs"].is_u64());
    assert_eq!(server["head"]["is_poisoned"], false);
    assert!(server["head"]["memory"].as_u64().unwrap() > 0, "{server}");

    let other = AccessKey { access_key: "AKIDDEV".into(), account: "222222222222".into(), ..key() };
    for (keys, is_partial) in [(vec![key()], false), (vec![key(), other], true)] {
        let mut browser = Browser::new(keys);
        browser.log_in("AKIDOPS").await;

        let server = json(&browser.get("/api/snapshot?view=server").await);

        assert_eq!(server["head"].get("is_partial").is_some(), is_partial);
        assert_eq!(server["head"].get("requests").is_none(), is_partial);
        assert_eq!(server["lists"]["actions"], json!([]));
        assert!(
            server["head"]["started"].as_u64().unwrap() <= server["head"]["now"].as_u64().unwrap()
        );
    }
}

#[tokio::test]
async fn alarms_that_are_in_alarm_are_counted_on_every_page_and_for_their_account_only() {
    let other = AccessKey { access_key: "AKIDDEV".into(), account: "222222222222".into(), ..key() };
    let mut browser = Browser::new(vec![key(), other]);
    browser.log_in("AKIDOPS").await;
    let token = [("X-CSRF-Token", browser.token.as_str())];
    let call = async |action: &str, input: Value| {
        let target = format!("/api/call/cloudwatch/{action}?region=eu-west-1");
        let answer = browser.ask("POST", &target, &token, &input.to_string()).await;
        assert_eq!(answer.status, 200, "{action}");
    };
    call(
        "PutMetricAlarm",
        json!({
            "AlarmName": "backlog", "Namespace": "AWS/SQS", "MetricName": "NumberOfMessagesSent",
            "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
            "ComparisonOperator": "GreaterThanThreshold",
        }),
    )
    .await;
    call(
        "SetAlarmState",
        json!({ "AlarmName": "backlog", "StateValue": "ALARM", "StateReason": "x" }),
    )
    .await;

    let snapshot = json(&browser.get("/api/snapshot?view=queues").await);
    assert_eq!(snapshot["head"]["in_alarm"], 1);
    let page = browser.get("/metrics").await;
    assert!(str::from_utf8(&page.body).unwrap().contains(r#"id="in-alarm"><span>1</span>"#));

    browser.log_in("AKIDDEV").await;
    assert_eq!(json(&browser.get("/api/snapshot?view=queues").await)["head"]["in_alarm"], 0);
    let page = browser.get("/metrics").await;
    assert!(str::from_utf8(&page.body).unwrap().contains(r#"id="in-alarm" hidden"#));
}

#[tokio::test]
async fn queues_are_filtered_by_their_region_and_sorted_by_it() {
    let browser = Browser::with_page().await;
    let token = [("X-CSRF-Token", browser.token.as_str())];
    for (region, name) in [("us-east-1", "a"), ("eu-west-1", "b"), ("eu-west-1", "c")] {
        let target = format!("/api/call/sqs/CreateQueue?region={region}");
        let input = json!({ "QueueName": name }).to_string();
        assert_eq!(browser.ask("POST", &target, &token, &input).await.status, 200);
    }
    tokio::time::sleep(Duration::from_millis(950)).await; // Until the page's sample is stale.
    let names = async |query: &str| {
        let found = json(&browser.get(&format!("/api/snapshot?view=queues&{query}")).await);
        assert_eq!(found["head"]["regions"], json!(["eu-west-1", "us-east-1"]));
        let rows = found["lists"]["queues"].as_array().unwrap().clone();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    assert_eq!(names("sort=region").await, ["b", "c", "a"]);
    assert_eq!(names("sort=region&order=descending").await, ["a", "c", "b"]);
    assert_eq!(names("sort=name&region=us-east-1").await, ["a"]);
}

#[tokio::test]
async fn the_first_look_at_a_queue_shows_the_minutes_before_it() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    for _ in 0..3 {
        browser.send("letters", "x").await;
    }
    // All of this may take less than a millisecond, and then there is no time to show.
    tokio::time::sleep(Duration::from_millis(5)).await;

    let view = format!("/api/snapshot?view=queue&{}", place("letters"));
    let history = json(&browser.get(&view).await)["history"].clone();

    // The minute that has not ended, from the start of the process to now.
    let points = history.as_array().unwrap();
    assert!(points.len() >= 2, "{history}");
    assert!(points.iter().all(|point| point[1] == 3.0 && point[4].as_f64().unwrap() > 0.0));
}
