//! Names of services and protocols, and what gives a service away.

use crate::codec::Fractions;
use crate::sqs;

/// An AWS service that may be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceName {
    Sqs,
    Sns,
    CloudWatch,
    Sts,
    CloudFormation,
    SimpleDb,
    Iam,
    Kms,
    Unknown,
}

/// How requests and answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// AWS JSON 1.0 or 1.1: the action in `X-Amz-Target`.
    Json,
    /// Parameters in, XML out.
    Query,
    /// Parameters in, JSON out, because of `Accept: application/json`.
    QueryAsJson,
    /// Smithy RPC v2 with CBOR.
    Cbor,
}

impl Protocol {
    /// Content type of answers, but for the services that speak AWS JSON 1.1.
    pub fn content_type(self) -> &'static str {
        match self {
            Protocol::Json => "application/x-amz-json-1.0",
            Protocol::Query => "text/xml",
            Protocol::QueryAsJson => "application/json",
            Protocol::Cbor => "application/cbor",
        }
    }
}

impl ServiceName {
    /// By the service name in a credential scope.
    pub fn of_scope(name: &str) -> Option<ServiceName> {
        Some(match name {
            "sqs" => ServiceName::Sqs,
            "sns" => ServiceName::Sns,
            "monitoring" => ServiceName::CloudWatch,
            "sts" => ServiceName::Sts,
            "cloudformation" => ServiceName::CloudFormation,
            "sdb" => ServiceName::SimpleDb,
            "iam" => ServiceName::Iam,
            "kms" => ServiceName::Kms,
            _ => return None,
        })
    }

    /// By what precedes the dot of `X-Amz-Target`.
    pub fn of_target_prefix(prefix: &str) -> Option<ServiceName> {
        Some(match prefix {
            "AmazonSQS" => ServiceName::Sqs,
            "GraniteServiceVersion20100801" => ServiceName::CloudWatch,
            "AWSSecurityTokenServiceV20110615" => ServiceName::Sts,
            "TrentService" => ServiceName::Kms,
            _ => return None,
        })
    }

    /// By the host: `sqs.…`, `queue.…`, `<region>.queue.…` and those of the other services.
    pub fn of_host(host: &str) -> Option<ServiceName> {
        let mut labels = host.split(['.', ':']);
        let first = labels.next()?;
        if first == "queue" || labels.next() == Some("queue") {
            return Some(ServiceName::Sqs);
        }
        ServiceName::of_scope(first)
    }

    /// By the parameter `Version`.
    pub fn of_version(version: &str) -> Option<ServiceName> {
        Some(match version {
            // The older ones of SQS; their requests are subsets.
            "2012-11-05" | "2011-10-01" | "2009-02-01" | "2008-01-01" => ServiceName::Sqs,
            "2010-03-31" => ServiceName::Sns,
            "2010-08-01" => ServiceName::CloudWatch,
            "2011-06-15" => ServiceName::Sts,
            "2010-05-15" => ServiceName::CloudFormation,
            "2009-04-15" => ServiceName::SimpleDb,
            "2010-05-08" => ServiceName::Iam,
            _ => return None,
        })
    }

    /// By the name of an action that only one of the services has.
    pub fn of_action(action: &str) -> Option<ServiceName> {
        Some(match action {
            // SNS has these, too.
            "AddPermission" | "RemovePermission" => return None,
            action if sqs::ACTIONS.contains(&action) => ServiceName::Sqs,
            "ConfirmSubscription"
            | "CreateTopic"
            | "DeleteTopic"
            | "GetTopicAttributes"
            | "ListSubscriptions"
            | "ListTopics"
            | "Publish"
            | "PublishBatch"
            | "Subscribe"
            | "Unsubscribe" => ServiceName::Sns,
            "DescribeAlarms"
            | "GetMetricData"
            | "GetMetricStatistics"
            | "ListMetrics"
            | "PutMetricAlarm"
            | "PutMetricData" => ServiceName::CloudWatch,
            "AssumeRole" | "GetAccessKeyInfo" | "GetCallerIdentity" | "GetSessionToken" => {
                ServiceName::Sts
            }
            "CreateStack" | "DeleteStack" | "DescribeStacks" | "UpdateStack" => {
                ServiceName::CloudFormation
            }
            "BatchDeleteAttributes"
            | "BatchPutAttributes"
            | "CreateDomain"
            | "DeleteAttributes"
            | "DeleteDomain"
            | "DomainMetadata"
            | "GetAttributes"
            | "ListDomains"
            | "PutAttributes"
            | "Select" => ServiceName::SimpleDb,
            _ => return None,
        })
    }

    /// The service name in a credential scope; none for services without one.
    pub fn scope(self) -> Option<&'static str> {
        Some(match self {
            ServiceName::Sqs => "sqs",
            ServiceName::Sns => "sns",
            ServiceName::CloudWatch => "monitoring",
            ServiceName::Sts => "sts",
            ServiceName::CloudFormation => "cloudformation",
            ServiceName::SimpleDb => "sdb",
            ServiceName::Iam => "iam",
            ServiceName::Kms => "kms",
            ServiceName::Unknown => return None,
        })
    }

    /// Content type of its answers.
    pub fn content_type(self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (ServiceName::Kms, Protocol::Json) => "application/x-amz-json-1.1",
            _ => protocol.content_type(),
        }
    }

    /// How exact times are in its Query answers.
    pub(crate) fn xml_fractions(self) -> Fractions {
        match self {
            // CDK and SAM compare the texts of events' times.
            ServiceName::CloudFormation => Fractions::Always,
            _ => Fractions::AsNeeded,
        }
    }

    /// The name space of Query answers; that of SQS where there is none.
    pub fn xml_namespace(self) -> &'static str {
        match self {
            ServiceName::Sns => "http://sns.amazonaws.com/doc/2010-03-31/",
            ServiceName::CloudWatch => "http://monitoring.amazonaws.com/doc/2010-08-01/",
            ServiceName::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
            ServiceName::CloudFormation => "http://cloudformation.amazonaws.com/doc/2010-05-15/",
            ServiceName::SimpleDb => "http://sdb.amazonaws.com/doc/2009-04-15/",
            ServiceName::Iam => "https://iam.amazonaws.com/doc/2010-05-08/",
            ServiceName::Sqs | ServiceName::Kms | ServiceName::Unknown => {
                "http://queue.amazonaws.com/doc/2012-11-05/"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service without a scope of its own could be asked with a signature for any.
    #[test]
    fn services_have_a_scope_a_version_and_actions() {
        for (service, scope, version, action) in [
            (ServiceName::Sqs, "sqs", "2012-11-05", "SendMessage"),
            (ServiceName::Sns, "sns", "2010-03-31", "Publish"),
            (ServiceName::CloudWatch, "monitoring", "2010-08-01", "PutMetricData"),
            (ServiceName::Sts, "sts", "2011-06-15", "GetCallerIdentity"),
            (ServiceName::CloudFormation, "cloudformation", "2010-05-15", "CreateStack"),
            (ServiceName::SimpleDb, "sdb", "2009-04-15", "Select"),
        ] {
            assert_eq!(service.scope(), Some(scope));
            assert_eq!(ServiceName::of_scope(scope), Some(service));
            assert_eq!(ServiceName::of_version(version), Some(service));
            assert!(service.xml_namespace().contains(version), "{scope}");
            assert_eq!(ServiceName::of_action(action), Some(service));
        }
        for (service, scope) in [(ServiceName::Iam, "iam"), (ServiceName::Kms, "kms")] {
            assert_eq!(service.scope(), Some(scope));
            assert_eq!(ServiceName::of_scope(scope), Some(service));
        }
        assert_eq!(ServiceName::Unknown.scope(), None);
        for version in ["2011-10-01", "2009-02-01", "2008-01-01"] {
            assert_eq!(ServiceName::of_version(version), Some(ServiceName::Sqs));
        }
        assert_eq!(ServiceName::of_version("2010-05-08"), Some(ServiceName::Iam));
        let prefix = "AWSSecurityTokenServiceV20110615";
        assert_eq!(ServiceName::of_target_prefix(prefix), Some(ServiceName::Sts));
        assert_eq!(ServiceName::of_target_prefix("TrentService"), Some(ServiceName::Kms));
        assert_eq!(ServiceName::of_action("AddPermission"), None);
        assert_eq!(ServiceName::of_action("RemovePermission"), None);
        assert_eq!(ServiceName::of_action("Nope"), None);
    }
}
