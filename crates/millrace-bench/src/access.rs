//! Which interface an endpoint is spoken to by, and who we say that we are.

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::{Credentials, iron::IronVersion};
use millrace_core::Url;
use serde::{Deserialize, Serialize};

pub(crate) use millrace_client::sqs::Protocol;

use crate::cli::UsageError;

/// Flags of everything that makes requests.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AccessFlags {
    /// Sign with these keys (Signature Version 4); env takes them from the AWS_… variables
    #[arg(long, value_name = "ACCESS:SECRET")]
    sign: Option<String>,
    /// Region to sign for [default: AWS_REGION or us-east-1]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Project of IronMQ [default: IRON_PROJECT_ID]
    #[arg(long, value_name = "ID")]
    iron_project: Option<String>,
    /// Token of IronMQ [default: IRON_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    iron_token: Option<String>,
}

/// Whose interface the endpoint has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Interface {
    /// Amazon SQS
    #[default]
    Sqs,
    /// IronMQ, version 3
    Ironmq,
    /// IronMQ, version 1, which its version 2 speaks too
    IronmqV1,
}

/// An interface, and what it takes to be let in.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    Sqs { protocol: Protocol, keys: Option<Keys> },
    Iron(Project),
}

/// Keys to sign with.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    /// Of temporary credentials.
    pub(crate) session_token: Option<String>,
    pub(crate) region: String,
}

/// A project of IronMQ.
#[derive(Clone)]
pub(crate) struct Project {
    pub(crate) version: IronVersion,
    pub(crate) id: String,
    pub(crate) token: String,
}

const DEFAULT_REGION: &str = "us-east-1";

impl Interface {
    /// Messages of a request at most.
    fn batch_max(self) -> u64 {
        match self {
            Interface::Sqs => 10,
            Interface::Ironmq | Interface::IronmqV1 => 100,
        }
    }

    /// # Errors
    ///
    /// If it takes no requests of so many messages, or no message groups where they are needed.
    pub(crate) fn check(self, batch: u64, needs_groups: bool) -> Result<()> {
        let most = self.batch_max();
        if batch > most {
            bail!(UsageError(format!(
                "{batch} messages a request are too many: this interface takes {most}"
            )));
        }
        if needs_groups && self != Interface::Sqs {
            bail!(usage("message groups: IronMQ cannot do that, SQS can"));
        }
        Ok(())
    }
}

impl AccessFlags {
    /// `protocol` is which of SQS's two is spoken.
    pub(crate) fn access(&self, interface: Interface, protocol: Protocol) -> Result<Access> {
        let version = match interface {
            Interface::Sqs => return self.sqs(protocol),
            Interface::Ironmq => IronVersion::V3,
            Interface::IronmqV1 => IronVersion::V1,
        };
        if self.sign.is_some() {
            bail!(usage("--sign is for SQS; IronMQ takes a token"));
        }
        if self.region.is_some() {
            bail!(usage("--region is for SQS; IronMQ has projects"));
        }
        if protocol != Protocol::default() {
            bail!(usage("--protocol is for SQS; IronMQ has one of its own"));
        }
        let given = |flag: &Option<String>, name: &str, variable_name| {
            let found = flag.clone().or_else(|| variable(variable_name));
            found.with_context(|| format!("neither {name} is given nor {variable_name} set"))
        };
        Ok(Access::Iron(Project {
            version,
            id: given(&self.iron_project, "--iron-project", "IRON_PROJECT_ID")?,
            token: given(&self.iron_token, "--iron-token", "IRON_TOKEN")?,
        }))
    }

    fn sqs(&self, protocol: Protocol) -> Result<Access> {
        let mut keys = self.sign.as_deref().map(Keys::parse).transpose()?;
        match (&mut keys, &self.region) {
            (Some(keys), Some(region)) => keys.region.clone_from(region),
            (None, Some(_)) => {
                bail!(usage("--region goes with --sign: only signatures name a region"))
            }
            (_, None) => {}
        }
        Ok(Access::Sqs { protocol, keys })
    }
}

impl Access {
    /// To a server of our own that lets everybody in.
    pub(crate) fn open() -> Access {
        Access::Sqs { protocol: Protocol::Json, keys: None }
    }

    /// The name of the interface, for those who bring their own credentials.
    pub(crate) fn interface(&self) -> Interface {
        match self {
            Access::Sqs { .. } => Interface::Sqs,
            Access::Iron(Project { version: IronVersion::V3, .. }) => Interface::Ironmq,
            Access::Iron(Project { version: IronVersion::V1, .. }) => Interface::IronmqV1,
        }
    }

    /// Which of SQS's protocols is spoken; IronMQ has one of its own.
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Access::Sqs { protocol, .. } => *protocol,
            Access::Iron(_) => Protocol::default(),
        }
    }

    /// Arguments and environment variables that give another process the same credentials. None
    /// are secret among the arguments: those are for all to see.
    pub(crate) fn hand_over(&self) -> (Vec<&'static str>, Vec<(&'static str, &str)>) {
        match self {
            Access::Sqs { keys: None, .. } => (Vec::new(), Vec::new()),
            Access::Sqs { keys: Some(keys), .. } => {
                let variables = vec![
                    ("AWS_ACCESS_KEY_ID", keys.access_key.as_str()),
                    ("AWS_SECRET_ACCESS_KEY", &keys.secret_key),
                    ("AWS_SESSION_TOKEN", keys.session_token.as_deref().unwrap_or_default()),
                    ("AWS_REGION", &keys.region),
                ];
                (vec!["--sign", "env"], variables)
            }
            Access::Iron(project) => {
                let variables =
                    vec![("IRON_PROJECT_ID", project.id.as_str()), ("IRON_TOKEN", &project.token)];
                (Vec::new(), variables)
            }
        }
    }
}

impl Keys {
    pub(crate) fn new(access_key: &str, secret_key: &str) -> Keys {
        Keys {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: None,
            region: DEFAULT_REGION.to_owned(),
        }
    }

    /// Parses `ACCESS:SECRET`, or takes the environment's if the text is `env`.
    fn parse(text: &str) -> Result<Keys> {
        if text == "env" {
            let needed = |name| variable(name).with_context(|| format!("{name} is not set"));
            let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
            return Ok(Keys {
                session_token: variable("AWS_SESSION_TOKEN"),
                region: region.unwrap_or_else(|| DEFAULT_REGION.to_owned()),
                ..Keys::new(&needed("AWS_ACCESS_KEY_ID")?, &needed("AWS_SECRET_ACCESS_KEY")?)
            });
        }
        match text.split_once(':') {
            Some((access_key, secret_key)) => Ok(Keys::new(access_key, secret_key)),
            None => {
                bail!(usage("--sign takes ACCESS:SECRET, or env for the environment's keys"))
            }
        }
    }

    /// The same, as the client library takes them.
    pub(crate) fn credentials(&self) -> Credentials {
        Credentials {
            access_key: self.access_key.clone(),
            secret: self.secret_key.clone(),
            session_token: self.session_token.clone(),
        }
    }
}

/// Without the secrets.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// Without the secrets.
impl std::fmt::Debug for Project {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Project").field("id", &self.id).finish_non_exhaustive()
    }
}

fn usage(text: &str) -> UsageError {
    UsageError(text.to_owned())
}

/// The URL that `flag` names.
///
/// # Errors
///
/// If the text is not one; it is not quoted, for it may hold a password.
pub(crate) fn given_url(flag: &str, text: &str) -> Result<Url> {
    Url::parse(text).map_err(|error| usage(&format!("{flag}: {error}")).into())
}

/// The endpoint of whoever names none.
pub(crate) fn default_endpoint() -> String {
    variable("MILLRACE_ENDPOINT").unwrap_or_else(|| "http://127.0.0.1:4566".to_owned())
}

/// An environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_two_words_and_the_secret_is_not_shown() {
        let keys = Keys::parse("access:sec:ret").unwrap();

        assert_eq!((keys.access_key.as_str(), keys.secret_key.as_str()), ("access", "sec:ret"));
        assert!(!format!("{keys:?}").contains("sec:ret"));
        assert!(Keys::parse("access").is_err());
    }

    #[test]
    fn a_region_goes_with_keys() {
        let flags = |sign: Option<&str>| AccessFlags {
            sign: sign.map(str::to_owned),
            region: Some("eu-west-1".to_owned()),
            ..AccessFlags::default()
        };
        let access = |sign, interface| flags(sign).access(interface, Protocol::Json);

        let signed = access(Some("a:b"), Interface::Sqs).unwrap();
        let (_, variables) = signed.hand_over();
        assert!(variables.contains(&("AWS_REGION", "eu-west-1")));
        assert!(access(None, Interface::Sqs).unwrap_err().to_string().contains("--sign"));
        assert!(access(None, Interface::Ironmq).unwrap_err().to_string().contains("--region"));
    }

    #[test]
    fn iron_takes_a_project_and_a_token_and_no_signature() {
        let flags = |sign: Option<&str>| AccessFlags {
            sign: sign.map(str::to_owned),
            iron_project: Some("p".to_owned()),
            iron_token: Some("sec:ret".to_owned()),
            ..AccessFlags::default()
        };

        let access = flags(None).access(Interface::IronmqV1, Protocol::Json).unwrap();

        assert_eq!(access.interface(), Interface::IronmqV1);
        assert_eq!(access.hand_over().1, [("IRON_PROJECT_ID", "p"), ("IRON_TOKEN", "sec:ret")]);
        assert!(!format!("{access:?}").contains("sec:ret"));
        assert!(flags(Some("a:b")).access(Interface::Ironmq, Protocol::Json).is_err());
        assert!(flags(None).access(Interface::Ironmq, Protocol::Query).is_err());
    }
}
