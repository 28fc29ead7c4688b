//! What the console refuses, whoever asks.

use super::*;

#[tokio::test]
async fn a_change_needs_the_pages_token() {
    let browser = Browser::with_page().await;
    let create = json!({ "QueueName": "q" }).to_string();

    let without = browser.ask("POST", "/api/call/sqs/CreateQueue", &[], &create).await;
    let forged = "0".repeat(64);
    let wrong = [("X-CSRF-Token", forged.as_str())];
    let with_wrong = browser.ask("POST", "/api/call/sqs/CreateQueue", &wrong, &create).await;
    let with = browser.act("CreateQueue", json!({ "QueueName": "q" })).await;

    assert_eq!((without.status, with_wrong.status, with.status), (403, 403, 200));
    assert_eq!(json(&without)["__type"], "InvalidToken");
    assert_eq!(json(&with)["QueueUrl"], url("q"));
}

#[tokio::test]
async fn the_services_check_what_the_console_hands_them() {
    let browser = Browser::with_page().await;

    let refused = browser.act("CreateQueue", json!({ "QueueName": "no spaces" })).await;
    let missing = browser.act("SendMessage", json!({ "QueueUrl": url("x"), "MessageBody": "b" }));
    let unknown = browser.act("DropEverything", json!({})).await;

    assert_eq!(refused.status, 400);
    let missing = json(&missing.await);
    assert!(missing["__type"].as_str().unwrap().ends_with("QueueDoesNotExist"), "{missing}");
    assert_eq!(unknown.status, 404);
    let other = browser.ask("POST", "/api/call/iam/CreateUser", &[], "{}").await;
    assert!(matches!(other.status, 403 | 404));
}

#[tokio::test]
async fn an_action_is_of_an_account_that_can_be() {
    let browser = Browser::with_page().await;
    let token = [("X-CSRF-Token", browser.token.as_str())];
    let create = async |account: &str| {
        let target = format!("/api/call/sqs/CreateQueue?account={account}");
        browser.ask("POST", &target, &token, r#"{"QueueName":"q"}"#).await
    };

    for nonsense in ["%3Cimg%20src%3Dx%3E", "", "11111111111", "1111111111111", "11111111111a"] {
        let answer = create(nonsense).await;
        assert_eq!(
            (answer.status, &json(&answer)["__type"]),
            (400, &json!("InvalidParameterValueException"))
        );
    }
    assert_eq!(create("111111111111").await.status, 200);
}

#[tokio::test]
async fn foreign_hosts_and_origins_get_nothing() {
    let browser = Browser::with_page().await;

    for headers in [[("Origin", "http://evil.example")], [("Sec-Fetch-Site", "cross-site")]] {
        let token = ("X-CSRF-Token", browser.token.as_str());
        let headers = [token, headers[0]];
        let answer = browser.ask("POST", "/api/call/sqs/ListQueues", &headers, "{}").await;
        assert_eq!(answer.status, 403);
        let answer = browser.ask("GET", "/api/session", &headers[1..], "").await;
        assert_eq!(answer.status, 403);
    }
}

#[tokio::test]
async fn every_answer_carries_the_content_policy() {
    let browser = Browser::with_page().await;

    for target in ["/", "/queues", "/nonsense", "/api/session", "/events?view=overview"] {
        let answer = browser.get(target).await;
        let policy = answer.headers.iter().find(|(name, _)| *name == "Content-Security-Policy");
        assert!(policy.unwrap().1.starts_with("default-src 'none'; script-src 'self'"), "{target}");
    }
}

#[tokio::test]
async fn trying_a_filter_and_counts_of_deliveries_need_the_pages_token() {
    let browser = Browser::with_page().await;
    let asked = json!({ "subscriptions": ["arn:aws:sns:us-east-1:000000000000:t:x"] }).to_string();
    let trial = json!({ "policy": "{}", "scope": "MessageBody", "message": "m" }).to_string();

    let without = browser.ask("POST", "/api/filter", &[], &trial).await;
    let token = [("X-CSRF-Token", browser.token.as_str())];
    let with = browser.ask("POST", "/api/filter", &token, &trial).await;
    let read = browser.get("/api/filter").await;

    assert_eq!((without.status, with.status, read.status), (403, 200, 405));
    assert_eq!(json(&with)["matches"], true);
    assert_eq!(browser.ask("POST", "/api/deliveries", &[], &asked).await.status, 403);
    let unknown = browser.ask("POST", "/api/deliveries", &token, &asked).await;
    assert_eq!(json(&unknown), json!({ "counts": [null] }));
}
