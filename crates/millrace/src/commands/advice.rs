//! Advice about a call that failed, as a line behind the error's text: which flag to give,
//! which URL or key to change, where the queue is.

use std::time::Duration;

use millrace_client::sqs::{Action, SqsClient, Wait};
use millrace_client::transport::{Answer, Repeat, TransportError};
use millrace_client::{CallError, CallErrorKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::connection::{LISTED, Sqs, is_amazon, list, name_of, parse, text};

/// The longest wait for a server that can say more about a failure.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) const MAY_SPEAK_TLS: &str =
    "if the port speaks TLS, the URL must begin with https:// instead of http://";

pub(super) const MAY_BE_CONSOLE: &str =
    "this may be the port of the web console: `millrace ready` says where the server is";

/// The answer to `/ready`, in which a console names its server.
#[derive(Deserialize)]
struct Readiness {
    console_of: Option<String>,
}

impl Sqs {
    /// Adds advice to the error of a call.
    pub(super) async fn advised(
        &self,
        mut error: CallError,
        action: Action,
        parameters: &Value,
    ) -> CallError {
        use CallErrorKind::{Auth, Malformed, NoSuchQueue, Refused};
        let advice = match error.kind {
            CallErrorKind::Transport => of_transport(&error.message),
            Auth => of_auth(&error, self.access_key.as_deref()),
            NoSuchQueue => self.of_missing_queue(parameters).await,
            Refused if error.code == "MethodNotAllowed" => self.of_console().await,
            Refused => of_refusal(&error, action, parameters),
            Malformed if error.code == "not-http" => Some(MAY_SPEAK_TLS.to_owned()),
            Malformed => self.of_console().await,
            _ => None,
        };
        match advice {
            // The server's text is long, and says it last.
            Some(advice) if error.kind == Auth => {
                error.message = format!("{advice}\n{}", error.message);
            }
            Some(advice) => error.message = format!("{}\n{advice}", error.message),
            None => {}
        }
        error
    }

    async fn of_console(&self) -> Option<String> {
        let answer = timeout(PATIENCE, self.get("/ready")).await.ok()?.ok()?;
        let server = server_of_console(&answer)?;
        Some(format!("{} is the web console; the server is --endpoint {server}", self.endpoint()))
    }

    /// Says which region and account were asked, and where there is a queue of that name.
    async fn of_missing_queue(&self, parameters: &Value) -> Option<String> {
        let name = match text(parameters, "QueueName") {
            "" => text(parameters, "QueueUrl").rsplit('/').next().unwrap_or_default(),
            name => name,
        };
        if name.is_empty() || self.is_amazon() {
            return None;
        }
        let url_account = account_of(text(parameters, "QueueUrl"));
        let asked = json!({ "name": name });
        let found = timeout(PATIENCE, self.call_own_quietly("/_millrace/queues/find", &asked));
        let found = found.await.ok()?.ok()?;
        let named_account = match text(parameters, "QueueOwnerAWSAccountId") {
            "" => url_account.unwrap_or_default(),
            account => account,
        };
        let mut advice = of_places(name, named_account, &found);
        if list(&found, "found").is_empty()
            && let Some(similar) = similar_queue(&self.client, name).await
        {
            advice = format!("did you mean {similar}? {advice}");
        }
        Some(advice)
    }
}

/// Says what to change about keys that a server refuses.
pub(super) fn of_auth(error: &CallError, access_key: Option<&str>) -> Option<String> {
    let key = access_key.map_or_else(|| "none".to_owned(), shown_key);
    let code = error.code.trim_end_matches("Exception");
    Some(match code {
        "MissingAuthenticationToken" => {
            "the server wants signed requests: set AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY, or choose keys with --profile"
                .to_owned()
        }
        "InvalidSignature" | "SignatureDoesNotMatch"
            if error.message.contains("does not match") =>
        {
            format!(
                "the secret key is not the one that the server has for access key {key}: check \
                 AWS_SECRET_ACCESS_KEY or the profile"
            )
        }
        "UnrecognizedClient" | "InvalidClientTokenId" => {
            let problem = format!("the server has no access key {key}");
            match access_key.is_some_and(|key| key.contains(':')) {
                true => format!(
                    "{problem}: a key PROJECT:TOKEN needs a valid token of that project, and opens \
                     the calls of SQS only; for all else set AWS_ACCESS_KEY_ID to a key of the \
                     account"
                ),
                false => format!("{problem}: check AWS_ACCESS_KEY_ID or the profile"),
            }
        }
        _ if error.message.contains("Signature expired")
            || error.message.contains("Signature not yet current") =>
        {
            "the clocks of this machine and of the server differ: set them".to_owned()
        }
        _ => return None,
    })
}

/// An access key as it may be printed: without the token of a key `project:token`.
fn shown_key(access_key: &str) -> String {
    match access_key.split_once(':') {
        Some((project, _)) => format!("{project}:…"),
        None => access_key.to_owned(),
    }
}

/// Adds advice to the error of a client that found no queue of that name, or no server.
pub(crate) async fn of_search(client: &SqsClient, queue: &str, mut error: CallError) -> CallError {
    use CallErrorKind::{Malformed, NoSuchQueue, Refused, Transport};
    let advice = match error.kind {
        NoSuchQueue => {
            let similar = similar_queue(client, name_of(queue)).await;
            let question = similar.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
            format!(
                "{question}`millrace queue list` shows the queues of a region and account, \
                 `millrace queue create` makes one"
            )
        }
        Transport => match of_transport(&error.message) {
            Some(advice) => advice,
            None => return error,
        },
        Malformed if error.code == "not-http" => MAY_SPEAK_TLS.to_owned(),
        Refused if error.code == "MethodNotAllowed" => MAY_BE_CONSOLE.to_owned(),
        _ => return error,
    };
    error.message = format!("{}\n{advice}", error.message);
    error
}

/// The queue whose name differs least from a name that no queue has, if it is likely to be meant.
/// Amazon is not asked: who may use a queue there need not be allowed to list them.
async fn similar_queue(client: &SqsClient, name: &str) -> Option<String> {
    if is_amazon(&client.transport().endpoint().host) {
        return None;
    }
    let asked = json!({ "MaxResults": LISTED }).to_string();
    let listed = client.call(Action::LIST_QUEUES, asked.into(), Wait::None, Repeat::Safe);
    let answer = parse(&timeout(PATIENCE, listed).await.ok()?.ok()?).ok()?;
    let urls = list(&answer, "QueueUrls").iter().filter_map(Value::as_str);
    most_similar(name, urls.map(name_of)).map(str::to_owned)
}

/// The name with the fewest letters that differ: one of four at the most, and always one. The end
/// that FIFO queues have makes no difference.
pub(super) fn most_similar<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let stem = |name: &str| name.strip_suffix(".fifo").unwrap_or(name).to_owned();
    let meant = stem(name);
    let most = (meant.chars().count() / 4).max(1);
    let distances = known.map(|known| (strsim::damerau_levenshtein(&meant, &stem(known)), known));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// The URL of the server whose console has given this answer to `/ready`.
pub(super) fn server_of_console(answer: &Answer) -> Option<String> {
    serde_json::from_slice::<Readiness>(&answer.body).ok()?.console_of
}

/// The account that a queue's URL names.
fn account_of(url: &str) -> Option<&str> {
    let account = url.rsplit('/').nth(1)?;
    (account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit())).then_some(account)
}

/// Says where queues of a name are.
fn of_places(name: &str, named_account: &str, found: &Value) -> String {
    let (region, account) = (text(found, "region"), text(found, "account"));
    let account = if named_account.is_empty() { account } else { named_account };
    let asked = format!("asked for region {region}, account {account}");
    let places = list(found, "found");
    let Some(place) = places.first() else {
        return format!(
            "{asked}, and no other has a queue {name}; `millrace queue list` shows the queues, \
             `millrace queue create {name}` makes this one"
        );
    };
    let all: Vec<String> = places
        .iter()
        .map(|place| {
            format!("region {}, account {}", text(place, "region"), text(place, "account"))
        })
        .collect();
    let (region_there, account_there) = (text(place, "region"), text(place, "account"));
    let mut changes = Vec::new();
    if region_there != region {
        changes.push(format!("--region {region_there}"));
    }
    if account_there != account {
        changes.push(format!("a key of account {account_there} (AWS_ACCESS_KEY_ID)"));
    }
    if changes.is_empty() {
        return format!("{asked}, where there is a queue {name} now");
    }
    format!("{asked}; there is a queue {name} in {}: use {}", all.join("; "), changes.join(" and "))
}

/// Says what to change about a connection that fails; also about one that is no HTTP.
pub(super) fn of_connection(error: &TransportError) -> Option<String> {
    match error {
        TransportError::NotHttp(_) => Some(MAY_SPEAK_TLS.to_owned()),
        error => of_transport(&error.to_string()),
    }
}

/// Says what to change about a connection that fails.
pub(super) fn of_transport(message: &str) -> Option<String> {
    let advice = match () {
        () if message.contains("InvalidContentType") || message.contains("corrupt message") => {
            "the port does not speak TLS: the URL must begin with http:// instead of https://"
        }
        () if message.contains("CaUsedAsEndEntity") => {
            "the server's certificate is made for an authority: make one with CA:FALSE and give it \
             to the server"
        }
        () if message.contains("not valid for name") => {
            "the server's certificate is for other names: use one of them in the URL"
        }
        () if message.contains("peer certificate: certificate expired")
            || message.contains("peer certificate: Expired") =>
        {
            "the server's certificate has expired: renew its file, which the server then reads"
        }
        () if message.contains("invalid peer certificate") => {
            "this system does not know the authority of the server's certificate: name the file \
             with the authority's certificate, AWS_CA_BUNDLE=ca.pem"
        }
        () if message.contains("onnection refused") => {
            "no server listens there: `millrace serve` starts one, --endpoint URL names another"
        }
        () if message.contains("lookup") => {
            "no address is known for the host: check the name in the URL"
        }
        () => return None,
    };
    Some(advice.to_owned())
}

/// Attributes of queues and the values that SQS allows.
const RANGES: [(&str, &str); 4] = [
    ("VisibilityTimeout", "0s to 12h"),
    ("MessageRetentionPeriod", "60s to 14d"),
    ("ReceiveMessageWaitTimeSeconds", "0s to 20s"),
    ("DelaySeconds", "0s to 15m"),
];

/// Says what to change about a request that a server refuses.
fn of_refusal(error: &CallError, action: Action, parameters: &Value) -> Option<String> {
    let queue = text(parameters, "QueueUrl").rsplit('/').next().unwrap_or_default();
    let message = &error.message;
    Some(match () {
        () if message.contains("MessageGroupId") && message.contains("must contain") => {
            "a FIFO queue needs a message group: give --group ID".to_owned()
        }
        () if message.contains("MessageDeduplicationId provided explicitly") => format!(
            "give --deduplication ID, or have the queue make ids of the bodies: millrace queue set \
             {queue} --attribute ContentBasedDeduplication=true"
        ),
        () if action == Action::START_MESSAGE_MOVE_TASK
            && message.contains("configured as a Dead Letter Queue") =>
        {
            let arn = text(parameters, "SourceArn");
            let name = arn.rsplit(':').next().unwrap_or_default();
            format!(
                "no queue sends its dead letters to {name}: name one that should, millrace queue \
                 set QUEUE --dead-letters {name} --max-receives N, then say where the messages go \
                 with --to QUEUE"
            )
        }
        () if action == Action::CREATE_QUEUE && error.code.contains("Exist") => {
            let name = text(parameters, "QueueName");
            format!("millrace queue show {name} shows what it has, millrace queue set changes it")
        }
        () if message.contains("Invalid value for the parameter") => {
            let (name, range) = RANGES.iter().find(|(name, _)| message.contains(name))?;
            format!("{name} may be {range}")
        }
        () if error.code.contains("ReceiptHandle") => {
            "a receipt handle comes from a receive of this queue: millrace receive --show handle"
                .to_owned()
        }
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_queue_is_named_with_the_place_that_was_asked_and_where_it_is() {
        let found = |places: Value| json!({ "region": "us-east-1", "account": "000000000000", "found": places });
        let there = json!({ "region": "eu-west-1", "account": "000000000000" });
        let theirs = json!({ "region": "us-east-1", "account": "111111111111" });

        let nowhere = of_places("jobs", "", &found(json!([])));
        assert!(nowhere.contains("region us-east-1, account 000000000000"), "{nowhere}");
        assert!(nowhere.contains("millrace queue create jobs"), "{nowhere}");
        let text = of_places("jobs", "", &found(json!([there])));
        assert!(text.ends_with("use --region eu-west-1"), "{text}");
        let text = of_places("jobs", "", &found(json!([theirs])));
        assert!(text.contains("a key of account 111111111111"), "{text}");
        assert!(!text.contains("--region"), "{text}");
    }

    #[test]
    fn names_with_one_letter_in_four_wrong_are_taken_for_the_queue_that_is_meant() {
        let known = ["orders", "payments", "payments-dead", "jobs.fifo"];
        let meant = |name| most_similar(name, known.into_iter());

        for name in ["ordrs", "order", "roders", "Orders"] {
            assert_eq!(meant(name), Some("orders"), "{name}");
        }
        assert_eq!(meant("payment"), Some("payments"));
        assert_eq!(meant("payment-ded"), Some("payments-dead"));
        assert_eq!(meant("jobs"), Some("jobs.fifo"));
        assert_eq!([meant("letters"), meant("o")], [None; 2]);
    }

    #[test]
    fn values_that_are_refused_are_answered_with_the_range() {
        let message = "Invalid value for the parameter VisibilityTimeout.";
        let error = CallError::new(CallErrorKind::Refused, "InvalidAttributeValue", message);
        let advice = of_refusal(&error, Action::SET_QUEUE_ATTRIBUTES, &Value::Null);
        assert_eq!(advice.as_deref(), Some("VisibilityTimeout may be 0s to 12h"));
    }

    #[test]
    fn tokens_in_access_keys_are_not_printed() {
        for (code, message) in [
            ("InvalidClientTokenId", ""),
            ("UnrecognizedClientException", ""),
            ("SignatureDoesNotMatch", "The signature does not match."),
        ] {
            let error = CallError::new(CallErrorKind::Auth, code, message);
            let advice = of_auth(&error, Some("mine:1bbc")).unwrap();
            assert!(advice.contains("mine:…") && !advice.contains("1bbc"), "{advice}");
        }
    }

    #[test]
    fn account_of_a_url_is_its_second_last_part() {
        assert_eq!(account_of("http://a:4566/111111111111/jobs"), Some("111111111111"));
        assert_eq!(account_of("http://a:4566/jobs"), None);
        assert_eq!(account_of("http://a/queue/us-east-1/111111111111/jobs"), Some("111111111111"));
    }

    #[test]
    fn connections_that_fail_say_what_to_change() {
        for (message, advice) in [
            ("received corrupt message of type InvalidContentType", "http://"),
            ("invalid peer certificate: UnknownIssuer", "AWS_CA_BUNDLE"),
            ("invalid peer certificate: certificate not valid for name", "names"),
            ("Connection refused (os error 111)", "millrace serve"),
        ] {
            assert!(of_transport(message).unwrap().contains(advice), "{message}");
        }
        assert_eq!(of_transport("no answer within 5s"), None);
    }
}
