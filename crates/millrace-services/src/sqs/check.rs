//! Whether a message may be sent: characters, attributes, ids, sizes (developer guide, "Message
//! quotas"; API reference, SendMessage).

use millrace_broker::{Attribute, Kind, Settings};
use millrace_core::limits;
use millrace_core::text;
use millrace_wire::ApiError;
use millrace_wire::sqs::{MessageAttributeValue, MessageAttributes, SendMessage};

use super::{Asked, bounded, error};

/// A trace header is some hundred bytes; this is far beyond.
pub(crate) const TRACE_HEADER_BYTES: usize = 8_192;

/// A send whose parts are allowed; borrowed from the request.
pub(crate) struct Checked<'r> {
    pub body: &'r [u8],
    /// In ascending order of name.
    pub attributes: Vec<Attribute<'r>>,
    pub trace_header: Option<&'r str>,
    /// Body and message attributes.
    pub size_bytes: usize,
    pub delay_s: Option<u32>,
    pub group: Option<&'r str>,
    pub deduplication_id: Option<&'r str>,
}

/// Checks one message in the order in which AWS reports problems. Its size is left to
/// [`check_size`], because batches report that differently.
pub(crate) fn check<'r>(
    message: &'r SendMessage<'_>,
    settings: &Settings,
    asked: Asked,
) -> Result<Checked<'r>, ApiError> {
    let body = message.message_body.as_ref().map(|body| body.as_bytes()).unwrap_or_default();
    if body.is_empty() {
        return Err(ApiError::missing_parameter("MessageBody"));
    }
    if !is_allowed_text(body) {
        return Err(error::invalid_message_contents(first_forbidden(body)));
    }
    let attributes = match &message.message_attributes {
        Some(given) => check_attributes(given)?,
        None => Vec::new(),
    };
    let trace_header = match &message.message_system_attributes {
        Some(given) => check_system_attributes(given)?,
        None => None,
    };
    let size = |a: &Attribute<'_>| a.name.len() + a.data_type.len() + a.value.len();
    let size_bytes = body.len() + attributes.iter().map(size).sum::<usize>();
    let delay_s = check_delay(message.delay_seconds, settings)?;
    let group = message.message_group_id.as_ref().map(|id| id.as_str());
    let deduplication_id = message.message_deduplication_id.as_ref().map(|id| id.as_str());
    check_ids(group, deduplication_id, settings, asked)?;
    Ok(Checked { body, attributes, trace_header, size_bytes, delay_s, group, deduplication_id })
}

/// Returns true if queues take that body and each of those attributes, as [`check`] decides it for
/// requests. Their number and the size are not looked at.
pub(crate) fn is_sendable(body: &[u8], attributes: &[Attribute<'_>]) -> bool {
    let is_sound = |it: &Attribute<'_>| {
        !it.value.is_empty()
            && check_attribute_name(it.name).is_ok()
            && match prefix_of(it.data_type) {
                Some("Binary") => true,
                Some("Number") => is_number(it.value),
                Some(_) => is_allowed_text(it.value),
                None => false,
            }
    };
    !body.is_empty() && is_allowed_text(body) && attributes.iter().all(is_sound)
}

/// `InvalidParameterValue` if the message is larger than the queue takes.
pub(crate) fn check_size(
    size_bytes: usize,
    settings: &Settings,
    asked: Asked,
) -> Result<(), ApiError> {
    let limit = settings.maximum_message_size_bytes;
    if size_bytes > limit as usize {
        let verb = match asked {
            Asked::Alone => "are invalid",
            Asked::InBatch => "cannot be validated",
        };
        return Err(ApiError::invalid_parameter_value(format!(
            "One or more parameters {verb}. Reason: Message must be shorter than {limit} bytes."
        )));
    }
    Ok(())
}

/// #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF, in UTF-8.
pub(crate) fn is_allowed_text(bytes: &[u8]) -> bool {
    text::is_plain_ascii(bytes)
        || (!text::has_control_but_blanks(bytes)
            && !text::has_noncharacter(bytes)
            && simdutf8::basic::from_utf8(bytes).is_ok())
}

fn is_forbidden(c: char) -> bool {
    (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The first character that is not allowed: a lone surrogate's number, too, or a byte that belongs
/// to no character.
fn first_forbidden(bytes: &[u8]) -> u32 {
    let chunk = bytes.utf8_chunks().next();
    let valid = chunk.as_ref().map_or("", |chunk| chunk.valid());
    if let Some(found) = valid.chars().find(|c| is_forbidden(*c)) {
        return u32::from(found);
    }
    match bytes.get(valid.len()..).unwrap_or_default() {
        // How the JSON decoder hands over a surrogate without its other half.
        [0xed, middle @ 0xa0..=0xbf, last @ 0x80..=0xbf, ..] => {
            0xd000 | u32::from(middle & 0x3f) << 6 | u32::from(last & 0x3f)
        }
        [byte, ..] => u32::from(*byte),
        [] => 0,
    }
}

fn check_delay(delay: Option<i64>, settings: &Settings) -> Result<Option<u32>, ApiError> {
    let Some(delay) = delay else { return Ok(None) };
    let reason = "DelaySeconds must be >= 0 and <= 900.";
    let delay_s = bounded(delay, &limits::DELAY_S, "DelaySeconds", reason)?;
    if settings.kind == Kind::Fifo && delay_s > 0 {
        let reason = "The request include parameter that is not valid for this queue type.";
        return Err(error::invalid_value(delay, "DelaySeconds", reason));
    }
    Ok((settings.kind == Kind::Standard).then_some(delay_s))
}

fn check_ids(
    group: Option<&str>,
    deduplication_id: Option<&str>,
    settings: &Settings,
    asked: Asked,
) -> Result<(), ApiError> {
    if let Some(group) = group {
        check_id(group, "MessageGroupId")?;
    }
    match (settings.kind, deduplication_id) {
        (Kind::Standard, None) => Ok(()),
        (Kind::Standard, Some(id)) => Err(no_deduplication_id(id, asked)),
        (Kind::Fifo, _) if group.is_none() => Err(ApiError::missing_parameter("MessageGroupId")),
        (Kind::Fifo, Some(id)) => check_id(id, "MessageDeduplicationId"),
        (Kind::Fifo, None) if settings.content_based_deduplication => Ok(()),
        (Kind::Fifo, None) => Err(error::missing_deduplication_id()),
    }
}

fn no_deduplication_id(id: &str, asked: Asked) -> ApiError {
    match asked {
        Asked::Alone => {
            let reason = "The request includes a parameter that is not valid for this queue type.";
            error::invalid_value(id, "MessageDeduplicationId", reason)
        }
        Asked::InBatch => ApiError::invalid_parameter_value(
            "The request include parameter that is not valid for this queue type",
        ),
    }
}

/// 1 to 128 alphanumeric and punctuation characters.
pub(crate) fn check_id(id: &str, parameter: &str) -> Result<(), ApiError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte.is_ascii_punctuation();
    if limits::FIFO_ID_CHARS.contains(&id.len()) && id.bytes().all(is_allowed) {
        return Ok(());
    }
    let reason = format!(
        "{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
    );
    Err(error::invalid_value(id, parameter, &reason))
}

fn check_attributes<'r>(given: &'r MessageAttributes<'_>) -> Result<Vec<Attribute<'r>>, ApiError> {
    if given.0.len() > limits::MESSAGE_ATTRIBUTES {
        return Err(ApiError::invalid_parameter_value(format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{}].",
            given.0.len(),
            limits::MESSAGE_ATTRIBUTES
        )));
    }
    let mut attributes = Vec::with_capacity(given.0.len());
    for (name, value) in &given.0 {
        check_attribute_name(name.as_str())?;
        attributes.push(check_attribute(name.as_str(), value, "user")?);
    }
    attributes.sort_unstable_by(|a, b| a.name.cmp(b.name));
    if attributes.windows(2).any(|pair| matches!(pair, [a, b] if a.name == b.name)) {
        return Err(ApiError::invalid_parameter_value(
            "Message attribute names must be unique within a message.",
        ));
    }
    Ok(attributes)
}

fn check_attribute_name(name: &str) -> Result<(), ApiError> {
    let chars = name.chars().count();
    if chars == 0 {
        return Err(ApiError::invalid_parameter_value(
            "The request must contain non-empty message attribute name.",
        ));
    }
    if chars > limits::ATTRIBUTE_NAME_CHARS {
        return Err(ApiError::invalid_parameter_value(format!(
            "Message (user) attribute name must be shorter than {} bytes, UTF-8 encoded.",
            limits::ATTRIBUTE_NAME_CHARS
        )));
    }
    let lower = name.to_lowercase();
    if lower.starts_with("aws.") || lower.starts_with("amazon.") {
        return Err(ApiError::invalid_parameter_value(format!(
            "Message (user) attribute name '{name}' can not start with reserved prefixes."
        )));
    }
    // As documented for SendMessage: letters and digits of other scripts are refused.
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if !name.bytes().all(is_allowed) {
        return Err(ApiError::invalid_parameter_value(format!(
            "Message (user) attribute name '{name}' contains an invalid character."
        )));
    }
    if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return Err(ApiError::invalid_parameter_value(format!(
            "Message (user) attribute name '{name}' can not start or end with a dot, or have \
             successive dots."
        )));
    }
    Ok(())
}

fn check_attribute<'r>(
    name: &'r str,
    value: &'r MessageAttributeValue<'_>,
    whose: &str,
) -> Result<Attribute<'r>, ApiError> {
    if value.string_list_values.as_ref().is_some_and(|list| !list.is_empty())
        || value.binary_list_values.as_ref().is_some_and(|list| !list.is_empty())
    {
        return Err(error::unsupported_operation(
            "Message attribute list values in SendMessage operation are not supported.",
        ));
    }
    let data_type = value.data_type.as_ref().map(|text| text.as_str()).unwrap_or_default();
    if data_type.is_empty() {
        return Err(ApiError::invalid_parameter_value(
            "The request must contain non-empty message attribute type.",
        ));
    }
    let prefix = prefix_of(data_type).ok_or_else(|| {
        ApiError::invalid_parameter_value(format!(
            "The type of message ({whose}) attribute '{name}' is invalid. You must use only the \
             following supported type prefixes: Binary, Number, String."
        ))
    })?;
    let refused = |problem: &str| {
        let problem = format!("Message ({whose}) attribute '{name}' {problem}.");
        Err(ApiError::invalid_parameter_value(problem))
    };
    let string = value.string_value.as_ref().map(|blob| blob.as_bytes());
    let binary = value.binary_value.as_deref();
    if string.is_some_and(|s| !s.is_empty()) && binary.is_some_and(|b| !b.is_empty()) {
        return refused("has multiple values");
    }
    let given = if prefix == "Binary" { binary } else { string };
    let Some(bytes) = given.filter(|bytes| !bytes.is_empty()) else {
        return refused(&format!("must contain a non-empty value of type '{prefix}'"));
    };
    if prefix != "Binary" && !is_allowed_text(bytes) {
        return refused("contains invalid characters");
    }
    if prefix == "Number" && !is_number(bytes) {
        return Err(ApiError::invalid_parameter_value(format!(
            "Can't cast the value of message ({whose}) attribute '{name}' to a number."
        )));
    }
    Ok(Attribute { name, data_type, value: bytes })
}

/// What a data type is one of, without its label, if it is sound.
fn prefix_of(data_type: &str) -> Option<&str> {
    let (prefix, label) = data_type.split_once('.').unwrap_or((data_type, "-"));
    // A label may say anything that a body may.
    let is_sound = matches!(prefix, "String" | "Number" | "Binary")
        && data_type.chars().count() <= limits::ATTRIBUTE_NAME_CHARS
        && !label.is_empty()
        && is_allowed_text(label.as_bytes());
    is_sound.then_some(prefix)
}

fn check_system_attributes<'r>(
    given: &'r MessageAttributes<'_>,
) -> Result<Option<&'r str>, ApiError> {
    let mut trace_header = None;
    for (name, value) in &given.0 {
        if name.as_str() != "AWSTraceHeader" {
            return Err(ApiError::invalid_parameter_value(format!(
                "Message system attribute name '{}' is invalid. Valid names: AWSTraceHeader.",
                name.as_str()
            )));
        }
        let attribute = check_attribute(name.as_str(), value, "system")?;
        if attribute.data_type != "String" {
            return Err(ApiError::invalid_parameter_value(
                "The message system attribute 'AWSTraceHeader' must be of type 'String'.",
            ));
        }
        if attribute.value.len() > TRACE_HEADER_BYTES {
            return Err(ApiError::invalid_parameter_value(
                "The message system attribute 'AWSTraceHeader' is too long.",
            ));
        }
        trace_header = str::from_utf8(attribute.value).ok();
    }
    Ok(trace_header)
}

/// Up to 38 significant digits, magnitude from 1e-128 to 1e126, or zero.
fn is_number(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let text = text.trim();
    let only = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0');
    let last = digits.enumerate().filter(|(_, digit)| *digit != b'0').last();
    let significant = last.map_or(0, |(place, _)| place + 1);
    let has_magnitude = |number: f64| significant == 0 || (1e-128..=1e126).contains(&number.abs());
    text.bytes().all(only) && significant <= 38 && text.parse().is_ok_and(has_magnitude)
}

#[cfg(test)]
mod tests;
