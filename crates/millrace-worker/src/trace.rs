//! The trace that the work on a message belongs to, as texts: nothing here makes a trace.
//!
//! Senders write it as W3C's `traceparent` and `tracestate` in message attributes, or as X-Ray's
//! header in the system attribute `AWSTraceHeader`.

use bytestring::ByteString;
use millrace_client::{AttributeValue, Delivery, attribute};

/// A trace context in the forms that it travels in; what is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// W3C `traceparent`.
    pub parent: Option<ByteString>,
    /// W3C `tracestate`.
    pub state: Option<ByteString>,
    /// X-Ray's header.
    pub xray: Option<ByteString>,
}

impl Trace {
    /// What the sender of a message wrote.
    pub fn of(delivery: &Delivery) -> Trace {
        Trace {
            parent: text(delivery, "traceparent"),
            state: text(delivery, "tracestate"),
            xray: delivery.system_attribute(attribute::TRACE_HEADER).cloned(),
        }
    }
}

/// A text attribute; its name is compared as HTTP compares the names of headers.
fn text(delivery: &Delivery, name: &str) -> Option<ByteString> {
    let mut attributes = delivery.attributes.iter();
    match &attributes.find(|attribute| attribute.name.eq_ignore_ascii_case(name))?.value {
        AttributeValue::Text(text) => Some(text.clone()),
        AttributeValue::Binary(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use millrace_client::MessageAttribute;

    use super::*;

    #[test]
    fn trace_is_what_the_sender_wrote_in_either_form() {
        let mut binary = MessageAttribute::string("tracestate", "");
        binary.value = AttributeValue::Binary(Vec::new().into());
        let delivery = Delivery {
            system_attributes: vec![(attribute::TRACE_HEADER.into(), "Root=1".into())],
            attributes: vec![MessageAttribute::string("TraceParent", "00-1-2-01"), binary],
            ..Delivery::default()
        };

        let trace = Trace::of(&delivery);

        assert_eq!(trace.parent.as_deref(), Some("00-1-2-01"));
        assert_eq!(trace.xray.as_deref(), Some("Root=1"));
        assert_eq!(trace.state, None);
        assert_eq!(Trace::of(&Delivery::default()), Trace::default());
    }
}
