//! The files `~/.aws/credentials` and `~/.aws/config`: sections of `name = value`. Indented lines,
//! which hold settings of single services, are left out.

/// Which of the two files a text comes from; they name their sections differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    Credentials,
    Config,
}

/// The value of `name` in the section of `profile`; of several the last counts.
pub(super) fn value<'t>(file: File, text: &'t str, profile: &str, name: &str) -> Option<&'t str> {
    let mut is_ours = false;
    let mut found = None;
    for line in text.lines() {
        if line.starts_with(['#', ';', ' ', '\t']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let section = rest.split(']').next().unwrap_or_default().trim();
            is_ours = profile_of(file, section) == Some(profile);
        } else if is_ours
            && let Some((key, value)) = line.split_once('=')
            && key.trim().eq_ignore_ascii_case(name)
        {
            found = Some(without_comment(value).trim());
        }
    }
    found.filter(|value| !value.is_empty())
}

/// Whether a section is that of `profile`.
pub(super) fn has(file: File, text: &str, profile: &str) -> bool {
    let sections = text.lines().filter_map(|line| line.strip_prefix('[')?.split(']').next());
    sections.into_iter().any(|section| profile_of(file, section.trim()) == Some(profile))
}

/// `config` says `[profile NAME]` for all but the default.
fn profile_of(file: File, section: &str) -> Option<&str> {
    match file {
        File::Credentials => Some(section),
        File::Config if section == "default" => Some(section),
        File::Config => section.strip_prefix("profile ").map(str::trim),
    }
}

/// A comment behind a value begins with white space and `#` or `;`; secrets may hold the bare
/// signs.
fn without_comment(value: &str) -> &str {
    let starts = [" #", " ;", "\t#", "\t;"];
    let end = starts.iter().filter_map(|start| value.find(start)).min();
    end.and_then(|end| value.get(..end)).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
# a comment
[default]
region = us-west-2
[profile work]
region=eu-central-1   # where the queues are
s3 =
  region = nested
aws_secret_access_key = a#b;c==
[work]
region = not-a-profile
";

    #[test]
    fn values_are_found_in_their_profile() {
        let config = |profile, name| value(File::Config, CONFIG, profile, name);

        assert_eq!(config("default", "region"), Some("us-west-2"));
        assert_eq!(config("work", "Region"), Some("eu-central-1"));
        assert_eq!(config("work", "aws_secret_access_key"), Some("a#b;c=="));
        assert_eq!(config("work", "s3"), None);
        assert_eq!(config("other", "region"), None);
        assert_eq!(value(File::Credentials, CONFIG, "work", "region"), Some("not-a-profile"));
    }
}
