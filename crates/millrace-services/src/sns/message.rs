//! A message as somebody publishes it: what is allowed, and what it says to each protocol.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millrace_broker::Attribute;
use millrace_core::{limits, sha256_hex};
use millrace_wire::ApiError;
use millrace_wire::sns::{MessageAttributeValue, Publish, PublishBatchEntry};
use serde_json::Value;

use super::error;
use super::subscription::Protocol;
use super::topic_attributes::TopicSettings;

/// SNS: characters of a subject, and one more.
const SUBJECT_CHARS: usize = 100;
/// SNS: bytes of the name of a message attribute.
const ATTRIBUTE_NAME_BYTES: usize = 256;

/// A message as the request has it, not checked.
pub(super) struct Draft<'r> {
    message: Option<&'r str>,
    subject: Option<&'r str>,
    structure: Option<&'r str>,
    attributes: &'r BTreeMap<String, MessageAttributeValue>,
    group: Option<&'r str>,
    deduplication_id: Option<&'r str>,
    /// What is before the names of members in errors of the model.
    path: Cow<'static, str>,
}

/// A checked message, borrowed from the request or from a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message<'r> {
    pub texts: Texts<'r>,
    pub subject: Option<&'r str>,
    /// In ascending order of name.
    pub attributes: Vec<Attribute<'r>>,
    /// Text and attributes.
    pub size_bytes: usize,
    pub group: Option<&'r str>,
    /// FIFO topics: as given, or computed from the text.
    pub deduplication_id: Option<Cow<'r, str>>,
}

/// Texts of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Texts<'r> {
    /// The same in all protocols.
    Same(&'r str),
    /// By the number of the protocol.
    ByProtocol([Cow<'r, str>; Protocol::ALL.len()]),
}

impl<'r> Draft<'r> {
    pub(super) fn of(input: &'r Publish) -> Draft<'r> {
        Draft {
            message: input.message.as_deref(),
            subject: input.subject.as_deref(),
            structure: input.message_structure.as_deref(),
            attributes: &input.message_attributes,
            group: input.message_group_id.as_deref(),
            deduplication_id: input.message_deduplication_id.as_deref(),
            path: "".into(),
        }
    }

    /// The entry of that number, from 1.
    pub(super) fn of_entry(number: usize, entry: &'r PublishBatchEntry) -> Draft<'r> {
        Draft {
            message: entry.message.as_deref(),
            subject: entry.subject.as_deref(),
            structure: entry.message_structure.as_deref(),
            attributes: &entry.message_attributes,
            group: entry.message_group_id.as_deref(),
            deduplication_id: entry.message_deduplication_id.as_deref(),
            path: format!("publishBatchRequestEntries.{number}.member.").into(),
        }
    }

    /// Checks all but the size.
    pub(super) fn checked(
        &self,
        is_fifo: bool,
        settings: &TopicSettings,
    ) -> Result<Message<'r>, ApiError> {
        let text = self.message.ok_or_else(|| error::missing(&format!("{}message", self.path)))?;
        if text.is_empty() {
            return Err(error::invalid_parameter("Empty message"));
        }
        if let Some(subject) = self.subject.filter(|it| !is_subject(it)) {
            tracing::debug!(chars = subject.chars().count(), "subject refused");
            return Err(error::invalid_parameter("Subject"));
        }
        let attributes = self.checked_attributes()?;
        let deduplication_id = self.checked_ids(is_fifo, settings, text)?;
        let texts = match self.structure {
            None | Some("") => Texts::Same(text),
            Some("json") => Texts::ByProtocol(by_protocol(text)?),
            Some(_) => return Err(error::invalid_parameter("MessageStructure")),
        };
        let size = |a: &Attribute<'_>| a.name.len() + a.data_type.len() + a.value.len();
        let size_bytes = text.len() + attributes.iter().map(size).sum::<usize>();
        let (subject, group) = (self.subject, self.group);
        Ok(Message { texts, subject, attributes, size_bytes, group, deduplication_id })
    }

    fn checked_ids(
        &self,
        is_fifo: bool,
        settings: &TopicSettings,
        text: &str,
    ) -> Result<Option<Cow<'r, str>>, ApiError> {
        if let Some(group) = self.group {
            check_id(group, "MessageGroupId")?;
        }
        match (is_fifo, self.deduplication_id) {
            (false, None) => Ok(None),
            (false, Some(_)) => Err(error::invalid_parameter(
                "MessageDeduplicationId Reason: The request includes MessageDeduplicationId \
                 parameter that is not valid for this topic type",
            )),
            (true, _) if self.group.is_none() => Err(error::invalid_parameter(
                "The MessageGroupId parameter is required for FIFO topics",
            )),
            (true, Some(id)) => {
                check_id(id, "MessageDeduplicationId")?;
                Ok(Some(Cow::Borrowed(id)))
            }
            (true, None) if settings.is_content_based => {
                Ok(Some(sha256_hex(text.as_bytes()).into()))
            }
            (true, None) => Err(error::invalid_parameter(
                "The topic should either have ContentBasedDeduplication enabled or \
                 MessageDeduplicationId provided explicitly",
            )),
        }
    }

    fn checked_attributes(&self) -> Result<Vec<Attribute<'r>>, ApiError> {
        let mut attributes = Vec::with_capacity(self.attributes.len());
        for (name, value) in self.attributes {
            check_name(name)?;
            let Some(data_type) = value.data_type.as_deref() else {
                let path = format!("{}messageAttributes.{name}.member.dataType", self.path);
                return Err(error::missing(&path));
            };
            let value = checked_value(name, data_type, value)?;
            attributes.push(Attribute { name, data_type, value });
        }
        Ok(attributes)
    }
}

impl Message<'_> {
    /// The text for a protocol.
    pub(super) fn text(&self, protocol: Protocol) -> &str {
        match &self.texts {
            Texts::Same(text) => text,
            Texts::ByProtocol(texts) => {
                texts.get(protocol as usize).map(|text| &**text).unwrap_or_default()
            }
        }
    }

    /// A number that is the same for protocols with the same text.
    pub(super) fn variant(&self, protocol: Protocol) -> usize {
        match &self.texts {
            Texts::Same(_) => 0,
            Texts::ByProtocol(_) => protocol as usize,
        }
    }
}

/// The error if a message is larger than its topic takes.
pub(super) fn check_size(size_bytes: usize, settings: &TopicSettings) -> Result<(), ApiError> {
    if size_bytes > settings.message_bytes {
        return Err(error::invalid_parameter("Message too long"));
    }
    Ok(())
}

fn is_subject(subject: &str) -> bool {
    let first = subject.chars().next();
    first.is_some_and(|c| c.is_ascii_graphic())
        && subject.chars().count() < SUBJECT_CHARS
        && !subject.chars().any(char::is_control)
}

/// The texts of a JSON object with a member for each protocol. The last of the same name counts.
fn by_protocol<'r>(text: &'r str) -> Result<[Cow<'r, str>; Protocol::ALL.len()], ApiError> {
    let parsed = serde_json::from_str::<Value>(text).map_err(|_| {
        error::invalid_parameter("Message Structure - JSON message body failed to parse")
    })?;
    let member = |name: &str| parsed.get(name).and_then(Value::as_str);
    let default = member("default").ok_or_else(|| {
        error::invalid_parameter("Message Structure - No default entry in JSON message body")
    })?;
    Ok(Protocol::ALL
        .map(|protocol| Cow::Owned(member(protocol.name()).unwrap_or(default).to_owned())))
}

/// 1 to 128 alphanumeric and punctuation characters.
fn check_id(id: &str, parameter: &str) -> Result<(), ApiError> {
    let is_allowed = |byte: u8| byte.is_ascii_graphic();
    if limits::FIFO_ID_CHARS.contains(&id.len()) && id.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(error::invalid_parameter(format_args!(
        "{parameter} Reason: {parameter} can only include alphanumeric and punctuation \
         characters. 1 to 128 in length"
    )))
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let refused = |message: &str| Err(error::attribute(message.to_owned()));
    if name.is_empty() || name.len() >= ATTRIBUTE_NAME_BYTES {
        return refused("Length of message attribute name must be less than 256 bytes.");
    }
    if name.starts_with('.') {
        return refused("Invalid message attribute name starting with character '.' was found.");
    }
    if name.ends_with('.') {
        return refused("Invalid message attribute name ending with character '.' was found.");
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if let Some(other) = name.chars().find(|c| !is_allowed(*c)) {
        return Err(error::attribute(format!(
            "Invalid non-alphanumeric character '#x{:X}' was found in the message attribute \
             name. Can only include alphanumeric characters, hyphens, underscores, or dots.",
            u32::from(other)
        )));
    }
    if name.contains("..") {
        return refused("Message attribute name can not have successive '.' character.");
    }
    Ok(())
}

fn checked_value<'r>(
    name: &str,
    data_type: &str,
    value: &'r MessageAttributeValue,
) -> Result<&'r [u8], ApiError> {
    let prefix = data_type.split('.').next().unwrap_or_default();
    let is_sound = matches!(prefix, "String" | "Number" | "Binary")
        && data_type.len() <= ATTRIBUTE_NAME_BYTES
        && !data_type.ends_with('.');
    if !is_sound {
        return Err(error::attribute(format!(
            "The message attribute '{name}' has an invalid message attribute type, the set of \
             supported type prefixes is Binary, Number, and String."
        )));
    }
    let string = value.string_value.as_deref().map(str::as_bytes).filter(|it| !it.is_empty());
    let binary = value.binary_value.as_ref().map(|it| &*it.0).filter(|it| !it.is_empty());
    let (given, other, field) = match prefix {
        "Binary" => (binary, string, "Binary"),
        _ => (string, binary, "String"),
    };
    match (given, other) {
        (Some(bytes), _) if prefix == "Number" && !is_number(bytes) => Err(error::attribute(
            format!("Could not cast message attribute '{name}' value to number."),
        )),
        (Some(bytes), _) if data_type == "String.Array" && !is_array(bytes) => {
            Err(error::attribute(format!(
                "The message attribute '{name}' with type 'String.Array' must have a JSON array \
                 of strings, numbers, booleans or null as its value."
            )))
        }
        (Some(bytes), _) => Ok(bytes),
        (None, Some(_)) => Err(error::attribute(format!(
            "The message attribute '{name}' with type '{data_type}' must use field '{field}'."
        ))),
        (None, None) => Err(error::attribute(format!(
            "The message attribute '{name}' must contain non-empty message attribute value for \
             message attribute type '{data_type}'."
        ))),
    }
}

fn is_number(bytes: &[u8]) -> bool {
    let text = str::from_utf8(bytes).unwrap_or_default();
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_array(bytes: &[u8]) -> bool {
    let is_simple = |it: &Value| !it.is_array() && !it.is_object();
    let parsed = serde_json::from_slice::<Vec<Value>>(bytes);
    parsed.is_ok_and(|elements| elements.iter().all(is_simple))
}

#[cfg(test)]
pub(super) mod tests {
    use millrace_wire::codec::Blob;

    use super::*;
    use crate::sns::topic_attributes::{MESSAGE_BYTES, SignatureVersion};

    pub(in crate::sns) fn settings() -> TopicSettings {
        TopicSettings {
            message_bytes: MESSAGE_BYTES,
            is_content_based: false,
            is_scope_group: false,
            signature_version: SignatureVersion::One,
        }
    }

    fn text(message: &str) -> Publish {
        Publish { message: Some(message.into()), ..Publish::default() }
    }

    fn refused(is_fifo: bool, input: &Publish) -> String {
        let error = Draft::of(input).checked(is_fifo, &settings()).unwrap_err();
        error.message.replace("Invalid parameter: ", "")
    }

    #[test]
    fn messages_are_checked() {
        let subject = |it: &str| Publish { subject: Some(it.into()), ..text("x") };
        assert_eq!(refused(false, &text("")), "Empty message");
        for bad in ["", "a\nb", "a\u{7}", "é", " a", &"x".repeat(100)] {
            assert_eq!(refused(false, &subject(bad)), "Subject", "{bad:?}");
        }
        for good in ["a", "!é", &"x".repeat(99)] {
            assert!(Draft::of(&subject(good)).checked(false, &settings()).is_ok(), "{good:?}");
        }
        let json = |it: &str| Publish { message_structure: Some("json".into()), ..text(it) };
        for (message, reason) in [
            ("{x", "JSON message body failed to parse"),
            (r#"{"sqs":"x"}"#, "No default entry in JSON message body"),
            (r#"{"default":1}"#, "No default entry in JSON message body"),
            ("[]", "No default entry in JSON message body"),
        ] {
            assert_eq!(refused(false, &json(message)), format!("Message Structure - {reason}"));
        }
        let other = Publish { message_structure: Some("xml".into()), ..text("x") };
        assert_eq!(refused(false, &other), "MessageStructure");
        let over = TopicSettings { message_bytes: 3, ..settings() };
        assert!(check_size(3, &over).is_ok() && check_size(4, &over).is_err());
    }

    #[test]
    fn protocols_have_their_own_texts() {
        let structure = Some("json".to_owned());
        let message = r#"{"default":"d","sqs":"first","sqs":"q","email":"e"}"#;
        let input = Publish { message_structure: structure, ..text(message) };

        let message = Draft::of(&input).checked(false, &settings()).unwrap();

        assert_eq!(Protocol::ALL.map(|protocol| message.text(protocol)), ["q", "d", "d"]);
    }

    #[test]
    fn ids_belong_to_the_kind_of_the_topic() {
        let with = |group: Option<&str>, id: Option<&str>| Publish {
            message_group_id: group.map(str::to_owned),
            message_deduplication_id: id.map(str::to_owned),
            ..text("x")
        };
        assert!(refused(false, &with(None, Some("d"))).contains("not valid for this topic type"));
        assert!(refused(true, &with(None, Some("d"))).contains("MessageGroupId parameter is"));
        assert!(refused(true, &with(Some("g"), None)).contains("ContentBasedDeduplication"));
        assert!(refused(true, &with(Some("a b"), Some("d"))).contains("1 to 128 in length"));

        let content = TopicSettings { is_content_based: true, ..settings() };
        let input = with(Some("g"), None);
        let message = Draft::of(&input).checked(true, &content).unwrap();
        assert_eq!(message.deduplication_id.as_deref(), Some(&*sha256_hex(b"x")));
        let fair = with(Some("g"), None);
        assert_eq!(Draft::of(&fair).checked(false, &settings()).unwrap().group, Some("g"));
    }

    #[test]
    fn attributes_are_checked() {
        let with = |name: &str, data_type: Option<&str>, string: Option<&str>, binary| {
            let value = MessageAttributeValue {
                data_type: data_type.map(str::to_owned),
                string_value: string.map(str::to_owned),
                binary_value: binary,
            };
            Publish { message_attributes: BTreeMap::from([(name.to_owned(), value)]), ..text("x") }
        };
        let string = |name: &str| with(name, Some("String"), Some("v"), None);
        let bytes = || Some(Blob(vec![1]));
        for (input, message) in [
            (
                with("a", Some("String"), Some(""), None),
                "The message attribute 'a' must contain non-empty message attribute value for message attribute type 'String'.",
            ),
            (
                with("a", Some("String"), None, bytes()),
                "The message attribute 'a' with type 'String' must use field 'String'.",
            ),
            (
                with("a", Some("Number"), None, bytes()),
                "The message attribute 'a' with type 'Number' must use field 'String'.",
            ),
            (
                with("a", Some("Binary"), Some("v"), None),
                "The message attribute 'a' with type 'Binary' must use field 'Binary'.",
            ),
            (
                with("a", Some("Number"), Some("v"), None),
                "Could not cast message attribute 'a' value to number.",
            ),
            (
                with("a", Some("Other"), Some("v"), None),
                "The message attribute 'a' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.",
            ),
            (
                with("a", None, Some("v"), None),
                "1 validation error detected: Value null at 'messageAttributes.a.member.dataType' failed to satisfy constraint: Member must not be null",
            ),
            (string(".a"), "Invalid message attribute name starting with character '.' was found."),
            (string("a."), "Invalid message attribute name ending with character '.' was found."),
            (string("a..b"), "Message attribute name can not have successive '.' character."),
            (
                string("a^"),
                "Invalid non-alphanumeric character '#x5E' was found in the message attribute name. Can only include alphanumeric characters, hyphens, underscores, or dots.",
            ),
            (
                string(&"x".repeat(256)),
                "Length of message attribute name must be less than 256 bytes.",
            ),
        ] {
            assert_eq!(refused(false, &input), message);
        }
        for (data_type, value) in
            [("String.Array", r#"["a",1,true,null]"#), ("Number.int", "-1.5e3"), ("String.x", "v")]
        {
            let input = with("a", Some(data_type), Some(value), None);
            assert!(Draft::of(&input).checked(false, &settings()).is_ok(), "{data_type}");
        }
        assert!(
            refused(false, &with("a", Some("String.Array"), Some("[[]]"), None)).contains("JSON")
        );
    }
}
