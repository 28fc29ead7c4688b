use super::*;

#[test]
fn body_counts_before_url_and_the_first_of_equal_names_counts() {
    let parameters = Parameters::parse("A=url&B=1&B=2&flag", b"A=body&&C=").unwrap();

    assert_eq!(parameters.get("A"), Some("body"));
    assert_eq!(parameters.get("B"), Some("1"));
    assert_eq!(parameters.get("C"), Some(""));
    assert_eq!(parameters.get("flag"), Some(""));
    assert_eq!(parameters.get("D"), None);
    assert_eq!(parameters.sorted.len(), 4);
}

#[test]
fn values_are_borrowed_unless_encoded() {
    let parameters = Parameters::parse("", b"A=plain&B=a+b%26%c3%a9&C=%ff").unwrap();

    assert!(matches!(parameters.sorted[0].value, Cow::Borrowed(_)));
    assert_eq!(parameters.get("B"), Some("a b&é"));
    assert_eq!(parameters.get("C"), None);
    assert_eq!(parameters.scope().bytes("C"), Some(&b"\xff"[..]));
    assert_eq!(parameters.scope().text("C").unwrap_err().code, "MalformedInput");
}

#[test]
fn lists_are_sorted_by_number_with_gaps() {
    let form = b"N.10=c&N.2=b&N.1=a&N.01=x&N.x=x&N.=x&N-1=x&NN.1=x&Empty=&Single=s";
    let parameters = Parameters::parse("", form).unwrap();
    let scope = parameters.scope();

    assert_eq!(scope.list("N").unwrap(), Some(vec!["a", "b", "c"]));
    assert_eq!(scope.list("Empty").unwrap(), None);
    assert_eq!(scope.list("Missing").unwrap(), None);
    assert_eq!(scope.list("Single").unwrap(), Some(vec!["s"]));
}

#[test]
fn structures_hold_what_has_their_number() {
    let form =
        b"E.2.Id=b&E.10.Id=c&E.1.Id=a&E.1.A.1.Name=n&E.1.A.1.Value=v&E.1=x&E.1-2=x&E.1x.Id=x";
    let parameters = Parameters::parse("", form).unwrap();
    let structures = parameters.scope().structures("E");

    let ids: Vec<_> = structures.iter().map(|entry| entry.text("Id").unwrap()).collect();
    assert_eq!(ids, [Some("a"), Some("b"), Some("c")]);
    let attributes = structures[0].structures("A");
    assert_eq!(attributes.len(), 1);
    assert_eq!(attributes[0].text("Name").unwrap(), Some("n"));
    assert_eq!(attributes[0].text("Value").unwrap(), Some("v"));
    assert!(structures[1].structures("A").is_empty());
}

#[test]
fn strict_lists_have_nothing_but_elements() {
    let form = b"N.10=b&N.1=a&Single=s&E.2.Id=b&E.1.Id=a";
    let parameters = Parameters::parse("", form).unwrap();
    let scope = parameters.scope();
    assert_eq!(scope.strict_list("N").unwrap(), Some(vec!["a", "b"]));
    assert_eq!(scope.strict_list("Single").unwrap(), Some(vec!["s"]));
    assert_eq!(scope.strict_structures("E").unwrap().len(), 2);

    let form = b"N=&Na.1=x&Ns.1=a&Nss.1=x&Nz.1=x&E.1.A.1.B=x&E.1.As.1.B=y&E.1.Cs.1.B=z";
    let parameters = Parameters::parse("", form).unwrap();
    let scope = parameters.scope();
    assert_eq!(scope.strict_list("N").unwrap(), Some(vec!["a"]));
    assert_eq!(scope.list("N").unwrap(), None);
    let entry = scope.strict_structures("E").unwrap()[0];
    for (name, value) in [("A", Some("x")), ("As", Some("y")), ("C", Some("z"))] {
        let found = entry.strict_structures(name).unwrap();
        assert_eq!(found[0].text("B").unwrap(), value, "{name}");
    }
    assert!(entry.strict_structures("B").unwrap().is_empty());

    for (form, list, structures) in [
        ("N.0=a", "0 is not a valid index", "0 is not a valid index"),
        (
            "N.1=a&N.member.1=b",
            "Start of list found where not expected",
            "Start of list element found where not expected",
        ),
        (
            "N.01=a",
            "Start of list found where not expected",
            "Start of list element found where not expected",
        ),
    ] {
        let parameters = Parameters::parse(form, b"").unwrap();
        let scope = parameters.scope();
        let refusals =
            [scope.strict_list("N").unwrap_err(), scope.strict_structures("N").unwrap_err()];
        assert_eq!(refusals.each_ref().map(|it| it.code), ["MalformedInput"; 2], "{form}");
        assert_eq!(refusals.map(|it| it.message), [list, structures], "{form}");
    }
}

#[test]
fn integers_are_checked() {
    let parameters = Parameters::parse("A=12&B=-1&C=1x&D=", b"").unwrap();
    let scope = parameters.scope();

    assert_eq!(scope.integer("A").unwrap(), Some(12));
    assert_eq!(scope.integer("B").unwrap(), Some(-1));
    assert_eq!(scope.integer("C").unwrap_err().code, "MalformedInput");
    assert_eq!(scope.integer("D").unwrap(), None);
    assert_eq!(scope.integer("E").unwrap(), None);
}

#[test]
fn too_many_parameters_are_refused() {
    let form = "a&".repeat(PARAMETERS_MAX);
    assert!(Parameters::parse("", form.as_bytes()).is_ok());

    assert_eq!(Parameters::parse("b", form.as_bytes()).unwrap_err().code, "MalformedQueryString");
}

#[test]
fn what_is_given_again_and_again_takes_no_memory() {
    let form = "a&".repeat(10_000);
    let parameters = Parameters::parse("", form.as_bytes()).unwrap();

    assert_eq!(parameters.len(), 1);
    assert!(parameters.sorted.capacity() < 10, "{}", parameters.sorted.capacity());
}
