//! Looking at messages and searching them.

use super::*;

#[tokio::test]
async fn browsing_counts_no_receive_and_polling_does() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    browser.send("letters", "<script>alert(1)</script>").await;

    let browse = format!("/api/browse?{}", place("letters"));
    for _ in 0..3 {
        let page = json(&browser.get(&browse).await);
        assert_eq!(page["messages"][0]["receive_count"], 0);
        assert_eq!(page["messages"][0]["state"], "available");
        assert_eq!(page["messages"][0]["body"], "<script>alert(1)</script>");
    }
    browser.act("ReceiveMessage", json!({ "QueueUrl": url("letters") })).await;

    let message = json(&browser.get(&browse).await)["messages"][0].clone();
    assert_eq!((&message["receive_count"], &message["state"]), (&json!(1), &json!("in_flight")));
    assert!(message["deadline"].as_u64().unwrap() > message["sent"].as_u64().unwrap());
}

#[tokio::test]
async fn a_search_finds_bodies_in_any_case_and_pages_on() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    for number in 0..130 {
        let name = if number == 128 { "Needle" } else { "straw" };
        browser.send("letters", &format!("{name} {number}")).await;
    }

    let search = format!("/api/browse?{}&search=needle", place("letters"));
    let found = json(&browser.get(&search).await);
    let first = json(&browser.get(&format!("/api/browse?{}", place("letters"))).await);
    let cursor = first["next"].as_str().unwrap();
    let second = format!("/api/browse?{}&cursor={cursor}", place("letters"));
    let second = json(&browser.get(&second).await);

    assert_eq!(found["messages"].as_array().unwrap().len(), 1);
    assert_eq!((&found["searched"], &found["next"]), (&json!(130), &Value::Null));
    assert_eq!(first["messages"].as_array().unwrap().len(), 50);
    assert_eq!(second["messages"][0]["body"], "straw 50");
}

#[tokio::test]
async fn a_long_body_is_cut_in_lists_and_whole_alone() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    browser.send("letters", &"x".repeat(10_000)).await;

    let page = json(&browser.get(&format!("/api/browse?{}", place("letters"))).await);
    let listed = &page["messages"][0];
    let (slot, seq, id) = (&listed["slot"], &listed["seq"], &listed["id"]);
    let one = |id: &str| {
        let seq = seq.as_str().unwrap();
        format!("/api/message?{}&slot={slot}&seq={seq}&id={id}", place("letters"))
    };
    let whole = json(&browser.get(&one(id.as_str().unwrap())).await);

    assert_eq!((&listed["is_cut"], &listed["size"]), (&json!(true), &json!(10_000)));
    assert_eq!(listed["body"].as_str().unwrap().len(), 4096);
    assert_eq!(whole["body"].as_str().unwrap().len(), 10_000);
    assert_eq!(json(&browser.get(&one("another-id")).await), Value::Null);
}

/// Asks about messages of a queue, with the session's token.
async fn look_at(browser: &Browser, what: &str, queue: &str, messages: Value) -> Response {
    let token = [("X-CSRF-Token", browser.token.as_str())];
    let target = format!("/api/{what}?{}", place(queue));
    browser.ask("POST", &target, &token, &json!({ "messages": messages }).to_string()).await
}

/// The first message of a queue, as pages name it.
async fn first(browser: &Browser, queue: &str) -> Value {
    let page = json(&browser.get(&format!("/api/browse?{}", place(queue))).await);
    json!({ "slot": page["messages"][0]["slot"], "seq": page["messages"][0]["seq"] })
}

#[tokio::test]
async fn states_follow_a_message_by_its_place_and_by_its_handle() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    browser.send("letters", "x").await;
    let place = first(&browser, "letters").await;
    let found = async |name: Value| {
        let answer = look_at(&browser, "states", "letters", json!([name])).await;
        json(&answer)["messages"][0].clone()
    };
    assert_eq!(found(place.clone()).await["state"], "available");

    let receive = json!({ "QueueUrl": url("letters") });
    let received = json(&browser.act("ReceiveMessage", receive).await);
    let handle = json!({ "handle": received["Messages"][0]["ReceiptHandle"] });

    for name in [place.clone(), handle.clone()] {
        let state = found(name).await;
        assert_eq!((&state["state"], &state["receive_count"]), (&json!("in_flight"), &json!(1)));
        assert!(state["deadline"].is_u64());
    }
    let receipt_handle = &handle["handle"];
    let delete = json!({ "QueueUrl": url("letters"), "ReceiptHandle": receipt_handle });
    assert_eq!(browser.act("DeleteMessage", delete).await.status, 200);
    assert_eq!((found(place).await, found(handle).await), (Value::Null, Value::Null));
    assert_eq!(found(json!({ "handle": "nonsense" })).await, Value::Null);
}

#[tokio::test]
async fn what_was_never_received_is_deleted_by_a_handle_of_the_consoles() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let delayed =
        json!({ "QueueUrl": url("letters"), "MessageBody": "later", "DelaySeconds": 900 });
    assert_eq!(browser.act("SendMessage", delayed).await.status, 200);
    browser.send("letters", "now").await;

    for left in [1, 0] {
        let place = first(&browser, "letters").await;
        let handles = json(&look_at(&browser, "handles", "letters", json!([place])).await);
        let handle = &handles["handles"][0];
        let delete = json!({ "QueueUrl": url("letters"), "ReceiptHandle": handle });
        assert_eq!(browser.act("DeleteMessage", delete).await.status, 200);

        let page = json(&browser.get(&format!("/api/browse?{}", super::place("letters"))).await);
        assert_eq!(page["messages"].as_array().unwrap().len(), left);
    }
}

#[tokio::test]
async fn of_a_fifo_queue_only_what_is_in_flight_has_a_handle() {
    let browser = Browser::with_page().await;
    let fifo = json!({ "QueueName": "letters.fifo", "Attributes": { "FifoQueue": "true" } });
    assert_eq!(browser.act("CreateQueue", fifo).await.status, 200);
    let send = json!({
        "QueueUrl": url("letters.fifo"), "MessageBody": "x",
        "MessageGroupId": "g", "MessageDeduplicationId": "d",
    });
    assert_eq!(browser.act("SendMessage", send).await.status, 200);
    let place = first(&browser, "letters.fifo").await;
    let handle = async || {
        let answer = look_at(&browser, "handles", "letters.fifo", json!([place])).await;
        json(&answer)["handles"][0].clone()
    };
    assert_eq!(handle().await, Value::Null);

    browser.act("ReceiveMessage", json!({ "QueueUrl": url("letters.fifo") })).await;

    let delete = json!({ "QueueUrl": url("letters.fifo"), "ReceiptHandle": handle().await });
    assert_eq!(browser.act("DeleteMessage", delete).await.status, 200);
    let page = json(&browser.get(&format!("/api/browse?{}", super::place("letters.fifo"))).await);
    assert_eq!(page["messages"], json!([]));
}

#[tokio::test]
async fn messages_are_chosen_with_the_token_in_bounded_numbers_and_of_ones_own_queues() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let target = format!("/api/handles?{}", place("letters"));
    let bare = browser.ask("POST", &target, &[], r#"{"messages":[]}"#).await;
    assert_eq!((bare.status, &json(&bare)["__type"]), (403, &json!("InvalidToken")));

    let many = vec![json!({ "slot": 1, "seq": "1" }); chosen::MAX_CHOSEN + 1];
    assert_eq!(look_at(&browser, "states", "letters", many.into()).await.status, 400);
    for nonsense in [json!([{}]), json!("x"), json!([{ "slot": -1, "seq": "1" }])] {
        assert_eq!(look_at(&browser, "states", "letters", nonsense).await.status, 400);
    }
    assert_eq!(look_at(&browser, "states", "nowhere", json!([])).await.status, 404);
    let nowhere = json!([{ "slot": 4_000_000_000_u64, "seq": "nonsense" }]);
    let found = look_at(&browser, "handles", "letters", nowhere).await;
    assert_eq!(json(&found)["handles"], json!([null]));

    let mut other = Browser::new(vec![key()]);
    other.log_in("AKIDOPS").await;
    assert_eq!(look_at(&other, "handles", "letters", json!([])).await.status, 404);
}
