//! Logins, and whose queues they open.

use super::*;

#[tokio::test]
async fn with_credentials_nothing_is_shown_before_a_login() {
    let mut browser = Browser::new(vec![key()]);

    let page = browser.get("/queues?sort=name").await;
    assert_eq!(page.status, 303);
    assert!(page.headers.contains(&("Location", "/login?next=%2Fqueues%3Fsort%3Dname".into())));
    for target in ["/events?view=overview", "/api/snapshot?view=overview", "/api/session"] {
        assert_eq!(browser.get(target).await.status, 401, "{target}");
    }
    assert_eq!(browser.get("/login").await.status, 200);
    let wrong = json!({ "access_key": "AKIDOPS", "secret_key": "guess" }).to_string();
    assert_eq!(browser.ask("POST", "/api/login", &[], &wrong).await.status, 403);

    let right = json!({ "access_key": "AKIDOPS", "secret_key": "long-secret" }).to_string();
    let login = browser.ask("POST", "/api/login", &[], &right).await;
    browser.keep_cookie(&login);
    assert_eq!(browser.get("/queues").await.status, 200);
}

#[tokio::test]
async fn a_stranger_learns_nothing_of_the_server() {
    let mut browser = Browser::new(vec![key()]);
    let text = |response: Response| String::from_utf8(response.body).unwrap();
    let options = browser.console.options.clone();
    let facts = [
        &*options.endpoint,
        &*options.region,
        &*options.account,
        options.durability,
        env!("CARGO_PKG_VERSION"),
        "111111111111",
        "4566",
    ];

    for target in ["/login", "/login?next=/queues", "/nonsense", "/queues", "/api/session"] {
        let answer = browser.get(target).await;
        let headers = format!("{:?}", answer.headers);
        let said = headers + &text(answer);
        for fact in facts {
            assert!(!said.contains(fact), "{target}: {fact} in {said}");
        }
    }

    browser.log_in("AKIDOPS").await;
    let page = text(browser.get("/").await);
    for fact in [&*options.endpoint, &*options.region, env!("CARGO_PKG_VERSION"), "111111111111"] {
        assert!(page.contains(fact), "{fact}");
    }
}

#[tokio::test]
async fn logging_out_ends_the_sessions_streams_and_no_others() {
    let mut browser = Browser::new(vec![key()]);
    let keys = json!({ "access_key": "AKIDOPS", "secret_key": "long-secret" }).to_string();
    let mut open_stream = async || {
        let login = browser.ask("POST", "/api/login", &[], &keys).await;
        browser.keep_cookie(&login);
        let mut stream = browser.get("/events?view=overview").await.stream.unwrap();
        event(&mut stream).await;
        stream
    };
    let mut other = open_stream().await;
    let mut stream = open_stream().await;

    browser.ask("POST", "/api/logout", &[], "").await;

    assert_eq!(std::future::poll_fn(|task| stream.poll_next(task)).await, None);
    let next = tokio::select! {
        next = event(&mut other) => next,
        () = browser.console.run() => unreachable!("the sampler never ends"),
    };
    assert!(next.contains("event: delta"), "{next}");
}

#[tokio::test]
async fn a_stream_ends_with_its_sessions_time() {
    let mut browser = Browser::new(vec![key()]);
    browser.log_in("AKIDOPS").await;
    let mut stream = browser.get("/events?view=overview").await.stream.unwrap();
    event(&mut stream).await;

    let headers = [Header::new("Host", "127.0.0.1:4567"), Header::new("Cookie", &browser.cookie)];
    let last_request = Request { method: "GET", ..Request::post(&headers, b"") };
    let thirteen_hours_ago = Instant::now() - Duration::from_secs(13 * 3600);
    browser.console.sessions.of(&last_request, thirteen_hours_ago).unwrap();

    let end = tokio::select! {
        end = std::future::poll_fn(|task| stream.poll_next(task)) => end,
        () = browser.console.run() => unreachable!("the sampler never ends"),
    };
    assert_eq!(end, None);
}

/// With the keys `AKIDOPS` and `AKIDOTHER`, of accounts 111111111111 and 222222222222.
fn browser_of_two_accounts() -> Browser {
    let other =
        AccessKey { access_key: "AKIDOTHER".into(), account: "222222222222".into(), ..key() };
    Browser::new(vec![key(), other])
}

#[tokio::test]
async fn the_history_of_anothers_queue_is_not_shown() {
    let mut browser = browser_of_two_accounts();
    browser.log_in("AKIDOPS").await;
    browser.create("mine").await;
    let mine = "view=queue&region=us-east-1&account=111111111111&name=mine";
    let mut own = browser.get(&format!("/events?{mine}")).await.stream.unwrap();
    let own_cookie = browser.cookie.clone();
    browser.log_in("AKIDOTHER").await;
    let snapshot = format!("/api/snapshot?{mine}");
    browser.get(&snapshot).await; // From now on it is watched.

    tokio::select! {
        // The first is a snapshot, and a rate takes two samples.
        () = async { for _ in 0..4 { event(&mut own).await; } } => {}
        () = browser.console.run() => unreachable!("the sampler never ends"),
    }
    let others = json(&browser.get(&snapshot).await);
    browser.cookie = own_cookie;
    let own = json(&browser.get(&snapshot).await);

    assert!(!own["history"].as_array().unwrap().is_empty(), "{own}");
    assert_eq!((&others["head"]["is_gone"], &others["history"]), (&json!(true), &json!([])));
}

#[tokio::test]
async fn a_login_opens_its_own_accounts_queues_only() {
    let mut browser = browser_of_two_accounts();
    browser.log_in("AKIDOPS").await;
    browser.create("mine").await;
    browser.log_in("AKIDOTHER").await;
    browser.create("theirs").await;

    let queues = json(&browser.get("/api/snapshot?view=queues").await);
    let names: Vec<&str> = queues["lists"]["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let mine = "region=us-east-1&account=111111111111&name=mine";
    let delete = json!({ "QueueUrl": "http://127.0.0.1:4566/111111111111/mine" });

    let places = json(&browser.get("/api/places").await);

    assert_eq!(names, ["theirs"]);
    assert_eq!(places, json!([{ "region": "us-east-1", "account": "222222222222" }]));
    assert_eq!(browser.get(&format!("/api/browse?{mine}")).await.status, 404);
    assert_eq!(browser.get("/queues/us-east-1/111111111111/mine").await.status, 404);
    assert_eq!(browser.act("DeleteQueue", delete).await.status, 403);
}
