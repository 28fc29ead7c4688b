//! SQS over AWS JSON in front of a queue in memory, for [`FaultServer`](super::FaultServer).

use std::pin::Pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytestring::ByteString;
use serde_json::{Map, Value, json};

use super::memory::MemoryPeer;
use crate::error::{CallError, EntryError};
use crate::message::{
    AttributeValue, Delivery, MessageAttribute, Outgoing, ReceiptHandle, Sent, attribute,
};
use crate::peer::{Peer, ReceiveRequest, SystemAttributes, Visibility};
use millrace_http::testing::{Reply, Request};

/// Answers the actions on messages, and GetQueueUrl. Whatever the queue URL, it is that queue.
pub fn sqs_handler(
    peer: MemoryPeer,
) -> impl Fn(Request) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync + 'static {
    move |request| {
        let peer = peer.clone();
        Box::pin(async move {
            match answer(&peer, &request).await {
                Ok(answer) => Reply::json(200, answer.to_string()),
                Err(error) => {
                    let status = if error.is_retryable() { 500 } else { 400 };
                    let body = json!({ "__type": error.code, "message": error.message });
                    Reply::json(status, body.to_string())
                }
            }
        })
    }
}

async fn answer(peer: &MemoryPeer, request: &Request) -> Result<Value, CallError> {
    let input: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let target = request.header("x-amz-target").unwrap_or_default();
    let entries = input["Entries"].as_array().cloned().unwrap_or_default();
    match target.strip_prefix("AmazonSQS.").unwrap_or_default() {
        "GetQueueUrl" => {
            let name = input["QueueName"].as_str().unwrap_or_default();
            let host = request.header("host").unwrap_or_default();
            Ok(json!({ "QueueUrl": format!("http://{host}/000000000000/{name}") }))
        }
        "SendMessage" => single(peer.send(&[outgoing(&input)]).await?, |sent| sent_json(&sent)),
        "SendMessageBatch" => {
            let messages: Vec<_> = entries.iter().map(outgoing).collect();
            Ok(batch(&entries, peer.send(&messages).await?, |sent| sent_json(&sent)))
        }
        "ReceiveMessage" => {
            let deliveries = peer.receive(receive_request(&input)).await?;
            Ok(json!({ "Messages": deliveries.iter().map(delivery_json).collect::<Vec<_>>() }))
        }
        "DeleteMessage" => single(peer.delete(&[handle(&input)]).await?, |()| Map::new()),
        "DeleteMessageBatch" => {
            let handles: Vec<_> = entries.iter().map(handle).collect();
            Ok(batch(&entries, peer.delete(&handles).await?, |()| Map::new()))
        }
        "ChangeMessageVisibility" => {
            single(peer.change_visibility(&[visibility(&input)]).await?, |_| Map::new())
        }
        "ChangeMessageVisibilityBatch" => {
            let changes: Vec<_> = entries.iter().map(visibility).collect();
            Ok(batch(&entries, peer.change_visibility(&changes).await?, |_| Map::new()))
        }
        other => Err(refused("UnknownOperationException", other)),
    }
}

fn single<T>(
    mut outcomes: Vec<Result<T, EntryError>>,
    done: impl Fn(T) -> Map<String, Value>,
) -> Result<Value, CallError> {
    match outcomes.pop() {
        Some(Ok(value)) => Ok(done(value).into()),
        Some(Err(error)) => Err(refused(&error.code, &error.message)),
        None => Err(refused("EmptyBatchRequest", "")),
    }
}

fn batch<T>(
    entries: &[Value],
    outcomes: Vec<Result<T, EntryError>>,
    done: impl Fn(T) -> Map<String, Value>,
) -> Value {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (entry, outcome) in entries.iter().zip(outcomes) {
        match outcome {
            Ok(value) => {
                let mut members = done(value);
                members.insert("Id".to_owned(), entry["Id"].clone());
                successful.push(Value::from(members));
            }
            Err(error) => failed.push(json!({
                "Id": entry["Id"],
                "Code": error.code,
                "Message": error.message,
                "SenderFault": error.is_sender_fault,
            })),
        }
    }
    json!({ "Successful": successful, "Failed": failed })
}

fn outgoing(input: &Value) -> Outgoing {
    let attributes = input["MessageAttributes"].as_object().into_iter().flatten();
    Outgoing {
        body: text(&input["MessageBody"]),
        delay: input["DelaySeconds"].as_u64().map(Duration::from_secs),
        group_id: input["MessageGroupId"].as_str().map(ByteString::from),
        deduplication_id: input["MessageDeduplicationId"].as_str().map(ByteString::from),
        attributes: attributes
            .map(|(name, attribute)| MessageAttribute {
                name: name.as_str().into(),
                data_type: text(&attribute["DataType"]),
                value: attribute_value(attribute),
            })
            .collect(),
        trace_header: input["MessageSystemAttributes"][attribute::TRACE_HEADER]["StringValue"]
            .as_str()
            .map(ByteString::from),
    }
}

fn attribute_value(attribute: &Value) -> AttributeValue {
    match attribute["BinaryValue"].as_str() {
        Some(encoded) => {
            AttributeValue::Binary(STANDARD.decode(encoded).unwrap_or_default().into())
        }
        None => AttributeValue::Text(text(&attribute["StringValue"])),
    }
}

fn receive_request(input: &Value) -> ReceiveRequest {
    ReceiveRequest {
        max: input["MaxNumberOfMessages"].as_u64().unwrap_or(1) as u32,
        wait: Duration::from_secs(input["WaitTimeSeconds"].as_u64().unwrap_or(0)),
        visibility: input["VisibilityTimeout"].as_u64().map(Duration::from_secs),
        attributes: SystemAttributes::All,
    }
}

fn visibility(input: &Value) -> Visibility {
    let timeout = Duration::from_secs(input["VisibilityTimeout"].as_u64().unwrap_or(0));
    Visibility { handle: handle(input), timeout }
}

/// The queue's tokens begin with the message id and a dash.
fn handle(input: &Value) -> ReceiptHandle {
    let token = text(&input["ReceiptHandle"]);
    let message_id = token.split('-').next().unwrap_or_default().into();
    ReceiptHandle { message_id, token }
}

fn sent_json(sent: &Sent) -> Map<String, Value> {
    Map::from_iter([("MessageId".to_owned(), Value::from(&*sent.message_id))])
}

fn delivery_json(delivery: &Delivery) -> Value {
    let text = |text: &ByteString| Value::from(&**text);
    let system = delivery.system_attributes.iter();
    let system: Map<_, _> = system.map(|(name, value)| (name.to_string(), text(value))).collect();
    let attributes: Map<_, _> = delivery
        .attributes
        .iter()
        .map(|attribute| {
            let (name, value) = match &attribute.value {
                AttributeValue::Text(value) => ("StringValue", text(value)),
                AttributeValue::Binary(bytes) => ("BinaryValue", STANDARD.encode(bytes).into()),
            };
            let value = json!({ "DataType": text(&attribute.data_type), name: value });
            (attribute.name.to_string(), value)
        })
        .collect();
    json!({
        "MessageId": text(&delivery.handle.message_id),
        "ReceiptHandle": text(&delivery.handle.token),
        "Body": text(&delivery.body),
        "Attributes": system,
        "MessageAttributes": attributes,
    })
}

fn text(value: &Value) -> ByteString {
    value.as_str().unwrap_or_default().into()
}

fn refused(code: &str, message: &str) -> CallError {
    CallError::new(crate::CallErrorKind::Refused, code, message)
}
