//! Access keys of the configuration file, which may be changed while the server runs.

use std::path::Path;
use std::thread;
use std::time::Duration;

use millrace_server::FileVersion;
use millrace_services::AccessKeys;

use crate::cli::Flags;
use crate::config::Config;
use crate::serve::log_warnings;

/// Between two looks at the file.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks in a row that must find the file as it was before it is read. It may be rewritten in its
/// place and in parts, and half of it may be a valid file that lacks keys.
const REST: u32 = 6;

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
            let now = FileVersion::of(&file);
            if watched.is_to_be_read(now) {
                let failure = match look(&flags, &file, now, &keys) {
                    Ok(Look::Taken) => None,
                    Ok(Look::Changing) => {
                        watched.read = None;
                        None
                    }
                    Err(error) => {
                        // It may be for want of descriptors, and be read the next time as it is.
                        watched.read = None;
                        Some(format!("{error:#}"))
                    }
                };
                // Each failure is told once.
                if let Some(error) = failure.as_deref().filter(|_| failure != told) {
                    tracing::error!(
                        file = %file.display(),
                        error,
                        kept = keys.all().len(),
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

/// What came of reading the file.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Taken,
    /// It changed while it was read.
    Changing,
}

/// Has the file's keys count from now on, all of them or none.
fn look(
    flags: &Flags,
    file: &Path,
    version: FileVersion,
    keys: &AccessKeys,
) -> anyhow::Result<Look> {
    let config = Config::load(flags);
    if FileVersion::of(file) != version {
        return Ok(Look::Changing);
    }
    let config = config?;
    let (old, new) = (keys.all(), &config.credentials);
    if *old != **new {
        keys.replace(new.clone())?;
        let kept = new.iter().filter(|key| old.contains(key)).count();
        tracing::info!(
            file = %file.display(),
            keys = new.len(),
            kept,
            removed = old.len() - kept,
            "access keys changed"
        );
        log_warnings(&config);
    }
    Ok(Look::Taken)
}

/// When the file is to be read: once it has been the same for some looks, so that nobody is writing
/// it.
#[derive(Debug, Default)]
struct Watched {
    seen: Option<FileVersion>,
    /// Looks since then that found it the same.
    rested: u32,
    read: Option<FileVersion>,
}

impl Watched {
    fn is_to_be_read(&mut self, now: FileVersion) -> bool {
        let is_same = self.seen.replace(now) == Some(now);
        self.rested = if is_same { self.rested.saturating_add(1) } else { 0 };
        self.rested >= REST && self.read.replace(now) != Some(now)
    }
}

#[cfg(test)]
mod tests {
    use millrace_services::AccessKey;

    use super::*;

    #[test]
    fn a_file_is_read_once_it_rests_and_when_it_has_changed() {
        let directory = tempfile::TempDir::new().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| {
            let file = directory.path().join(name);
            std::fs::write(&file, "").unwrap();
            FileVersion::of(&file)
        });
        let none = FileVersion::of(&directory.path().join("none"));
        let mut watched = Watched::default();

        // `b` is half of `c`, written by somebody who takes five looks' time for it.
        let looks = [vec![a; 9], vec![b; 6], vec![c; 7], vec![none; 7]].concat();
        let read = looks.iter().enumerate().filter(|(_, now)| watched.is_to_be_read(**now));

        assert_eq!(read.map(|(index, _)| index).collect::<Vec<_>>(), [6, 21, 28]);
    }

    #[test]
    fn keys_are_taken_whole_or_not_at_all() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("m.toml");
        let flags = Flags { config: Some(file.clone()), ..Flags::default() };
        let text =
            |name: &str| format!("[[credentials]]\naccess_key = '{name}'\nsecret_key = 's'\n");
        let key = |name: &str| AccessKey {
            access_key: name.into(),
            secret_key: "s".into(),
            account: "000000000000".into(),
            name: String::new(),
        };
        let keys = AccessKeys::new(vec![key("A"), key("B")]);

        // Cut off in a string, empty, with a key that is not whole, and with a blank.
        let whole = text("A") + &text("C");
        for cut in
            [&whole[..whole.len() - 3], "", "[[credentials]]\naccess_key = 'A'\n", &text("A ")]
        {
            std::fs::write(&file, cut).unwrap();
            assert!(look(&flags, &file, FileVersion::of(&file), &keys).is_err(), "{cut}");
            assert!(*keys.all() == [key("A"), key("B")]);
        }
        let before = FileVersion::of(&directory.path().join("none"));
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(look(&flags, &file, before, &keys).unwrap(), Look::Changing);
        assert!(*keys.all() == [key("A"), key("B")]);
        assert_eq!(look(&flags, &file, FileVersion::of(&file), &keys).unwrap(), Look::Taken);
        assert!(*keys.all() == [key("A"), key("C")]);
    }
}
