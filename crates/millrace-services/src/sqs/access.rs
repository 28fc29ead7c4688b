//! Whether a queue's policy lets another account in (developer guide, "Using policies").
//!
//! Callers of the queue's own account need no policy. Of another account, a statement must allow
//! principal and action, and none deny them; a statement with conditions allows nothing, because
//! conditions are not evaluated.

use serde_json::Value;

/// Actions that are never allowed to other accounts.
const OWNER_ONLY: [&str; 12] = [
    "AddPermission",
    "CancelMessageMoveTask",
    "CreateQueue",
    "DeleteQueue",
    "ListMessageMoveTasks",
    "ListQueues",
    "ListQueueTags",
    "RemovePermission",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
];

/// Whether `policy`, a queue's, allows `action` to `account`.
pub(crate) fn allows(policy: Option<&str>, account: &str, action: &str) -> bool {
    let action = action.strip_suffix("Batch").unwrap_or(action);
    if OWNER_ONLY.contains(&action) {
        return false;
    }
    let Some(policy) = policy.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return false;
    };
    let root = format!("arn:aws:iam::{account}:root");
    let applies = |statement: &&Value| {
        let principal = &statement["Principal"];
        let who = if principal.is_object() { &principal["AWS"] } else { principal };
        any(who, |who| who == "*" || who == account || who == root)
            && any(&statement["Action"], |pattern| is_action(pattern, action))
    };
    // A denial in terms of what it does not cover, or of users, is not worked out: it denies.
    let may_deny = |statement: &Value| {
        let names = |name: &str| statement.get(name).is_some();
        names("NotPrincipal")
            || names("NotAction")
            || any(&statement["Principal"]["AWS"], |who| {
                who.contains(account) && who != account && who != root
            })
    };
    let statements = items(&policy["Statement"]);
    let is_denied = statements.iter().any(|statement| {
        statement["Effect"] == "Deny" && (applies(statement) || may_deny(statement))
    });
    let applying: Vec<_> = statements.into_iter().filter(|s| applies(s)).collect();
    let is_allowed = applying
        .iter()
        .any(|statement| statement["Effect"] == "Allow" && statement["Condition"].is_null());
    is_allowed && !is_denied
}

fn is_action(pattern: &str, action: &str) -> bool {
    let Some((service, name)) = pattern.split_once(':') else { return pattern == "*" };
    let matches_name = match name.strip_suffix('*') {
        Some(prefix) => {
            action.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
        None => action.eq_ignore_ascii_case(name),
    };
    service.eq_ignore_ascii_case("sqs") && matches_name
}

fn items(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Null => Vec::new(),
        single => vec![single],
    }
}

fn any(value: &Value, is_match: impl Fn(&str) -> bool) -> bool {
    items(value).into_iter().filter_map(Value::as_str).any(is_match)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(effect: &str, principal: &str, action: &str) -> String {
        format!(
            r#"{{"Statement":{{"Effect":"{effect}","Principal":{{"AWS":"{principal}"}},
            "Action":"{action}"}}}}"#
        )
    }

    #[test]
    fn another_account_needs_a_statement_that_allows_it() {
        let allowed = policy("Allow", "arn:aws:iam::111111111111:root", "SQS:SendMessage");
        assert!(allows(Some(&allowed), "111111111111", "SendMessage"));
        assert!(allows(Some(&allowed), "111111111111", "SendMessageBatch"));
        assert!(!allows(Some(&allowed), "111111111111", "ReceiveMessage"));
        assert!(!allows(Some(&allowed), "222222222222", "SendMessage"));
        assert!(!allows(None, "111111111111", "SendMessage"));
        assert!(allows(Some(&policy("Allow", "*", "sqs:*")), "3", "ReceiveMessage"));
        assert!(!allows(Some(&policy("Allow", "*", "sqs:*")), "3", "DeleteQueue"));
        assert!(!allows(Some(&policy("Deny", "*", "sqs:*")), "3", "ReceiveMessage"));
        let denied = r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*"},
            {"Effect":"Deny","NotPrincipal":{"AWS":"arn:aws:iam::2:root"},"Action":"sqs:*"}]}"#;
        assert!(!allows(Some(denied), "3", "ReceiveMessage"));
        let denied = r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*"},
            {"Effect":"Deny","Principal":{"AWS":["3","arn:aws:iam::3:root"]},
            "Action":"sqs:DeleteMessage"}]}"#;
        assert!(!allows(Some(denied), "3", "DeleteMessage"));
        assert!(allows(Some(denied), "3", "ReceiveMessage"), "of that action nothing is said");
        let denied = denied.replace("iam::3:root", "iam::3:user/x");
        assert!(!allows(Some(&denied), "3", "ReceiveMessage"));
    }
}
