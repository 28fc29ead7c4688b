//! Policies of resources, which let other accounts in (developer guide of SQS, "Using policies").
//!
//! A statement must allow principal, action and resource, and none deny them; a statement with
//! conditions allows nothing, because conditions are not evaluated. In actions and resources `*` and
//! `?` stand for any characters and any one, wherever they are.

use millrace_core::is_account;
use serde_json::Value;

/// A parsed policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy(Value);

/// An action, its resource, and the account that asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    /// In lower case: `sqs:sendmessage`.
    pub action: &'a str,
    /// The resource's.
    pub arn: &'a str,
    /// The principal's.
    pub account: &'a str,
}

/// A service that acts for a resource of its own: an action, the resource that it is about, and for
/// whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceQuestion<'a> {
    /// In lower case: `sqs:sendmessage`.
    pub action: &'a str,
    pub arn: &'a str,
    /// The service: `sns.amazonaws.com`.
    pub service: &'a str,
    /// The resource that the service acts for, and its account: `aws:SourceArn`,
    /// `aws:SourceAccount`.
    pub source_arn: &'a str,
    pub source_account: &'a str,
}

/// A question, with the ARN of the account.
struct Asked<'a> {
    question: Question<'a>,
    root: String,
}

impl Policy {
    /// Parses a policy. No text, or a text that is no policy, allows nothing.
    pub(crate) fn parse(text: Option<&str>) -> Policy {
        Policy(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// Returns true if the policy lets the account in.
    pub(crate) fn allows(&self, question: &Question<'_>) -> bool {
        let partition = question.arn.split(':').nth(1).unwrap_or("aws");
        let root = format!("arn:{partition}:iam::{}:root", question.account);
        let asked = Asked { question: *question, root };
        let statements = items(&self.0["Statement"]);
        let is_denied = statements.iter().any(|statement| {
            statement["Effect"] == "Deny" && (asked.is_in(statement) || asked.may_be_in(statement))
        });
        let is_allowed = statements.iter().any(|statement| {
            statement["Effect"] == "Allow"
                && statement["Condition"].is_null()
                && asked.is_in(statement)
        });
        is_allowed && !is_denied
    }
}

impl Policy {
    /// Returns true if the policy lets a service act. Conditions on the source are evaluated; a
    /// statement with others allows nothing, and denies.
    pub(crate) fn allows_service(&self, question: &ServiceQuestion<'_>) -> bool {
        let statements = items(&self.0["Statement"]);
        let is_in = |statement: &Value, effect: &str| {
            statement["Effect"] == effect && question.is_about(statement, effect == "Deny")
        };
        statements.iter().any(|statement| is_in(statement, "Allow"))
            && !statements.iter().any(|statement| is_in(statement, "Deny"))
    }
}

impl ServiceQuestion<'_> {
    /// Returns true if a statement is about that. `unclear` is the answer where that is not worked
    /// out.
    fn is_about(&self, statement: &Value, unclear: bool) -> bool {
        if ["NotPrincipal", "NotAction", "NotResource"].iter().any(|n| statement.get(n).is_some()) {
            return unclear;
        }
        let principal = &statement["Principal"];
        let is_everybody = |who: &str| who == "*";
        let is_meant = any(principal, is_everybody)
            || principal.is_object()
                && (any(&principal["AWS"], is_everybody)
                    || any(&principal["Service"], |who| who == self.service || who == "*"));
        is_meant
            && any(&statement["Action"], |it| is_like(self.action, &it.to_ascii_lowercase()))
            && any(&statement["Resource"], |pattern| is_like(self.arn, pattern))
            && self.meets(&statement["Condition"], unclear)
    }

    /// Returns true if all conditions are met.
    fn meets(&self, conditions: &Value, unclear: bool) -> bool {
        let Some(operators) = conditions.as_object() else {
            return conditions.is_null() || unclear;
        };
        operators.iter().all(|(operator, keys)| {
            let Some(keys) = keys.as_object() else { return unclear };
            keys.iter().all(|(key, wanted)| {
                let found = match key.to_ascii_lowercase().as_str() {
                    "aws:sourcearn" => self.source_arn,
                    "aws:sourceaccount" | "aws:sourceowner" => self.source_account,
                    _ => return unclear,
                };
                match operator.as_str() {
                    "ArnEquals" | "ArnLike" | "StringLike" => any(wanted, |it| is_like(found, it)),
                    "StringEquals" => any(wanted, |it| it == found),
                    "StringEqualsIgnoreCase" => any(wanted, |it| it.eq_ignore_ascii_case(found)),
                    _ => unclear,
                }
            })
        })
    }
}

impl Asked<'_> {
    /// Whether the statement is about principal, action and resource.
    fn is_in(&self, statement: &Value) -> bool {
        let principal = &statement["Principal"];
        let who = if principal.is_object() { &principal["AWS"] } else { principal };
        let is_like_action =
            |pattern: &str| is_like(self.question.action, &pattern.to_ascii_lowercase());
        any(who, |who| self.is_caller(who))
            && any(&statement["Action"], is_like_action)
            && match statement.get("Resource") {
                Some(resource) => any(resource, |pattern| is_like(self.question.arn, pattern)),
                // One that says what it is not about allows nothing.
                None => statement.get("NotResource").is_none(),
            }
    }

    /// Whether the statement is in terms of what it does not cover, or about somebody who may be
    /// the caller by another name. That is not worked out: such a denial denies.
    fn may_be_in(&self, statement: &Value) -> bool {
        let may_be_caller = |who: &Value| {
            let who = who.as_str().unwrap_or_default();
            !self.is_caller(who)
                && account_of(who).is_none_or(|other| other == self.question.account)
        };
        ["NotPrincipal", "NotAction", "NotResource"].iter().any(|n| statement.get(n).is_some())
            || match &statement["Principal"] {
                Value::Object(kinds) => kinds.iter().any(|(kind, who)| match kind.as_str() {
                    "AWS" => items(who).into_iter().any(may_be_caller),
                    "Service" | "Federated" => false,
                    _ => true,
                }),
                whole => items(whole).into_iter().any(may_be_caller),
            }
    }

    fn is_caller(&self, who: &str) -> bool {
        who == "*" || who == self.question.account || who == self.root
    }
}

/// The account that a principal is, or is of, if it says so in full.
fn account_of(principal: &str) -> Option<&str> {
    let is_arn = principal.starts_with("arn:");
    let account = if is_arn { principal.split(':').nth(4)? } else { principal };
    is_account(account).then_some(account)
}

/// Whether the text is what the pattern says, where `*` stands for any characters and `?` for one.
fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (mut at, mut next) = (0, 0);
    // The latest `*`, and how far the text was when it began: it takes one byte more each time that
    // what follows it does not fit.
    let mut star = None;
    while at < text.len() {
        match pattern.get(next) {
            Some(b'*') => {
                star = Some((next, at));
                next += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[at] => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, next) = (taken + 1, place + 1);
            }
        }
    }
    pattern[next..].iter().all(|byte| *byte == b'*')
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

    const ARN: &str = "arn:aws:sqs:eu-west-1:1:orders";

    fn policy(effect: &str, principal: &str, action: &str) -> String {
        format!(
            r#"{{"Statement":{{"Effect":"{effect}","Principal":{{"AWS":"{principal}"}},
            "Action":"{action}"}}}}"#
        )
    }

    fn allows_at(policy: Option<&str>, arn: &str, account: &str, action: &str) -> bool {
        let action = format!("sqs:{action}").to_ascii_lowercase();
        Policy::parse(policy).allows(&Question { action: &action, arn, account })
    }

    fn allows(policy: Option<&str>, account: &str, action: &str) -> bool {
        allows_at(policy, ARN, account, action)
    }

    #[test]
    fn another_account_needs_a_statement_that_allows_it() {
        let allowed = policy("Allow", "arn:aws:iam::111111111111:root", "SQS:SendMessage");
        assert!(allows(Some(&allowed), "111111111111", "SendMessage"));
        assert!(!allows(Some(&allowed), "111111111111", "ReceiveMessage"));
        assert!(!allows(Some(&allowed), "222222222222", "SendMessage"));
        assert!(!allows(None, "111111111111", "SendMessage"));
        let of_china = policy("Allow", "arn:aws-cn:iam::111111111111:root", "sqs:SendMessage");
        let in_china = "arn:aws-cn:sqs:cn-north-1:1:orders";
        assert!(allows_at(Some(&of_china), in_china, "111111111111", "SendMessage"));
        assert!(!allows_at(Some(&allowed), in_china, "111111111111", "SendMessage"));
        assert!(allows(Some(&policy("Allow", "*", "sqs:*")), "3", "ReceiveMessage"));
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

    #[test]
    fn a_denial_of_whoever_may_be_the_caller_denies() {
        let is_allowed = |principal: &str| {
            let policy = format!(
                r#"{{"Statement":[{{"Effect":"Allow","Principal":"*","Action":"sqs:*"}},
                {{"Effect":"Deny","Principal":{principal},"Action":"sqs:*"}}]}}"#
            );
            allows(Some(&policy), "222222222222", "SendMessage")
        };
        for caller in [
            r#"{"AWS":"222222222222"}"#,
            r#"{"AWS":"arn:aws:iam::222222222222:user/bob"}"#,
            r#"{"AWS":"AIDABOB"}"#,
            r#"{"AWS":["111111111111","arn:aws:iam::*:root"]}"#,
            r#"{"AWS":"2222*"}"#,
            r#"{"AWS":7}"#,
            r#"{"CanonicalUser":"79a5"}"#,
            r#""AIDABOB""#,
        ] {
            assert!(!is_allowed(caller), "{caller}");
        }
        for other in [
            r#"{"AWS":"111111111111"}"#,
            r#"{"AWS":"arn:aws:iam::111111111111:user/bob"}"#,
            r#"{"Service":"sns.amazonaws.com"}"#,
        ] {
            assert!(is_allowed(other), "{other}");
        }
    }

    #[test]
    fn wildcards_stand_anywhere_in_an_action() {
        let all = r#"{"Effect":"Allow","Principal":"*","Action":"sqs:*"}"#;
        for pattern in
            ["sqs:*Message", "sqs:S*Message", "SQS:SendMessag?", "sqs:*e", "*", "sqs:*s*g*"]
        {
            let allowed = policy("Allow", "*", pattern);
            assert!(allows(Some(&allowed), "3", "SendMessage"), "{pattern}");
            let denied = format!(
                r#"{{"Statement":[{all},{{"Effect":"Deny","Principal":"*","Action":"{pattern}"}}]}}"#
            );
            assert!(!allows(Some(&denied), "3", "SendMessage"), "{pattern}");
        }
        for pattern in
            ["sqs:*Messages", "sqs:SendMessage?", "sqs:", "", "sns:*", "?", "sqs:Receive*"]
        {
            let other = policy("Allow", "*", pattern);
            assert!(!allows(Some(&other), "3", "SendMessage"), "{pattern}");
        }
    }

    #[test]
    fn what_is_not_evaluated_allows_nothing_and_denies() {
        let all = r#"{"Effect":"Allow","Principal":"*","Action":"sqs:*"}"#;
        for members in [
            r#""Principal":"*","Action":"sqs:*","Condition":{"Bool":{"aws:SecureTransport":"true"}}"#,
            r#""Principal":"*","Action":"sqs:*","Condition":{}"#,
            r#""Principal":"*","NotAction":"sqs:ReceiveMessage""#,
            r#""Principal":"*","Action":"sqs:*","NotResource":"orders""#,
            r#""NotPrincipal":{"AWS":"222222222222"},"Action":"sqs:*""#,
            r#""Principal":{"CanonicalUser":"*"},"Action":"sqs:*""#,
        ] {
            let of = |effect: &str| format!(r#"{{"Effect":"{effect}",{members}}}"#);
            let allowed = format!(r#"{{"Statement":{}}}"#, of("Allow"));
            assert!(!allows(Some(&allowed), "3", "SendMessage"), "{members}");
            let denied = format!(r#"{{"Statement":[{},{all}]}}"#, of("Deny"));
            assert!(!allows(Some(&denied), "3", "SendMessage"), "{members}");
        }
        for other in ["Sometimes", "allow", ""] {
            let statement = all.replace("Allow", other);
            assert!(!allows(Some(&format!(r#"{{"Statement":{statement}}}"#)), "3", "SendMessage"));
        }
        for broken in ["", "[]", "{}", "null", r#"{"Statement":null}"#, all] {
            assert!(!allows(Some(broken), "3", "SendMessage"), "{broken}");
        }
        // A service is no account, beside whatever else the statement names.
        let denied = r#"{"Effect":"Deny","Principal":{"Service":"x","AWS":"111111111111"},"Action":"sqs:*"}"#;
        let policy = format!(r#"{{"Statement":[{denied},{all}]}}"#);
        assert!(allows(Some(&policy), "3", "SendMessage"));
        let policy = policy.replace("111111111111", "AIDABOB");
        assert!(!allows(Some(&policy), "3", "SendMessage"));
    }

    #[test]
    fn a_service_is_let_in_for_its_sources() {
        const QUEUE: &str = "arn:aws:sqs:us-east-1:1:q";
        let allows = |statements: &str| {
            Policy::parse(Some(&format!(r#"{{"Statement":[{statements}]}}"#))).allows_service(
                &ServiceQuestion {
                    action: "sqs:sendmessage",
                    arn: QUEUE,
                    service: "sns.amazonaws.com",
                    source_arn: "arn:aws:sns:us-east-1:1:t",
                    source_account: "1",
                },
            )
        };
        let of = |effect: &str, principal: &str, condition: &str| {
            format!(
                r#"{{"Effect":"{effect}","Principal":{principal},"Action":"SQS:SendMessage",
                "Resource":"{QUEUE}","Condition":{condition}}}"#
            )
        };
        let service = r#"{"Service":"sns.amazonaws.com"}"#;
        let source = r#"{"ArnEquals":{"aws:SourceArn":"arn:aws:sns:us-east-1:1:t"}}"#;
        for principal in [service, r#""*""#, r#"{"AWS":"*"}"#, r#"{"Service":["a","*"]}"#] {
            assert!(allows(&of("Allow", principal, source)), "{principal}");
            assert!(allows(&of("Allow", principal, "null")), "{principal}");
        }
        for principal in [r#"{"Service":"s3.amazonaws.com"}"#, r#"{"AWS":"1"}"#, r#""sns""#] {
            assert!(!allows(&of("Allow", principal, source)), "{principal}");
        }
        for condition in [
            r#"{"ArnLike":{"AWS:sourcearn":"arn:aws:sns:*:1:*"}}"#,
            r#"{"StringEquals":{"aws:SourceAccount":["2","1"]}}"#,
            r#"{"ArnLike":{"aws:SourceArn":"*"},"StringEquals":{"aws:SourceAccount":"1"}}"#,
            "{}",
        ] {
            assert!(allows(&of("Allow", service, condition)), "{condition}");
            let denied = of("Deny", service, condition);
            assert!(!allows(&format!("{},{denied}", of("Allow", service, source))), "{condition}");
        }
        for condition in [
            r#"{"ArnEquals":{"aws:SourceArn":"arn:aws:sns:us-east-1:1:other"}}"#,
            r#"{"ArnLike":{"aws:SourceArn":"*"},"StringEquals":{"aws:SourceAccount":"2"}}"#,
        ] {
            assert!(!allows(&of("Allow", service, condition)), "{condition}");
            let denied = of("Deny", service, condition);
            assert!(allows(&format!("{},{denied}", of("Allow", service, source))), "{condition}");
        }
        // What is not evaluated allows nothing and denies.
        for condition in [
            r#"{"Bool":{"aws:SecureTransport":"true"}}"#,
            r#"{"ArnNotLike":{"aws:SourceArn":"x"}}"#,
            r#""x""#,
        ] {
            assert!(!allows(&of("Allow", service, condition)), "{condition}");
            let denied = of("Deny", service, condition);
            assert!(!allows(&format!("{},{denied}", of("Allow", service, source))), "{condition}");
        }
        let other = of("Allow", service, source).replace("SQS:SendMessage", "SQS:ReceiveMessage");
        assert!(!allows(&other) && !allows(""));
        let denied = of("Deny", service, "null").replace(r#""Action""#, r#""NotAction""#);
        assert!(!allows(&format!("{},{denied}", of("Allow", service, source))));
    }

    #[test]
    fn patterns_are_matched_whole() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("ab", "a*b", true),
            ("ab", "a?b", false),
            ("ab", "ab**", true),
            ("ab", "a*c", false),
            ("abab", "*ab", true),
            ("aab", "*ab", true),
            ("aaab", "*aab", true),
            ("abcab", "a*ab", true),
            ("abcabd", "a*ab", false),
            ("abcbc", "a*bc*c", true),
            ("abc", "a*bc*c", false),
            ("abc", "?b?", true),
            ("a*c", "a?c", true),
            ("mississippi", "m*iss*ip*", true),
            ("mississippi", "m*iss*iss*iss*", false),
        ] {
            assert_eq!(super::is_like(text, pattern), expected, "{text} {pattern}");
        }
    }

    #[test]
    fn a_statement_is_about_its_resource() {
        let of = |effect: &str, key: &str, resource: &str| {
            format!(
                r#"{{"Effect":"{effect}","Principal":"*","Action":"sqs:*","{key}":"{resource}"}}"#
            )
        };
        let allows = |statements: &[String]| {
            let policy = format!(r#"{{"Statement":[{}]}}"#, statements.join(","));
            allows(Some(&policy), "3", "SendMessage")
        };
        let allow = of("Allow", "Resource", "*");
        for same in [ARN, "*", "arn:aws:sqs:*:1:ord*", "arn:aws:sqs:eu-west-?:1:orders"] {
            assert!(allows(&[of("Allow", "Resource", same)]), "{same}");
            assert!(!allows(&[allow.clone(), of("Deny", "Resource", same)]), "{same}");
        }
        for other in
            ["arn:aws:sqs:eu-west-1:1:order", "arn:aws:sqs:eu-west-1:1:Orders", "orders", ""]
        {
            assert!(!allows(&[of("Allow", "Resource", other)]), "{other}");
            assert!(allows(&[allow.clone(), of("Deny", "Resource", other)]), "{other}");
        }
        assert!(!allows(&[of("Allow", "NotResource", "orders")]));
        assert!(!allows(&[allow, of("Deny", "NotResource", "orders")]));
    }
}
