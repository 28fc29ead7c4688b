//! Access keys of the configuration file, which may be changed while the server runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

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
            if watched.is_to_be_read(Stamp::of(&file)) {
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

/// What tells one version of the file from another: inode, time of its last change. `None` where it is
/// not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(Option<(u64, i64, i64)>);

impl Stamp {
    fn of(file: &Path) -> Stamp {
        let stamp = |found: fs::Metadata| (found.ino(), found.ctime(), found.ctime_nsec());
        Stamp(fs::metadata(file).ok().map(stamp))
    }
}

/// When the file is to be read: when it is as it was at the look before, so that nobody is writing it.
#[derive(Debug, Default)]
struct Watched {
    seen: Option<Stamp>,
    read: Option<Stamp>,
}

impl Watched {
    fn is_to_be_read(&mut self, now: Stamp) -> bool {
        let rests = self.seen.replace(now) == Some(now);
        rests && self.read.replace(now) != Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_it_rests_and_when_it_has_changed() {
        let at = |change| Stamp(Some((7, change, 0)));
        let mut watched = Watched::default();
        let looks = [at(1), at(1), at(1), at(2), at(3), at(3), at(3), Stamp(None), Stamp(None)];

        let read: Vec<bool> = looks.into_iter().map(|look| watched.is_to_be_read(look)).collect();

        assert_eq!(read, [false, true, false, false, false, true, false, false, true]);
    }
}
