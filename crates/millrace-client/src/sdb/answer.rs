//! What answers hold, of all actions: items with their attributes, names of domains, figures, and
//! the token of the next page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node};

use crate::error::{CallError, CallErrorKind};

/// What an answer holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Of Select.
    pub items: Vec<Item>,
    /// Of GetAttributes: names and values.
    pub attributes: Vec<(String, String)>,
    /// All other texts by the name of their element: of ListDomains and DomainMetadata.
    pub texts: Vec<(String, String)>,
    /// If there is more.
    pub next_token: Option<String>,
}

/// An item: names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub attributes: Vec<(String, String)>,
}

pub(super) fn read(body: &[u8]) -> Result<Page, CallError> {
    let malformed = |problem: String| {
        CallError::new(
            CallErrorKind::Malformed,
            "malformed",
            format!("no answer of SimpleDB: {problem}"),
        )
    };
    let text = std::str::from_utf8(body).map_err(|error| malformed(error.to_string()))?;
    let document = Document::parse(text).map_err(|error| malformed(error.to_string()))?;
    let root = document.root_element();
    let metadata = root.children().find(|child| is(*child, "ResponseMetadata"));
    if metadata.is_none() {
        return Err(malformed("no ResponseMetadata".to_owned()));
    }
    let mut page = Page::default();
    let result = root.children().find(|it| it.tag_name().name().ends_with("Result"));
    for member in result.iter().flat_map(Node::children).filter(Node::is_element) {
        match member.tag_name().name() {
            "Item" => {
                let name = data(member, "Name").map_err(malformed)?;
                let attributes = member.children().filter(|child| is(*child, "Attribute"));
                let attributes =
                    attributes.map(pair).collect::<Result<_, _>>().map_err(malformed)?;
                page.items.push(Item { name, attributes });
            }
            "Attribute" => page.attributes.push(pair(member).map_err(malformed)?),
            "NextToken" => page.next_token = Some(content(member).to_owned()),
            name => page.texts.push((name.to_owned(), content(member).to_owned())),
        }
    }
    Ok(page)
}

fn pair(attribute: Node<'_, '_>) -> Result<(String, String), String> {
    Ok((data(attribute, "Name")?, data(attribute, "Value")?))
}

/// The text of a child, which may be base64.
fn data(parent: Node<'_, '_>, name: &str) -> Result<String, String> {
    let child = parent.children().find(|child| is(*child, name));
    let child = child.ok_or_else(|| format!("no {name}"))?;
    let text = content(child);
    if child.attribute("encoding") != Some("base64") {
        return Ok(text.to_owned());
    }
    let decoded = STANDARD.decode(text.trim()).map_err(|error| error.to_string())?;
    String::from_utf8(decoded).map_err(|error| error.to_string())
}

fn is(node: Node<'_, '_>, name: &str) -> bool {
    node.tag_name().name() == name
}

fn content<'a>(node: Node<'a, '_>) -> &'a str {
    node.text().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_tokens_are_read() {
        let body =
            b"<?xml version=\"1.0\"?>\n<SelectResponse xmlns=\"http://sdb.amazonaws.com/doc/\
            2009-04-15/\"><SelectResult><Item><Name>i</Name><Attribute><Name encoding=\"base64\">\
            AQ==</Name><Value>a &amp; b</Value></Attribute></Item><NextToken>t</NextToken>\
            </SelectResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>\
            </SelectResponse>";
        let page = read(body).unwrap();
        let attributes = vec![("\u{1}".to_owned(), "a & b".to_owned())];
        assert_eq!(page.items, [Item { name: "i".to_owned(), attributes }]);
        assert_eq!(page.next_token.as_deref(), Some("t"));
    }

    #[test]
    fn other_texts_have_their_names() {
        let body = b"<ListDomainsResponse><ListDomainsResult><DomainName>a</DomainName>\
            </ListDomainsResult><ResponseMetadata/></ListDomainsResponse>";
        assert_eq!(read(body).unwrap().texts, [("DomainName".to_owned(), "a".to_owned())]);
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        for body in [&b"<html/>"[..], b"", b"\xff", b"{}"] {
            assert_eq!(read(body).unwrap_err().kind, CallErrorKind::Malformed);
        }
    }
}
