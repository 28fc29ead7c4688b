//! The parts of an answer around its result: content type, root element, request id.

use super::node::Node;
use super::xml::{self, put_parts};
use super::{cbor, json};
use crate::Response;
use crate::escape::{json_string, xml_text};
use crate::protocol::{Protocol, ServiceMetadata};

/// The parts of an answer around its result.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    pub service: &'a ServiceMetadata,
    pub protocol: Protocol,
    pub action: &'a str,
    pub request_id: &'a str,
}

impl Envelope<'_> {
    /// The whole answer; `result` is none for actions that have no element for it.
    pub fn response(&self, result: Option<&Node>) -> Response {
        let Envelope { service, protocol, action, request_id } = *self;
        let empty = Node::Structure(Vec::new());
        let node = result.unwrap_or(&empty);
        let mut body = Vec::with_capacity(1024);
        match protocol {
            Protocol::Json if result.is_none() && service.has_empty_json => {}
            Protocol::Json => json::put(node, &mut body),
            Protocol::Cbor => cbor::put(node, &mut body),
            Protocol::Query => self.put_xml(result, &mut body),
            Protocol::QueryAsJson => {
                put_parts(&mut body, &["{\"", action, "Response\":{\"", action, "Result\":"]);
                json::put(node, &mut body);
                put_parts(&mut body, &[",\"ResponseMetadata\":{\"RequestId\":"]);
                json_string(&mut body, request_id.as_bytes());
                put_parts(&mut body, &["}}}"]);
            }
        }
        let mut response = Response::new(200, service.content_type(protocol), body);
        response.request_id = request_id.to_owned();
        if protocol == Protocol::Cbor {
            response.headers.push(("Smithy-Protocol", "rpc-v2-cbor".to_owned()));
        }
        response
    }

    fn put_xml(&self, result: Option<&Node>, out: &mut Vec<u8>) {
        let Envelope { service, action, request_id, .. } = *self;
        put_parts(out, &["<", action, "Response xmlns=\"", service.xml_namespace, "\">"]);
        if let Some(node) = result {
            put_parts(out, &["<", action, "Result>"]);
            xml::put(node, service.xml_fractions, out);
            put_parts(out, &["</", action, "Result>"]);
        }
        put_parts(out, &["<ResponseMetadata><RequestId>"]);
        xml_text(out, request_id.as_bytes());
        put_parts(out, &["</RequestId></ResponseMetadata></", action, "Response>"]);
    }
}
