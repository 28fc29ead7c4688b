//! IronMQ's REST API, versions 3 and 1 (the one of "IronMQ 2"): paths, requests and answers.
//!
//! [`route`] finds what a request is for, [`read`] its body, and [`answer`] writes every answer:
//! clients fail on headers and shapes rather than on contents.

mod answer;
mod object;
mod requests;
mod route;
mod value;

pub use answer::{MessageShown, Messages, answer, ids, text};
pub use requests::{
    Alert, AlertsRequest, Claimed, DeadLetterRequest, Holding, Ids, Posted, PostedMessages,
    PushRequest, QueueRequest, QueueWrapped, Reserve, Subscriber, SubscribersRequest, read,
};
pub use route::{Endpoint, Misrouted, Route, Version, decoded, message_path, route};
pub use value::{Flag, Headers, Number};
