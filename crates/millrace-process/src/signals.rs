//! Signals that this process was started to ignore.

/// Returns whether SIGHUP is ignored, as under nohup.
pub fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status).is_some_and(|ignored| ignored & 1 != 0)
}

/// The mask of ignored signals; the lowest bit is signal 1, SIGHUP.
fn ignored_signals(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_a_mask() {
        assert_eq!(ignored_signals("SigBlk:\t0\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        assert_eq!(ignored_signals("Name:\tx\n"), None);
    }
}
