use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use millrace_server::{Cors, Hooks};

use crate::support::{Running, options, start, start_where, start_with};

fn with_cors(cors: Cors) -> Running {
    let mut options = options();
    options.cors = cors;
    start_with(options, Hooks::default())
}

#[test]
fn health_is_ok_while_serving() {
    let server = start();
    let mut client = server.connect();

    let reply = client.get("/health");

    assert_eq!((reply.status, reply.text()), (200, r#"{"status":"ok"}"#));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(client.ask("POST /health HTTP/1.1\r\nHost: a\r\n\r\n").text(), "ok");
}

#[test]
fn readiness_follows_the_service_and_the_drain() {
    let is_ready = Arc::new(AtomicBool::new(false));
    let for_hook = Arc::clone(&is_ready);
    let hooks = Hooks { is_ready: Arc::new(move || for_hook.load(Relaxed)), ..Hooks::default() };
    let server = start_with(options(), hooks);
    let mut client = server.connect();

    let before = client.get("/ready").status;
    is_ready.store(true, Relaxed);
    let after = client.get("/ready").status;
    // A question that is half asked when the drain starts is still answered.
    client.send("GET /ready HTTP/1.1\r\nHost: te");
    client.wait_until_read(&server);
    server.drain.start();
    let while_draining = client.ask("st\r\n\r\n");

    assert_eq!((before, after), (503, 200));
    assert_eq!((while_draining.status, while_draining.text()), (503, r#"{"status":"draining"}"#));
    assert_eq!(while_draining.header("connection"), Some("close"));
}

#[test]
fn pages_of_any_origin_may_read_when_told_so() {
    let server = with_cors(Cors::Any);
    let mut client = server.connect();

    let reply = client.ask("GET / HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n");
    let without = client.get("/");

    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    let exposed = reply.header("access-control-expose-headers");
    assert_eq!(exposed, Some("x-amzn-requestid,x-amzn-query-error,date"));
    assert_eq!(without.header("access-control-allow-origin"), None);
}

#[test]
fn preflights_are_answered_by_the_server() {
    let server = with_cors(Cors::Any);

    let reply = server.connect().ask(
        "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\nAccess-Control-Request-Method: POST\
         \r\nAccess-Control-Request-Headers: x-amz-target,authorization\r\n\r\n",
    );

    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    let allowed = reply.header("access-control-allow-headers");
    assert_eq!(allowed, Some("x-amz-target,authorization"));
    assert!(reply.header("access-control-max-age").is_some());
}

#[test]
fn only_listed_origins_may_read() {
    let server = with_cors(Cors::Origins(vec!["https://good.example".into()]));
    let mut client = server.connect();

    let good = client.ask("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://good.example\r\n\r\n");
    let bad = client.ask("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://bad.example\r\n\r\n");

    assert_eq!(good.header("access-control-allow-origin"), Some("https://good.example"));
    assert_eq!(good.header("vary"), Some("Origin"));
    assert_eq!(bad.header("access-control-allow-origin"), None);
}

#[test]
fn other_pages_are_refused_where_no_signature_is_needed() {
    let server = start_where(|options| {
        options.cors = Cors::Origins(vec!["https://good.example".into()]);
        options.refuses_other_pages = true;
    });
    let mut client = server.connect();
    let mut status = |header: &str| {
        client.ask(format!("GET /echo HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n")).status
    };

    assert_eq!(status("Origin: https://bad.example"), 403);
    assert_eq!(status("Origin: null"), 403);
    assert_eq!(status("Sec-Fetch-Site: cross-site"), 403, "an image, say");
    assert_eq!(status("Sec-Fetch-Site: none"), 200, "typed in");
    assert_eq!(status("Origin: https://good.example"), 200);
    assert_eq!(status("Origin: http://a"), 403, "a name that was made to point here");
    assert_eq!(status("Origin: https://a\r\nSec-Fetch-Site: same-origin"), 200);
    let browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept-Language: en";
    assert_eq!(status(browser), 403, "an image over plain HTTP, say");
    assert_eq!(status(&format!("{browser}\r\nSec-Fetch-Site: none")), 200);
    assert_eq!(status(&format!("{browser}\r\nOrigin: https://good.example")), 200);
    assert_eq!(status("User-Agent: aws-cli/2.0"), 200, "no browser");
    assert_eq!(status("X: y"), 200, "no browser");
}

#[test]
fn programs_that_call_themselves_browsers_may_call() {
    let server = start_where(|options| options.refuses_other_pages = true);
    let mut client = server.connect();
    let mut status = |method: &str, headers: &str| {
        let head = format!("{method} /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n");
        client.ask(format!("{head}{headers}\r\n\r\n")).status
    };

    let signed = "Authorization: AWS4-HMAC-SHA256 Credential=a";
    for name in ["Mozilla/5.0 (compatible; pycurl)", "Mozilla/5.0 (X11; Linux) Gecko/1 Firefox/1"] {
        let agent = format!("User-Agent: {name}");
        let spoken = format!("{agent}\r\nAccept-Language: en");
        for method in ["GET", "POST"] {
            assert_eq!(status(method, &agent), 200, "{method} {name}");
            assert_eq!(status(method, &format!("{spoken}\r\n{signed}")), 200, "{method} {name}");
        }
        assert_eq!(status("POST", &spoken), 200, "{name}");
        assert_eq!(status("GET", &format!("{spoken}\r\nX-Amz-Target: AmazonSQS.A")), 200, "{name}");
        // Pages can have this sent as well.
        assert_eq!(status("GET", &format!("{spoken}\r\nAuthorization: Basic YQ==")), 403, "{name}");
        // A browser would have asked first, and been refused.
        for page in ["Origin: http://b", "Sec-Fetch-Site: cross-site"] {
            assert_eq!(status("POST", &format!("{agent}\r\n{page}\r\n{signed}")), 200, "{name}");
            assert_eq!(status("POST", &format!("{agent}\r\n{page}")), 403, "{name}");
        }
    }
}

#[test]
fn pages_of_a_name_that_was_made_to_point_here_are_refused() {
    let mut options = options();
    options.cors = Cors::Local;
    options.refuses_other_pages = true;
    let server = start_with(options, Hooks::default());
    let mut client = server.connect();
    let mut status = |host: &str, headers: &str| {
        client.ask(format!("GET /echo HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")).status
    };

    // As a page may have its own GET sent by Firefox over plain HTTP.
    let page = "User-Agent: x\r\nAccept-Language: *\r\nAccept-Encoding: gzip, deflate\r\n";
    for theirs in ["evil.example", "evil.example:4566", "127.0.0.1.evil.example:80", "a.b."] {
        assert_eq!(status(theirs, page), 403, "{theirs}");
        let signed = format!("{page}Authorization: AWS4-HMAC-SHA256 Credential=a\r\n");
        assert_eq!(status(theirs, &signed), 403, "{theirs}: made up");
        let own = format!("{signed}Origin: http://{theirs}\r\nSec-Fetch-Site: same-origin\r\n");
        assert_eq!(status(theirs, &own), 403, "{theirs}: a page of that name");
        assert_eq!(status(theirs, "User-Agent: curl/8\r\nAccept: */*\r\n"), 200, "{theirs}");
        assert_eq!(status(theirs, &format!("{page}Sec-Fetch-Mode: cors\r\n")), 200, "Node");
    }
    for ours in ["127.0.0.1:4566", "[::1]:4566", "[::ffff:127.0.0.1]", "millrace:4566"] {
        assert_eq!(status(ours, page), 200, "{ours}");
    }
    assert_eq!(status("sqs.us-east-1.localhost:4566", page), 200);

    let sdk =
        format!("POST /echo HTTP/1.1\r\nHost: sqs.example\r\n{page}Content-Length: 0\r\n\r\n");
    assert_eq!(client.ask(sdk).status, 200, "an SDK on a system that adds languages");
}

#[test]
fn preflights_go_to_the_service_when_cors_is_off() {
    let server = with_cors(Cors::Off);

    let reply = server.connect().ask(
        "OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\
         Access-Control-Request-Method: POST\r\n\r\n",
    );

    assert_eq!(reply.text(), "OPTIONS /echo \n");
}
