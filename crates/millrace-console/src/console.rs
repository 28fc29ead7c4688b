//! Which path is what, and who may have it.
//!
//! ```text
//! GET  /, /queues, /queues/{region}/{account}/{name}[/{tab}], /metrics, /alarms, /server,
//!      /domains[/{region}/{account}/{name}], /topics[/{region}/{account}/{name}], /login     pages
//! GET  /assets/{version}/{file}, /favicon.ico
//! GET  /events?view=…          server-sent events
//! GET  /api/snapshot?view=…    the same once, for browsers that cannot hold a stream
//! GET  /api/session            the token, and who it is for
//! GET  /api/places[?having=alarms|domains|topics]   regions and accounts, of series or of these
//! GET  /api/browse, /api/message
//! POST /api/states, /api/handles    of messages that a page shows
//! POST /api/filter             tries a filter policy of SNS on a message
//! POST /api/deliveries         counts of subscriptions
//! POST /api/call/{service}/{action}?region=…&account=…     an action, as AWS JSON 1.0;
//!                                                        of SimpleDB and SNS, as a form
//! POST /api/login, /api/logout
//! ```

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use millrace_broker::{BrokerError, Shards, SharedQueue};
use millrace_core::{hex_text, is_account};
use millrace_services::{AccessKeys, Services};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Header, Judgement, Request, Response, Service, Tenant};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::chosen::Chosen;
use crate::guard::{self, Hosts, SECURITY_HEADERS};
use crate::html::segment;
use crate::live::Live;
use crate::page::{Frame, Page, Theme};
use crate::session::{self, LoginError, Session, Sessions};
use crate::surroundings::{ReadFigures, Surroundings};
use crate::view::{self, Part, Selection, View};
use crate::{assets, browse, chosen, deliveries, filter};

/// What the console may decide.
#[derive(Clone)]
pub struct Options {
    /// Who may log in; none: everybody who reaches the console may do anything.
    pub access_keys: AccessKeys,
    /// Of requests that name none.
    pub region: String,
    pub account: String,
    /// Where clients reach SQS, for instance `http://127.0.0.1:4566`.
    pub endpoint: String,
    /// Names by which the console may be addressed, besides IP addresses and `localhost`.
    pub host_names: Vec<String>,
    /// `fsync`, `os` or `memory`, for people.
    pub durability: &'static str,
    /// Figures of sockets and disk.
    pub figures: ReadFigures,
    /// Unguessable, new for each process.
    pub secret: [u8; 32],
}

/// The console, as a service to be served on a listener of its own.
pub struct Console {
    shards: Arc<Shards>,
    services: Arc<Services>,
    sessions: Sessions,
    hosts: Hosts,
    live: Live,
    options: Options,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    access_key: String,
    secret_key: String,
}

/// An action of a service, in the form that its protocol has.
struct Action<'a> {
    /// Empty if the body names the action.
    target: String,
    content_type: &'static str,
    body: Cow<'a, [u8]>,
}

impl<'a> Action<'a> {
    fn of_json(target: String, request: &Request<'a>) -> Action<'a> {
        let content_type = "application/x-amz-json-1.0";
        Action { target, content_type, body: request.body.into() }
    }

    /// The request's body is a form without action and version.
    fn of_form(version: &str, action: &str, request: &Request<'a>) -> Action<'a> {
        let mut body = format!("Action={}&Version={version}&", segment(action)).into_bytes();
        body.extend_from_slice(request.body);
        let content_type = "application/x-www-form-urlencoded";
        Action { target: String::new(), content_type, body: body.into() }
    }
}

impl Console {
    pub fn new(shards: Arc<Shards>, services: Arc<Services>, options: Options) -> Console {
        let process = hex_text(&options.secret[24..]);
        let surroundings = Arc::new(Surroundings::new(
            shards.clone(),
            services.clone(),
            options.access_keys.clone(),
            (options.figures.clone(), options.durability),
        ));
        Console {
            // Tokens are sealed with the whole secret; its end alone names the process.
            sessions: Sessions::new(options.access_keys.clone(), options.secret),
            hosts: Hosts::new(&options.host_names),
            live: Live::new(surroundings, process),
            shards,
            services,
            options,
        }
    }

    /// Samples and sends figures while somebody looks. Never resolves; to be run by the runtime
    /// that serves the console.
    pub async fn run(&self) {
        self.live.run().await;
    }

    /// Ends all streams: the server drains.
    pub fn close(&self) {
        self.live.close();
    }

    async fn answer(&self, request: &Request<'_>) -> Response {
        if let Some(refusal) = guard::refuse(request, &self.hosts) {
            return refusal;
        }
        let is_read = matches!(request.method, "GET" | "HEAD");
        if let Some(file) = request.path.strip_prefix("/assets/").filter(|_| is_read) {
            return assets::answer(file).unwrap_or_else(not_found);
        }
        if request.path == "/favicon.ico" && is_read {
            return assets::icon();
        }
        let methods = methods_of(request.path);
        if let Some(methods) = methods.filter(|methods| !methods.contains(&request.method)) {
            let mut response = problem(405, "MethodNotAllowed", "This path has other methods.");
            // RFC 9110, 15.5.6.
            response.headers.push(("Allow", methods.join(", ")));
            return response;
        }
        let session = self.sessions.of(request, Instant::now());
        match (request.method, request.path) {
            ("POST", "/api/login") => self.log_in(request),
            ("POST", "/api/logout") => {
                let mut response = json_response(200, &json!({}));
                response.headers.push(("Set-Cookie", self.sessions.log_out(request)));
                self.live.release();
                response
            }
            (_, path) if path.starts_with("/api/") || path == "/events" => match &session {
                Some(session) => self.answer_api(request, session).await,
                None => not_logged_in(),
            },
            _ => self.answer_page(request, session.as_ref()).await,
        }
    }

    async fn answer_api(&self, request: &Request<'_>, session: &Session) -> Response {
        let answer = match request.path {
            "/events" => self.events(request, session).await,
            "/api/snapshot" => self.snapshot(request, session).await,
            "/api/session" => Ok(self.session(session)),
            "/api/places" => self.places(request, session).await,
            "/api/browse" => self.browse(request, session).await,
            "/api/message" => self.message(request, session),
            "/api/states" => self.chosen(request, session, chosen::states),
            "/api/handles" => self.chosen(request, session, chosen::handles),
            "/api/filter" if !session::has_token(request, session) => Ok(wrong_token()),
            "/api/filter" => filter::try_out(request.body).map(|found| json_response(200, &found)),
            "/api/deliveries" => self.deliveries(request, session),
            path => match path.strip_prefix("/api/call/") {
                Some(action) => self.call_action(request, session, action).await,
                None => return not_found(),
            },
        };
        answer.unwrap_or_else(|error| problem(error.status, error.shape, &error.message))
    }

    async fn answer_page(&self, request: &Request<'_>, session: Option<&Session>) -> Response {
        let page = Page::at(request.path);
        if session.is_none() && !matches!(page, Page::Login | Page::Missing) {
            return log_in_first(request);
        }
        let account = session.and_then(|session| session.viewer.account.as_deref());
        let snapshot = match part_of(&page, request.query) {
            Some(part) => {
                let view = View { account: account.map(str::to_owned), part };
                Some(self.live.snapshot(&view).await)
            }
            None => None,
        };
        let status = match &snapshot {
            Some(snapshot) if snapshot["head"]["is_gone"] == true => 404,
            None if page == Page::Missing => 404,
            _ => 200,
        };
        let frame = Frame {
            session,
            theme: Theme::of(session::cookie(request, "millrace_theme")),
            endpoint: &self.options.endpoint,
            region: &self.options.region,
            account: account.unwrap_or(&self.options.account),
            durability: self.options.durability,
            in_alarm: self.in_alarm(account),
        };
        let html = page.render(&frame, snapshot);
        let mut response = Response::new(status, "text/html; charset=utf-8", html);
        if let Some(cookie) = session.and_then(|session| session.new_cookie.clone()) {
            response.headers.push(("Set-Cookie", cookie));
        }
        response
    }

    /// The number of alarms in alarm that the viewer may see.
    fn in_alarm(&self, account: Option<&str>) -> u64 {
        let by_account = self.services.in_alarm();
        match account {
            Some(account) => by_account.get(account).copied().unwrap_or_default(),
            None => by_account.values().sum(),
        }
    }

    fn log_in(&self, request: &Request<'_>) -> Response {
        let Ok(login) = serde_json::from_slice::<Login>(request.body) else {
            return problem(400, "SerializationException", "access_key and secret_key are needed");
        };
        let keys = (login.access_key.as_str(), login.secret_key.as_str());
        match self.sessions.log_in(keys, request, Instant::now()) {
            Ok(cookie) => {
                let mut response = json_response(200, &json!({}));
                response.headers.push(("Set-Cookie", cookie));
                response
            }
            Err(LoginError::WrongKey) => {
                tracing::warn!(peer = %request.peer, "console login failed");
                problem(403, "WrongKey", "Access key and secret key do not fit together.")
            }
            Err(LoginError::TooManyFailures) => {
                problem(429, "TooManyFailures", "Too many failed logins. Try again in a minute.")
            }
        }
    }

    fn session(&self, session: &Session) -> Response {
        let account = session.viewer.account.as_ref().unwrap_or(&self.options.account);
        let found =
            json!({ "token": session.token, "account": account, "name": session.viewer.name });
        json_response(200, &found)
    }

    async fn events(&self, request: &Request<'_>, session: &Session) -> Result<Response, ApiError> {
        let view = View::parse(request.query, session.viewer.account.as_deref())?;
        let parameters = Parameters::parse(request.query, b"")?;
        let last = request.header("last-event-id").or_else(|| parameters.get("last"));
        let stream = self.live.stream(view, session.hold.clone(), last.unwrap_or_default()).await;
        let stream = stream.ok_or_else(|| ApiError::service_unavailable("too many streams"))?;
        let mut response = Response::new(200, "text/event-stream", "");
        response.stream = Some(stream);
        Ok(response)
    }

    async fn snapshot(
        &self,
        request: &Request<'_>,
        session: &Session,
    ) -> Result<Response, ApiError> {
        let view = View::parse(request.query, session.viewer.account.as_deref())?;
        Ok(json_response(200, &self.live.snapshot(&view).await))
    }

    /// The places of the viewer's alarms, domains or topics, or of what is measured: actions of
    /// CloudWatch, SimpleDB and SNS each know one region and account.
    async fn places(&self, request: &Request<'_>, session: &Session) -> Result<Response, ApiError> {
        let parameters = Parameters::parse(request.query, b"")?;
        let scopes = match parameters.get("having") {
            Some("alarms") => self.services.scopes_of_alarms(),
            Some("domains") => self.services.scopes_of_domains().await?,
            Some("topics") => self.services.scopes_of_topics(),
            _ => self.services.scopes_of_metrics().await?,
        };
        let mine = session.viewer.account.as_ref();
        let shown = scopes.iter().filter(|scope| mine.is_none_or(|mine| *mine == scope.account));
        let places: Vec<Value> = shown
            .map(|scope| json!({ "region": scope.region, "account": scope.account }))
            .collect();
        Ok(json_response(200, &places.into()))
    }

    async fn browse(&self, request: &Request<'_>, session: &Session) -> Result<Response, ApiError> {
        let parameters = Parameters::parse(request.query, b"")?;
        let queue = self.queue(&parameters, session)?;
        let page = browse::page(&queue, &parameters).await;
        page.map(|page| json_response(200, &page)).map_err(|error| of_broker(&error))
    }

    fn message(&self, request: &Request<'_>, session: &Session) -> Result<Response, ApiError> {
        let parameters = Parameters::parse(request.query, b"")?;
        let queue = self.queue(&parameters, session)?;
        let message = browse::message(&queue, &parameters);
        message.map(|message| json_response(200, &message)).map_err(|error| of_broker(&error))
    }

    /// The result of `look` for the messages that the body names.
    fn chosen(
        &self,
        request: &Request<'_>,
        session: &Session,
        look: fn(&Shards, &SharedQueue, &Chosen) -> Result<Value, BrokerError>,
    ) -> Result<Response, ApiError> {
        if !session::has_token(request, session) {
            return Ok(wrong_token());
        }
        let parameters = Parameters::parse(request.query, b"")?;
        let queue = self.queue(&parameters, session)?;
        let chosen: Chosen = serde_json::from_slice(request.body)
            .map_err(|_| ApiError::invalid_parameter_value("Messages by place or handle."))?;
        if chosen.messages.len() > chosen::MAX_CHOSEN {
            let text = format!("At most {} messages at a time.", chosen::MAX_CHOSEN);
            return Err(ApiError::invalid_parameter_value(text));
        }
        let found = look(&self.shards, &queue, &chosen);
        found.map(|found| json_response(200, &found)).map_err(|error| of_broker(&error))
    }

    fn deliveries(&self, request: &Request<'_>, session: &Session) -> Result<Response, ApiError> {
        if !session::has_token(request, session) {
            return Ok(wrong_token());
        }
        let mine = session.viewer.account.as_deref();
        let is_visible = |account: &str| mine.is_none_or(|mine| mine == account);
        let counts = deliveries::counts(&self.services, request.body, is_visible);
        counts.map(|counts| json_response(200, &counts))
    }

    /// The queue that the parameters name, if the viewer may see it.
    fn queue(
        &self,
        parameters: &Parameters<'_>,
        session: &Session,
    ) -> Result<Arc<SharedQueue>, ApiError> {
        let key = view::queue_key(parameters)?;
        let is_mine = session.viewer.account.as_ref().is_none_or(|mine| *mine == key.account);
        let queue = self.shards.catalog().queue_by_key(&key).filter(|_| is_mine);
        queue.ok_or_else(queue_is_gone)
    }

    /// Hands an action to the services as the viewer's own request.
    async fn call_action(
        &self,
        request: &Request<'_>,
        session: &Session,
        action: &str,
    ) -> Result<Response, ApiError> {
        if !session::has_token(request, session) {
            return Ok(wrong_token());
        }
        let Some((service, name)) = action.split_once('/') else { return Ok(not_found()) };
        let action = match service {
            "sqs" => Action::of_json(format!("AmazonSQS.{name}"), request),
            "cloudwatch" => {
                Action::of_json(format!("GraniteServiceVersion20100801.{name}"), request)
            }
            "simpledb" => Action::of_form("2009-04-15", name, request),
            "sns" => Action::of_form("2010-03-31", name, request),
            _ => return Ok(not_found()),
        };
        let parameters = Parameters::parse(request.query, b"")?;
        let region = parameters.get("region").unwrap_or(&self.options.region);
        let wanted = parameters.get("account");
        let account = match &session.viewer.account {
            // A queue's URL says whose it is; other actions would be on what is the viewer's own
            // and has the same name.
            Some(mine) if service != "sqs" && wanted.is_some_and(|wanted| wanted != mine) => {
                return Err(ApiError::access_denied(format!(
                    "Your access key is of account {mine}, and this is of another."
                )));
            }
            Some(mine) => mine,
            None => wanted.unwrap_or(&self.options.account),
        };
        // The services take a caller's account for one that a signature or the configuration gave.
        if !is_account(account) {
            return Err(ApiError::invalid_parameter_value("An account is twelve digits."));
        }
        let host = self.options.endpoint.split("://").nth(1).unwrap_or_default();
        let headers = [
            Header::new("host", host),
            Header::new("content-type", action.content_type),
            Header::new("x-amz-target", &action.target),
        ];
        // A form names its action itself.
        let headers = if action.target.is_empty() { &headers[..2] } else { &headers[..] };
        let inner = Request {
            peer: request.peer,
            is_tls: self.options.endpoint.starts_with("https:"),
            ..Request::post(headers, &action.body)
        };
        let access_key = session.viewer.access_key.as_deref();
        let principal = self.services.principal(access_key, account)?;
        Ok(self.services.call_as(principal, region, inner).await)
    }
}

impl Service for Console {
    async fn call(&self, request: Request<'_>) -> Response {
        let mut response = self.answer(&request).await;
        let session = self.sessions.of(&request, Instant::now());
        response.admitted = session.map(|_| Tenant::EVERYBODY);
        with_rules(response)
    }

    fn judge(&self, head: &Request<'_>) -> Judgement {
        if self.sessions.of(head, Instant::now()).is_some() {
            return Judgement::Admitted;
        }
        Judgement::Refused(Box::new(with_rules(not_logged_in())))
    }
}

/// With what browsers are to know of every answer.
fn with_rules(mut response: Response) -> Response {
    let has_cache_rule = response.headers.iter().any(|(name, _)| *name == "Cache-Control");
    if !has_cache_rule {
        response.headers.push(("Cache-Control", "no-store".to_owned()));
    }
    let headers = SECURITY_HEADERS.iter().map(|(name, value)| (*name, (*value).to_owned()));
    response.headers.extend(headers);
    response
}

fn not_logged_in() -> Response {
    problem(401, "NotLoggedIn", "Log in first.")
}

/// None: below `/api/` there is no such path. Elsewhere a page says so.
fn methods_of(path: &str) -> Option<&'static [&'static str]> {
    match path {
        "/api/login" | "/api/logout" | "/api/states" | "/api/handles" | "/api/filter"
        | "/api/deliveries" => Some(&["POST"]),
        "/events" | "/api/snapshot" | "/api/session" | "/api/places" | "/api/browse"
        | "/api/message" => Some(&["GET"]),
        path if path.starts_with("/api/call/") => Some(&["POST"]),
        path if path.starts_with("/api/") => None,
        _ => Some(&["GET", "HEAD"]),
    }
}

/// To the page of logins, which leads on to what was asked for.
fn log_in_first(request: &Request<'_>) -> Response {
    let mut next = request.path.to_owned();
    if !request.query.is_empty() {
        next = format!("{next}?{}", request.query);
    }
    let mut response = Response::new(303, "", "");
    response.headers.push(("Location", format!("/login?next={}", segment(&next))));
    response
}

/// What is shown live on a page.
fn part_of(page: &Page, query: &str) -> Option<Part> {
    match page {
        Page::Overview => Some(Part::Overview),
        Page::Queues => {
            let parameters = Parameters::parse(query, b"");
            Some(Part::Queues(parameters.map(|p| Selection::of(&p)).unwrap_or_default()))
        }
        Page::Queue(key, _) => Some(Part::Queue(key.clone())),
        Page::Server => Some(Part::Server),
        Page::Topics
        | Page::Topic { .. }
        | Page::Domains
        | Page::Domain { .. }
        | Page::Metrics
        | Page::Alarms
        | Page::Login
        | Page::Missing => None,
    }
}

fn wrong_token() -> Response {
    let message = "The page's token is not this session's. Load the page again.";
    problem(403, "InvalidToken", message)
}

fn queue_is_gone() -> ApiError {
    let message = "The specified queue does not exist.";
    ApiError { status: 404, ..ApiError::invalid_parameter_value(message) }
}

fn of_broker(error: &BrokerError) -> ApiError {
    match error {
        BrokerError::QueueDoesNotExist => queue_is_gone(),
        error => {
            tracing::error!(%error, "a queue cannot be looked at");
            ApiError::internal_failure()
        }
    }
}

/// An error in the form of AWS JSON, so that pages know one form only.
fn problem(status: u16, kind: &str, message: &str) -> Response {
    json_response(status, &json!({ "__type": kind, "message": message }))
}

fn not_found() -> Response {
    Response::new(404, "text/plain; charset=utf-8", "There is no such page.\n")
}

fn json_response(status: u16, body: &Value) -> Response {
    Response::new(status, "application/json", body.to_string())
}

#[cfg(test)]
mod tests;
