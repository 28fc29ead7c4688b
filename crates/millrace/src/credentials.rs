//! Access keys of the configuration file, which may be changed while the server runs.

use std::path::Path;
use std::thread;
use std::time::Duration;

use millrace_server::FileVersion;
use millrace_services::{AccessKey, AccessKeys};

use crate::cli::Flags;
use crate::config::Config;

/// Between two looks at the file.
const PAUSE: Duration = Duration::from_secs(1);

/// Who may sign, and log in to the console.
pub(crate) fn access_keys(config: &Config) -> Vec<AccessKey> {
    let access_key = |credential: &crate::config::Credential| AccessKey {
        access_key: credential.access_key.clone(),
        secret_key: credential.secret_key.clone(),
        account: credential.account.clone(),
        name: credential.name.clone(),
    };
    config.credentials.iter().map(access_key).collect()
}

/// Has the file's keys count that `config` was read from, whenever it changes.
pub(crate) fn follow(flags: Flags, config: &Config, keys: &AccessKeys) -> std::io::Result<()> {
    let Some(file) = config.file.clone().filter(|_| keys.is_on()) else { return Ok(()) };
    let keys = keys.clone();
    // Ends with the process.
    thread::Builder::new().name("credentials".to_owned()).spawn(move || {
        // What changed between the start and here is seen: the keys are compared.
        let mut watched = Watched::default();
        let mut told = String::new();
        loop {
            if watched.is_to_be_read(FileVersion::of(&file)) {
                let failure = look(&flags, &file, &keys);
                if failure.is_some() {
                    // It may be for want of descriptors, and be read the next time as it is.
                    watched.read = None;
                }
                tell(&file, failure.unwrap_or_default(), &mut told);
            }
            thread::sleep(PAUSE);
        }
    })?;
    Ok(())
}

/// Returns why the file's keys do not count.
fn look(flags: &Flags, file: &Path, keys: &AccessKeys) -> Option<String> {
    match take(flags, keys) {
        Ok(true) => tracing::info!(
            file = %file.display(),
            keys = keys.all().len(),
            "access keys changed"
        ),
        Ok(false) => {}
        Err(error) => return Some(format!("{error:#}")),
    }
    None
}

/// Tells of a failure once; of none, nothing.
fn tell(file: &Path, failure: String, told: &mut String) {
    if !failure.is_empty() && failure != *told {
        let file = file.display();
        tracing::error!(%file, error = failure, "changed access keys not taken, those before stay");
    }
    *told = failure;
}

/// Says whether others count now.
fn take(flags: &Flags, keys: &AccessKeys) -> anyhow::Result<bool> {
    let new = access_keys(&Config::load(flags)?);
    let is_change = *keys.all() != *new;
    if is_change {
        keys.replace(new)?;
    }
    Ok(is_change)
}

/// When the file is to be read: when it is as it was at the look before, so that nobody is writing it.
#[derive(Debug, Default)]
struct Watched {
    seen: Option<FileVersion>,
    read: Option<FileVersion>,
}

impl Watched {
    fn is_to_be_read(&mut self, now: FileVersion) -> bool {
        let rests = self.seen.replace(now) == Some(now);
        rests && self.read.replace(now) != Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_it_rests_and_when_it_has_changed() {
        let directory = tempfile::TempDir::new().unwrap();
        let written = ["a", "b", "c"].map(|name| {
            let file = directory.path().join(name);
            std::fs::write(&file, "").unwrap();
            FileVersion::of(&file)
        });
        let [a, b, c] = written;
        let none = FileVersion::of(&directory.path().join("none"));
        let mut watched = Watched::default();

        let looks = [a, a, a, b, c, c, c, none, none];
        let read: Vec<bool> = looks.into_iter().map(|look| watched.is_to_be_read(look)).collect();

        assert_eq!(read, [false, true, false, false, false, true, false, false, true]);
    }
}
