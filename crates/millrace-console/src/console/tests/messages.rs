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
