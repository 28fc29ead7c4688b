use super::*;

fn code(action: &str, form: &str) -> &'static str {
    let parameters = Parameters::parse("", form.as_bytes()).unwrap();
    decode_query(action, &parameters).unwrap_err().code
}

#[test]
fn an_empty_list_of_entries_is_an_empty_batch() {
    let parameters = Parameters::parse("", b"DeleteMessageBatchRequestEntry=").unwrap();
    let Ok(Action::DeleteMessageBatch(batch)) = decode_query("DeleteMessageBatch", &parameters)
    else {
        panic!()
    };
    assert!(batch.entries.unwrap().is_empty());

    let parameters = Parameters::parse("", b"AttributeName=").unwrap();
    let Ok(Action::GetQueueAttributes(get)) = decode_query("GetQueueAttributes", &parameters)
    else {
        panic!()
    };
    assert!(get.attribute_names.is_none());
}

#[test]
fn a_single_pair_may_lack_its_number() {
    let form = b"Attribute.Name=DelaySeconds&Attribute.Value=5&Tag.Key=k";
    let parameters = Parameters::parse("", form).unwrap();
    let Ok(Action::CreateQueue(create)) = decode_query("CreateQueue", &parameters) else {
        panic!()
    };

    assert_eq!(create.attributes.unwrap().get("DelaySeconds"), Some("5"));
    assert_eq!(create.tags.unwrap().get("k"), Some(""));
}

#[test]
fn what_lacks_its_number_gives_way_to_what_has_one() {
    let form = b"Attribute.Name=a&Attribute.Value=b&Attribute.1.Name=c&Attribute.1.Value=d\
        &MessageAttribute.Name=e&MessageAttribute.Value.StringValue=f";
    let parameters = Parameters::parse("", form).unwrap();
    let Ok(Action::CreateQueue(create)) = decode_query("CreateQueue", &parameters) else {
        panic!()
    };
    let attributes = create.attributes.unwrap();
    assert_eq!((attributes.get("a"), attributes.get("c")), (None, Some("d")));
    let Ok(Action::SendMessage(send)) = decode_query("SendMessage", &parameters) else { panic!() };
    let attributes = send.message_attributes.unwrap().0;
    assert_eq!(attributes[0].0, "e");
    assert_eq!(attributes[0].1.string_value.as_ref().unwrap().as_bytes(), b"f");
}

#[test]
fn reserved_lists_are_noticed() {
    for (list, has) in [("StringListValue", [true, false]), ("BinaryListValue", [false, true])] {
        let form = format!("MessageAttribute.1.Name=a&MessageAttribute.1.Value.{list}.1=");
        let parameters = Parameters::parse("", form.as_bytes()).unwrap();
        let Ok(Action::SendMessage(send)) = decode_query("SendMessage", &parameters) else {
            panic!()
        };
        let value = &send.message_attributes.as_ref().unwrap().0[0].1;
        let lists = [&value.string_list_values, &value.binary_list_values];
        assert_eq!(lists.map(Option::is_some), has, "{list}");
    }
}

#[test]
fn elements_of_lists_have_numbers() {
    let list = "Start of list found where not expected";
    let element = "Start of list element found where not expected";
    let zero = "0 is not a valid index";
    for (action, form, message) in [
        ("ReceiveMessage", "MessageAttributeNames.member.1=All", list),
        ("ReceiveMessage", "MessageAttributeName.member.1=All", list),
        ("ReceiveMessage", "AttributeName.0=All", zero),
        ("GetQueueAttributes", "AttributeNames.x=All", list),
        ("UntagQueue", "TagKey.0=a", zero),
        ("CreateQueue", "Attribute.DelaySeconds=10", element),
        ("CreateQueue", "Attribute.entry.1.key=DelaySeconds", element),
        ("CreateQueue", "Attribute.0.Name=DelaySeconds&Attribute.0.Value=1", zero),
        ("SetQueueAttributes", "Attribute=", "End of list found where not expected"),
        ("TagQueue", "Tag.a=b", element),
        ("SendMessage", "MessageAttribute.a.DataType=String", element),
        ("SendMessage", "MessageAttributes.entry.1.Name=a", element),
        ("DeleteMessageBatch", "DeleteMessageBatchRequestEntry.member.1.Id=a", element),
        ("SendMessageBatch", "SendMessageBatchRequestEntry.0.Id=a", zero),
        ("SendMessageBatch", "SendMessageBatchRequestEntry.1.MessageAttribute.0.Name=a", zero),
    ] {
        let parameters = Parameters::parse("", form.as_bytes()).unwrap();
        let refusal = decode_query(action, &parameters).unwrap_err();
        assert_eq!((refusal.code, &*refusal.message), ("MalformedInput", message), "{form}");
    }
    for (action, form) in [
        ("ReceiveMessage", "AttributeNameList.0=All&MessageAttributeName=All"),
        ("ReceiveMessage", "MessageAttributeName.1=All&MessageAttributeNames.member.1=All"),
        ("CreateQueue", "Other.x=1&Tag="),
        ("SetQueueAttributes", "Attribute.Name=DelaySeconds&Attribute.Value=1"),
    ] {
        let parameters = Parameters::parse("", form.as_bytes()).unwrap();
        assert!(decode_query(action, &parameters).is_ok(), "{form}");
    }
}

#[test]
fn attributes_and_their_names_may_have_plural_names() {
    let form = b"MessageAttributes.1.key=a&MessageAttributes.1.value.StringValue=b\
        &MessageAttributeNames.1=c&AttributeNames.1=d";
    let parameters = Parameters::parse("", form).unwrap();

    let Ok(Action::SendMessage(send)) = decode_query("SendMessage", &parameters) else { panic!() };
    assert_eq!(send.message_attributes.unwrap().0[0].0, "");
    let Ok(Action::ReceiveMessage(receive)) = decode_query("ReceiveMessage", &parameters) else {
        panic!()
    };
    assert_eq!(receive.message_attribute_names.unwrap().0[0], "c");
    assert_eq!(receive.attribute_names.unwrap().0[0], "d");
}

#[test]
fn tags_may_have_their_plural_name() {
    let form = b"Tags.1.Key=a&Tags.1.Value=b&TagKeys.1=c&TagKeys.2=d";
    let parameters = Parameters::parse("", form).unwrap();

    let Ok(Action::TagQueue(tag)) = decode_query("TagQueue", &parameters) else { panic!() };
    assert_eq!(tag.tags.unwrap().get("a"), Some("b"));
    let Ok(Action::CreateQueue(create)) = decode_query("CreateQueue", &parameters) else {
        panic!()
    };
    assert_eq!(create.tags.unwrap().get("a"), Some("b"));
    let Ok(Action::UntagQueue(untag)) = decode_query("UntagQueue", &parameters) else { panic!() };
    assert_eq!(untag.tag_keys.unwrap().0.len(), 2);
}

#[test]
fn bodies_may_be_any_bytes_but_other_text_is_utf8() {
    let parameters = Parameters::parse("", b"MessageBody=%FF").unwrap();
    let Ok(Action::SendMessage(send)) = decode_query("SendMessage", &parameters) else { panic!() };

    assert_eq!(send.message_body.unwrap().as_bytes(), b"\xff");
    assert_eq!(code("SendMessage", "QueueUrl=%FF"), "MalformedInput");
}

#[test]
fn wrong_values_and_actions_are_refused() {
    assert_eq!(code("SendMessage", "DelaySeconds=x"), "MalformedInput");
    let binary = "MessageAttribute.1.Name=a&MessageAttribute.1.Value.BinaryValue=*";
    assert_eq!(code("SendMessage", binary), "MalformedInput");
    let entries: String =
        (1..1002).map(|n| format!("DeleteMessageBatchRequestEntry.{n}.Id=a&")).collect();
    assert_eq!(code("DeleteMessageBatch", &entries), "MalformedInput");
    let names: String = (1..1002).map(|n| format!("TagKey.{n}=a&")).collect();
    assert_eq!(code("UntagQueue", &names), "MalformedInput");
    let attributes = |count: usize| -> String {
        (1..=count).map(|n| format!("MessageAttribute.{n}.Name=a&")).collect()
    };
    let parameters = attributes(100);
    let parameters = Parameters::parse("", parameters.as_bytes()).unwrap();
    assert!(decode_query("SendMessage", &parameters).is_ok());
    assert_eq!(code("SendMessage", &attributes(101)), "MalformedInput");
    let tags: String = (1..1002).map(|n| format!("Tag.{n}.Key=a&")).collect();
    assert_eq!(code("TagQueue", &tags), "MalformedInput");
    let parameters = Parameters::parse("", b"Attribute.1.Name=RedrivePolicy").unwrap();
    let refusal = decode_query("SetQueueAttributes", &parameters).unwrap_err();
    assert_eq!(refusal, ApiError::missing_parameter("Attribute.Value"));
    assert_eq!(code("", ""), "MissingAction");
    assert_eq!(code("Nope", ""), "InvalidAction");
}

#[test]
fn a_request_has_few_parameters() {
    let with = |count: usize| {
        let form: String = (0..count).map(|number| format!("p{number}&")).collect();
        let parameters = Parameters::parse("", form.as_bytes()).unwrap();
        decode_query("ReceiveMessage", &parameters).map(drop).map_err(|error| error.code)
    };

    assert_eq!(with(PARAMETERS_MAX), Ok(()));
    assert_eq!(with(PARAMETERS_MAX + 1), Err("MalformedQueryString"));
}
