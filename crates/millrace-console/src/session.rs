//! Who looks: sessions, their cookie, and the token that a change must carry.
//!
//! Without configured credentials everybody who reaches the console may do anything; the cookie
//! then only ties the token to the browser. With credentials a session is opened by an access key
//! and its secret; it lives in memory and ends after [`IDLE`] without a request, with its access
//! key, or with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use millrace_core::hex_text;
use millrace_services::{AccessKey, AccessKeys};
use millrace_wire::sigv4::equal_in_constant_time;
use millrace_wire::{Request, Scheme};
use ring::hmac;

use crate::failures::Failures;
use crate::guard;

/// A session nobody uses ends after this time.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; beyond, the one unused for longest ends.
const MAX_SESSIONS: usize = 1_000;
/// The same of one access key: its own sessions make room before others'.
const MAX_SESSIONS_OF_KEY: usize = 100;

/// How the cookie's name begins; see [`cookie_name`].
const COOKIE: &str = "millrace_console";

/// Who looks at the console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    Session(Weak<Open>, AccessKeys),
}

/// Why a login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginError {
    WrongKey,
    TooManyFailures,
}

pub(crate) struct Sessions {
    keys: AccessKeys,
    /// Of it tokens are made.
    secret: hmac::Key,
    /// What points to one sees its end.
    open: Mutex<HashMap<String, Arc<Open>>>,
    failures: Failures,
}

#[derive(Debug)]
pub(crate) struct Open {
    /// As it was at the login.
    key: AccessKey,
    /// Locked last, for a moment, also while a stream that has to know is held.
    used_at: Mutex<Instant>,
}

impl Hold {
    pub(crate) fn has_ended(&self, now: Instant) -> bool {
        match self {
            Hold::Unbounded => false,
            Hold::Session(session, keys) => {
                session.upgrade().is_none_or(|session| session.is_over(keys, now))
            }
        }
    }
}

impl Open {
    fn used_at(&self) -> Instant {
        *lock(&self.used_at)
    }

    fn is_over(&self, keys: &AccessKeys, now: Instant) -> bool {
        now.duration_since(self.used_at()) > IDLE || !keys.all().contains(&self.key)
    }
}

impl Sessions {
    /// `secret` seals tokens: unguessable, new for each process.
    pub(crate) fn new(keys: AccessKeys, secret: [u8; 32]) -> Sessions {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        Sessions { keys, secret, open: Mutex::default(), failures: Failures::default() }
    }

    pub(crate) fn need_login(&self) -> bool {
        self.keys.is_on()
    }

    /// The session that a request belongs to; none if it needs a login first.
    pub(crate) fn of(&self, request: &Request<'_>, now: Instant) -> Option<Session> {
        let id = cookie(request, &cookie_name(request)).filter(|id| is_id(id));
        if !self.need_login() {
            let (id, is_new) = match id {
                Some(id) => (id.to_owned(), false),
                None => (random_id()?, true),
            };
            let new_cookie = is_new.then(|| set_cookie(&id, request));
            let (viewer, token) = (Viewer::default(), self.token(&id));
            return Some(Session { viewer, hold: Hold::Unbounded, token, new_cookie });
        }
        let id = id?;
        let mut open = lock(&self.open);
        let session = open.get(id)?;
        if session.is_over(&self.keys, now) {
            open.remove(id);
            return None;
        }
        *lock(&session.used_at) = now;
        let hold = Hold::Session(Arc::downgrade(session), self.keys.clone());
        let key = &session.key;
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
        let keys = self.keys.all();
        let mut found = None;
        for key in keys.iter() {
            let is_same =
                |given: &str, kept: &str| equal_in_constant_time(given.as_bytes(), kept.as_bytes());
            let is_key = is_same(access_key, &key.access_key);
            let is_secret = is_same(secret_key, &key.secret_key);
            if is_key & is_secret {
                found = Some(key);
            }
        }
        let (Some(key), Some(id)) = (found, random_id()) else {
            self.failures.count(request.peer, access_key, now);
            return Err(LoginError::WrongKey);
        };
        let mut open = lock(&self.open);
        if open.values().filter(|session| session.key == *key).count() >= MAX_SESSIONS_OF_KEY {
            end_oldest(&mut open, |session| session.key == *key);
        }
        if open.len() >= MAX_SESSIONS {
            let most = account_with_most(&open);
            end_oldest(&mut open, |session| Some(&session.key.account) == most.as_ref());
        }
        let session = Open { key: key.clone(), used_at: Mutex::new(now) };
        open.insert(id.clone(), Arc::new(session));
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
        hex_text(hmac::sign(&self.secret, id.as_bytes()).as_ref())
    }
}

/// The account that has most sessions.
fn account_with_most(open: &HashMap<String, Arc<Open>>) -> Option<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    open.values().for_each(|session| *counts.entry(&session.key.account).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(account, _)| account.to_owned())
}

/// Ends the session among `those` that is unused for longest.
fn end_oldest(open: &mut HashMap<String, Arc<Open>>, those: impl Fn(&Open) -> bool) {
    let those = open.iter().filter(|(_, session)| those(session));
    let oldest = those.min_by_key(|(_, session)| session.used_at()).map(|(id, _)| id.clone());
    if let Some(oldest) = oldest {
        open.remove(&oldest);
    }
}

/// Whether a change carries its session's token.
pub(crate) fn has_token(request: &Request<'_>, session: &Session) -> bool {
    let given = request.header("x-csrf-token").unwrap_or_default();
    equal_in_constant_time(given.as_bytes(), session.token.as_bytes())
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
/// their own cookie from plain HTTP.
fn is_secure(request: &Request<'_>) -> bool {
    request.is_tls || Scheme::of(request) == Scheme::Https
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// 128 bits of the system's generator; none if it fails.
fn random_id() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(hex_text(&bits))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
