//! What pages are told as it changes.

use super::*;

#[tokio::test]
async fn a_stream_begins_with_all_and_goes_on_with_what_changed() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let mut answer = browser.get("/events?view=queues").await;
    assert_eq!(answer.content_type, "text/event-stream");
    let mut stream = answer.stream.take().unwrap();

    let (first, second) = tokio::select! {
        events = async {
            let first = event(&mut stream).await;
            // Whether the first sample was taken before or after the queue was there is open.
            let mut seen = first.contains("us-east-1/000000000000/letters");
            while !seen {
                seen = event(&mut stream).await.contains("us-east-1/000000000000/letters");
            }
            browser.send("letters", "hello").await;
            let mut second = event(&mut stream).await;
            while !second.contains("\"available\":1") {
                second = event(&mut stream).await;
            }
            (first, second)
        } => events,
        () = browser.console.run() => unreachable!("the sampler never ends"),
    };

    assert!(first.contains("event: snapshot\nid: "), "{first}");
    assert!(second.starts_with("event: delta\n"), "{second}");
    let delta = second.split("data: ").nth(1).unwrap();
    let delta: Value = serde_json::from_str(delta).unwrap();
    let row = &delta["lists"]["queues"]["rows"][0];
    assert_eq!(
        (&row["key"], &row["available"]),
        (&json!("us-east-1/000000000000/letters"), &json!(1))
    );
    assert!(row.get("name").is_none(), "{row}");
}

#[tokio::test]
async fn a_browser_that_comes_back_goes_on_where_it_was() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let mut stream = browser.get("/events?view=queues").await.stream.unwrap();
    let first = event(&mut stream).await;
    let id = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();

    let last = [("Last-Event-ID", id)];
    let mut known = browser.ask("GET", "/events?view=queues", &last, "").await.stream.unwrap();
    let other = [("Last-Event-ID", "0011223344556677-1")];
    let mut unknown = browser.ask("GET", "/events?view=queues", &other, "").await.stream.unwrap();

    assert!(event(&mut known).await.contains("event: delta"));
    assert!(event(&mut unknown).await.contains("event: snapshot"));
}

#[tokio::test]
async fn samples_are_forgotten_when_nobody_looks() {
    let browser = Browser::with_page().await;
    browser.create("letters").await;
    let queue = browser.console.shards.catalog().queue("us-east-1", "000000000000", "letters");
    let queue = Arc::downgrade(&queue.unwrap());
    let one = "/api/snapshot?view=queue&region=us-east-1&account=000000000000&name=letters";
    let first = json(&browser.get(one).await);
    let delete = json!({ "QueueUrl": url("letters") });
    assert_eq!(browser.act("DeleteQueue", delete).await.status, 200);
    assert!(queue.upgrade().is_some(), "a sample holds it");

    let is_gone = async {
        while queue.upgrade().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = browser.console.run() => unreachable!(),
        gone = tokio::time::timeout(Duration::from_secs(30), is_gone) => gone.unwrap(),
    }

    let second = json(&browser.get("/api/snapshot?view=queues").await);
    assert_ne!(first["id"], second["id"], "an event's id never names another sample");
}

#[tokio::test]
async fn streams_end_when_the_server_drains() {
    let browser = Browser::with_page().await;
    let mut stream = browser.get("/events?view=overview").await.stream.unwrap();
    event(&mut stream).await;

    browser.console.close();

    assert_eq!(std::future::poll_fn(|task| stream.poll_next(task)).await, None);
    assert_eq!(browser.get("/events?view=overview").await.status, 503);
}
