//! The one place that decides if a principal may do what it asks, before any handler runs.
//!
//! Without credentials everything is allowed and nothing is looked at. With them, an account may do
//! anything with its own resources. For a resource of another account it needs that resource's
//! policy, and some actions are for owners only.

use std::convert::Infallible;
use std::sync::Arc;

use millrace_wire::ApiError;

use crate::policy::{Policy, Question};
use crate::principal::Principal;

/// An action by the name that policies use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    /// The service's name, before the colon.
    pub service: &'static str,
    pub action: &'static str,
    /// If true, no policy can allow the action to another account.
    pub is_owner_only: bool,
}

/// The thing that an action is about, such as a queue.
pub(crate) trait Resource: Send + Sync {
    fn arn(&self) -> &str;

    /// The account that it belongs to.
    fn account(&self) -> &str;

    /// The resource's own policy, parsed once.
    fn policy(&self) -> Arc<Policy>;
}

/// The rest that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// Tells the partition of ARNs.
    pub region: &'a str,
}

/// Decides. Without a resource, the action is about the principal's own account.
///
/// # Errors
///
/// AccessDenied, in the words that AWS has for it.
pub(crate) fn authorize(
    principal: &Principal<'_>,
    permission: &Permission,
    resource: Option<&impl Resource>,
    context: Context<'_>,
) -> Result<(), ApiError> {
    let Some(resource) = resource.filter(|it| principal.is_foreign_to(it.account())) else {
        return Ok(());
    };
    let (arn, action) = (resource.arn(), permission.text());
    let question = Question { action: &action, arn, account: &principal.account };
    if !permission.is_owner_only && resource.policy().allows(&question) {
        return Ok(());
    }
    let action = permission.shown();
    Err(ApiError::access_denied(format!(
        "User: {} is not authorized to perform: {action} on resource: {arn} because no \
         resource-based policy allows the {action} action",
        principal.arn(context.region)
    )))
}

impl Permission {
    /// The name in lower case, to compare with policies: `sqs:sendmessage`.
    fn text(&self) -> String {
        format!("{}:{}", self.service, self.action).to_ascii_lowercase()
    }

    /// The name as errors have it: SNS keeps its case, `SNS:Publish`, and SQS does not.
    fn shown(&self) -> String {
        match self.service {
            "sns" => format!("SNS:{}", self.action),
            _ => self.text(),
        }
    }
}

/// For services whose actions name no resource of another account.
impl Resource for Infallible {
    fn arn(&self) -> &str {
        match *self {}
    }

    fn account(&self) -> &str {
        match *self {}
    }

    fn policy(&self) -> Arc<Policy> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(&'static str);

    impl Resource for Thing {
        fn arn(&self) -> &str {
            "arn:aws:sqs:eu-west-1:1:orders"
        }

        fn account(&self) -> &str {
            "1"
        }

        fn policy(&self) -> Arc<Policy> {
            assert!(!self.0.is_empty(), "nobody need look");
            Arc::new(Policy::parse(Some(self.0)))
        }
    }

    const SEND: Permission =
        Permission { service: "sqs", action: "SendMessage", is_owner_only: false };
    const ALL: &str = r#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"*"}}"#;

    fn decide(
        principal: &Principal<'_>,
        permission: &Permission,
        policy: &'static str,
    ) -> Result<(), ApiError> {
        let context = Context { region: "eu-west-1" };
        authorize(principal, permission, Some(&Thing(policy)), context)
    }

    #[test]
    fn the_own_account_and_everybody_without_credentials_need_no_policy() {
        assert_eq!(decide(&Principal::account("1"), &SEND, ""), Ok(()));
        assert_eq!(decide(&Principal::anybody("2"), &SEND, ""), Ok(()));
        let nothing: Option<&Infallible> = None;
        let context = Context { region: "eu-west-1" };
        assert_eq!(authorize(&Principal::account("2"), &SEND, nothing, context), Ok(()));
    }

    #[test]
    fn another_account_needs_the_policy_and_some_actions_none_allows() {
        let other = Principal::user("2".into(), "eve".into(), "AKIAEVE");
        assert_eq!(decide(&other, &SEND, ALL), Ok(()));
        let refused = decide(&other, &SEND, "{}").unwrap_err();
        assert_eq!((refused.code, refused.status), ("AccessDenied", 403));
        assert_eq!(
            refused.message,
            "User: arn:aws:iam::2:user/eve is not authorized to perform: sqs:sendmessage on \
             resource: arn:aws:sqs:eu-west-1:1:orders because no resource-based policy allows the \
             sqs:sendmessage action"
        );

        let owners = Permission { is_owner_only: true, ..SEND };
        assert!(decide(&other, &owners, "").is_err(), "whatever the policy says");
    }
}
