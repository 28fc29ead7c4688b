//! Who looks: sessions, their cookie, and the token that a change must carry.
//!
//! Without configured credentials everybody who reaches the console may do anything; the cookie
//! then only ties the token to the browser. With credentials a session is opened by an access key
//! and its secret; it lives in memory and ends after [`IDLE`] without a request, or with the
//! process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use millrace_services::AccessKey;
use millrace_wire::Request;
use sha2::Sha256;

use crate::failures::Failures;
use crate::guard::{self, is_same_secret};

/// A session nobody uses ends after this time.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; beyond, the one unused for longest ends.
const MAX_SESSIONS: usize = 1_000;
/// The same of one access key: its own sessions make room before others'.
const MAX_SESSIONS_OF_KEY: usize = 100;

/// How the cookie's name begins; see [`cookie_name`].
const COOKIE: &str = "millrace_console";

/// Who looks at the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// The only account whose queues are shown; all if no credentials are configured.
    pub account: Option<String>,
    pub access_key: Option<String>,
    /// For people; empty if nobody logged in.
    pub name: String,
}

/// A browser, and who uses it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub viewer: Viewer,
    /// What outlives the request ends with it.
    pub hold: Hold,
    /// What a change must carry.
    pub token: String,
    /// Set if the browser has no cookie yet.
    pub new_cookie: Option<String>,
}

/// Tells whether a session is still open.
#[derive(Clone, Debug)]
pub(crate) enum Hold {
    /// Nobody logged in: nothing to end.
    Unbounded,
    Session(Weak<Mutex<Instant>>),
}

/// Why a login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginError {
    WrongKey,
    TooManyFailures,
}

pub(crate) struct Sessions {
    keys: Vec<AccessKey>,
    secret: [u8; 32],
    open: Mutex<HashMap<String, Open>>,
    failures: Failures,
}

struct Open {
    key: usize,
    /// The only one: what points to it sees the session's end. Locked last, for a moment, also while
    /// a stream that has to know is held.
    used_at: Arc<Mutex<Instant>>,
}

impl Hold {
    pub(crate) fn has_ended(&self, now: Instant) -> bool {
        match self {
            Hold::Unbounded => false,
            Hold::Session(used_at) => used_at.upgrade().is_none_or(|at| is_over(*lock(&at), now)),
        }
    }
}

impl Open {
    fn used_at(&self) -> Instant {
        *lock(&self.used_at)
    }
}

impl Sessions {
    /// `secret` seals tokens: unguessable, new for each process.
    pub(crate) fn new(keys: Vec<AccessKey>, secret: [u8; 32]) -> Sessions {
        Sessions { keys, secret, open: Mutex::default(), failures: Failures::default() }
    }

    pub(crate) fn need_login(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The session that a request belongs to; none if it needs a login first.
    pub(crate) fn of(&self, request: &Request<'_>, now: Instant) -> Option<Session> {
        let id = cookie(request, &cookie_name(request)).filter(|id| is_id(id));
        if !self.need_login() {
            let (id, is_new) = match id {
                Some(id) => (id.to_owned(), false),
                None => (random_id()?, true),
            };
            let viewer = Viewer { account: None, access_key: None, name: String::new() };
            let new_cookie = is_new.then(|| set_cookie(&id, request));
            let token = self.token(&id);
            return Some(Session { viewer, hold: Hold::Unbounded, token, new_cookie });
        }
        let id = id?;
        let mut open = lock(&self.open);
        let session = open.get(id)?;
        if is_over(session.used_at(), now) {
            open.remove(id);
            return None;
        }
        *lock(&session.used_at) = now;
        let hold = Hold::Session(Arc::downgrade(&session.used_at));
        let key = self.keys.get(session.key)?;
        let viewer = Viewer {
            account: Some(key.account.clone()),
            access_key: Some(key.access_key.clone()),
            name: if key.name.is_empty() { key.access_key.clone() } else { key.name.clone() },
        };
        Some(Session { viewer, hold, token: self.token(id), new_cookie: None })
    }

    /// Opens a session; returns the cookie to set.
    pub(crate) fn log_in(
        &self,
        (access_key, secret_key): (&str, &str),
        request: &Request<'_>,
        now: Instant,
    ) -> Result<String, LoginError> {
        if !self.failures.may_try(request.peer, access_key, now) {
            return Err(LoginError::TooManyFailures);
        }
        // Every pair is compared, so that the time tells nothing about which keys there are.
        let mut found = None;
        for (index, key) in self.keys.iter().enumerate() {
            let is_key = is_same_secret(access_key, &key.access_key);
            let is_secret = is_same_secret(secret_key, &key.secret_key);
            if is_key & is_secret {
                found = Some(index);
            }
        }
        let (Some(key), Some(id)) = (found, random_id()) else {
            self.failures.count(request.peer, access_key, now);
            return Err(LoginError::WrongKey);
        };
        let mut open = lock(&self.open);
        if open.values().filter(|session| session.key == key).count() >= MAX_SESSIONS_OF_KEY {
            end_oldest(&mut open, |session| session.key == key);
        }
        if open.len() >= MAX_SESSIONS {
            end_oldest(&mut open, |_| true);
        }
        open.insert(id.clone(), Open { key, used_at: Arc::new(Mutex::new(now)) });
        Ok(set_cookie(&id, request))
    }

    /// Ends the session of a request; returns the cookie that takes it from the browser.
    pub(crate) fn log_out(&self, request: &Request<'_>) -> String {
        let name = cookie_name(request);
        if let Some(id) = cookie(request, &name) {
            lock(&self.open).remove(id);
        }
        format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
    }

    fn token(&self, id: &str) -> String {
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) else {
            return String::new();
        };
        mac.update(id.as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn is_over(used_at: Instant, now: Instant) -> bool {
    now.duration_since(used_at) > IDLE
}

/// Ends the session among `those` that is unused for longest.
fn end_oldest(open: &mut HashMap<String, Open>, those: impl Fn(&Open) -> bool) {
    let those = open.iter().filter(|(_, session)| those(session));
    let oldest = those.min_by_key(|(_, session)| session.used_at()).map(|(id, _)| id.clone());
    if let Some(oldest) = oldest {
        open.remove(&oldest);
    }
}

/// Whether a change carries its session's token.
pub(crate) fn has_token(request: &Request<'_>, session: &Session) -> bool {
    let given = request.header("x-csrf-token").unwrap_or_default();
    !session.token.is_empty() && is_same_secret(given, &session.token)
}

/// The value of a cookie. Over HTTP/2 browsers send each in a field of its own (RFC 9113, 8.2.3).
pub(crate) fn cookie<'a>(request: &Request<'a>, name: &str) -> Option<&'a str> {
    let fields = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("cookie"));
    let texts = fields.filter_map(|field| str::from_utf8(field.value).ok());
    let mut pairs =
        texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Browsers send a cookie to every port of its host. With the port as they know it in its name,
/// consoles beside one another do not take each other's.
fn cookie_name(request: &Request<'_>) -> String {
    match guard::port(request.header("host").unwrap_or_default()) {
        Some(port) => format!("{COOKIE}_{port}"),
        None => COOKIE.to_owned(),
    }
}

fn set_cookie(id: &str, request: &Request<'_>) -> String {
    let secure = if is_secure(request) { "; Secure" } else { "" };
    let name = cookie_name(request);
    format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict{secure}")
}

/// Whether the browser asks over TLS. A proxy that ends it says so; who makes that up only keeps
/// their own cookie from plain HTTP. Proxies in a row append what each saw.
fn is_secure(request: &Request<'_>) -> bool {
    let by_proxy = request.header("x-forwarded-proto").unwrap_or_default();
    let browsers = by_proxy.split(',').next().unwrap_or_default().trim();
    request.is_tls || browsers.eq_ignore_ascii_case("https")
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// 128 bits of the system's generator; none if it fails.
fn random_id() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

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
        let headers: Vec<Header<'_>> =
            headers.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        test(&Request {
            method: "POST",
            path: "/",
            query: "",
            headers: &headers,
            body: b"",
            peer: IpAddr::from([127, 0, 0, 1]),
            is_tls: false,
        })
    }

    fn pair(set_cookie: &str) -> &str {
        set_cookie.split(';').next().unwrap()
    }

    #[test]
    fn without_credentials_a_browser_gets_a_cookie_and_a_token_that_belongs_to_it() {
        let sessions = Sessions::new(Vec::new(), [7; 32]);
        let now = Instant::now();
        let first = with(&[], |request| sessions.of(request, now)).unwrap();
        let cookie = first.new_cookie.clone().unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));

        let again =
            with(&[("Cookie", pair(&cookie))], |request| sessions.of(request, now)).unwrap();
        let other = with(&[], |request| sessions.of(request, now)).unwrap();

        assert_eq!((&again.token, &again.new_cookie), (&first.token, &None));
        assert_ne!(other.token, first.token);
    }

    #[test]
    fn behind_a_proxy_that_ends_tls_the_cookie_is_for_tls_only() {
        let sessions = Sessions::new(keys(), [7; 32]);
        let is_secure = |proto: &str| {
            let headers = [("X-Forwarded-Proto", proto)];
            let now = Instant::now();
            let set = with(&headers, |r| sessions.log_in(("AKIDOPS", "long-secret"), r, now));
            set.unwrap().ends_with("; Secure")
        };

        assert!(is_secure("https") && is_secure("HTTPS") && is_secure("https, http"));
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
        let sessions = Sessions::new(Vec::new(), [7; 32]);
        let session = with(&[], |request| sessions.of(request, Instant::now())).unwrap();

        assert!(with(&[("X-CSRF-Token", &session.token)], |r| has_token(r, &session)));
        assert!(!with(&[("X-CSRF-Token", "")], |r| has_token(r, &session)));
        assert!(!with(&[], |r| has_token(r, &session)));
        let forged = Sessions::new(Vec::new(), [8; 32]).token("0".repeat(32).as_str());
        assert!(!with(&[("X-CSRF-Token", &forged)], |r| has_token(r, &session)));
    }

    #[test]
    fn with_credentials_only_a_login_opens_a_session_and_logout_ends_it() {
        let sessions = Sessions::new(keys(), [7; 32]);
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
    fn consoles_on_two_ports_of_a_host_leave_each_others_sessions_alone() {
        let sessions = [Sessions::new(keys(), [7; 32]), Sessions::new(keys(), [8; 32])];
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
        let sessions = Sessions::new(keys(), [7; 32]);
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
        let sessions = Sessions::new([keys(), vec![other]].concat(), [7; 32]);
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
    fn guessing_is_slowed_down_for_the_key_that_is_guessed() {
        let other = AccessKey { access_key: "AKIDOTHER".into(), ..keys().remove(0) };
        let sessions = Sessions::new([keys(), vec![other]].concat(), [7; 32]);
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
}
