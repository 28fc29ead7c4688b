//! The names of parameters of changes. What is nearly the name of an attribute, item or condition is
//! refused: passed over, it would make another change of the request, up to the deletion of an item.

use crate::ApiError;
use crate::query::Parameters;

/// The members of each kind of list, which any case may spell.
const OF_ATTRIBUTE: [&str; 3] = ["Name", "Value", "Replace"];
const OF_CONDITION: [&str; 3] = ["Name", "Value", "Exists"];

/// # Errors
///
/// InvalidParameterValue, naming the parameter.
pub(super) fn check(action: &str, parameters: &Parameters<'_>) -> Result<(), ApiError> {
    let is_of_batch = match action {
        "PutAttributes" | "DeleteAttributes" => false,
        "BatchPutAttributes" | "BatchDeleteAttributes" => true,
        _ => return Ok(()),
    };
    for (name, _) in parameters.iter() {
        let name = String::from_utf8_lossy(name);
        let parts: Vec<&str> = name.split('.').collect();
        let is_known = match (is_of_batch, &*parts) {
            (false, ["Attribute", number, member]) => {
                is_index(number) && is_one_of(member, &OF_ATTRIBUTE)
            }
            (false, ["Expected", member]) => is_one_of(member, &OF_CONDITION),
            (false, ["Expected", number, member]) => {
                is_index(number) && is_one_of(member, &OF_CONDITION)
            }
            (true, ["Item", number, member]) => {
                is_index(number) && is_one_of(member, &["ItemName"])
            }
            (true, ["Item", number, "Attribute", of_item, member]) => {
                is_index(number) && is_index(of_item) && is_one_of(member, &OF_ATTRIBUTE)
            }
            (_, [first, ..]) => {
                let lists: &[&str] =
                    if is_of_batch { &["Item"] } else { &["Attribute", "Expected"] };
                !is_one_of(first, lists)
            }
            (_, []) => true,
        };
        if !is_known {
            return Err(ApiError::invalid_parameter_value(format!(
                "The parameter {name} is not one that {action} has."
            )));
        }
    }
    Ok(())
}

fn is_one_of(name: &str, known: &[&str]) -> bool {
    known.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Returns true if a text is a number as lists have them.
fn is_index(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(action: &str, form: &str) -> bool {
        check(action, &Parameters::parse("", form.as_bytes()).unwrap()).is_err()
    }

    #[test]
    fn names_that_lists_have_are_taken() {
        for form in [
            "Attribute.0.Name=a&Attribute.4294967295.value=1&Attribute.7.Replace=true&Other.1=x",
            "Expected.Name=a&Expected.exists=false&Expected.1.Value=b&AttributeName.1=x",
        ] {
            assert!(!is_refused("PutAttributes", form), "{form}");
        }
        let batch = "Item.0.ItemName=i&Item.0.itemname=i&Item.12.Attribute.3.NAME=a";
        assert!(!is_refused("BatchDeleteAttributes", batch));
        assert!(!is_refused("Select", "Attribute.x=1"));
    }

    #[test]
    fn names_that_are_nearly_those_are_refused() {
        for form in [
            "Attribute.4294967296.Name=a",
            "Attribute.01.Name=a",
            "Attribute.-1.Name=a",
            "Attribute.1x.Name=a",
            "Attribute.Name=a",
            "attribute.1.Name=a",
            "Attribute.1.Nmae=a",
            "Expected.-1.Name=a",
            "expected.name=a",
            "Expected.1.1.Name=a",
            "Expected=a",
        ] {
            assert!(is_refused("DeleteAttributes", form), "{form}");
        }
        for form in [
            "Item.1.Attribute.99999999999.Name=a",
            "Item.1.attribute.1.Name=a",
            "Item.99999999999.ItemName=a",
            "item.1.ItemName=a",
            "Item.ItemName=a",
        ] {
            assert!(is_refused("BatchDeleteAttributes", form), "{form}");
        }
    }
}
