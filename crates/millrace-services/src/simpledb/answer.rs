//! Answers, before they are XML.

use millrace_tables::{Attribute, DomainFigures, Item};
use millrace_wire::Response;
use millrace_wire::simpledb::{AnswerXml, BoxUsage};

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Of actions that return nothing.
    Changed(BoxUsage),
    Domains {
        names: Vec<String>,
        next_token: Option<String>,
    },
    Metadata {
        figures: DomainFigures,
        /// Seconds since 1970.
        now_s: u64,
    },
    Attributes(Vec<Attribute>),
    Items {
        items: Vec<Item>,
        next_token: Option<String>,
        usage: BoxUsage,
    },
    Count {
        count: u64,
        next_token: Option<String>,
    },
}

impl Answer {
    pub(super) fn response(&self, action: &str, request_id: &str) -> Response {
        match self {
            Answer::Changed(usage) => AnswerXml::new(action).response(request_id, *usage),
            Answer::Domains { names, next_token } => {
                let mut answer = AnswerXml::with_result(action);
                names.iter().for_each(|name| answer.element("DomainName", name));
                put_token(&mut answer, next_token.as_deref());
                answer.response(request_id, BoxUsage::METADATA)
            }
            Answer::Metadata { figures, now_s } => {
                let mut answer = AnswerXml::with_result(action);
                for (tag, figure) in members(figures, *now_s) {
                    answer.element(tag, &figure.to_string());
                }
                answer.response(request_id, BoxUsage::METADATA)
            }
            Answer::Attributes(attributes) => {
                let mut answer = AnswerXml::with_result(action);
                attributes.iter().for_each(|it| answer.attribute(&it.name, &it.value));
                answer.response(request_id, BoxUsage::get(attributes.len()))
            }
            Answer::Items { items, next_token, usage } => {
                let mut answer = AnswerXml::with_result(action);
                for item in items {
                    let attributes = item.attributes.iter();
                    answer.item(&item.name, attributes.map(|it| (&*it.name, &*it.value)));
                }
                put_token(&mut answer, next_token.as_deref());
                answer.response(request_id, *usage)
            }
            Answer::Count { count, next_token } => {
                let mut answer = AnswerXml::with_result(action);
                answer.item("Domain", [("Count", &*count.to_string())]);
                put_token(&mut answer, next_token.as_deref());
                answer.response(request_id, BoxUsage::count(*count))
            }
        }
    }
}

fn put_token(answer: &mut AnswerXml<'_>, token: Option<&str>) {
    if let Some(token) = token {
        answer.element("NextToken", token);
    }
}

fn members(figures: &DomainFigures, now_s: u64) -> [(&'static str, u64); 7] {
    [
        ("ItemCount", figures.items),
        ("ItemNamesSizeBytes", figures.item_name_bytes),
        ("AttributeNameCount", figures.attribute_names),
        ("AttributeNamesSizeBytes", figures.attribute_name_bytes),
        ("AttributeValueCount", figures.attribute_values),
        ("AttributeValuesSizeBytes", figures.attribute_value_bytes),
        ("Timestamp", now_s),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_seven_numbers() {
        let figures = DomainFigures {
            items: 1,
            item_name_bytes: 2,
            attribute_names: 3,
            attribute_name_bytes: 4,
            attribute_values: 5,
            attribute_value_bytes: 6,
        };
        let response = Answer::Metadata { figures, now_s: 7 }.response("DomainMetadata", "id");
        let body = String::from_utf8(response.body).unwrap();
        assert!(
            body.contains(
                "<DomainMetadataResult><ItemCount>1</ItemCount>\
                 <ItemNamesSizeBytes>2</ItemNamesSizeBytes>\
                 <AttributeNameCount>3</AttributeNameCount>\
                 <AttributeNamesSizeBytes>4</AttributeNamesSizeBytes>\
                 <AttributeValueCount>5</AttributeValueCount>\
                 <AttributeValuesSizeBytes>6</AttributeValuesSizeBytes>\
                 <Timestamp>7</Timestamp></DomainMetadataResult>"
            ),
            "{body}"
        );
    }
}
