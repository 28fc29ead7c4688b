//! The requests, as clients write them: lists may begin at any number and have gaps. Booleans and
//! numbers are texts here, for the service has errors of its own for them.

use crate::{actions, structures};

actions! {
    /// A request.
    pub Action {
        BatchDeleteAttributes(Batch),
        BatchPutAttributes(Batch),
        CreateDomain(Domain),
        DeleteAttributes(ChangeItem),
        DeleteDomain(Domain),
        DomainMetadata(Domain),
        GetAttributes(GetAttributes),
        ListDomains(ListDomains),
        PutAttributes(ChangeItem),
        Select(Select),
    }
}

structures! {
    /// Of all actions that are about a domain only.
    pub Domain {
        domain_name: Option<String> = "DomainName",
    }

    /// One item to put or to delete.
    pub ChangeItem {
        domain_name: Option<String> = "DomainName",
        item_name: Option<String> = "ItemName",
        attributes: Vec<Attribute> = "Attribute".flat(),
        /// Current SDKs give the condition no number.
        expected: Option<Expected> = "Expected",
        /// Old SDKs number it, from 0 or from 1.
        numbered_expected: Vec<Expected> = "Expected".flat(),
    }

    /// Items to put or to delete together.
    pub Batch {
        domain_name: Option<String> = "DomainName",
        items: Vec<BatchItem> = "Item".flat(),
    }

    /// An item of a batch.
    pub BatchItem {
        item_name: Option<String> = "ItemName".in_any_case(),
        attributes: Vec<Attribute> = "Attribute".flat(),
    }

    /// An attribute to put or to delete. A sample of the developer guide has its names in lower
    /// case.
    pub Attribute {
        name: Option<String> = "Name".in_any_case(),
        value: Option<String> = "Value".in_any_case(),
        replace: Option<String> = "Replace".in_any_case(),
    }

    /// A condition.
    pub Expected {
        name: Option<String> = "Name".in_any_case(),
        value: Option<String> = "Value".in_any_case(),
        exists: Option<String> = "Exists".in_any_case(),
    }

    /// An item to read.
    pub GetAttributes {
        domain_name: Option<String> = "DomainName",
        item_name: Option<String> = "ItemName",
        attribute_names: Option<Vec<String>> = "AttributeName".flat(),
        consistent_read: Option<String> = "ConsistentRead",
    }

    /// A page of the account's domains.
    pub ListDomains {
        max_number_of_domains: Option<String> = "MaxNumberOfDomains",
        next_token: Option<String> = "NextToken",
    }

    /// A page of a query's answer.
    pub Select {
        select_expression: Option<String> = "SelectExpression",
        next_token: Option<String> = "NextToken",
        consistent_read: Option<String> = "ConsistentRead",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Parameters;
    use crate::simpledb::decode;

    fn put(form: &str) -> ChangeItem {
        let parameters = Parameters::parse("", form.as_bytes()).unwrap();
        let Action::PutAttributes(put) = decode("PutAttributes", &parameters).unwrap() else {
            panic!("another action");
        };
        put
    }

    fn batch(form: &str) -> Batch {
        let parameters = Parameters::parse("", form.as_bytes()).unwrap();
        let Action::BatchPutAttributes(batch) = decode("BatchPutAttributes", &parameters).unwrap()
        else {
            panic!("another action");
        };
        batch
    }

    #[test]
    fn lists_begin_anywhere_and_have_gaps() {
        let form = "DomainName=d&Attribute.12.Name=c&Attribute.12.Value=3&Attribute.0.Name=a\
            &Attribute.0.Value=1&Attribute.4.Value=&Attribute.4.Name=b&Attribute.0.Replace=true";
        let attributes = put(form).attributes;

        let names: Vec<_> = attributes.iter().map(|it| it.name.as_deref().unwrap()).collect();
        let values: Vec<_> = attributes.iter().map(|it| it.value.as_deref().unwrap()).collect();
        assert_eq!((names, values), (vec!["a", "b", "c"], vec!["1", "", "3"]));
        assert_eq!(attributes[0].replace.as_deref(), Some("true"));
    }

    #[test]
    fn batches_nest_lists() {
        let form = "Item.7.ItemName=b&Item.7.Attribute.0.Name=x&Item.7.Attribute.0.Value=1\
            &Item.0.ItemName=a&Item.0.Attribute.5.name=y&Item.0.Attribute.5.value=2";
        let items = batch(form).items;

        let names: Vec<_> = items.iter().map(|it| it.item_name.as_deref().unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(items[0].attributes[0].name.as_deref(), Some("y"), "lower case, too");
        assert_eq!(items[0].attributes[0].value.as_deref(), Some("2"));
    }

    #[test]
    fn the_declared_case_counts_first() {
        let attributes = put("Attribute.1.NAME=no&Attribute.1.Name=yes").attributes;
        assert_eq!(attributes[0].name.as_deref(), Some("yes"));
    }

    #[test]
    fn conditions_have_a_number_or_none() {
        let plain = put("Expected.Name=a&Expected.Value=1");
        assert_eq!(plain.expected.unwrap().name.as_deref(), Some("a"));
        assert!(plain.numbered_expected.is_empty());
        for number in ["0", "1", "3"] {
            let numbered = put(&format!("Expected.{number}.Name=a&Expected.{number}.Exists=false"));
            assert_eq!(numbered.expected, Some(Expected::default()));
            assert_eq!(numbered.numbered_expected.len(), 1);
            assert_eq!(numbered.numbered_expected[0].exists.as_deref(), Some("false"));
        }
    }

    #[test]
    fn what_is_not_utf_8_is_an_invalid_value() {
        let parameters = Parameters::parse("", b"DomainName=%ff").unwrap();
        let error = decode("CreateDomain", &parameters).unwrap_err();
        assert_eq!((error.code, error.status), ("InvalidParameterValue", 400));
    }
}
