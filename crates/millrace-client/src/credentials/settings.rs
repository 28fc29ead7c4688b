//! What the AWS tools' environment variables and profile files say, in their order of precedence
//! (AWS SDKs and Tools Reference Guide: "Configuration and credential precedence",
//! "Service-specific endpoints").

use std::path::PathBuf;
use std::{env, fs};

use super::Credentials;
use super::profile::{self, File};

/// Settings shared with the AWS tools. What is not set anywhere is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsSettings {
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, else the profile's.
    /// Profiles that name a role, a process or single sign-on instead of keys give none.
    pub credentials: Option<Credentials>,
    /// `AWS_REGION`, `AWS_DEFAULT_REGION`, else the profile's.
    pub region: Option<String>,
    /// `AWS_ENDPOINT_URL_SQS`, `AWS_ENDPOINT_URL`, else the profile's `endpoint_url`; none if
    /// `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS` is `true`.
    pub endpoint: Option<String>,
    /// The profile that was asked for, if it is in neither file.
    pub unknown_profile: Option<String>,
    /// Whether `AWS_ACCESS_KEY_ID` is set without its secret key, and no profile was asked for: the
    /// AWS tools refuse to go on then.
    pub lacks_secret_key: bool,
}

impl AwsSettings {
    /// Reads the environment of this process and the files that it points to; `profile` goes
    /// before `AWS_PROFILE`. Files that cannot be read count as empty.
    pub fn read(profile: Option<&str>) -> AwsSettings {
        let variable = |name: &str| env::var(name).ok();
        let file = |name: &str, default: &str| {
            let path = env::var_os(name).map(PathBuf::from).or_else(|| {
                let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE"))?;
                Some(PathBuf::from(home).join(".aws").join(default))
            });
            path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = file("AWS_CONFIG_FILE", "config");
        AwsSettings::of(profile, variable, &credentials, &config)
    }

    fn of(
        profile: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
        credentials: &str,
        config: &str,
    ) -> AwsSettings {
        // A variable set to nothing is not set.
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let chosen = profile.map(str::to_owned).or_else(|| variable("AWS_PROFILE"));
        let profile_name = chosen.as_deref().unwrap_or("default");
        let is_known = profile::has(File::Credentials, credentials, profile_name)
            || profile::has(File::Config, config, profile_name);
        let in_files = |name: &str| {
            let value = profile::value(File::Credentials, credentials, profile_name, name);
            let value = value.or_else(|| profile::value(File::Config, config, profile_name, name));
            value.map(str::to_owned)
        };
        let keys = |get: &dyn Fn(&str) -> Option<String>, names: [&str; 3]| {
            let [access_key, secret, session_token] = names.map(get);
            Some(Credentials { access_key: access_key?, secret: secret?, session_token })
        };
        let from_variables = || keys(&variable, VARIABLES);
        let from_files = || keys(&in_files, FILE_KEYS);
        // Whoever names a profile on the command line means its keys.
        let found = match profile {
            Some(_) => from_files(),
            None => from_variables().or_else(from_files),
        };
        let ignores = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let endpoint = || {
            variable("AWS_ENDPOINT_URL_SQS")
                .or_else(|| variable("AWS_ENDPOINT_URL"))
                .or_else(|| in_files("endpoint_url"))
        };
        AwsSettings {
            credentials: found,
            region: variable("AWS_REGION")
                .or_else(|| variable("AWS_DEFAULT_REGION"))
                .or_else(|| in_files("region")),
            endpoint: if ignores { None } else { endpoint() },
            unknown_profile: chosen.filter(|_| !is_known),
            lacks_secret_key: profile.is_none()
                && variable(VARIABLES[0]).is_some()
                && variable(VARIABLES[1]).is_none(),
        }
    }
}

const VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
const FILE_KEYS: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
[default]
aws_access_key_id = FILE
aws_secret_access_key = file-secret
[work]
aws_access_key_id = WORK
aws_secret_access_key = work-secret
aws_session_token = work-token
";
    const CONFIG: &str = "\
[default]
region = us-west-2
endpoint_url = http://default
[profile work]
region = eu-central-1
";

    fn read(profile: Option<&str>, variables: &[(&str, &str)]) -> AwsSettings {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        AwsSettings::of(profile, variable, CREDENTIALS, CONFIG)
    }

    #[test]
    fn variables_go_before_files() {
        let variables = [
            ("AWS_ACCESS_KEY_ID", "ENV"),
            ("AWS_SECRET_ACCESS_KEY", "env-secret"),
            ("AWS_DEFAULT_REGION", "us-east-2"),
            ("AWS_ENDPOINT_URL", "http://all"),
            ("AWS_ENDPOINT_URL_SQS", "http://sqs"),
        ];
        let settings = read(None, &variables);
        assert_eq!(settings.credentials, Some(Credentials::new("ENV", "env-secret")));
        assert_eq!(settings.region.as_deref(), Some("us-east-2"));
        assert_eq!(settings.endpoint.as_deref(), Some("http://sqs"));

        let files = read(None, &[("AWS_REGION", "")]);
        assert_eq!(files.credentials, Some(Credentials::new("FILE", "file-secret")));
        assert_eq!(files.region.as_deref(), Some("us-west-2"));
        assert_eq!(files.endpoint.as_deref(), Some("http://default"));
    }

    #[test]
    fn a_named_profile_goes_before_variables() {
        let variables = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "env-secret")];
        for settings in [read(Some("work"), &variables), read(None, &[("AWS_PROFILE", "work")])] {
            let credentials = settings.credentials.unwrap();
            assert_eq!(credentials.access_key, "WORK");
            assert_eq!(credentials.session_token.as_deref(), Some("work-token"));
            assert_eq!(settings.region.as_deref(), Some("eu-central-1"));
        }
    }

    #[test]
    fn profile_that_is_in_no_file_is_told() {
        assert_eq!(read(Some("wrok"), &[]).unknown_profile.as_deref(), Some("wrok"));
        let variable = [("AWS_PROFILE", "wrok")];
        assert_eq!(read(None, &variable).unknown_profile.as_deref(), Some("wrok"));
        for known in [Some("work"), Some("default"), None] {
            assert_eq!(read(known, &[]).unknown_profile, None);
        }
    }

    #[test]
    fn half_a_key_is_none_and_endpoints_can_be_ignored() {
        let variables =
            [("AWS_PROFILE", "none"), ("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_ENDPOINT_URL", "x")];
        assert_eq!(read(None, &variables).credentials, None);
        assert!(read(None, &variables).lacks_secret_key);
        assert!(!read(Some("work"), &variables).lacks_secret_key);
        let ignoring = [("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "True"), ("AWS_ENDPOINT_URL", "x")];
        assert_eq!(read(None, &ignoring).endpoint, None);
    }
}
