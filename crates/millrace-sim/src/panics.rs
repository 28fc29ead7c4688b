//! Panics in a simulated run: caught and named. The seed is told as soon as one happens, since
//! what a panic left half done may end the process before anybody can report it.

use std::any::Any;
use std::cell::Cell;
use std::io::Write as _;
use std::panic::{UnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// The seed that runs on this thread.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What `run` returns, or the text of its panic.
pub(crate) fn caught<T>(seed: u64, run: impl FnOnce() -> T + UnwindSafe) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(name_seeds);
    SEED.set(Some(seed));
    let caught = catch_unwind(run);
    SEED.set(None);
    caught.map_err(|panic| text(&*panic))
}

fn name_seeds() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(seed) = SEED.get() {
            // Not a macro: tests keep what those print, and lose it if the process ends.
            let _ = writeln!(std::io::stderr(), "seed {seed} panics: {panic}");
        }
        before(panic);
    }));
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a text".to_owned())
}
