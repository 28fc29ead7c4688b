//! The XML of answers: the declaration and a line feed, then one line. `ResponseMetadata` comes
//! last and reports [`BoxUsage`]. Names and values that XML cannot carry are base64, and say so.

use super::box_usage::BoxUsage;
use super::service::SERVICE;
use crate::protocol::Protocol;
use crate::{Response, base64_text, xml_text};

/// What answers and errors begin with.
pub(super) const DECLARATION: &str = "<?xml version=\"1.0\"?>\n";

/// An answer that is being written.
#[derive(Debug)]
pub struct AnswerXml<'a> {
    action: &'a str,
    /// False for actions whose answers have no element for a result.
    has_result: bool,
    out: Vec<u8>,
}

impl<'a> AnswerXml<'a> {
    /// An answer without a result.
    pub fn new(action: &'a str) -> AnswerXml<'a> {
        let mut answer = AnswerXml { action, has_result: false, out: Vec::with_capacity(1024) };
        answer.put(&[DECLARATION, "<", action, "Response xmlns=\"", SERVICE.xml_namespace, "\">"]);
        answer
    }

    /// An answer with a result, empty so far.
    pub fn with_result(action: &'a str) -> AnswerXml<'a> {
        let mut answer = AnswerXml { has_result: true, ..AnswerXml::new(action) };
        answer.put(&["<", action, "Result>"]);
        answer
    }

    /// An element with a text that XML can carry, or a number.
    pub fn element(&mut self, tag: &str, text: &str) {
        self.put(&["<", tag, ">"]);
        xml_text(&mut self.out, text.as_bytes());
        self.put(&["</", tag, ">"]);
    }

    /// A pair of name and value.
    pub fn attribute(&mut self, name: &str, value: &str) {
        self.put(&["<Attribute>"]);
        self.data("Name", name);
        self.data("Value", value);
        self.put(&["</Attribute>"]);
    }

    /// An item with its attributes.
    pub fn item<'t>(
        &mut self,
        name: &str,
        attributes: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) {
        self.put(&["<Item>"]);
        self.data("Name", name);
        attributes.into_iter().for_each(|(name, value)| self.attribute(name, value));
        self.put(&["</Item>"]);
    }

    /// The whole answer.
    pub fn response(mut self, request_id: &str, usage: BoxUsage) -> Response {
        if self.has_result {
            self.put(&["</", self.action, "Result>"]);
        }
        self.put(&["<ResponseMetadata>"]);
        self.element("RequestId", request_id);
        self.element("BoxUsage", &usage.to_string());
        self.put(&["</ResponseMetadata></", self.action, "Response>"]);
        let mut response = Response::new(200, Protocol::Query.content_type(), self.out);
        response.request_id = request_id.to_owned();
        response
    }

    fn data(&mut self, tag: &str, text: &str) {
        if text.chars().all(is_xml) {
            return self.element(tag, text);
        }
        self.put(&["<", tag, " encoding=\"base64\">"]);
        base64_text::append(&mut self.out, text.as_bytes());
        self.put(&["</", tag, ">"]);
    }

    fn put(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.out.extend_from_slice(part.as_bytes()));
    }
}

/// Returns true if XML 1.0 has the character. Its production `Char`, without surrogates, which are
/// no characters here.
fn is_xml(character: char) -> bool {
    !matches!(character, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(answer: AnswerXml<'_>, usage: BoxUsage) -> String {
        let response = answer.response("id-1", usage);
        assert_eq!((response.status, response.content_type), (200, "text/xml"));
        assert_eq!(response.request_id, "id-1");
        String::from_utf8(response.body).unwrap()
    }

    #[test]
    fn an_answer_without_a_result_is_metadata_only() {
        assert_eq!(
            body(AnswerXml::new("PutAttributes"), BoxUsage::change([3])),
            "<?xml version=\"1.0\"?>\n<PutAttributesResponse \
             xmlns=\"http://sdb.amazonaws.com/doc/2009-04-15/\"><ResponseMetadata>\
             <RequestId>id-1</RequestId><BoxUsage>0.0000219961</BoxUsage></ResponseMetadata>\
             </PutAttributesResponse>"
        );
    }

    #[test]
    fn metadata_comes_behind_the_result() {
        let mut answer = AnswerXml::with_result("Select");
        answer.item("i<1>", [("a", "1"), ("a", "2 & 3")]);
        answer.item("i2", []);
        answer.element("NextToken", "t");
        assert_eq!(
            body(answer, BoxUsage::select(2)),
            "<?xml version=\"1.0\"?>\n<SelectResponse \
             xmlns=\"http://sdb.amazonaws.com/doc/2009-04-15/\"><SelectResult><Item>\
             <Name>i&lt;1&gt;</Name><Attribute><Name>a</Name><Value>1</Value></Attribute>\
             <Attribute><Name>a</Name><Value>2 &amp; 3</Value></Attribute></Item>\
             <Item><Name>i2</Name></Item><NextToken>t</NextToken></SelectResult>\
             <ResponseMetadata><RequestId>id-1</RequestId><BoxUsage>0.0000140160</BoxUsage>\
             </ResponseMetadata></SelectResponse>"
        );
        let empty = body(AnswerXml::with_result("GetAttributes"), BoxUsage::get(0));
        assert!(empty.contains("<GetAttributesResult></GetAttributesResult>"), "{empty}");
    }

    #[test]
    fn what_xml_cannot_carry_is_base64() {
        let mut answer = AnswerXml::with_result("Select");
        answer.item("\u{1}", [("tab\tline\nreturn\r", "\u{ffff}"), ("plain é \u{1f600}", "")]);
        let body = body(answer, BoxUsage::select(1));
        for expected in [
            "<Item><Name encoding=\"base64\">AQ==</Name>",
            "<Name>tab\tline\nreturn&#xD;</Name><Value encoding=\"base64\">77+/</Value>",
            "<Name>plain é \u{1f600}</Name><Value></Value>",
        ] {
            assert!(body.contains(expected), "{body}");
        }
    }
}
