//! Access keys of the configuration file, which may be changed while the server runs.

use std::path::Path;
use std::thread;
use std::time::Duration;

use millrace_server::FileVersion;
use millrace_services::AccessKeys;

use crate::cli::Flags;
use crate::config::Config;

/// Between two looks at the file.
const PAUSE: Duration = Duration::from_secs(1);

/// Has the file's keys count that `config` was read from, whenever it changes.
pub(crate) fn follow(flags: Flags, config: &Config, keys: &AccessKeys) -> std::io::Result<()> {
    let Some(file) = config.file.clone().filter(|_| keys.is_on()) else { return Ok(()) };
    let keys = keys.clone();
    // Ends with the process.
    thread::Builder::new().name("credentials".to_owned()).spawn(move || {
        // What changed between the start and here is seen: the keys are compared.
        let mut watched = Watched::default();
        let mut told = None;
        loop {
            if watched.is_to_be_read(FileVersion::of(&file)) {
                let failure = look(&flags, &file, &keys).err().map(|error| format!("{error:#}"));
                if failure.is_some() {
                    // It may be for want of descriptors, and be read the next time as it is.
                    watched.read = None;
                }
                // Each failure is told once.
                if let Some(error) = failure.as_deref().filter(|_| failure != told) {
                    tracing::error!(
                        file = %file.display(),
                        error,
                        "changed access keys not taken, those before stay"
                    );
                }
                told = failure;
            }
            thread::sleep(PAUSE);
        }
    })?;
    Ok(())
}

/// Has the file's keys count from now on.
fn look(flags: &Flags, file: &Path, keys: &AccessKeys) -> anyhow::Result<()> {
    let new = Config::load(flags)?.credentials;
    if *keys.all() != *new {
        keys.replace(new)?;
        tracing::info!(file = %file.display(), keys = keys.all().len(), "access keys changed");
    }
    Ok(())
}

/// When the file is to be read: once it is as it was a look before, so that nobody is writing it.
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
