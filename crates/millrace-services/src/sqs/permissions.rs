//! AddPermission, RemovePermission: statements of the queue's Policy.

use std::sync::Arc;

use millrace_broker::{Definition, SharedQueue};
use millrace_core::{is_account, is_plain_name, limits, partition};
use millrace_wire::ApiError;
use millrace_wire::sqs::{AddPermission, Answer, RemovePermission, Text};
use serde_json::{Value, json};

use super::actions::ACTIONS;
use super::policy_document::STATEMENTS;
use super::{Sqs, error, required};
use crate::policy_text::{in_order, one_or_many, statements_mut};

/// The actions that clients may name; `*` is all of them.
const PERMITTED: [&str; 9] = [
    "*",
    "SendMessage",
    "ReceiveMessage",
    "DeleteMessage",
    "ChangeMessageVisibility",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "PurgeQueue",
];

impl Sqs {
    pub(super) async fn add_permission(
        &self,
        queue: &Arc<SharedQueue>,
        input: &AddPermission<'_>,
    ) -> Result<Answer, ApiError> {
        let label = checked_label(input.label.as_ref())?;
        let accounts = texts(input.aws_account_ids.as_deref(), "AWSAccountIds")?;
        let actions = texts(input.actions.as_deref(), "Actions")?;
        if actions.is_empty() {
            return Err(ApiError::missing_parameter("Actions"));
        }
        check_actions(&actions)?;
        check_accounts(&accounts)?;
        let arn = queue.arn();
        let partition = partition(&queue.key().region);
        let root = |account: &&str| format!("arn:{partition}:iam::{account}:root");
        let principals = accounts.iter().map(root);
        let statement = json!({
            "Sid": label,
            "Effect": "Allow",
            "Principal": { "AWS": one_or_many(principals.collect()) },
            "Action": one_or_many(actions.iter().map(|action| format!("SQS:{action}")).collect()),
            "Resource": arn,
        });
        let change = |definition: &mut Definition| {
            let current = policy_of(definition.attributes.get("Policy"));
            let policy = with_statement(current.unwrap_or_else(|| no_policy(arn)), statement)?;
            definition.attributes.insert("Policy".to_owned(), policy);
            Ok(())
        };
        self.change(queue, change).await?;
        Ok(Answer::Void)
    }

    pub(super) async fn remove_permission(
        &self,
        queue: &Arc<SharedQueue>,
        input: &RemovePermission<'_>,
    ) -> Result<Answer, ApiError> {
        let label = required(input.label.as_ref(), "Label")?;
        let change = |definition: &mut Definition| {
            let not_found = || error::invalid_value(label, "Label", "can't find label.");
            let mut policy =
                policy_of(definition.attributes.get("Policy")).ok_or_else(not_found)?;
            let statements = statements_mut(&mut policy);
            let before = statements.len();
            statements.retain(|statement| statement["Sid"] != label);
            if statements.len() == before {
                return Err(not_found());
            }
            if statements.is_empty() {
                definition.attributes.remove("Policy");
            } else {
                definition.attributes.insert("Policy".to_owned(), in_order(&policy)?);
            }
            Ok(())
        };
        self.change(queue, change).await?;
        Ok(Answer::Void)
    }
}

/// The policy that is made for the first label.
fn no_policy(arn: &str) -> Value {
    json!({
        "Version": "2008-10-17",
        "Id": format!("{arn}/SQSDefaultPolicy"),
        "Statement": [],
    })
}

/// The policy's text with one statement more.
fn with_statement(mut policy: Value, statement: Value) -> Result<String, ApiError> {
    let statements = statements_mut(&mut policy);
    let label = statement["Sid"].as_str().unwrap_or_default();
    if statements.iter().any(|known| known["Sid"] == label) {
        return Err(error::invalid_value(label, "Label", "Already exists."));
    }
    statements.push(statement);
    if statements.len() > STATEMENTS {
        return Err(error::over_limit(format!(
            "{} statements were found, maximum allowed is {STATEMENTS}.",
            statements.len()
        )));
    }
    let text = in_order(&policy)?;
    if text.len() > limits::POLICY_BYTES {
        return Err(error::over_limit(format!(
            "The policy would have {} bytes, maximum allowed is {}.",
            text.len(),
            limits::POLICY_BYTES
        )));
    }
    Ok(text)
}

fn checked_label<'r>(label: Option<&'r Text<'_>>) -> Result<&'r str, ApiError> {
    let label = required(label, "Label")?;
    if label.len() <= 80 && is_plain_name(label) {
        return Ok(label);
    }
    let reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in \
                  length.";
    Err(error::invalid_value(label, "Label", reason))
}

fn check_actions(actions: &[&str]) -> Result<(), ApiError> {
    if actions.len() > limits::PERMISSION_ACTIONS {
        return Err(error::over_limit(format!(
            "{} Actions were found, maximum allowed is {}.",
            actions.len(),
            limits::PERMISSION_ACTIONS
        )));
    }
    match actions.iter().find(|action| !PERMITTED.contains(action)) {
        Some(unknown) => Err(error::invalid_value(
            format_args!("SQS:{unknown}"),
            "ActionName",
            if is_owner_only(unknown) {
                "Only the queue owner is allowed to invoke this action."
            } else {
                "Please refer to the appropriate WSDL for a list of valid actions."
            },
        )),
        None => Ok(()),
    }
}

fn is_owner_only(action: &str) -> bool {
    let mut of_owners = ACTIONS.iter().filter(|it| it.permission.is_owner_only);
    of_owners.any(|it| it.name == action)
}

fn check_accounts(accounts: &[&str]) -> Result<(), ApiError> {
    let bad: Vec<&str> = accounts.iter().copied().filter(|it| !is_account(it)).collect();
    if !accounts.is_empty() && bad.is_empty() {
        return Ok(());
    }
    let value = format_args!("[{}]", bad.join(", "));
    Err(error::invalid_value(value, "PrincipalId", "Unable to verify."))
}

fn texts<'r>(list: Option<&'r [Text<'_>]>, name: &str) -> Result<Vec<&'r str>, ApiError> {
    let list = list.ok_or_else(|| ApiError::missing_parameter(name))?;
    Ok(list.iter().map(Text::as_str).collect())
}

fn policy_of(text: Option<&String>) -> Option<Value> {
    serde_json::from_str::<Value>(text?).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_actions_and_accounts_are_bounded() {
        let label = |text: &str| checked_label(Some(&text.into())).is_ok();
        let long = "x".repeat(81);
        assert!(label("aZ_-9") && label(&long[..80]));
        assert!(!label(&long) && !label("a b") && !label("a.b"));
        assert!(checked_label(None).is_err());

        assert!(check_actions(&PERMITTED[..7]).is_ok() && check_actions(&["*"]).is_ok());
        let code = |actions: &[&str]| check_actions(actions).unwrap_err();
        assert_eq!(code(&PERMITTED[..8]).code, "OverLimit");
        assert!(code(&["SendMessage", "DeleteQueue"]).message.contains("Only the queue owner"));
        assert!(code(&["sendmessage"]).message.contains("WSDL"));

        let account = "123456789012";
        assert!(check_accounts(&[account, "000000000000"]).is_ok());
        for accounts in [&[][..], &["12345678901"], &[account, "x"], &["1234567890123"]] {
            assert!(check_accounts(accounts).is_err(), "{accounts:?}");
        }
        assert!(check_accounts(&[account, "x", "y"]).unwrap_err().message.contains("[x, y]"));
    }

    #[test]
    fn a_text_that_is_no_object_is_no_policy() {
        let policy = |text: &str| policy_of(Some(&text.to_owned()));
        assert!(policy("{}").is_some() && policy("[]").is_none() && policy("x").is_none());
    }
}
