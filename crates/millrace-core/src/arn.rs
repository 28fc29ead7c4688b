//! Amazon resource names and the key under which a queue is known.

use std::fmt;

/// What names a queue: queues of different regions or accounts are different queues.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey {
    /// For instance `us-east-1`.
    pub region: String,
    /// Twelve digits.
    pub account: String,
    /// 1 to 80 characters, with the `.fifo` suffix of FIFO queues.
    pub name: String,
}

impl QueueKey {
    /// A key from its three parts.
    pub fn new(region: &str, account: &str, name: &str) -> QueueKey {
        QueueKey { region: region.to_owned(), account: account.to_owned(), name: name.to_owned() }
    }

    /// A queue that carries a service's deliveries. No client can name it: it has no region, and
    /// the service in the account's place.
    pub fn hidden(service: &str, name: &str) -> QueueKey {
        QueueKey::new("", service, name)
    }

    /// Returns true for a key that [`QueueKey::hidden`] made.
    pub fn is_hidden(&self) -> bool {
        self.region.is_empty() && !is_account(&self.account)
    }

    /// `arn:<partition>:sqs:<region>:<account>:<name>`.
    pub fn arn(&self) -> Arn {
        Arn {
            partition: partition(&self.region).to_owned(),
            service: "sqs".to_owned(),
            region: self.region.clone(),
            account: self.account.clone(),
            resource: self.name.clone(),
        }
    }
}

impl fmt::Display for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueKey { region, account, name } = self;
        write!(f, "arn:{}:sqs:{region}:{account}:{name}", partition(region))
    }
}

/// Whether a text has the form of an account: twelve digits.
pub fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether all is ASCII letters, digits, dashes and underscores, as AWS allows in most names.
pub fn is_plain_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// The partition of a region, with which its ARNs begin: `aws-cn` for `cn-north-1`, for most `aws`.
pub fn partition(region: &str) -> &'static str {
    const OTHERS: [(&str, &str); 7] = [
        ("cn-", "aws-cn"),
        ("us-gov-", "aws-us-gov"),
        ("us-iso-", "aws-iso"),
        ("us-isob-", "aws-iso-b"),
        ("eu-isoe-", "aws-iso-e"),
        ("us-isof-", "aws-iso-f"),
        ("eusc-", "aws-eusc"),
    ];
    let other = OTHERS.iter().find(|(prefix, _)| region.starts_with(prefix));
    other.map_or("aws", |(_, partition)| partition)
}

/// An Amazon resource name, split at its first five colons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arn {
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// For instance `sqs`.
    pub service: String,
    /// For instance `us-east-1`; empty for global resources.
    pub region: String,
    /// Twelve digits, or empty.
    pub account: String,
    /// Everything after the fifth colon.
    pub resource: String,
}

impl Arn {
    /// Parses `arn:partition:service:region:account:resource`; `None` if it is not of that form.
    pub fn parse(text: &str) -> Option<Arn> {
        let mut parts = text.splitn(6, ':');
        if parts.next()? != "arn" {
            return None;
        }
        let mut next = || parts.next().map(str::to_owned);
        let arn = Arn {
            partition: next()?,
            service: next()?,
            region: next()?,
            account: next()?,
            resource: next()?,
        };
        (!arn.partition.is_empty() && !arn.service.is_empty() && !arn.resource.is_empty())
            .then_some(arn)
    }

    /// The queue that this ARN names, if it names one.
    pub fn queue(&self) -> Option<QueueKey> {
        (self.service == "sqs" && !self.region.is_empty() && !self.account.is_empty())
            .then(|| QueueKey::new(&self.region, &self.account, &self.resource))
    }
}

impl fmt::Display for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arn { partition, service, region, account, resource } = self;
        write!(f, "arn:{partition}:{service}:{region}:{account}:{resource}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_arn_round_trips() {
        let key = QueueKey::new("us-east-1", "000000000000", "jobs.fifo");

        let parsed = Arn::parse(&key.to_string()).unwrap();

        assert_eq!(parsed.queue(), Some(key.clone()));
        assert_eq!(parsed.to_string(), key.to_string());
        assert_eq!(key.arn(), parsed);
    }

    #[test]
    fn no_arn_names_a_hidden_queue() {
        let hidden = QueueKey::hidden("push", "jobs");

        assert!(hidden.is_hidden() && !QueueKey::new("", "000000000000", "jobs").is_hidden());
        assert_eq!(Arn::parse(&hidden.to_string()).unwrap().queue(), None);
    }

    #[test]
    fn arns_are_of_the_partition_of_their_region() {
        for (region, partition) in [
            ("eu-central-1", "aws"),
            ("cn-northwest-1", "aws-cn"),
            ("us-gov-east-1", "aws-us-gov"),
            ("us-iso-west-1", "aws-iso"),
            ("us-isob-east-1", "aws-iso-b"),
            ("eu-isoe-west-1", "aws-iso-e"),
            ("us-isof-south-1", "aws-iso-f"),
            ("eusc-de-east-1", "aws-eusc"),
        ] {
            let key = QueueKey::new(region, "000000000000", "jobs");

            assert_eq!(key.to_string(), format!("arn:{partition}:sqs:{region}:000000000000:jobs"));
            assert_eq!(key.to_string(), key.arn().to_string());
        }
    }

    #[test]
    fn malformed_arns_are_refused() {
        for text in [
            "",
            "arn",
            "arn:aws:sqs",
            "arn:aws:sqs:r:a",
            "urn:aws:sqs:r:a:q",
            "arn:aws:sqs:r:a:",
            "arn::sqs:r:a:q",
            "arn:aws::r:a:q",
        ] {
            assert_eq!(Arn::parse(text), None, "{text}");
        }
        assert_eq!(Arn::parse("arn:aws:sns:r:a:t").unwrap().queue(), None);
    }
}
