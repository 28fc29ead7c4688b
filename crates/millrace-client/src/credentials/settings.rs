//! What the AWS tools' environment variables and profile files say, in their order of precedence
//! (AWS SDKs and Tools Reference Guide: "Configuration and credential precedence",
//! "Service-specific endpoints").

use std::env;
use std::fs::File as OpenFile;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::Credentials;
use super::profile::{self, File};
use crate::lines::{LineError, Lines};

/// Settings shared with the AWS tools. What is not set anywhere is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsSettings {
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, else the profile's.
    /// Profiles that name a role, a process or single sign-on instead of keys give none.
    pub credentials: Option<Credentials>,
    /// The setting by which the profile gets its keys, if it holds none itself.
    pub indirect_keys: Option<IndirectKeys>,
    /// `AWS_REGION`, `AWS_DEFAULT_REGION`, else the profile's.
    pub region: Option<String>,
    /// `AWS_ENDPOINT_URL_SQS`, `AWS_ENDPOINT_URL`, else the profile's `endpoint_url`; none if
    /// `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS` is `true`.
    pub endpoint: Option<String>,
    /// The name of the variable or setting that gives `endpoint`, for messages to people: the
    /// endpoint itself may hold a password.
    pub endpoint_source: &'static str,
    /// The profile that was asked for, if it is in neither file.
    pub unknown_profile: Option<String>,
    /// True if `AWS_ACCESS_KEY_ID` is set without its secret key and nobody named a profile: the
    /// AWS tools refuse to go on then.
    pub lacks_secret_key: bool,
}

/// A profile that says how to come by keys instead of holding them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndirectKeys {
    pub profile: String,
    /// The setting that says so.
    pub setting: &'static str,
    /// True if somebody named the profile; false if it is only the default one.
    pub is_chosen: bool,
}

/// A file of the AWS tools that no such tool can have written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwsSettingsError {
    #[error("{path}: {error}")]
    Line { path: PathBuf, error: LineError },
    #[error("{path} is longer than {limit_bytes} bytes")]
    TooLong { path: PathBuf, limit_bytes: usize },
}

/// A session token, the longest value, has a few thousand.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Thousands of profiles.
const FILE_BYTES_MAX: usize = 4 << 20;

impl AwsSettings {
    /// Reads the environment of this process and the files that it points to; `profile` goes
    /// before `AWS_PROFILE`. Files that cannot be read count as empty.
    ///
    /// # Errors
    ///
    /// If a file or one of its lines is longer than any that the AWS tools write.
    pub fn read(profile: Option<&str>) -> Result<AwsSettings, AwsSettingsError> {
        let variable = |name: &str| env::var(name).ok();
        let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE")).map(PathBuf::from);
        let file = |name: &str, default: &str| {
            let path = match env::var_os(name) {
                Some(path) => Some(expand_home(PathBuf::from(path), home.as_deref())),
                None => home.as_ref().map(|home| home.join(".aws").join(default)),
            };
            path.map_or(Ok(String::new()), |path| read_file(&path))
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        let config = file("AWS_CONFIG_FILE", "config")?;
        Ok(AwsSettings::of(profile, variable, &credentials, &config))
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
        let has =
            |names: &[&'static str]| names.iter().copied().find(|name| in_files(name).is_some());
        // Whoever names a profile on the command line means its keys. A role and single sign-on go
        // before keys of the same profile, which may be what the role is assumed with.
        let mut found = if profile.is_none() { from_variables() } else { None };
        let mut indirect = None;
        if found.is_none() {
            indirect = has(&BEFORE_KEYS);
            if indirect.is_none() {
                found = from_files();
            }
            if found.is_none() && indirect.is_none() {
                indirect = has(&INSTEAD_OF_KEYS);
            }
        }
        let indirect_keys = indirect.map(|setting| IndirectKeys {
            profile: profile_name.to_owned(),
            setting,
            is_chosen: chosen.is_some(),
        });
        let ignores = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let from = |source, text: Option<String>| text.map(|text| (source, text));
        let endpoint = || {
            from("AWS_ENDPOINT_URL_SQS", variable("AWS_ENDPOINT_URL_SQS"))
                .or_else(|| from("AWS_ENDPOINT_URL", variable("AWS_ENDPOINT_URL")))
                .or_else(|| from("endpoint_url of the profile", in_files("endpoint_url")))
        };
        let (endpoint_source, endpoint) = match endpoint() {
            Some((source, text)) if !ignores => (source, Some(text)),
            _ => ("", None),
        };
        AwsSettings {
            credentials: found,
            indirect_keys,
            region: variable("AWS_REGION")
                .or_else(|| variable("AWS_DEFAULT_REGION"))
                .or_else(|| in_files("region")),
            endpoint,
            endpoint_source,
            unknown_profile: chosen.filter(|_| !is_known),
            lacks_secret_key: profile.is_none()
                && variable(VARIABLES[0]).is_some()
                && variable(VARIABLES[1]).is_none(),
        }
    }
}

const VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
const FILE_KEYS: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
// AWS SDKs and Tools Reference Guide: "Standardized credential providers", in the order of botocore.
const BEFORE_KEYS: [&str; 4] = ["role_arn", "sso_session", "sso_start_url", "sso_account_id"];
const INSTEAD_OF_KEYS: [&str; 4] =
    ["credential_process", "credential_source", "login_session", "web_identity_token_file"];

/// The path that a shell would make of one that begins with `~`.
fn expand_home(path: PathBuf, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

fn read_file(path: &Path) -> Result<String, AwsSettingsError> {
    match OpenFile::open(path) {
        Ok(file) => read_text(BufReader::new(file), path),
        Err(_) => Ok(String::new()),
    }
}

fn read_text(input: impl io::BufRead, path: &Path) -> Result<String, AwsSettingsError> {
    let (path, limit_bytes) = (path.to_owned(), FILE_BYTES_MAX);
    let mut text = String::new();
    for line in Lines::new(input, LINE_BYTES_MAX) {
        match line {
            Ok((_, line)) => text.extend([line.as_str(), "\n"]),
            Err(error @ LineError::TooLong { .. }) => {
                return Err(AwsSettingsError::Line { path, error });
            }
            Err(_) => return Ok(String::new()),
        }
        if text.len() > limit_bytes {
            return Err(AwsSettingsError::TooLong { path, limit_bytes });
        }
    }
    // Editors on Windows begin a file with it.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

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

    #[test]
    fn a_profile_that_says_how_to_come_by_keys_gives_none_and_is_named() {
        const FILES: &str = "\
[profile role]
role_arn = arn:aws:iam::000000000000:role/r
source_profile = role
aws_access_key_id = OWN
aws_secret_access_key = own-secret
[profile sso]
sso_session = s
[profile process]
credential_process = get
[profile both]
credential_process = get
aws_access_key_id = OWN
aws_secret_access_key = own-secret
[default]
sso_start_url = https://s
";
        let read = |profile, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            AwsSettings::of(profile, variable, "", FILES)
        };

        for (name, setting) in
            [("role", "role_arn"), ("sso", "sso_session"), ("process", "credential_process")]
        {
            for settings in [read(Some(name), &[]), read(None, &[("AWS_PROFILE", name)])] {
                let profile = name.to_owned();
                let indirect = IndirectKeys { profile, setting, is_chosen: true };
                assert_eq!(settings.indirect_keys, Some(indirect));
                assert_eq!(settings.credentials, None);
            }
        }
        assert_eq!(
            read(Some("both"), &[]).credentials,
            Some(Credentials::new("OWN", "own-secret"))
        );
        assert!(!read(None, &[]).indirect_keys.unwrap().is_chosen);
        let keys = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "env-secret")];
        assert_eq!(read(None, &keys).indirect_keys, None);
    }

    #[test]
    fn a_tilde_is_the_home_directory_at_the_start_of_a_path_only() {
        let expanded = |path: &str| expand_home(PathBuf::from(path), Some(Path::new("/h")));

        assert_eq!(expanded("~/a/b"), Path::new("/h/a/b"));
        assert_eq!(expanded("~"), Path::new("/h"));
        for same in ["~a/b", "/x/~/a", "a~", "./~/a"] {
            assert_eq!(expanded(same), Path::new(same));
        }
        assert_eq!(expand_home(PathBuf::from("~/a"), None), Path::new("~/a"));
    }

    #[test]
    fn files_that_no_tool_writes_are_refused_by_line_and_limit() {
        let path = Path::new("config");
        let read = |text: &[u8]| read_text(text, path).map_err(|error| error.to_string());

        assert_eq!(read("\u{feff}[default]\r\na = b".as_bytes()).unwrap(), "[default]\na = b\n");
        assert_eq!(read(b"a\n\xff").unwrap(), "");
        let long = [b"a\n".to_vec(), vec![b'a'; LINE_BYTES_MAX + 1]].concat();
        assert_eq!(read(&long).unwrap_err(), "config: line 2 is longer than 65536 bytes");
        let many = "a = b\n".repeat(FILE_BYTES_MAX / 6 + 1);
        assert_eq!(read(many.as_bytes()).unwrap_err(), "config is longer than 4194304 bytes");
    }
}
