//! Sessions by cookies and time, without a console around them.

use millrace_wire::Header;

use super::*;
use crate::failures::{MAX_OF_KEY, WINDOW};

fn keys() -> Vec<AccessKey> {
    vec![AccessKey {
        access_key: "AKIDOPS".into(),
        secret_key: "long-secret".into(),
        account: "111111111111".into(),
        name: "ops".into(),
    }]
}

fn with<T>(headers: &[(&str, &str)], test: impl FnOnce(&Request<'_>) -> T) -> T {
    let headers: Vec<_> = headers.iter().map(|(name, value)| Header::new(name, value)).collect();
    test(&Request::post(&headers, b""))
}

fn pair(set_cookie: &str) -> &str {
    set_cookie.split(';').next().unwrap()
}

#[test]
fn without_credentials_a_browser_gets_a_cookie_and_a_token_that_belongs_to_it() {
    let sessions = Sessions::new(AccessKeys::default(), [7; 32]);
    let now = Instant::now();
    let first = with(&[], |request| sessions.of(request, now)).unwrap();
    let cookie = first.new_cookie.clone().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));

    let again = with(&[("Cookie", pair(&cookie))], |request| sessions.of(request, now)).unwrap();
    let other = with(&[], |request| sessions.of(request, now)).unwrap();

    assert_eq!((&again.token, &again.new_cookie), (&first.token, &None));
    assert_ne!(other.token, first.token);
}

#[test]
fn behind_a_proxy_that_ends_tls_the_cookie_is_for_tls_only() {
    let sessions = Sessions::new(AccessKeys::new(keys()), [7; 32]);
    let is_secure = |proto: &str| {
        let headers = [("X-Forwarded-Proto", proto)];
        let now = Instant::now();
        let set = with(&headers, |r| sessions.log_in(("AKIDOPS", "long-secret"), r, now));
        set.unwrap().ends_with("; Secure")
    };

    assert!(is_secure("https") && is_secure("HTTPS") && is_secure("https, http"));
    assert!(is_secure(", https") && is_secure("gopher, https"));
    assert!(!is_secure("http") && !is_secure("http, https") && !is_secure(""));
    assert!(!with(&[], |request| set_cookie("id", request)).contains("Secure"));
}

#[test]
fn a_cookie_is_found_in_any_field() {
    let fields = [("Cookie", "theme=dark; other=1"), ("cookie", "x=2"), ("Cookie", "id=3")];

    with(&fields, |request| {
        assert_eq!(cookie(request, "theme"), Some("dark"));
        assert_eq!(cookie(request, "id"), Some("3"));
        assert_eq!(cookie(request, "missing"), None);
    });
}

#[test]
fn a_change_needs_its_own_sessions_token() {
    let sessions = Sessions::new(AccessKeys::default(), [7; 32]);
    let session = with(&[], |request| sessions.of(request, Instant::now())).unwrap();

    assert!(with(&[("X-CSRF-Token", &session.token)], |r| has_token(r, &session)));
    assert!(!with(&[("X-CSRF-Token", "")], |r| has_token(r, &session)));
    assert!(!with(&[], |r| has_token(r, &session)));
    let forged = Sessions::new(AccessKeys::default(), [8; 32]).token("0".repeat(32).as_str());
    assert!(!with(&[("X-CSRF-Token", &forged)], |r| has_token(r, &session)));
}

#[test]
fn with_credentials_only_a_login_opens_a_session_and_logout_ends_it() {
    let sessions = Sessions::new(AccessKeys::new(keys()), [7; 32]);
    let now = Instant::now();
    let made_up = "millrace_console=00000000000000000000000000000000";
    assert!(with(&[], |request| sessions.of(request, now)).is_none());
    assert!(with(&[("Cookie", made_up)], |request| sessions.of(request, now)).is_none());

    let set = with(&[], |request| sessions.log_in(("AKIDOPS", "long-secret"), request, now));
    let cookie = [("Cookie", pair(set.as_ref().unwrap()))];
    let session = with(&cookie, |request| sessions.of(request, now)).unwrap();
    assert_eq!(session.viewer.account.as_deref(), Some("111111111111"));
    assert_eq!(session.viewer.name, "ops");

    assert!(!session.hold.has_ended(now));
    with(&cookie, |request| sessions.log_out(request));
    assert!(with(&cookie, |request| sessions.of(request, now)).is_none());
    assert!(session.hold.has_ended(now));
}

#[test]
fn a_session_ends_with_its_access_key() {
    let keys_of = |secret: &str| {
        keys().into_iter().map(|key| AccessKey { secret_key: secret.into(), ..key }).collect()
    };
    let shared = AccessKeys::new(keys_of("long-secret"));
    let sessions = Sessions::new(shared.clone(), [7; 32]);
    let now = Instant::now();
    let log_in = |secret| with(&[], |request| sessions.log_in(("AKIDOPS", secret), request, now));
    let cookie = log_in("long-secret").unwrap();
    let of = || with(&[("Cookie", pair(&cookie))], |request| sessions.of(request, now));
    let hold = of().unwrap().hold;

    shared.replace(keys_of("another-secret")).unwrap();

    assert!(hold.has_ended(now));
    assert!(of().is_none());
    assert_eq!(log_in("long-secret"), Err(LoginError::WrongKey));
    assert!(log_in("another-secret").is_ok());
}

#[test]
fn consoles_on_two_ports_of_a_host_leave_each_others_sessions_alone() {
    let sessions = [
        Sessions::new(AccessKeys::new(keys()), [7; 32]),
        Sessions::new(AccessKeys::new(keys()), [8; 32]),
    ];
    let hosts = [("Host", "127.0.0.1:4567"), ("Host", "127.0.0.1:4568")];
    let now = Instant::now();
    let log_in = |at: usize| {
        with(&[hosts[at]], |r| sessions[at].log_in(("AKIDOPS", "long-secret"), r, now)).unwrap()
    };
    let cookies = [log_in(0), log_in(1)];
    let both = format!("{}; {}", pair(&cookies[0]), pair(&cookies[1]));

    for at in [0, 1] {
        let headers = [hosts[at], ("Cookie", both.as_str())];
        assert!(with(&headers, |request| sessions[at].of(request, now)).is_some());
    }
    let gone = with(&[hosts[0], ("Cookie", &both)], |r| sessions[0].log_out(r));
    assert!(gone.starts_with("millrace_console_4567=;"), "{gone}");
}

#[test]
fn a_session_ends_when_nobody_uses_it() {
    let sessions = Sessions::new(AccessKeys::new(keys()), [7; 32]);
    let start = Instant::now();
    let set = with(&[], |r| sessions.log_in(("AKIDOPS", "long-secret"), r, start)).unwrap();
    let cookie = [("Cookie", pair(&set))];

    let used = start + IDLE;
    let hold = with(&cookie, |request| sessions.of(request, used)).unwrap().hold;
    assert!(!hold.has_ended(used + IDLE));
    let idle = used + IDLE + Duration::from_secs(1);
    assert!(hold.has_ended(idle));
    assert!(with(&cookie, |request| sessions.of(request, idle)).is_none());
}

#[test]
fn many_logins_with_a_key_end_sessions_of_that_key_only() {
    let other = AccessKey { access_key: "AKIDOTHER".into(), ..keys().remove(0) };
    let sessions = Sessions::new(AccessKeys::new([keys(), vec![other]].concat()), [7; 32]);
    let start = Instant::now();
    let log_in = |access_key, now| {
        with(&[], |r| sessions.log_in((access_key, "long-secret"), r, now)).unwrap()
    };
    let is_open = |cookie: &str, now| {
        with(&[("Cookie", pair(cookie))], |request| sessions.of(request, now)).is_some()
    };
    let alices = log_in("AKIDOPS", start);

    let second = Duration::from_secs(1);
    let bobs: Vec<String> =
        (1..=MAX_SESSIONS as u32).map(|at| log_in("AKIDOTHER", start + second * at)).collect();

    let now = start + second * MAX_SESSIONS as u32;
    assert!(is_open(&alices, now));
    let open = bobs.iter().rev().take_while(|cookie| is_open(cookie, now)).count();
    assert_eq!((open, lock(&sessions.open).len()), (MAX_SESSIONS_OF_KEY, 1 + open));
}

#[test]
fn many_keys_of_one_account_end_sessions_of_that_account_only() {
    let number_of = |number: usize| format!("AKID{number}");
    let of_other = |number| AccessKey {
        access_key: number_of(number),
        account: "222222222222".into(),
        ..keys().remove(0)
    };
    let others: Vec<AccessKey> = (0..11).map(of_other).collect();
    let sessions = Sessions::new(AccessKeys::new([keys(), others].concat()), [7; 32]);
    let start = Instant::now();
    let log_in = |access_key: &str, now| {
        with(&[], |r| sessions.log_in((access_key, "long-secret"), r, now)).unwrap()
    };
    let alices = log_in("AKIDOPS", start);

    for at in 1..=2 * MAX_SESSIONS {
        log_in(&number_of(at % 11), start + Duration::from_millis(at as u64));
    }

    let now = start + Duration::from_secs(60);
    let is_open = with(&[("Cookie", pair(&alices))], |request| sessions.of(request, now)).is_some();
    assert!(is_open && lock(&sessions.open).len() == MAX_SESSIONS);
}

#[test]
fn guessing_is_slowed_down_for_the_key_that_is_guessed() {
    let other = AccessKey { access_key: "AKIDOTHER".into(), ..keys().remove(0) };
    let sessions = Sessions::new(AccessKeys::new([keys(), vec![other]].concat()), [7; 32]);
    let start = Instant::now();
    let log_in = |keys, now| with(&[], |r| sessions.log_in(keys, r, now));
    for _ in 0..MAX_OF_KEY {
        assert_eq!(log_in(("AKIDOPS", "guess"), start), Err(LoginError::WrongKey));
    }

    let right = ("AKIDOPS", "long-secret");
    assert_eq!(log_in(right, start), Err(LoginError::TooManyFailures));
    assert!(log_in(("AKIDOTHER", "long-secret"), start).is_ok());
    assert!(log_in(right, start + WINDOW + Duration::from_secs(1)).is_ok());
}
