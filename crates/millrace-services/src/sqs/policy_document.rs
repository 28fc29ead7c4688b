//! Whether a queue's Policy is one (IAM user guide, "Grammar of the IAM JSON policy language").
//!
//! What its principals and actions are called is not looked up: a name that nobody has permits
//! nobody.

use millrace_core::limits;
use millrace_wire::ApiError;
use serde_json::Value;

use super::error;
use crate::policy_text;

/// Statements of one policy (developer guide, "Limitations to custom policies").
pub(crate) const STATEMENTS: usize = 20;

/// Actions of one statement: as many as AddPermission takes.
const ACTIONS: usize = limits::PERMISSION_ACTIONS;

/// `OverLimit` if the text is too long, or has too many statements or one with too many actions,
/// `InvalidAttributeValue` if it is no policy. The empty text, which removes the policy, is fine.
pub(crate) fn check_policy(text: &str) -> Result<(), ApiError> {
    if text.is_empty() {
        return Ok(());
    }
    if text.len() > limits::POLICY_BYTES {
        return Err(error::over_limit("Submitted policy is over max allowed size."));
    }
    let document = serde_json::from_str::<Value>(text).ok();
    let statements = document.as_ref().and_then(policy_text::statements);
    let statements = statements.ok_or_else(|| error::invalid_attribute_value("Policy"))?;
    if statements.len() > STATEMENTS {
        return Err(error::over_limit(format!(
            "{} statements were found in the submitted policy, max allowed is {STATEMENTS}",
            statements.len()
        )));
    }
    if let Some(count) = statements.iter().filter_map(|it| action_count(it)).find(|n| *n > ACTIONS)
    {
        return Err(error::over_limit(format!(
            "{count} actions were found in a statement from the submitted policy, max allowed is \
             {ACTIONS}"
        )));
    }
    if statements.into_iter().all(policy_text::is_statement) {
        Ok(())
    } else {
        Err(error::invalid_attribute_value("Policy"))
    }
}

/// How many actions a statement lists.
fn action_count(statement: &Value) -> Option<usize> {
    let named = statement.get("Action").or_else(|| statement.get("NotAction"));
    named?.as_array().map(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEMENT: &str = r#"{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}"#;

    fn code(text: &str) -> Option<&'static str> {
        check_policy(text).err().map(|error| error.code)
    }

    #[test]
    fn policies_as_tools_write_them_are_taken() {
        for text in [
            "",
            &format!(r#"{{"Statement":{STATEMENT}}}"#),
            &format!(r#"{{"Version":"2008-10-17","Id":"x","Statement":[{STATEMENT}]}}"#),
            r#"{"Version":"2012-10-17","Statement":[{"Sid":"","Effect":"Allow",
                "Principal":{"Service":"sns.amazonaws.com","AWS":["1","2"]},
                "Action":["sqs:SendMessage"],"Resource":"no ARN at all",
                "Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:sns:*:*:t"}}}]}"#,
            r#"{"Statement":{"Effect":"Deny","NotPrincipal":{"AWS":"1"},"NotAction":"sqs:*",
                "NotResource":["a"]}}"#,
        ] {
            assert_eq!(code(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        let changed = |from: &str, to: &str| {
            let statement = STATEMENT.replace(from, to);
            assert_ne!(statement, STATEMENT);
            format!(r#"{{"Statement":[{statement}]}}"#)
        };
        for text in [
            "x".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            r#"{"Statement":[]}"#.to_owned(),
            r#"{"Statement":["x"]}"#.to_owned(),
            format!(r#"{{"Version":"2020-01-01","Statement":[{STATEMENT}]}}"#),
            format!(r#"{{"Version":2012,"Statement":[{STATEMENT}]}}"#),
            format!(r#"{{"Other":1,"Statement":[{STATEMENT}]}}"#),
            changed(r#""Allow""#, r#""allow""#),
            changed(r#""Effect":"Allow","#, ""),
            changed(r#""Principal":"*","#, ""),
            changed(r#""Principal":"*""#, r#""Principal":"me""#),
            changed(r#""Principal":"*""#, r#""Principal":5"#),
            changed(r#""Principal":"*""#, r#""Principal":{"Aws":"1"}"#),
            changed(r#""Principal":"*""#, r#""Principal":{"AWS":[]}"#),
            changed(r#""Principal":"*""#, r#""Principal":{"AWS":"1","Aws":"1"}"#),
            changed(r#""Principal":"*""#, r#""Principal":{"AWS":"1","Service":[]}"#),
            changed(r#""Principal":"*""#, r#""Principal":{}"#),
            changed(r#""sqs:*""#, r#"["sqs:*",5]"#),
            changed(r#""sqs:*""#, "[]"),
            changed(r#""Effect""#, r#""Sid":5,"Effect""#),
            changed(r#""Effect""#, r#""Condition":"a","Effect""#),
            changed(r#""Effect""#, r#""Condition":{"StringEquals":{},"Bool":"a"},"Effect""#),
            format!(r#"{{"Id":5,"Statement":[{STATEMENT}]}}"#),
            format!(r#"{{"Statement":[{STATEMENT},{{}}]}}"#),
            changed(r#""Action":"sqs:*","#, ""),
            changed(r#""sqs:*""#, "5"),
            changed(r#""Action":"#, r#""NotAction":"a","Action":"#),
            changed(r#","Resource":"*""#, ""),
            changed(r#""Effect""#, r#""Else":1,"Effect""#),
            changed(r#""Effect""#, r#""Condition":{"StringEquals":"a"},"Effect""#),
        ] {
            assert_eq!(code(&text), Some("InvalidAttributeValue"), "{text}");
        }
    }

    #[test]
    fn policies_are_bounded() {
        let of =
            |count: usize| format!(r#"{{"Statement":[{}]}}"#, [STATEMENT].repeat(count).join(","));
        assert_eq!(code(&of(STATEMENTS)), None);
        assert_eq!(code(&of(STATEMENTS + 1)), Some("OverLimit"));
        for name in ["Action", "NotAction"] {
            let with = |count: usize| {
                let actions = serde_json::to_string(&["sqs:SendMessage"].repeat(count)).unwrap();
                of(1).replace(r#""Action":"sqs:*""#, &format!("\"{name}\":{actions}"))
            };
            assert_eq!((code(&with(7)), code(&with(8))), (None, Some("OverLimit")));
            let refusal = check_policy(&with(10)).unwrap_err();
            assert_eq!((refusal.code, refusal.status), ("OverLimit", 403));
            assert_eq!(
                refusal.message,
                "10 actions were found in a statement from the submitted policy, max allowed is 7"
            );
        }
        let long = |len: usize| format!("{}{}", of(1), " ".repeat(len - of(1).len()));
        assert_eq!(code(&long(limits::POLICY_BYTES)), None);
        assert_eq!(code(&long(limits::POLICY_BYTES + 1)), Some("OverLimit"));
    }
}
