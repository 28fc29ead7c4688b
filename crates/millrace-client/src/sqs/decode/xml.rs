//! Answers of the Query protocol: `<ActionResponse><ActionResult>…`, lists as elements that repeat,
//! maps as elements with `Name` and `Value`.

use std::borrow::Cow;

use bytes::Bytes;
use millrace_wire::sqs::{Map, Text};
use roxmltree::{Document, Node, StringStorage};

use super::received::{Attribute, Message, Pairs, Received};
use super::{Batch, Failure, QueueAttributes, QueueUrl, SentMessage, Success, malformed};
use crate::error::CallError;

pub(super) fn sent(body: &Bytes) -> Result<SentMessage<'_>, CallError> {
    let document = parse(body)?;
    let sent = result(&document)?;
    Ok(SentMessage {
        message_id: needed(sent, "MessageId")?,
        sequence_number: text(sent, "SequenceNumber"),
    })
}

/// An answer without a result is nothing but its name.
pub(super) fn done(body: &Bytes) -> Result<(), CallError> {
    let document = parse(body)?;
    let root = document.root_element();
    match action(root) {
        Some(action) if action != "Error" => Ok(()),
        _ => Err(malformed(format_args!("{} is no answer", root.tag_name().name()))),
    }
}

pub(super) fn batch(body: &Bytes) -> Result<Batch<'_>, CallError> {
    let document = parse(body)?;
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in result(&document)?.children().filter(Node::is_element) {
        if is_named(&entry, "BatchResultErrorEntry") {
            failed.push(Failure {
                id: needed(entry, "Id")?,
                code: needed(entry, "Code")?,
                message: text(entry, "Message"),
                sender_fault: text(entry, "SenderFault").is_some_and(|fault| fault.0 == "true"),
            });
            continue;
        }
        // The name of the others tells the action.
        successful.push(Success {
            id: needed(entry, "Id")?,
            message_id: text(entry, "MessageId"),
            sequence_number: text(entry, "SequenceNumber"),
        });
    }
    Ok(Batch { successful: Some(successful), failed: Some(failed) })
}

pub(super) fn received(body: &Bytes) -> Result<Received<'_>, CallError> {
    let document = parse(body)?;
    let messages = children(result(&document)?, "Message").map(message);
    Ok(Received { messages: Some(messages.collect::<Result<_, _>>()?) })
}

pub(super) fn queue_url(body: &Bytes) -> Result<QueueUrl<'_>, CallError> {
    let document = parse(body)?;
    Ok(QueueUrl { queue_url: needed(result(&document)?, "QueueUrl")? })
}

pub(super) fn queue_attributes(body: &Bytes) -> Result<QueueAttributes<'_>, CallError> {
    let document = parse(body)?;
    Ok(QueueAttributes { attributes: Some(map(result(&document)?, "Attribute")?) })
}

fn message<'a>(message: Node<'_, 'a>) -> Result<Message<'a>, CallError> {
    let attributes = children(message, "MessageAttribute").map(|attribute| {
        let value = child(attribute, "Value").ok_or_else(|| missing(attribute, "Value"))?;
        let read = Attribute {
            data_type: needed(value, "DataType")?,
            string_value: text(value, "StringValue"),
            binary_value: text(value, "BinaryValue"),
        };
        Ok((needed(attribute, "Name")?, read))
    });
    Ok(Message {
        message_id: needed(message, "MessageId")?,
        receipt_handle: needed(message, "ReceiptHandle")?,
        body: needed(message, "Body")?,
        attributes: Some(map(message, "Attribute")?),
        message_attributes: Some(Pairs(attributes.collect::<Result<_, CallError>>()?)),
    })
}

fn parse(body: &Bytes) -> Result<Document<'_>, CallError> {
    let text = std::str::from_utf8(body).map_err(malformed)?;
    // Without document types, so that entities cannot grow.
    Document::parse(text).map_err(malformed)
}

/// What the action returned.
fn result<'d, 'a>(document: &'d Document<'a>) -> Result<Node<'d, 'a>, CallError> {
    let root = document.root_element();
    let is_result = |node: &Node<'_, '_>| {
        let action = action(root);
        action.is_some() && node.tag_name().name().strip_suffix("Result") == action
    };
    root.children().find(is_result).ok_or_else(|| missing(root, "result"))
}

/// What the root of an answer is named for.
fn action<'a>(root: Node<'a, '_>) -> Option<&'a str> {
    root.tag_name().name().strip_suffix("Response")
}

fn map<'a>(node: Node<'_, 'a>, name: &'static str) -> Result<Map<'a>, CallError> {
    let pairs =
        children(node, name).map(|pair| Ok((needed(pair, "Name")?, needed(pair, "Value")?)));
    Ok(Map(pairs.collect::<Result<_, CallError>>()?))
}

fn children<'d, 'a>(node: Node<'d, 'a>, name: &'static str) -> impl Iterator<Item = Node<'d, 'a>> {
    node.children().filter(move |child| is_named(child, name))
}

fn child<'d, 'a>(node: Node<'d, 'a>, name: &'static str) -> Option<Node<'d, 'a>> {
    children(node, name).next()
}

fn needed<'a>(node: Node<'_, 'a>, name: &'static str) -> Result<Text<'a>, CallError> {
    text(node, name).ok_or_else(|| missing(node, name))
}

/// The text inside a child; white space is part of it.
fn text<'a>(node: Node<'_, 'a>, name: &'static str) -> Option<Text<'a>> {
    let parts = child(node, name)?.children().filter(Node::is_text);
    let mut parts = parts.filter_map(|part| part.text_storage());
    let text = match (parts.next(), parts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(StringStorage::Borrowed(text)), None) => Cow::Borrowed(*text),
        (Some(StringStorage::Owned(text)), None) => Cow::Owned(text.to_string()),
        // A comment stands between them.
        (Some(first), Some(second)) => {
            let rest = parts.map(|part| part.as_str());
            Cow::Owned([first.as_str(), second.as_str()].into_iter().chain(rest).collect())
        }
    };
    Some(Text(text))
}

fn is_named(node: &Node<'_, '_>, name: &str) -> bool {
    node.tag_name().name() == name
}

fn missing(node: Node<'_, '_>, name: &str) -> CallError {
    malformed(format_args!("{} has no {name}", node.tag_name().name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, CallError> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let messages = received(&bytes)?.messages.unwrap_or_default();
        Ok(messages.into_iter().map(|message| message.body.into_owned()).collect())
    }

    fn answer(body: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<ReceiveMessageResponse xmlns=\"urn:x\">\n\
             <ReceiveMessageResult>\n  <Message><MessageId>m</MessageId>\n\
             <ReceiptHandle>r</ReceiptHandle>{body}</Message></ReceiveMessageResult>\
             </ReceiveMessageResponse>"
        )
    }

    #[test]
    fn white_space_entities_and_sections_of_a_body_are_kept() {
        for (written, body) in [
            ("<Body>  a \n</Body>", "  a \n"),
            ("<Body>&lt;a&gt;&amp;amp;&#xD;&#65;</Body>", "<a>&amp;\rA"),
            ("<Body><![CDATA[<a>]]>b</Body>", "<a>b"),
            ("<Body>a<!-- c -->b</Body>", "ab"),
            ("<Body/>", ""),
        ] {
            assert_eq!(read(&answer(written)).unwrap(), [body], "{written}");
        }
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        let bomb = format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", answer("<Body>&b;</Body>"));
        for text in [
            "",
            "<html/>",
            "<ReceiveMessageResponse/>",
            "<ReceiveMessageResponse><ReceiveMessageResult>",
            "{}",
            &answer(""),
            &bomb,
        ] {
            assert!(read(text).unwrap_err().is_ambiguous, "{text}");
        }
        let empty = "<ReceiveMessageResponse><ReceiveMessageResult/></ReceiveMessageResponse>";
        assert!(read(empty).unwrap().is_empty());
    }
}
