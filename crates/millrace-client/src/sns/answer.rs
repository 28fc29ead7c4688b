//! Answers of all actions: single texts, lists of members, and maps of attributes.

use roxmltree::{Document, Node};

use crate::error::{CallError, CallErrorKind};

/// Names with their texts, in order.
pub type Texts = Vec<(String, String)>;

/// An answer of any action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Such as `TopicArn` of CreateTopic.
    pub texts: Texts,
    /// Of lists, such as ListTopics: the texts of each member.
    pub members: Vec<Texts>,
    /// Of GetTopicAttributes and GetSubscriptionAttributes: names and values.
    pub attributes: Texts,
    /// If there is more.
    pub next_token: Option<String>,
}

impl Answer {
    /// The text of that name; empty if there is none.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        text(&self.texts, name)
    }
}

/// The text of that name; empty if there is none.
#[must_use]
pub fn text<'t>(texts: &'t Texts, name: &str) -> &'t str {
    texts.iter().find(|(other, _)| other == name).map_or("", |(_, text)| text)
}

pub(super) fn read(body: &[u8]) -> Result<Answer, CallError> {
    let malformed = |problem: String| {
        let text = format!("no answer of SNS: {problem}");
        CallError::new(CallErrorKind::Malformed, "malformed", text)
    };
    let text = std::str::from_utf8(body).map_err(|error| malformed(error.to_string()))?;
    let document = Document::parse(text).map_err(|error| malformed(error.to_string()))?;
    let root = document.root_element();
    if !elements(root).any(|child| child.tag_name().name() == "ResponseMetadata") {
        return Err(malformed("no ResponseMetadata".to_owned()));
    }
    let mut answer = Answer::default();
    let result = elements(root).find(|child| child.tag_name().name().ends_with("Result"));
    for element in result.into_iter().flat_map(elements) {
        let is_map = elements(element).any(|child| child.tag_name().name() == "entry");
        match element.tag_name().name() {
            "NextToken" => answer.next_token = Some(content(element)).filter(|it| !it.is_empty()),
            _ if is_map => answer.attributes.extend(elements(element).map(entry)),
            _ if element.first_element_child().is_some() => {
                answer.members.extend(elements(element).map(member));
            }
            name => answer.texts.push((name.to_owned(), content(element))),
        }
    }
    Ok(answer)
}

fn member(member: Node<'_, '_>) -> Texts {
    let name = |element: Node<'_, '_>| element.tag_name().name().to_owned();
    elements(member).map(|element| (name(element), content(element))).collect()
}

fn entry(entry: Node<'_, '_>) -> (String, String) {
    let of = |name: &str| {
        let child = elements(entry).find(|child| child.tag_name().name() == name);
        child.map(content).unwrap_or_default()
    };
    (of("key"), of("value"))
}

fn elements<'a, 'input>(node: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(Node::is_element)
}

fn content(node: Node<'_, '_>) -> String {
    node.text().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: &str) -> Answer {
        let body = format!(
            "<R xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><XResult>{result}</XResult>\
             <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></R>"
        );
        read(body.as_bytes()).unwrap()
    }

    #[test]
    fn texts_lists_and_maps_are_told_apart() {
        assert_eq!(of("<TopicArn>a &amp; b</TopicArn>").text("TopicArn"), "a & b");
        let list = of("<Topics><member><TopicArn>a</TopicArn></member><member><TopicArn>b\
            </TopicArn></member></Topics><NextToken>t</NextToken>");
        let arns: Vec<&str> = list.members.iter().map(|it| text(it, "TopicArn")).collect();
        assert_eq!((arns, list.next_token.as_deref()), (vec!["a", "b"], Some("t")));
        let map = of("<Attributes><entry><key>Owner</key><value>1</value></entry></Attributes>");
        assert_eq!(map.attributes, [("Owner".to_owned(), "1".to_owned())]);
        assert_eq!(of("<Topics/>").members, Vec::<Texts>::new());
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        for body in [&b"<html/>"[..], b"", b"\xff", b"{}"] {
            assert_eq!(read(body).unwrap_err().kind, CallErrorKind::Malformed);
        }
    }
}
