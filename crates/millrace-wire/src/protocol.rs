//! Which service, protocol and action a request means: many services share one port.

mod metadata;
mod queue_url;
mod unserved;

use std::borrow::Cow;

use memchr::memchr;

use crate::ApiError;
use crate::http::Request;
use crate::percent;
use crate::query::Parameters;
use crate::sqs;

pub use metadata::{ErrorXml, JSON_1_0, JSON_1_1, NOTHING, Protocol, ServiceMetadata, UNKNOWN};
pub use queue_url::{PathQueue, QueueUrlParts, parse_queue_url};
pub use unserved::UNSERVED;

/// What a request is about. Nothing is checked: the signature may be wrong, the action unknown.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// One of those that were looked for, or [`UNKNOWN`].
    pub service: &'static ServiceMetadata,
    pub protocol: Protocol,
    /// Empty if there is none, or one of another service.
    pub action: Cow<'a, str>,
    /// From the credential scope, else from the path or the host.
    pub region: Option<Cow<'a, str>>,
    /// From the credential scope, or of a signature of version 2; absent if the request is not
    /// signed.
    pub access_key: Option<Cow<'a, str>>,
    /// The signature names the region. One of version 2 does not.
    pub is_region_signed: bool,
    /// The queue that the path names.
    pub path_queue: Option<PathQueue<'a>>,
    /// Query protocol only; otherwise empty.
    pub parameters: Parameters<'a>,
}

/// What some clients of the Query protocol put before the action in an `X-Amz-Target` of theirs. It
/// says nothing that their form does not say.
const QUERY_TARGET: &str = "AmazonSQSv20121105.";

/// Access key, region and service of a signature, header or presigned form.
struct Credential<'a> {
    access_key: Cow<'a, str>,
    region: Cow<'a, str>,
    service: Cow<'a, str>,
}

/// The headers that decide.
#[derive(Default)]
struct Hints<'a> {
    authorization: Option<&'a str>,
    target: Option<&'a str>,
    content_type: &'a str,
    accept: &'a str,
    host: &'a str,
    is_smithy_cbor: bool,
}

/// A path of Smithy RPC: the service that it names and the operation.
type Operation<'a> = (&'static ServiceMetadata, &'a str);

/// Finds out for which of the `services` a `request` is, and what it asks for, in this order:
/// credential scope, `X-Amz-Target`, Smithy path, host, queue path, API version, parameters, action.
/// Of several services that would fit, the first counts.
///
/// # Errors
///
/// Those of [`Parameters::parse`]; they belong to the Query protocol.
pub fn detect<'a>(
    request: &Request<'a>,
    services: &[&'static ServiceMetadata],
) -> Result<Target<'a>, ApiError> {
    let hints = Hints::of(request);
    let credential = Credential::find(hints.authorization, request.query);
    let path_queue = queue_url::parse_path(request.path);
    let operation = operation(request.path, services);
    let protocol = protocol(&hints, operation);
    let parameters = match protocol {
        Protocol::Query | Protocol::QueryAsJson => {
            Parameters::parse(request.query, form(request, &hints))?
        }
        Protocol::Json | Protocol::Cbor => Parameters::default(),
    };

    let clues = Clues { hints: &hints, operation, path_queue, parameters: &parameters };
    let service = clues.service(credential.as_ref(), services);
    let action = match protocol {
        Protocol::Json => json_action(hints.target, service).map(Cow::Borrowed),
        Protocol::Cbor => operation.map(|(_, name)| Cow::Borrowed(name)),
        // Owned: the parameters move into the answer. Names are short.
        _ => parameters.get("Action").map(|action| Cow::Owned(action.to_owned())),
    };
    let (access_key, region) = match credential {
        Some(credential) => (Some(credential.access_key), Some(credential.region)),
        None => {
            let access_key = parameters.get("AWSAccessKeyId");
            (access_key.map(|key| Cow::Owned(key.to_owned())), None)
        }
    };
    let is_region_signed = region.is_some();
    let fallback = || {
        let path_region = path_queue.and_then(|queue| queue.region);
        path_region.or_else(|| queue_url::region_of_host(hints.host)).map(Cow::Borrowed)
    };
    Ok(Target {
        service,
        protocol,
        action: action.unwrap_or_default(),
        region: region.or_else(fallback),
        access_key,
        is_region_signed,
        path_queue,
        parameters,
    })
}

impl<'a> Hints<'a> {
    fn of(request: &Request<'a>) -> Hints<'a> {
        let mut hints = Hints::default();
        for header in request.headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = || str::from_utf8(header.value).unwrap_or_default();
            // By length first: most headers are none of these.
            match header.name.len() {
                4 if is("host") => hints.host = value(),
                6 if is("accept") => hints.accept = value(),
                12 if is("content-type") => hints.content_type = value(),
                12 if is("x-amz-target") && !value().starts_with(QUERY_TARGET) => {
                    hints.target = hints.target.or(Some(value()));
                }
                13 if is("authorization") => {
                    hints.authorization = hints.authorization.or(Some(value()));
                }
                15 if is("smithy-protocol") => hints.is_smithy_cbor = value() == "rpc-v2-cbor",
                _ => {}
            }
        }
        hints
    }
}

impl<'a> Credential<'a> {
    fn find(authorization: Option<&'a str>, query: &'a str) -> Option<Credential<'a>> {
        if let Some(authorization) = authorization {
            return Credential::parse(Cow::Borrowed(credential_of(authorization)?));
        }
        let value = query.split('&').find_map(|pair| pair.strip_prefix("X-Amz-Credential="))?;
        match percent::decode(value.as_bytes()) {
            Cow::Borrowed(_) => Credential::parse(Cow::Borrowed(value)),
            Cow::Owned(decoded) => Credential::parse(Cow::Owned(String::from_utf8(decoded).ok()?)),
        }
    }

    /// `access key/date/region/service/aws4_request`; an access key may contain slashes.
    fn parse(credential: Cow<'a, str>) -> Option<Credential<'a>> {
        match credential {
            Cow::Borrowed(text) => {
                let [access_key, region, service] = split_credential(text)?;
                Some(Credential {
                    access_key: Cow::Borrowed(access_key),
                    region: Cow::Borrowed(region),
                    service: Cow::Borrowed(service),
                })
            }
            Cow::Owned(text) => {
                let parts = split_credential(&text)?;
                let [access_key, region, service] = parts.map(|part| Cow::Owned(part.to_owned()));
                Some(Credential { access_key, region, service })
            }
        }
    }
}

fn credential_of(authorization: &str) -> Option<&str> {
    // As SDKs write it. Others may order the parameters in another way.
    if let Some(rest) = authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=") {
        let end = memchr(b',', rest.as_bytes()).unwrap_or(rest.len());
        return rest.get(..end).map(str::trim);
    }
    // As the signature's check reads it: two readings would be of two credentials.
    let (_, parameters) = authorization.split_once(char::is_whitespace)?;
    parameters.split(',').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == "Credential").then(|| value.trim())
    })
}

fn split_credential(text: &str) -> Option<[&str; 3]> {
    let mut rest = text;
    let mut take_last = || {
        // The parts are so short that a search in strides does not pay.
        let slash = rest.bytes().rposition(|byte| byte == b'/')?;
        let (before, part) = (rest.get(..slash)?, rest.get(slash + 1..)?);
        rest = before;
        Some(part)
    };
    let _terminator = take_last()?;
    let service = take_last()?;
    let region = take_last()?;
    let _date = take_last()?;
    Some([rest, region, service])
}

fn protocol(hints: &Hints<'_>, operation: Option<Operation<'_>>) -> Protocol {
    if hints.is_smithy_cbor && operation.is_some() {
        return Protocol::Cbor;
    }
    let is_json = |text: &str| media_type(hints.content_type).eq_ignore_ascii_case(text);
    if hints.target.is_some()
        || is_json("application/x-amz-json-1.0")
        || is_json("application/x-amz-json-1.1")
    {
        return Protocol::Json;
    }
    let mut accepted = hints.accept.split(',').map(media_type);
    if accepted.any(|media| media.eq_ignore_ascii_case("application/json")) {
        return Protocol::QueryAsJson;
    }
    Protocol::Query
}

/// The form in the body. Clients may leave out its content type, but say so if it is no form.
fn form<'a>(request: &Request<'a>, hints: &Hints<'_>) -> &'a [u8] {
    let media_type = media_type(hints.content_type);
    if media_type.is_empty() || media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded")
    {
        return request.body;
    }
    &[]
}

/// The clues to the service of a request, besides its signature.
struct Clues<'c, 'a> {
    hints: &'c Hints<'a>,
    operation: Option<Operation<'a>>,
    path_queue: Option<PathQueue<'a>>,
    parameters: &'c Parameters<'a>,
}

impl Clues<'_, '_> {
    fn service(
        &self,
        credential: Option<&Credential<'_>>,
        services: &[&'static ServiceMetadata],
    ) -> &'static ServiceMetadata {
        let find = |is_meant: &dyn Fn(&ServiceMetadata) -> bool| {
            services.iter().copied().find(|service| is_meant(service))
        };
        let is_queue = self.path_queue.is_some_and(|queue| queue.is_certain());
        let parameter = |name| self.parameters.get(name);
        credential
            .and_then(|credential| find(&|service| service.scope == credential.service))
            .or_else(|| {
                let (prefix, _) = split_target(self.hints.target?)?;
                find(&|service| service.has_target_prefix(prefix))
            })
            .or_else(|| self.operation.map(|(service, _)| service))
            .or_else(|| find(&|service| service.has_host(self.hints.host)))
            .or_else(|| is_queue.then_some(&sqs::SERVICE))
            .or_else(|| {
                let version = parameter("Version")?;
                find(&|service| service.versions.contains(&version))
            })
            .or_else(|| {
                let is_given = |name: &&str| self.parameters.get(name).is_some();
                find(&|service| service.clue_parameters.iter().any(is_given))
            })
            .or_else(|| service_of_action(parameter("Action")?, services))
            .unwrap_or(&UNKNOWN)
    }
}

/// The only service that has an action of that name.
fn service_of_action(
    action: &str,
    services: &[&'static ServiceMetadata],
) -> Option<&'static ServiceMetadata> {
    let mut found = services.iter().filter(|service| service.clue_actions.contains(&action));
    let service = found.next()?;
    found.next().is_none().then_some(service)
}

/// What follows the dot of `X-Amz-Target`, if its prefix is the service's.
fn json_action<'a>(target: Option<&'a str>, service: &ServiceMetadata) -> Option<&'a str> {
    let (prefix, action) = split_target(target?)?;
    service.has_target_prefix(prefix).then_some(action)
}

/// At the first dot.
fn split_target(target: &str) -> Option<(&str, &str)> {
    queue_url::split(target, memchr(b'.', target.as_bytes()))
}

/// The service and operation in a path of Smithy RPC, `/service/{name}/operation/{operation}`, if
/// that service is served in CBOR.
fn operation<'a>(path: &'a str, services: &[&'static ServiceMetadata]) -> Option<Operation<'a>> {
    let (name, operation) = path.strip_prefix("/service/")?.split_once("/operation/")?;
    let is_meant = |service: &&&'static ServiceMetadata| {
        service.has_target_prefix(name) && service.protocols.contains(&Protocol::Cbor)
    };
    services.iter().find(is_meant).map(|service| (*service, operation))
}

/// A media type without parameters.
fn media_type(value: &str) -> &str {
    value.split_once(';').map_or(value, |(media, _)| media).trim()
}

#[cfg(test)]
mod tests;
